"""Completes values for the shell: programs, identities, runs, files. Nothing here fails or prints messages.

The shell executes what it puts on the command line, and anybody can choose a program's name. A program whose name has a
character that may be special to a shell is therefore offered by its number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_PLAIN = re.compile(r"[A-Za-z0-9_./+@%-]+", re.ASCII)


def _completer(
    found: Callable[[str], Iterable[tuple[str, str]]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]:
    """Returns a function for click's ``shell_complete``. ``found`` takes the store's root and yields each value with
    its description."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        from ..common.paths import store_root

        try:
            root = store_root()
            pairs = dict(found(root)) if root else {}
        except Exception:  # an error message in the middle of what somebody types helps nobody
            return []
        return [
            CompletionItem(value, help=text or None)
            for value, text in sorted(pairs.items())
            if value.startswith(incomplete) and _PLAIN.fullmatch(value)
        ]

    return complete


def _programs(root: str) -> Iterator[tuple[str, str]]:
    from ..report import recorded

    for run in recorded.read(root):
        name = run.title
        if _PLAIN.fullmatch(run.executable):
            yield run.executable, name if name != run.executable else ""
        else:
            yield f"{run.program_id:016x}", name


def _identities(root: str) -> Iterator[tuple[str, str]]:
    from ..store.store import Store
    from .names import Names

    names = Names(root)
    for name in Store(root).identities():
        yield name, ", ".join(filter(None, names.recorded(name)))


def _runs(root: str) -> Iterator[tuple[str, str]]:
    yield "last", "the newest run"
    yield from _programs(root)


def _presets(root: str) -> Iterator[tuple[str, str]]:
    from ..common.config import preset_names

    return ((name, "") for name in preset_names())


programs = _completer(_programs)
identities = _completer(_identities)
programs_and_identities = _completer(lambda root: [*_programs(root), *_identities(root)])
recorded_runs = _completer(_runs)
presets_there = _completer(_presets)


#: The shell itself completes names of files, or of directories.
files = click.Path().shell_complete
directories = click.Path(file_okay=False).shell_complete


def commands(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Completes programs in PATH, then lets the shell complete names of files."""
    from click.shell_completion import CompletionItem

    begun = bool(context.params.get(parameter.name or ""))
    if begun or not incomplete or "/" in incomplete:
        return files(context, parameter, incomplete)
    found = set()
    for directory in os.get_exec_path():
        try:
            with os.scandir(directory) as entries:
                found |= {entry.name for entry in entries if entry.name.startswith(incomplete)}
        except OSError:
            continue
    return [CompletionItem(name) for name in sorted(found) if _PLAIN.fullmatch(name)]
