"""Trust in files is checked on the open descriptor that is then read, and only trusted files are read. Where files are,
and whether their owner lives."""

from __future__ import annotations

import os
import py_compile
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import disk
import pytest
from namespaces import unshared
from others import become_another, pretend_to_be, without_private_group
from unit.things import record, run_python, write_journal
from world import BUILD

from pylayer.common import files, owner, paths, user_policy
from pylayer.common.files import read_small
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader


def journal_in(folder: Folder) -> Path:
    return write_journal(Path(folder.path, f"{7:016x}-1.journal"), folder.identity, record(b"data"))


def loaded(folder: Folder) -> tuple[int, list[str]]:
    """Returns the number of records handed over, and what was refused and why."""
    found = disk.load(folder, 7)
    return len(found.cells), [f"{what.outcome}: {what.detail}" for what in found.damage]


# ---- files of the store ------------------------------------------------------------------------------


def test_root_may_be_a_link(folder: Folder, tmp_path: Path) -> None:
    """The store's root, and directories above it, may be the user's own links: a cache may be on another disk."""
    journal_in(folder)
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").rename(tmp_path / "disk" / "root")
    (tmp_path / "root").symlink_to(tmp_path / "disk" / "root")
    (tmp_path / "home").symlink_to(tmp_path)
    for root in (tmp_path / "root", tmp_path / "home" / "root"):
        again = Folder(str(root), folder.identity)
        again.prepare()
        assert loaded(again) == (1, [])


def test_root_that_is_another_users_link(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that another user put in the place of the store is refused, wherever it leads."""
    journal_in(folder)
    (tmp_path / "link").symlink_to(tmp_path / "root")
    if os.geteuid() == 0:
        os.lchown(tmp_path / "link", 12345, -1)
    else:
        pretend_to_be(monkeypatch, 54321)
    count, (why,) = loaded(Folder(str(tmp_path / "link"), folder.identity))
    assert count == 0 and why.startswith("untrusted: ") and "belongs to user" in why


def test_directory_that_is_swapped(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swapping a directory between its check and its use has no effect: no other file is read."""
    path = journal_in(folder)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / path.name).write_bytes(b"evil")
    real = paths.open_directory

    def swap(path: str, **arguments: Any) -> int:
        checked = real(path, **arguments)
        Path(folder.path).rename(tmp_path / "aside")
        (tmp_path / "evil").rename(folder.path)
        return checked

    monkeypatch.setattr(paths, "open_directory", swap)
    reader = Reader(str(path))
    assert Path(folder.path, path.name).read_bytes() == b"evil"
    with pytest.raises(FileNotFoundError):
        reader.bytes_at(0, 256)


