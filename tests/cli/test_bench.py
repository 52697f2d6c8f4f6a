"""``pylayer bench``: what it measures, and what it leaves as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli.user import DEMO, User
from world import BUILD

FRAMES = BUILD / "tests" / "frames"
NAMES = ("without", "observed", "cold", "warm")


def phases(user: User, *arguments: Any, status: int = 0) -> dict[str, dict[str, Any]]:
    """Returns what ``pylayer bench --json`` says of each phase."""
    done = user.pylayer("bench", "--json", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert left_over(user) == []
    found = {phase["phase"]: phase for phase in json.loads(done.stdout)["phases"]}
    assert tuple(found) == NAMES
    return found


def left_over(user: User) -> list[Path]:
    return list(user.store.parent.glob("pylayer-bench-*"))


def ended_soon(pid: int) -> bool:
    """Returns whether a process ends within ten seconds."""
    for _ in range(1000):
        if not os.path.exists(f"/proc/{pid}"):
            return True
        time.sleep(0.01)
    return False


def test_pipelines(user: User) -> None:
    """The cold run compiles all and stores it, the warm run finds all. A program without frames starts until it ends,
    and nobody counts its pipelines without the layer."""
    found = phases(user, "--", DEMO, "--count", 20)
    counted = {name: (own["pipelines"], own["hits"], own["compiled"], own["frames"]) for name, own in found.items()}
    assert counted["without"] == (None, None, None, None)
    assert counted["observed"][:2] == (20, 0)
    assert (counted["cold"], counted["warm"]) == ((20, 0, 20, 0), (20, 20, 0, 0))
    assert [own["start_ns"] == own["wall_ns"] > 0 for own in found.values()] == [True] * 4
    assert found["without"]["store_bytes"] is found["observed"]["store_bytes"] is None
    assert found["cold"]["store_bytes"] > 0 and found["warm"]["store_bytes"] > 0


def test_frames(user: User) -> None:
    """Of a program that presents frames, the start is the time until the first one, unknown without the layer."""
    found = phases(user, "--", FRAMES, 30, "every=0", "pause=300")
    assert [own["frames"] for own in found.values()] == [None, 30, 30, 30]
    assert found["without"]["start_ns"] is None
    for name in NAMES[1:]:
        assert 0 < found[name]["start_ns"] < found[name]["wall_ns"] - 300_000_000
    text = user.pylayer("bench", "--", FRAMES, 30, "every=0").stdout
    assert "frames  late" in text and "until the first frame" in text


def test_memory(user: User) -> None:
    """The memory is the program's, and not that of the process which started it."""
    script = "import sys; block = b'x' * (int(sys.argv[1]) << 20)"
    found = phases(user, "--", "python3", "-Sc", script, 200, status=1)
    assert all(200 << 20 < own["memory_bytes"] < 260 << 20 for own in found.values())


def test_user_store(user: User) -> None:
    """The user's own store is neither read nor written, also if PYLAYER_STORE names it."""
    user.demo(20)
    store = user.directory / "mine"
    user.store.rename(store)
    user.environment["PYLAYER_STORE"] = str(store)
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    done = user.pylayer("bench", "--json", "--", DEMO, "--count", 20)
    cold = json.loads(done.stdout)["phases"][2]
    assert cold["phase"] == "cold" and (cold["hits"], cold["compiled"]) == (0, 20)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    assert not user.store.exists() and list(user.directory.glob("pylayer-bench-*")) == []


@pytest.mark.parametrize("variable", ["MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH"])
def test_driver_caches(user: User, variable: str) -> None:
    """Without the layer and with it, a first run begins with an empty driver cache, and the second run has what the
    first left there. So it is in each repetition."""
    script = f'ls "${variable}"; echo there; touch "${variable}/$$"'
    done = user.pylayer("bench", "--repeat", 2, "--", "sh", "-c", script, **{variable: "/nowhere"})
    runs = [len(run.splitlines()) for run in done.stderr.split("there\n")]
    assert [count - 1 for count in runs[:-1]] == [0, 0, 1, 0, 1, 0, 1, 0, 1]  # one line tells which run it is


