"""``pylayer prewarm``: fills a program's part of the store from recordings of its pipelines."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess

import click

from ..common.identity import NO_IDENTITY
from ..report import recorded
from ..store import state as states
from ..store.store import Store
from .output import EXIT_PROBLEM, Failure, files, one_line, plural, progress
from .replaying import LOOK_SECONDS, give, give_of, room, scratch_environment
from .selection import NAMES, Names, require_store
from .transfer import recipient_of

REPLAYER = "fossilize-replay"

#: The beginning of every recording.
MAGIC = b"\x81FOSSILIZEDB"


def _require_recording(path: str) -> None:
    """Raises Failure if a file is no recording."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Failure(f"nothing was replayed: {path} is no recording by Fossilize")
    except OSError as error:
        raise Failure(f"nothing was replayed: {path} cannot be read: {error.strerror or error}") from error


def _replay(command: list[str], environment: dict[str, str]) -> tuple[int, str, bool]:
    """Runs fossilize-replay. Returns its exit status, what it said, and whether Ctrl-C ended it."""
    no = subprocess.DEVNULL
    with progress("replaying", None):  # first, because rich takes long to import: Ctrl-C must not find a process
        try:
            process = subprocess.Popen(
                command, env=environment, stdin=no, stdout=no, stderr=subprocess.PIPE, text=True, errors="replace"
            )
        except OSError as error:
            raise Failure(f"{command[0]} was not started: {error.strerror or error}") from error
        with process:
            said, interrupted = None, False
            try:
                while said is None:
                    # Not without a limit: a signal right before a read of the pipe begins does not end that read.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        said = process.communicate(timeout=LOOK_SECONDS)[1]
            except KeyboardInterrupt:  # the terminal interrupts fossilize-replay too
                interrupted = True
                process.terminate()
    return process.returncode, said or "", interrupted


def _uses_identifiers(store: Store, program_id: int) -> bool:
    """Returns whether the layer knew shaders of the program by their identifiers in any recorded run. fossilize-replay
    enables VK_EXT_shader_module_identifier. A program that does not enable it finds only pipelines whose shaders are
    known by their code."""
    runs = recorded.read(store.root)
    return any(run.program_id == program_id and run.numbers["identified_shaders"] for run in runs)


@click.command
@click.argument(
    "recordings",
    metavar="FILE...",
    nargs=-1,
    required=True,
    shell_complete=files,
    help="Recordings by Fossilize, such as game.foz.",
)
@click.option(
    "--for",
    "app",
    metavar="NAME",
    required=True,
    help=f"Store them for this program, {NAMES}.",
)
def prewarm(recordings: tuple[str, ...], app: str) -> None:
    """Compile the pipelines in Fossilize's recordings, and store them for a program.

    fossilize-replay, which has to be in PATH, creates them under the layer, with all processors. The program must have
    run under pylayer once, so that its name is known. After Ctrl-C, what was compiled until then is stored.

    \b
    Example:
      pylayer prewarm game.foz --for game
    """
    for path in recordings:
        _require_recording(path)
    tool = shutil.which(REPLAYER)
    if tool is None:
        raise Failure(
            f"{REPLAYER} is in no directory of PATH; build it from https://github.com/ValveSoftware/Fossilize"
        )
    store = require_store()
    recipient = recipient_of(store, app, "nothing was replayed")
    names = Names(store.root)
    with room(store, "nothing was stored") as scratch:
        root = os.path.join(scratch, "store")
        environment = scratch_environment(root)
        if not _uses_identifiers(store, recipient[0]):
            environment["PYLAYER_SHADER_IDENTIFIERS"] = "ignore"
        command = [tool, "--progress", *(os.path.abspath(path) for path in recordings)]  # goes on after a crash
        status, said, interrupted = _replay(command, environment)
        imports, _ = give(root, store, recipient, REPLAYER)
        give_of(NO_IDENTITY, root, dict.fromkeys(states.programs(root), REPLAYER), store, recipient)
    for work in imports:
        known = f", {plural(work.result.known, 'record')} already in the store" if work.result.known else ""
        click.echo(f"Stored: {plural(work.result.pipelines, 'pipeline')} for {recipient[1]}{known}")
        click.echo(f"  {names.target(work.identity, work.identity.name)}")
    if interrupted:
        raise KeyboardInterrupt
    if status:
        errors = [f" ({one_line(line)})" for line in said.splitlines() if "ERROR" in line]
        what = "the rest was not replayed" if imports else "nothing was stored"
        more = "".join(errors[-1:])
        raise Failure(f"{what}: {REPLAYER} ended with status {status}{more}; run it alone to see more")
    if not imports:
        raise Failure(
            "nothing was stored: the recordings hold no pipeline for this device, or nothing is kept for "
            "it (pylayer doctor)"
        )
    crashes = sum(int(count) for count in dict(re.findall(r"(Clean|Dirty) crashes (\d+)", said)).values())
    if crashes:
        click.echo(f"  without {plural(crashes, 'pipeline')} on which the driver crashed")
        raise click.exceptions.Exit(EXIT_PROBLEM)
