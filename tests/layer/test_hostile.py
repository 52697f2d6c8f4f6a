"""Names of programs are untrusted text: they become no path, no log line of their own, and no control sequence for a
terminal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from host_steps import END, HOST
from world import BUILD, PACKAGE, ROOT, World

#: Text that a terminal would obey: escape sequences, C1 controls, and characters that reverse the direction of writing.
EVIL = "\x1b[2J\x1b]0;owned\x07\r\n\x9b2J\u202egnp.exe\x7f"
NAMES = {
    "path": "../../../../tmp/pwned",
    "absolute": "/etc/passwd",
    "terminal": EVIL,
    "format": "%s%n%p {0} [red]x[/red]",
    "yaml": "a: !!python/object/apply:os.system [id]",
    "not-utf8": "caf\udce9",
    "long": "x" * 5000,
    "empty": "",
}
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Names of files and directories of a store: digits of a hash, a time, and a suffix.
STORED = re.compile(
    r"store|runs|plans|policy|state|[0-9a-f]{32}|identity|[0-9a-f]{16}(-[0-9a-f]{16}){2}\.(journal|closed|attest)|[0-9a-f]{16}\.unrecorded"
    r"|[0-9a-f]{16}(-[0-9a-f]{16}){2}\.run|[0-9a-f]{16}-[0-9a-f]{16}\.pack|[0-9a-f]{32}\.(plan|flat)"
)

COMMANDS = (
    ("ls",), ("ls", "*"), ("stats",), ("ls", "--verify"), ("trim",), ("rm", "*", "--dry-run"),
    ("export", "out", "--app", "*"), ("import", "out"),
)  # fmt: skip


#: Nothing here depends on the driver.
QUICK = True


def assert_harmless(text: str) -> None:
    found = UNSAFE.search(text)
    assert found is None, text[max(found.start() - 60, 0) : found.end() + 60].encode()


def evil_program(world: World, name: str) -> str:
    """Returns a copy of the program under this name, as far as a file can have it."""
    file = name.replace("/", "\\").replace("\0", "")[:200] or "empty"
    path = os.fsencode(world.directory) + b"/" + os.fsencode(file)
    shutil.copy(HOST, path)
    return os.fsdecode(path)


def test_names(world: World) -> None:
    """Whatever program, application and engine are called, the pipeline is stored under a number, nothing is created
    outside the store, and neither the log nor any command prints what a terminal would obey."""
    programs = {world.directory / os.path.basename(evil_program(world, name)) for name in NAMES.values()}
    before = set(world.directory.rglob("*"))
    assert programs <= before
    environment = world.environment | {"PYLAYER_LOG": "debug"}
    for number, name in enumerate(NAMES.values(), 1):
        command = [evil_program(world, name), "names", name, name, "instance", "device", "pipelines", "1", *END]
        done = subprocess.run(command, env=environment, capture_output=True, cwd=world.directory, timeout=60)
        log = done.stderr.decode("utf-8", "replace")
        assert done.returncode == 0, log
        lines = [line for line in log.split("\n") if line and "pci bus info" not in line]  # RADV's own
        assert len(lines) >= 2 and all(line.startswith("pylayer: ") for line in lines)
        assert_harmless(log)
        assert len({path.name[:16] for path in world.stored_files()}) == number
    for path in set(world.directory.rglob("*")) - before - {world.store}:
        assert path.is_relative_to(world.store) and STORED.fullmatch(path.name), path
    numbers = sorted({path.name[:16] for path in world.stored_files()})
    commands = [*COMMANDS, *(("ls", number) for number in numbers)]
    for arguments in commands:
        for more in ((), ("--json",)) if arguments[0] in ("ls", "report", "stats") else ((),):
            told = world.pylayer(*arguments, *more)
            assert_harmless(told.stdout + told.stderr)


def test_names_of_files(world: World) -> None:
    """Commands report files with such names in the store without printing what a terminal would obey."""
    world.demo("--count", 2)
    for directory in {path.parent for path in world.stored_files()} | {world.store / "runs"}:
        for suffix in (".pack", ".closed", ".run", ""):
            (directory / f"{EVIL}{suffix}".replace("/", "")).write_bytes(b"x" * 300)
    for arguments in COMMANDS[:-1]:
        for more in ((), ("--json",)):
            Path(world.directory, "out").unlink(missing_ok=True)
            told = world.pylayer(*arguments, *more, check=False)
            assert "Traceback" not in told.stderr
            assert_harmless(told.stdout + told.stderr)
    told = world.run([str(BUILD / "demo" / "pipelines"), "--count", "2"], PYLAYER_LOG="debug")
    assert_harmless(told.stderr)


# ---- Code from other places ----------------------------------------------------------------------


MODULES = (
    "_policy", "abc", "codecs", "encodings", "flat", "importlib", "io", "json", "os", "posix",
    "pylayer", "re", "session", "site", "sitecustomize", "string", "struct", "time", "typing", "usercustomize",
    "xxhash", "yaml", "_cffi_backend",
)  # fmt: skip

LIBRARY = r"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { close(open(MARK, O_CREAT | O_WRONLY, 0600)); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library that creates the file ``mark`` in its directory when it is loaded."""
    directory = tmp_path_factory.mktemp("library")
    (directory / "x.c").write_text(LIBRARY)
    mark = f'-DMARK="{directory / "mark"}"'
    subprocess.run(["cc", "-shared", "-fPIC", mark, "-o", directory / "x.so", directory / "x.c"], check=True)
    return directory / "x.so"


