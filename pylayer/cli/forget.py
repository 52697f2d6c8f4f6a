"""``pylayer forget``: removes what was recorded about programs that ran."""

from __future__ import annotations

import os

import click

from ..common import file_kinds
from ..common.files import remove
from ..report import recorded
from ..store import state
from ..store.runs import recorded_paths
from .output import Failure, WrongUse, human_bytes, json_option, plural, print_json, say
from .selection import NAMES, Names, confirm, dry_run_option, require_one, require_store, yes_option
from .state import with_state


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # gone


def _count(runs: list[recorded.Run], size: int) -> str:
    return f"{plural(len(runs), 'run')} of {plural(len({run.title for run in runs}), 'program')}, {human_bytes(size)}"


@click.command
@click.argument("name", required=False, help=f"This program, {NAMES}.")
@click.option("--all", "everything", is_flag=True, help="All programs.")
@dry_run_option
@yes_option
@json_option
def forget(name: str | None, everything: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove what was recorded about a program, or about all: its runs, their numbers and their timelines, and what
    pylayer rebuild needs, its shaders among it.

    stats, report and metrics then no longer show it. Stored pipelines stay; pylayer clear removes those. Programs that
    are running stay in the list.

    \b
    Example:
      pylayer forget blender
      pylayer forget --all
    """
    if (name is not None) + everything != 1:
        raise WrongUse("say what to forget: a program's NAME, or --all; pylayer stats lists the programs")
    store = require_store()
    runs = [run for run in recorded.read(store.root) if name is None or run.matches(name)]
    objects = state.removable(store.root) if everything else []
    if name is not None:
        names = Names(store.root)
        named = {run.program_id: run.title for run in runs}
        named = named or {program: names.of(program) for program in with_state(store, names, name)}
        if not named:
            raise Failure(f"nothing was forgotten: no run of {name} is recorded; pylayer stats lists the programs")
        require_one(name, named, "nothing was forgotten")
        objects = [path for program in named for path in state.removable(store.root, program)]
    running = {run.name for run in runs if run.state == "running"}
    gone = [run for run in runs if run.name not in running]
    kept = {name + file_kinds.RUN for name in running}
    found = recorded_paths(store.root, None if everything else {run.name for run in gone})
    paths = [*(path for path in found if os.path.basename(path) not in kept), *objects]
    sizes = {path: _size(path) for path in paths}
    if paths and not dry_run:
        confirm(f"Forget {_count(gone, sum(sizes.values()))}?", yes)
        for path in paths:
            remove(path)
    left = [] if dry_run else [path for path in paths if os.path.lexists(path)]
    gone = [run for run in gone if run.name + file_kinds.RUN not in map(os.path.basename, left)]
    size = sum(sizes[path] for path in paths if path not in left)
    if as_json:
        shown = sorted({run.title for run in gone})
        counts = {"runs": len(gone), "running": len(running), "files": len(paths) - len(left), "bytes": size}
        print_json({"store": store.root, "dry_run": dry_run, "programs": shown, **counts})
    elif not paths:
        say(f"Nothing to forget in {store.root}.")
    elif len(left) < len(paths):
        count = _count(gone, size)
        say(f"{'Would forget' if dry_run else 'Forgotten'}: {count}. Stored pipelines stay (pylayer ls).")
    if running and not as_json:
        click.echo(f"Kept: {plural(len(running), 'run')} of programs that are running.")
    if left:
        raise Failure(f"{plural(len(left), 'file')} could not be removed, such as {left[0]}; check who owns it")
