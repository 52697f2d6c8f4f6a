"""Names of programs are untrusted text: they become no path, no log line of their own, and no control sequence for a
terminal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from host_steps import END, HOST
from world import BUILD, World

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


def run_evil_program(world: World, name: str) -> None:
    """Runs a program whose executable, application and engine have this name. Asserts that the log holds nothing that a
    terminal would obey."""
    command = [evil_program(world, name), "names", name, name, "instance", "device", "pipelines", "1", *END]
    environment = world.environment | {"PYLAYER_LOG": "debug"}
    done = subprocess.run(command, env=environment, capture_output=True, cwd=world.directory, timeout=60, check=False)
    log = done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, log
    lines = [line for line in log.split("\n") if line and "pci bus info" not in line]  # RADV's own
    assert len(lines) >= 2 and all(line.startswith("pylayer: ") for line in lines)
    assert_harmless(log)


def test_names(world: World) -> None:
    """Whatever program, application and engine are called, the pipeline is stored under a number, nothing is created
    outside the store, and neither the log nor any command prints what a terminal would obey."""
    programs = {world.directory / os.path.basename(evil_program(world, name)) for name in NAMES.values()}
    before = set(world.directory.rglob("*"))
    assert programs <= before
    for number, name in enumerate(NAMES.values(), 1):
        run_evil_program(world, name)
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