def plant(directory: Path, library: Path) -> None:
    """Puts everything into the directory that a careless program would load code from."""
    directory.mkdir(parents=True, exist_ok=True)
    ran = f"open({str(library.parent / 'mark')!r}, 'w').close()\n"
    for name in MODULES:
        (directory / f"{name}.py").write_text(ran)
        (directory / name).mkdir(exist_ok=True)
        (directory / name / "__init__.py").write_text(ran)
        (directory / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}").write_bytes(library.read_bytes())
    (directory / "evil.pth").write_text(f"import os; {ran}")
    (directory / "pyvenv.cfg").write_text(f"home = {directory}\n")
    (directory / "python311.zip").write_bytes(b"")
    names = [path.name for path in PACKAGE.rglob("*.so*")]
    names += [sysconfig.get_config_var("INSTSONAME") or "libpython3.so", "libvulkan.so.1", "libffi.so.8"]
    for name in names:
        (directory / name).write_bytes(library.read_bytes())


def test_the_library_tells(library: Path) -> None:
    """Planted code that runs leaves the mark: the tests below can fail."""
    mark = library.parent / "mark"
    subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", library], check=True)
    assert mark.exists()
    mark.unlink()
    plant(library.parent / "planted", library)
    subprocess.run([sys.executable, "-c", "import yaml"], cwd=library.parent / "planted", check=False)
    assert mark.exists()
    mark.unlink()


def test_no_code_from_working_directory_or_store(world: World, library: Path) -> None:
    """Modules, packages, extension modules and libraries are beside the program, in its home and all over the store,
    and PYTHON* variables name them. None of them runs, and pipelines are stored as usual."""
    config = world.directory / "config" / "policy.yaml"
    world.demo("--count", 2)
    identity = world.stored_files()[0].parent
    home = world.directory / "home"
    user_site = home / ".local" / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    places = [world.directory, world.store, world.store / "policy", world.store / "runs", identity, home, user_site]
    for place in (*places, config.parent):
        plant(place, library)
    config.write_text("settings: {record_state: false}\n")  # a new policy file, so PyYAML is imported
    planted = str(world.directory)
    world.demo(
        "--count",
        4,
        PYLAYER_CONFIG=str(config),
        PYTHONPATH=os.pathsep.join(map(str, places)),
        PYTHONHOME=planted,
        PYTHONSTARTUP=f"{planted}/json.py",
        PYTHONUSERBASE=str(home / ".local"),
        PYTHONPYCACHEPREFIX=planted,
        PYTHONINSPECT="1",
        PYTHONPLATLIBDIR=planted,
    )
    assert not (library.parent / "mark").exists()
    assert world.last()["compiled"] == 2 and world.last()["hits"] == 2
    assert list(world.store.glob("policy/*.flat"))


def test_layer_by_a_relative_path(world: World, library: Path) -> None:
    """A layer loaded by a relative path takes the rest of its code from its own directory, even if the program changes
    to a directory in which that path leads to other files."""
    shutil.copytree(PACKAGE, world.directory / "site" / "pylayer")
    manifest = world.directory / "layers" / "layer.json"
    manifest.parent.mkdir()
    template = (PACKAGE / "data" / "manifests" / "VkLayer_pylayer_pipeline_cache.json").read_text()
    manifest.write_text(template.replace("../../lib", "../site/pylayer/lib"))
    evil = world.directory / "evil"
    (evil / "layers").mkdir(parents=True)
    ran = f"open({str(library.parent / 'mark')!r}, 'w').close()\n"
    for path in PACKAGE.rglob("*"):
        copy = evil / "site" / "pylayer" / path.relative_to(PACKAGE)
        if path.suffix == ".py" or ".so" in path.name:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(ran.encode() if path.suffix == ".py" else library.read_bytes())
    program = [str(HOST), "instance", "chdir", str(evil), "device", "pipelines", "1", *END]
    world.run(program, VK_ADD_LAYER_PATH="layers")
    assert not (library.parent / "mark").exists()
    assert world.last()["compiled"] == 1 and world.stored_files()


def test_the_command_line_takes_none_either(world: World, library: Path) -> None:
    """The installed command runs no planted code in its working directory."""
    plant(world.directory, library)
    command = Path(sys.executable).parent / "pylayer"
    for arguments in (["ls"], ["stats", "--json"], ["doctor"], ["run", "--", "true"]):
        world.run([str(command), *arguments], check=False, PYTHONPATH=None)
    assert not (library.parent / "mark").exists()


# ---- Entry points --------------------------------------------------------------------------------


REPLAY = ROOT / "build" / "fuzz" / "shim-replay"
FAILED_ONCE = sorted((ROOT / "tests" / "fuzz" / "shim" / "corpus").iterdir())


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(REPLAY), *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("path", FAILED_ONCE, ids=lambda path: path.name)
def test_what_failed_once(path: Path) -> None:
    """An input on which the layer once failed now passes: the layer reads nothing that a program may leave undefined,
    the driver gets only valid calls, and no memory leaks."""
    done = replay(str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 files\n"


def test_programs_at_random() -> None:
    """Ten thousand programs made of random bytes, the same each time, pass too."""
    done = replay("--random", "10000")
    assert done.returncode == 0, done.stderr