def test_file_that_is_swapped_for_another_users(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is never checked first and opened later, so it cannot lead elsewhere in between."""
    path = journal_in(folder)
    looked: list[object] = []
    for name in ("stat", "lstat"):
        monkeypatch.setattr(paths.posix, name, lambda *a, **k: looked.append(a))
    Reader(str(path))
    read_small(str(path), 10)
    assert looked == []


def test_nothing_is_made_in_another_users_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root with a user's HOME (sudo -E) creates no directory there, which the user could not use afterwards."""
    home = tmp_path / "home"
    home.mkdir()
    become_another(home, monkeypatch)
    with pytest.raises(paths.UntrustedDirectory, match="is not created in it"):
        paths.make_private(str(home / ".cache" / "pylayer"))
    assert list(home.iterdir()) == []


# ---- policy ------------------------------------------------------------------------------------------


POLICY = "from pylayer.policy import Policy\nclass Mine(Policy):\n    pass\n"


@pytest.mark.parametrize(("what", "mode"), [("file", 0o664), ("file", 0o646), ("directory", 0o777)])
def test_policy_module_that_others_may_write(
    tmp_path: Path, what: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that others could have written is not executed, nor one that they could have put into its directory."""
    without_private_group(monkeypatch)
    path = tmp_path / f"trust_mode_{mode:o}.py"
    path.write_text(f"raise SystemExit('it ran')\n{POLICY}")
    (path if what == "file" else tmp_path).chmod(mode)
    with pytest.raises(paths.UntrustedDirectory):
        user_policy.load(f"{path.stem}:Mine", f"{tmp_path}/policy.yaml")


def test_policy_is_source_code(tmp_path: Path) -> None:
    """Compiled files beside the source are not executed: a group that may write to __pycache__ could have put them
    there."""
    import importlib.util

    path = tmp_path / "trust_cached.py"
    path.write_text("raise SystemExit('the compiled file ran')\n")
    kept = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(path), kept, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text(POLICY)
    assert type(user_policy.load("trust_cached:Mine", f"{tmp_path}/policy.yaml")).__name__ == "Mine"


@pytest.mark.parametrize("class_name", ["Absent", "Other", "Failing"])
def test_policy_class_that_cannot_be_used(tmp_path: Path, class_name: str) -> None:
    """If the class cannot be used, its directory is not a place for later imports."""
    text = "class Other:\n    pass\nclass Failing:\n    def __init__(self):\n        raise ValueError\n"
    (tmp_path / f"trust_{class_name}.py").write_text(text)
    before = list(sys.path)
    with pytest.raises((AttributeError, TypeError, ValueError)):
        user_policy.load(f"trust_{class_name}:{class_name}", f"{tmp_path}/policy.yaml")
    assert sys.path == before


# ---- Places --------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment variables that are set, and no others."""
    variables: dict[str, str] = {}
    monkeypatch.setattr(paths, "getenv", variables.get)
    return variables


X = {"HOME": "/home/x"}
HOMES, XDG = ("/home/x/.cache/pylayer", "/home/x/.config/pylayer/policy.yaml"), ("/c/pylayer", "/k/pylayer/policy.yaml")


@pytest.mark.parametrize(
    ("variables", "store", "policy"),
    [
        ({}, None, None),
        (X, *HOMES),
        ({"HOME": "relative"}, None, None),
        ({"HOME": ""}, None, None),
        (X | {"XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/k"}, *XDG),
        (X | {"XDG_CACHE_HOME": "c", "XDG_CONFIG_HOME": "./k"}, *HOMES),
        ({"XDG_CACHE_HOME": "/c"}, XDG[0], None),
        (X | {"XDG_CACHE_HOME": "/c", "PYLAYER_STORE": "/s", "PYLAYER_CONFIG": "/p.yaml"}, "/s", "/p.yaml"),
        (X | {"PYLAYER_STORE": "", "PYLAYER_CONFIG": ""}, *HOMES),
    ],
)
def test_places(environment: dict[str, str], variables: dict[str, str], store: str | None, policy: str | None) -> None:
    """PYLAYER_* takes precedence over XDG, and XDG over the home directory. Empty and relative XDG and HOME values are
    ignored."""
    environment.update(variables)
    assert paths.store_root() == store
    assert paths.config_file() == policy


@pytest.mark.parametrize(
    ("user", "group", "trusted"), [(54321, 54321, True), (54321, 100, False), (100, 54321, False), (0, 0, False)]
)
def test_private_group(user: int, group: int, trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user's private group may write to is trusted. A group is private if it has the number of the user and
    the process runs with it. Root has none."""
    pretend_to_be(monkeypatch, user)
    for mode, expected in ((0o755, True), (0o775, trusted), (0o777, False)):
        status = os.stat_result((mode, 0, 0, 1, user, 54321 if user else 0, 0, 0, 0, 0))
        monkeypatch.setattr(paths.posix, "getegid", lambda: group)
        monkeypatch.setattr(paths.posix, "fstat", lambda fd, found=status: found)
        if expected:
            paths.require_own("/tmp")
        else:
            with pytest.raises(paths.UntrustedDirectory):
                paths.require_own("/tmp")


def test_files_are_no_standard_streams(tmp_path: Path) -> None:
    """In a program without standard streams no file to write to is open under the number of one, and all three are free
    afterwards."""
    journal = tmp_path / "a.journal"
    journal.touch(mode=0o600)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.closerange(0, 3)
            made, _ = files.create_temporary(str(tmp_path / "b"))
            anywhere, _ = files.create_temporary(str(tmp_path / "c"), anywhere=True)
            opened = paths.open_in_store(str(journal), os.O_WRONLY | os.O_APPEND)
            appended = paths.open_made(str(journal), os.O_WRONLY)
            free = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
            status = 0 if min(made, anywhere, opened, appended) > 2 and free == [0, 1, 2] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- Who is alive --------------------------------------------------------------------------------


#: A pid that belongs to no process.
GONE = (1 << 22) + 7
HEADER_FIELDS = struct.Struct("<16sIIQ")
#: Says which process it is, and what it thinks of those that its arguments name.
PYTHON = """
import struct, sys
from pylayer.common import owner
fields = struct.Struct("<16sIIQ")
print(fields.pack(*owner.this_process()).hex())
for name in sys.argv[1:]:
    print(owner.state(fields.unpack(bytes.fromhex(name))))
"""

Said = list[str]
Implementation = Callable[..., Said]


def in_python(*names: str, around: tuple[str, ...] = ()) -> Said:
    command = [*around, sys.executable, "-I", "-c", PYTHON, *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def in_c(*names: str, around: tuple[str, ...] = ()) -> Said:
    command = [*around, str(BUILD / "tests" / "owner"), *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


both = pytest.mark.parametrize("ask", [in_python, in_c], ids=["Python", "C"])


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def name(pid: int, ticks: int, /, **changed: int) -> str:
    """Returns a process of this boot as file headers have it. ``changed``: other values of its fields."""
    place, _, namespace, _ = owner.this_process()
    machine, boot = struct.unpack("<QQ", place)
    fields = {"machine": machine, "boot": boot, "pid": pid, "namespace": namespace, "ticks": ticks, **changed}
    return struct.pack("<QQIIQ", *fields.values()).hex()


@contextmanager
def other_process() -> Iterator[tuple[int, int]]:
    """Runs a process; gives its pid and its start."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process.pid, start_ticks(process.pid)
        process.kill()


#: What is different from a process that runs, and the answer.
CASES = {
    "the process": ({}, "alive"),
    "no such process": ({"pid": GONE}, "dead"),
    "its pid belongs to another one": ({"ticks": 1}, "dead"),
    "another boot": ({"boot": 1}, "elsewhere"),
    "what earlier versions wrote of the machine": ({"machine": 1}, "alive"),
    "an unknown boot": ({"boot": 0}, "elsewhere"),
    "another pid namespace": ({"namespace": 1}, "elsewhere"),
    "another pid namespace, no such process": ({"namespace": 1, "pid": GONE}, "elsewhere"),
    "an unknown pid namespace": ({"namespace": 0}, "elsewhere"),
    "nothing is known": ({"boot": 0, "machine": 0, "namespace": 0, "pid": 0, "ticks": 0}, "elsewhere"),
}


@both
def test_table(ask: Implementation) -> None:
    """Both implementations give the same answers to one table of cases."""
    with other_process() as (pid, ticks):
        answers = ask(*(name(pid, ticks, **changed) for changed, _ in CASES.values()))[1:]
    assert dict(zip(CASES, answers, strict=True)) == {case: answer for case, (_, answer) in CASES.items()}


def test_both_describe_a_process_alike() -> None:
    """Both give a process the same boot and pid namespace, and each its own pid and start."""
    (python,), (c,) = in_python(), in_c()
    assert python[:32] == c[:32] and python[40:48] == c[40:48]
    assert HEADER_FIELDS.unpack(bytes.fromhex(c))[3] >= HEADER_FIELDS.unpack(bytes.fromhex(python))[3] > 0


@both
def test_proc_of_another_pid_namespace(ask: Implementation) -> None:
    """A process whose /proc shows another pid namespace believes nothing of it: its own pid means another process
    there."""
    (theirs,) = ask(around=unshared("--pid", "--fork"))
    assert HEADER_FIELDS.unpack(bytes.fromhex(theirs))[2] == 0


def test_idle_time() -> None:
    """This process has not ended, however old its file is. A process elsewhere has ended after a day, and a clock that
    went backwards proves nothing."""
    assert not owner.has_ended(owner.this_process(), 1e9)
    other = (b"another machine.", GONE, 1, 5)
    assert [owner.has_ended(other, seconds) for seconds in (3600, 25 * 3600, -1e6)] == [False, True, False]


def test_makers() -> None:
    """A maker's name says whether it has ended. Names of nobody, as earlier versions wrote them, end after a day."""
    maker = owner.maker()
    gone = run_python("from pylayer.common import owner; print(owner.maker())").strip()
    assert not owner.maker_has_ended(maker, 1e9) and owner.maker_has_ended(gone, 0)
    for nobody in ("", "-", "somebody", f"{'ab' * 16}-1-2-{'cd' * 8}", "zz" * 32, maker[1:]):
        assert [owner.maker_has_ended(nobody, seconds) for seconds in (3600, 25 * 3600)] == [False, True]
