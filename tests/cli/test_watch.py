"""``pylayer stats --watch``: what runs now, from the files that programs write."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import recorded_runs
from cli.user import DEMO, User

from pylayer.common import owner
from pylayer.store.timeline import Event

NOTHING = "No program is running under pylayer now; start one with: pylayer run -- APP\n"
SHOW_CURSOR, LEAVE_SCREEN = b"\x1b[?25h", b"\x1b[?1049l"


def write_run(user: User, *events: Event, **values: Any) -> None:
    """Writes a run of this process, as the layer writes it while it runs."""
    when = {"started": time.time(), "started_ns": time.monotonic_ns(), "ended": 0.0}
    kinds = {"graphics": {"hits": 10, "compiled": 20, "compile_ns": 2_000_000_000}}
    done = {"counters": {"pipelines": 30, "hits": 10}, "kinds": kinds, "stored_bytes": 4096}
    recorded_runs.write(user.store, list(events), **{"process": owner.this_process(), **when, **done, **values})


@contextmanager
def running_demo(user: User, *environment: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the demo program under the layer, with more work than any test lasts."""
    command = user.process(("run", "--", DEMO, "--count", 14336))
    with subprocess.Popen(**command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_compiles(user: User, process: subprocess.Popen[str]) -> None:
    """Waits until policy has written the timeline. What the layer counts is shown before."""
    while not any(b"EVTS" in path.read_bytes() for path in user.store.glob("runs/*.run")):
        assert process.poll() is None
        time.sleep(0.02)


class Terminal:
    """``pylayer stats --watch`` on a terminal."""

    def __init__(self, user: User, *arguments: str, columns: int = 80) -> None:
        self.ours, theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        environment = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "24"}
        self.process = subprocess.Popen(
            **user.process(("stats", "--watch", *arguments), **environment),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.output = b""

    def read_until(self, wanted: bytes) -> None:
        while wanted not in self.output:
            assert self.read(), self.output

    def read(self) -> bool:
        """Reads what the terminal received, and waits for it if necessary. Returns false if the other end has gone."""
        select.select([self.ours], [], [])
        try:
            piece = os.read(self.ours, 65536)
        except OSError:
            return False
        self.output += piece
        return bool(piece)

    def end(self) -> int:
        while self.read():
            pass
        os.close(self.ours)
        return self.process.wait()


def test_nothing_runs(user: User) -> None:
    """If nothing runs, one line says how to start a program, with or without a store."""
    assert user.pylayer("stats", "--watch").stdout == NOTHING
    write_run(user, ended=1.0, started=1.0)
    os.utime(next(user.store.glob("runs/*.run")), (1, 1))
    done = user.pylayer("stats", "--watch")
    assert (done.stdout, done.returncode) == (NOTHING, 0)


def test_real_program(user: User) -> None:
    """top shows how much a real program compiles, and its latest pipelines. After a kill it shows that the program
    died."""
    with running_demo(user) as process:
        wait_for_compiles(user, process)
        found = user.json("stats", "--watch")
        (program,) = found["programs"]
        assert (program["program"], program["state"], program["pid"]) == ("pipelines", "running", process.pid)
        assert program["compiled"] and program["compile_ns"] and program["carrier"] == "cells"
        latest = found["latest_compiles"]
        assert latest and latest[0]["program"] == "pipelines" and latest[0]["thread_name"] == "pipelines"
        assert {one["kind"] for one in latest} <= {"compute", "graphics"}
        assert [one["time_s"] for one in latest] == sorted((one["time_s"] for one in latest), reverse=True)
        assert abs(latest[0]["time_s"] - time.time()) < 60
    done = user.pylayer("stats", "--watch")
    assert " died " in done.stdout and "0 running" in done.stdout


def test_terminal(user: User) -> None:
    """The live view fits 80 columns, and is drawn anew as programs go on."""
    write_run(user, Event("pipeline", time.monotonic_ns(), 20_000_000, "compiled", fingerprint=0xABC, number=1))
    terminal = Terminal(user)
    terminal.read_until(b"0000000000000abc")
    drawn = len(terminal.output)
    write_run(user, program="another")
    terminal.read_until(b"another")
    assert len(terminal.output) > drawn
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
    assert terminal.output.rindex(SHOW_CURSOR) < terminal.output.rindex(LEAVE_SCREEN) + 20
    assert terminal.output.endswith((LEAVE_SCREEN, SHOW_CURSOR)) and b"Traceback" not in terminal.output


def test_what_is_unknown(user: User) -> None:
    """Where it is unknown what a program compiled, top says why, and what ? and - mean."""
    write_run(user, counters={"pipelines": 30, "plain": 30}, kinds={}, feedback=False)
    out = user.pylayer("stats", "--watch").stdout
    assert "game: unknown of 30 pipelines whether the driver compiled them, because the program's device has no" in out
    assert "? unknown" in out and "- presents no frames" in out
    (program,) = user.json("stats", "--watch")["programs"]
    assert program["compiled"] is None and program["why_unknown"].startswith("unknown of 30 pipelines")


def test_states(user: User) -> None:
    """A program that has just ended is shown as ended. If its pid now belongs to another process, it is shown as
    died."""
    write_run(user, program="runs")
    write_run(user, program="ended", ended=time.time())
    write_run(user, program="died", process=(*owner.this_process()[:3], 1))
    states = {one["program"]: one["state"] for one in user.json("stats", "--watch")["programs"]}
    assert states == {"runs": "running", "ended": "ended", "died": "died"}
    for path in user.store.glob("runs/*.run"):
        os.utime(path, (time.time() - 120, time.time() - 120))
    assert [one["program"] for one in user.json("stats", "--watch")["programs"]] == ["runs"]


def test_hostile_files(user: User) -> None:
    """Names with terminal control characters, and files that are no runs, change at most a row."""
    write_run(user, program="\x1b[31mred\n\u202e", kinds={"graphics": "x", "compute": {"compiled": "many"}})
    write_run(user, started_ns="x", process=(bytes(16), 0, 0, 0))
    write_run(user, process=(bytes(16), 7, 7, 0), stored_bytes=float("nan"))
    runs = user.store / "runs"
    (runs / "1.run").write_bytes(os.urandom(300))
    (runs / "2.run").mkdir()
    (runs / "3.run").symlink_to("/dev/zero")
    done = user.pylayer("stats", "--watch")
    assert done.returncode == 0 and "1 running" in done.stdout
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    json.loads(user.pylayer("stats", "--watch", "--json").stdout)


def test_filter(user: User) -> None:
    """A name selects programs. Running ones come first, the newest before the others."""
    for number, name in enumerate(("few", "many", "some")):
        write_run(user, program=name, executable=name, started=time.time() + number)
    write_run(user, program="ended", executable="ended", started=time.time() + 9, ended=time.time())

    def shown(*arguments: str) -> list[str]:
        return [one["program"] for one in user.json("stats", "--watch", *arguments)["programs"]]

    assert shown() == ["some", "many", "few", "ended"]
    assert shown("many") == ["many"] and shown("?e*") == ["few"]
    done = user.pylayer("stats", "--watch", "nobody")
    assert (done.returncode, done.stdout) == (1, "nobody is not running under pylayer now\n")
    assert user.json("stats", "--watch", "nobody", status=1)["programs"] == []
