"""``pylayer prewarm``: fills a program's part of the store from recordings of its pipelines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..report import recorded
from ..store.store import Store
from .output import EXIT_PROBLEM, Failure, files, json_option, one_line, plural, print_json, progress, say
from .replaying import give, room, scratch_environment
from .selection import NAMES, Names, require_store
from .transfer import recipient_of

if TYPE_CHECKING:
    from ..store.store import Import

REPLAYER = "fossilize-replay"
WHERE = "build it from https://github.com/ValveSoftware/Fossilize, or name it with --replayer"

#: The beginning of every recording.
MAGIC = b"\x81FOSSILIZEDB"

#: Lines of ``fossilize-replay --progress``.
_OVERALL = re.compile(r"Overall (\d+) / (\d+)")
_CRASHES = re.compile(r"(Clean|Dirty) crashes (\d+)")


@dataclass
class Replay:
    """What fossilize-replay said: how much it did, how often the driver crashed on something, how it ended, its last
    error."""

    done: int = 0
    total: int = 0
    clean: int = 0
    dirty: int = 0
    status: int = 0
    error: str = ""
    interrupted: bool = False

    def read(self, line: str, advance: Callable[..., None]) -> None:
        """Reads one line."""
        overall, crashes = _OVERALL.search(line), _CRASHES.search(line)
        if overall:
            before, self.done, self.total = self.done, int(overall[1]), int(overall[2])
            advance(self.done - before, self.total)
        elif crashes:
            setattr(self, crashes[1].lower(), int(crashes[2]))
        elif "ERROR" in line:
            self.error = one_line(line)


def _require_recording(path: str) -> None:
    """Raises Failure if a file is no recording."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Failure(f"nothing was replayed: {path} is no recording by Fossilize")
    except OSError as error:
        raise Failure(f"nothing was replayed: {path} cannot be read: {error.strerror or error}") from error


def _replay(command: list[str], environment: dict[str, str], quiet: bool) -> Replay:
    """Runs fossilize-replay and shows its progress. Ctrl-C ends it."""
    found = Replay()
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Failure(f"{command[0]} was not started: {error.strerror or error}") from error
    with process, progress("replaying", None, quiet) as advance:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                found.read(line, advance)
        except KeyboardInterrupt:  # the terminal interrupts fossilize-replay too
            found.interrupted = True
            process.terminate()
    found.status = process.returncode
    return found


def _uses_identifiers(store: Store, program_id: int) -> bool:
    """Returns whether the layer knew shaders of the program by their identifiers in any recorded run. fossilize-replay
    enables VK_EXT_shader_module_identifier. A program that does not enable it finds only pipelines whose shaders are
    known by their code."""
    runs = recorded.read(store.root)
    return any(run.program_id == program_id and run.numbers["identified_shaders"] for run in runs)


def _print(imports: list[Import], recipient: str, replay: Replay, names: Names) -> None:
    for work in imports:
        result = work.result
        known = f", {plural(result.known, 'record')} already in the store" if result.known else ""
        say(f"Stored: {plural(result.pipelines, 'pipeline')} for {recipient}{known}")
        say(f"  {names.target(work.identity, work.identity.name)}")
    if replay.clean + replay.dirty:
        click.echo(f"  without {plural(replay.clean + replay.dirty, 'pipeline')} on which the driver crashed")


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
@click.option("--replayer", metavar="FILE", shell_complete=files, help=f"The {REPLAYER} to use. Default: from PATH.")
@json_option
def prewarm(recordings: tuple[str, ...], app: str, replayer: str | None, as_json: bool) -> None:
    """Compile the pipelines in Fossilize's recordings, and store them for a program.

    fossilize-replay creates them under the layer, with all processors. The program must have run under pylayer once, so
    that its name is known. After Ctrl-C, what was compiled until then is stored.

    \b
    Example:
      pylayer prewarm game.foz --for game
    """

    for path in recordings:
        _require_recording(path)
    tool = shutil.which(replayer or REPLAYER)
    if tool is None:
        raise Failure(f"{replayer or REPLAYER} is not there or not executable; {WHERE}")
    store = require_store()
    recipient = recipient_of(store, app, "nothing was replayed")
    names = Names(store.root)
    with room(store, "nothing was stored") as (scratch, manifests):
        root = os.path.join(scratch, "store")
        environment = scratch_environment(root, manifests)
        if not _uses_identifiers(store, recipient[0]):
            environment["PYLAYER_SHADER_IDENTIFIERS"] = "ignore"
        command = [tool, "--progress", *(os.path.abspath(path) for path in recordings)]
        replay = _replay(command, environment, as_json)
        imports, _ = give(root, store, recipient, REPLAYER)
    if as_json:
        print_json(_as_json(store.root, imports, recipient, replay, names))
    else:
        _print(imports, recipient[1], replay, names)
    if replay.interrupted:
        raise KeyboardInterrupt
    if not replay.status and not imports:
        raise Failure(
            "nothing was stored: the recordings hold no pipeline for this device, or nothing is kept for "
            "it (pylayer doctor)"
        )
    if replay.status:
        said = f" ({replay.error})" if replay.error else ""
        what = "the rest was not replayed" if imports else "nothing was stored"
        raise Failure(f"{what}: {REPLAYER} ended with status {replay.status}{said}; run it alone to see more")
    if replay.clean + replay.dirty:
        raise click.exceptions.Exit(EXIT_PROBLEM)


def _as_json(
    root: str, imports: list[Import], recipient: tuple[int, str], replay: Replay, names: Names
) -> dict[str, Any]:
    identities = [
        {
            **names.as_json(work.identity, work.identity.name),
            "pipelines": work.result.pipelines,
            "known_records": work.result.known,
        }
        for work in imports
    ]
    return {
        "store": root,
        "program": recipient[1],
        "program_id": f"{recipient[0]:016x}",
        "replayed": replay.done,
        "total": replay.total,
        "crashes": replay.clean + replay.dirty,
        "status": replay.status,
        "identities": identities,
    }
