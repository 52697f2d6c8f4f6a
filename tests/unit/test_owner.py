"""Who is alive: one table of cases for both implementations, pylayer/common/owner.py and shim/layer/store/owner.c."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from namespaces import unshared
from unit.things import run_python
from world import BUILD

from pylayer.common import owner

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
