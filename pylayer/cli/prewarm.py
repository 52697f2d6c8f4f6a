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
from ..report.recorded import is_pattern
from ..report.words import one_line, plural, printable
from ..store import state as states
from ..store.store import Import, Store
from .output import Failure, WrongUse, end_if, failing, files, progress
from .replaying import POLL_SECONDS, import_all, import_of, room, scratch_environment
from .selection import NAMES, Names, require_store
from .transfer import recipient_of
from .warm import warm_after

REPLAYER = "fossilize-replay"

#: The beginning of every recording.
MAGIC = b"\x81FOSSILIZEDB"


def _require_recording(path: str) -> None:
    """Raises Failure if a file is no recording."""
    with failing(f"nothing was replayed: {path} cannot be read"), open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise Failure(f"nothing was replayed: {path} is no recording by Fossilize")


def _replay(command: list[str], environment: dict[str, str]) -> tuple[int, str, bool]:
    """Runs fossilize-replay. Returns its exit status, what it said, and whether Ctrl-C ended it."""
    no = subprocess.DEVNULL
    with progress("replaying", None):  # first, because rich takes long to import: Ctrl-C must not find a process
        with failing(f"{command[0]} was not started"):
            process = subprocess.Popen(
                command, env=environment, stdin=no, stdout=no, stderr=subprocess.PIPE, text=True, errors="replace"
            )
        with process:
            said, interrupted = None, False
            try:
                while said is None:
                    # Not without a limit: a signal right before a read of the pipe begins does not end that read.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        said = process.communicate(timeout=POLL_SECONDS)[1]
            except KeyboardInterrupt:  # the terminal interrupts fossilize-replay too
                interrupted = True
                process.terminate()
    return process.returncode, said or "", interrupted


def _uses_identifiers(store: Store, program_id: int) -> bool:
    """Returns whether the layer knew shaders of the program by their identifiers in any recorded run."""
    runs = recorded.read(store.root)
    return any(run.program_id == program_id and run.numbers["identified_shaders"] for run in runs)


def _under_name(tool: str, scratch: str, name: str) -> str:
    """Returns the path of a copy of fossilize-replay. The layer, drivers and rules of the policy know programs by the
    names of their files. Raises OSError."""
    path = os.path.join(scratch, "tool", name)
    os.mkdir(os.path.dirname(path))
    shutil.copy(tool, path)
    return path


def _recipient(store: Store, app: str | None, game: str | None) -> tuple[int, str] | None:
    """Returns number and name of the program of ``--for``; None with ``--as``. Raises Failure and WrongUse."""
    if app is not None and game is None:
        return recipient_of(store, app, "nothing was replayed")
    if app is not None or game is None:
        raise WrongUse("nothing was replayed: give either --for or --as, which say what program the pipelines are for")
    is_name = game.isprintable() and len(game.encode()) <= states.MOST_NAME and not is_pattern(game)
    if not is_name or game != os.path.basename(game) or not game.strip("."):
        raise WrongUse(f"nothing was replayed: --as {printable(game)} is no name of a file, such as game or game.exe")
    return None


def _given(root: str, store: Store, recipient: tuple[int, str] | None, game: str | None) -> list[Import]:
    """Gives what was replayed to its program, with its recordings. Returns an import for each driver. Raises Failure if
    a program was replayed that does not have the name ``game``."""
    found, names = states.programs(root), Names(root)
    others = [names.of(number) for number in found if game is not None and not names.matches(number, game)]
    if others:
        raise Failure(
            f"nothing was stored: {REPLAYER} starts another program, {others[0]}, which does not get the name {game}; "
            "put the directory of that program first in PATH"
        )
    imports, _ = import_all(root, store, recipient)
    import_of(NO_IDENTITY, root, found, store, recipient)
    return imports


def _problem(status: int, said: str, is_something_stored: bool) -> str:
    """Returns what went wrong with all of a replay, or empty text."""
    if status:
        errors = [f" ({one_line(line)})" for line in said.splitlines() if "ERROR" in line]
        what = "the rest was not replayed" if is_something_stored else "nothing was stored"
        return f"{what}: {REPLAYER} ended with status {status}{''.join(errors[-1:])}; run it alone to see more"
    if not is_something_stored:
        return (
            "nothing was stored: the recordings hold no pipeline for this device, or nothing is kept for "
            "it (pylayer doctor)"
        )
    return ""


@click.command
@click.argument(
    "recordings",
    metavar="FILE...",
    nargs=-1,
    required=True,
    shell_complete=files,
    help="Recordings by Fossilize, such as game.foz.",
)
@click.option("--for", "app", metavar="NAME", help=f"Store them for this program, {NAMES}.")
@click.option("--as", "game", metavar="NAME", help="Store them for the program whose file has this name, known or not.")
@click.option("--warm", "warms", is_flag=True, help="Then fill the driver's own disk cache (pylayer warm).")
def prewarm(recordings: tuple[str, ...], app: str | None, game: str | None, warms: bool) -> None:
    """Compile the pipelines in Fossilize's recordings, and store them for a program.

    fossilize-replay, which has to be in PATH, creates them under the layer, with all processors. With --for, the
    program must have run under pylayer once, so that its name is known. With --as, it may be one that never has the
    layer. What is compiled is recorded, too: pylayer rebuild then needs no FILE. After Ctrl-C, what was compiled until
    then is stored.

    \b
    Example:
      pylayer prewarm game.foz --for game
      pylayer prewarm game.foz --as game --warm
    """
    for path in recordings:
        _require_recording(path)
    tool = shutil.which(REPLAYER)
    if tool is None:
        raise Failure(
            f"{REPLAYER} is in no directory of PATH; build it from https://github.com/ValveSoftware/Fossilize"
        )
    store = require_store()
    recipient = _recipient(store, app, game)
    with room(store, "nothing was stored") as scratch:
        root = os.path.join(scratch, "store")
        environment = scratch_environment(root, recipient is not None and _uses_identifiers(store, recipient[0]))
        tool = tool if game is None else _under_name(tool, scratch, game)
        command = [tool, "--progress", *(os.path.abspath(path) for path in recordings)]  # goes on after a crash
        status, said, interrupted = _replay(command, environment)
        imports = _given(root, store, recipient, game)
    programs = dict([recipient] if recipient else [one for work in imports for one in work.result.programs.items()])
    names = Names(store.root)
    for work in imports:
        known = f", {plural(work.result.known, 'record')} already in the store" if work.result.known else ""
        click.echo(f"Stored: {plural(work.result.pipelines, 'pipeline')} for {', '.join(programs.values())}{known}")
        click.echo(f"  {names.target(work.identity, work.identity.name)}")
    if interrupted:
        raise KeyboardInterrupt
    if problem := _problem(status, said, bool(imports)):
        raise Failure(problem)
    crashes = sum(int(count) for count in dict(re.findall(r"(Clean|Dirty) crashes (\d+)", said)).values())
    if crashes:
        click.echo(f"  without {plural(crashes, 'pipeline')} on which the driver crashed")
    is_cold = warms and not warm_after(store, [f"{number:016x}" for number in programs])
    end_if(crashes or is_cold)