def test_medians(user: User) -> None:
    """Phases take turns, and each number of a phase is the median of its runs."""
    done = user.pylayer("bench", "--repeat", 3, "--json", "--", DEMO, "--count", 3)
    told = [line.partition(": ")[2] for line in done.stderr.splitlines() if line.startswith("pylayer: run ")]
    assert [line.partition(": ")[2] for line in told][1:5] == [line.partition(": ")[2] for line in told][5:9]
    assert len(told) == 13
    for phase in json.loads(done.stdout)["phases"]:
        assert len(phase["runs"]) == 3
        assert phase["wall_ns"] == sorted(run["wall_ns"] for run in phase["runs"])[1]


def test_seconds(user: User) -> None:
    """With --seconds a program is asked to end, and what it started ends with it."""
    script = 'sleep 100 & echo "child $!"; trap "echo polite; exit 9" TERM; wait'
    done = user.pylayer("bench", "--seconds", "0.3", "--json", "--", "sh", "-c", script)
    assert done.stderr.count("polite\n") == 5
    runs = [run for phase in json.loads(done.stdout)["phases"] for run in phase["runs"]]
    assert all(run["ended_by_bench"] and run["exit_status"] == 9 and run["start_ns"] is None for run in runs)
    children = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("child ")]
    assert len(children) == 5 and all(map(ended_soon, children))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(user: User, number: signal.Signals) -> None:
    """Ctrl-C or another signal ends the program, removes the stores, and ends the command as its parent expects."""
    process = subprocess.Popen(
        **user.process(("bench", "--", "sh", "-c", "echo $$; exec sleep 100")), stderr=subprocess.PIPE
    )
    assert process.stderr is not None and process.stderr.readline().startswith("pylayer: run 1 of 5: ")
    program = int(process.stderr.readline())
    assert len(left_over(user)) == 1
    process.send_signal(number)
    assert process.wait(timeout=20) == (-number if number == signal.SIGINT else 128 + number)
    assert ended_soon(program) and left_over(user) == []
    process.stderr.close()


SIGNAL_AT_START = """
import os, signal, sys
from pylayer.cli.main import main
spawn = os.posix_spawnp
def spawn_and_receive(*arguments, **more):
    child = spawn(*arguments, **more)
    print(child, file=sys.stderr)
    os.kill(os.getpid(), int(sys.argv.pop()))
    return child
os.posix_spawnp = spawn_and_receive
sys.exit(main(sys.argv[1:-1]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_at_the_start(user: User, number: signal.Signals) -> None:
    """A signal that comes before the command knows the program's number ends the program, too."""
    process = user.process(("bench", "-q", "--", "sleep", "100", str(int(number))))
    process["args"][1:3] = ["-Pc", SIGNAL_AT_START]
    done = subprocess.run(**process, capture_output=True, timeout=20, check=False)
    assert done.returncode == (-number if number == signal.SIGINT else 128 + number)
    assert ended_soon(int(done.stderr.split()[0])) and left_over(user) == []


def test_started_by_a_large_program(user: User) -> None:
    """Memory is known, even if the process that started pylayer had more."""
    grown = "import os, sys; memory = b'x' * (400 << 20); os.execv(sys.argv[1], sys.argv[1:])"
    program = "memory = b'x' * (100 << 20)"
    started = user.process(("bench", "--json", "--", sys.executable, "-c", program))
    command = [sys.executable, "-c", grown, *started.pop("args")]
    done = subprocess.run(command, **started, capture_output=True, timeout=120, check=False)
    memory = [phase["memory_bytes"] for phase in json.loads(done.stdout)["phases"]]
    assert len(memory) == 4 and None not in memory and 100 << 20 < min(memory) <= max(memory) < 200 << 20


def test_exit_statuses(user: User) -> None:
    """A program that fails is shown with its exit status, and bench ends with 1."""
    done = user.pylayer("bench", "--", "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 1 and done.stdout.count("  139\n") == 4
    assert "the program failed in each row (see the column exit)" in done.stderr
    assert "the layer counted nothing: the built-in skip rule executable: " in done.stderr


def test_not_found(user: User) -> None:
    """A program that is not there ends bench with env's status 127, and DISABLE_PYLAYER with a message."""
    done = user.pylayer("bench", "--", "no-such-program")
    assert done.returncode == 127 and "no-such-program was not started" in done.stderr and left_over(user) == []
    done = user.pylayer("bench", "--", "true", DISABLE_PYLAYER="1")
    assert done.returncode == 1 and "DISABLE_PYLAYER is set; unset it" in done.stderr
