"""PYLAYER_LOG_FILE: it must be the user's own file, and it never makes a program hang, end or write elsewhere."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import socket
import subprocess
import termios
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import radv
from others import STRANGER
from world import BUILD, World, said

DEMO = [str(BUILD / "demo" / "pipelines"), "--count", "2"]


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def test_file_is_made_for_its_owner(world: World) -> None:
    """A missing log file is created with way 0600, and an existing one is appended to."""
    log = world.directory / "log"
    assert said(world.run(DEMO, PYLAYER_LOG_FILE=str(log), PYLAYER_LOG="info").stderr) == []
    first = said(log.read_text())
    assert first and log.stat().st_mode & 0o777 == 0o600
    world.run(DEMO, PYLAYER_LOG_FILE=str(log), PYLAYER_LOG="info")
    assert said(log.read_text())[: len(first)] == first and len(said(log.read_text())) > len(first)


def test_silent_unless_asked(world: World) -> None:
    """Without PYLAYER_LOG no log file is created."""
    log = world.directory / "log"
    world.run(DEMO, PYLAYER_LOG_FILE=str(log), PYLAYER_LOG=None)
    assert not log.exists()


@pytest.mark.root
def test_file_of_another_user(world: World) -> None:
    """The log is not written to another user's file, which anybody can create in /tmp. It goes to standard error, and
    one line says why."""
    log = world.directory / "log"
    log.touch()
    log.chmod(0o666)
    os.chown(log, STRANGER, -1)
    link = world.directory / "link"
    link.symlink_to(log)
    for path in (log, link):
        told = said(world.run(DEMO, PYLAYER_LOG_FILE=str(path), PYLAYER_LOG="info").stderr)
        assert told[0] == "pylayer: warn: PYLAYER_LOG_FILE is not used: it is not this user's own file"
        assert len(told) > 1 and log.read_text() == ""


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, None], ids=["fifo", "directory", "nowhere"])
def test_no_file(world: World, make: Callable[[Path], None] | None) -> None:
    """If the log file is a pipe that nobody reads, a directory, or a missing path, the program does not wait, and the
    log goes to standard error."""
    path = world.directory / ("log" if make else "log/x/y")
    if make:
        make(path)
    told = said(world.run(DEMO, PYLAYER_LOG_FILE=str(path), PYLAYER_LOG="info", timeout=60).stderr)
    assert told[0] == "pylayer: warn: PYLAYER_LOG_FILE cannot be written" and len(told) > 1


def test_pipe_with_a_reader(world: World) -> None:
    """A pipe with a reader gets the log. When it is full, lines are lost and the program goes on."""
    path = world.directory / "log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    world.run(DEMO, PYLAYER_LOG_FILE=str(path), PYLAYER_LOG="info")
    assert said(os.read(reader, 1 << 16).decode())
    filler = os.open(path, os.O_WRONLY)
    fill(filler)
    world.run(DEMO, PYLAYER_LOG_FILE=str(path), PYLAYER_LOG="debug")
    os.close(reader)
    os.close(filler)


def popen(world: World, **more: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {**world.environment, "PYLAYER_LOG": "debug", **more.pop("environment", {})}
    return subprocess.run(DEMO, env=environment, stdout=subprocess.PIPE, timeout=60, cwd=world.directory, **more)


def fill(descriptor: int, most: int = 1 << 20) -> None:
    """Writes to a pipe, a socket or a terminal until it is full. The flag is only on for that long."""
    os.set_blocking(descriptor, False)
    try:
        for _ in range(most):
            os.write(descriptor, b"x")
    except BlockingIOError:
        pass
    os.set_blocking(descriptor, True)


def full_pipe() -> tuple[int, int]:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.write(write, bytes(4096 - 400))  # the rest is less than the kernel gives to another writer
    return read, write


def full_socket() -> tuple[int, int]:
    read, write = (end.detach() for end in socket.socketpair())
    fill(write)
    return read, write


def stopped_terminal() -> tuple[int, int]:
    read, write = os.openpty()
    termios.tcflow(write, termios.TCOOFF)  # what ^S does
    return read, write


def pipe_without_a_reader() -> tuple[int, int]:
    read, write = os.pipe()
    os.close(read)
    return os.dup(write), write


STUCK = [full_pipe, full_socket, stopped_terminal, pipe_without_a_reader]


@pytest.mark.parametrize("stuck", STUCK, ids=lambda one: one.__name__)
def test_standard_error_that_nobody_reads(quick: World, stuck: Callable[[], tuple[int, int]]) -> None:
    """If standard error is full, or a pipe without a reader, lines are lost, and the program goes on: SIGPIPE does not
    end it. Its flags stay as they were."""
    read, write = stuck()
    flags = fcntl.fcntl(write, fcntl.F_GETFL)
    done = popen(quick, stderr=write)
    assert done.returncode == 0 and quick.last()["compiled"] > 0
    assert fcntl.fcntl(write, fcntl.F_GETFL) == flags
    os.close(write)
    os.close(read)


def test_file_at_its_size_limit(quick: World) -> None:
    """If the log file has reached RLIMIT_FSIZE, lines are lost, and SIGXFSZ does not end the program."""
    log = quick.directory / "log"
    log.write_bytes(bytes(4096))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = popen(quick, preexec_fn=limit, environment={"PYLAYER_LOG_FILE": str(log)}, stderr=subprocess.DEVNULL)
    assert done.returncode == 0 and log.stat().st_size == 4096


def test_form(real: World) -> None:
    """A log line has a level, the time in UTC, a sentence, and the pid."""
    before = datetime.now(UTC)
    real.run(DEMO, PYLAYER_LOG="debug")
    found = said(real.raw_stderr)
    for line in found:
        match = re.fullmatch(r"pylayer: (info|debug): (\S+Z) (.+) pid=(\d+)", line)
        assert match is not None, line
        written = datetime.fromisoformat(match.group(2))
        assert before - timedelta(seconds=1) < written < datetime.now(UTC) + timedelta(seconds=1)
    assert any(f" {radv.DEVICE}: mode cells for pipelines, " in line for line in found)
    assert "0 stored records for pipelines, read when it creates their pipelines pid=" in "\n".join(found)


def test_long_names(world: World) -> None:
    """A line that is too long is cut and still ends with the pid."""
    world.run(DEMO, PYLAYER_LOG="warn", PYLAYER_CONFIG="/" + "x" * 3000)
    for line in said(world.raw_stderr):
        assert len(line.encode()) < 2048 and re.search(r" pid=\d+$", line)
    world.run(DEMO, PYLAYER_LOG="warn", PYLAYER_STORE="/proc/" + "y" * 3000)
    (line,) = [line for line in said(world.raw_stderr) if "y" * 1000 in line][:1]
    assert len(line.encode()) == 2047 and re.search(r" pid=\d+$", line)
