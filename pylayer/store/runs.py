"""One small file for each run of a program on a device. `pylayer stats` adds them up.

``<root>/runs/<program>-<unique>.run`` is settings text, replaced as a whole while the program runs. The run's timeline
is beside it, under the same name (``timeline``), and the sentinel of its process has that name, too. As long as policy
has not started, there is only the sentinel (``live_runs``).
"""

from __future__ import annotations

import os

from ..common import file_kinds, flat
from ..common.files import date_of_name, entries_in, names_in, read_small, remove, replace_file, unique_name
from ..common.paths import make_private_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from typing import Any

#: Beyond this many runs the oldest of the programs with the most are deleted, a quarter of all at a time.
MAX_RUNS = 2000


class RunFile:
    """The file of one run on one device."""

    def __init__(self, root: str, name: str) -> None:
        self.root = root
        #: Name of the run's files without their suffixes.
        self.name = name
        self.path = os.path.join(root, "runs", name + file_kinds.RUN)
        self._written = ""

    def write(self, values: dict[str, Any]) -> bool:
        """Replaces the file's content. Returns False if the content is unchanged. Raises OSError."""
        text = flat.dumps(values)
        if text == self._written:
            return False
        make_private_below(self.root, "runs")
        replace_file(self.path, text.encode())
        self._written = text
        return True


def new_name(program: int) -> str:
    """Returns the name of a run that begins."""
    return f"{program:016x}-{unique_name()}"


def _names(root: str, kind: str = file_kinds.RUN) -> list[str]:
    found = names_in(os.path.join(root, "runs"))
    return [name.removesuffix(kind) for name in found if name.endswith(kind)]


def _unique(name: str) -> str:
    """Returns the part of a run's name that sorts by age. An earlier pylayer's names have no other."""
    return name.rpartition("/")[2][-33:]


def newest_of_each(names: Iterable[str]) -> list[str]:
    """Returns the names of runs: the newest one of each program, then their second ones, and so on. So the runs of a
    program, however many, take no room from those of others."""
    ranks: dict[str, int] = {}
    ranked = []
    for name in sorted(names, key=lambda name: (date_of_name(_unique(name)), _unique(name)), reverse=True):
        program = name[:-33]
        rank = ranks[program] = ranks.get(program, 0) + 1
        ranked.append((rank, name))
    return [name for _, name in sorted(ranked, key=lambda ranked: ranked[0])]


def prune(root: str) -> int:
    """Deletes runs beyond ``MAX_RUNS``; returns how many."""
    names = _names(root)
    if len(names) <= MAX_RUNS:
        return 0
    left = newest_of_each(names)[MAX_RUNS * 3 // 4 :]
    return sum(remove(os.path.join(root, "runs", name + file_kinds.RUN)) for name in left)


def _load(root: str, name: str) -> dict[str, Any]:
    data = read_small(os.path.join(root, "runs", name + file_kinds.RUN), 1 << 20)
    if not data.strip():
        raise ValueError("the file is empty, as after a power cut")
    return flat.loads(data.decode("utf-8", "replace"))


def _is_alive(root: str, values: dict[str, Any]) -> bool | None:
    """Returns what the sentinel says about a run that has not ended. None if it does not say: it lies where another
    container does not find it."""
    from . import sentinel

    identity, name = (os.path.basename(str(values.get(key, ""))) for key in ("identity", "sentinel"))
    if not name or values.get("ended"):
        return None
    try:
        return sentinel.is_alive(os.path.join(root, "store", identity, name))
    except FileNotFoundError:
        return False
    except OSError:
        return None


def read(root: str, name: str, live: dict[str, str] | None = None) -> dict[str, Any]:
    """Returns the values of a run, with ``alive`` if that is known of its process. ``live``: what ``live_runs.find``
    returned just now. Raises OSError, and ValueError if the file is damaged."""
    try:
        values = _load(root, name)
    except FileNotFoundError:
        from . import live_runs

        path = (live_runs.find(root) if live is None else live).get(name)
        if path is None:
            raise
        return live_runs.read(path)
    alive = _is_alive(root, values)
    if alive is False:
        values = _load(root, name)  # it may have ended since
    return values if alive is None else {**values, "alive": alive}


def keep_dead(root: str, path: str) -> None:
    """Writes the file of a run that only the sentinel at ``path`` counts, because its process died. A run that cannot
    be read or written is lost."""
    from . import live_runs

    run = RunFile(root, live_runs.name_of(path))
    try:
        values = live_runs.read(path)
        if values.pop("alive"):
            return
        if not os.path.lexists(run.path):
            run.write({**values, "died": True})
        live_runs.end(path)
    except (OSError, ValueError):
        pass


def files(root: str) -> dict[str, os.stat_result]:
    """Returns the state of each run's file, by the run's name. A run that only a sentinel counts has that file's."""
    from . import live_runs

    found = {}
    for name, path in live_runs.find(root).items():
        try:
            found[name] = os.stat(path, follow_symlinks=False)
        except OSError:
            continue  # it has ended
    for entry, status in entries_in(os.path.join(root, "runs"), file_kinds.RUN):
        found[entry.name.removesuffix(file_kinds.RUN)] = status
    return found


def recorded_paths(root: str, names: Container[str] | None) -> list[str]:
    """Returns the files of these runs and their timelines; None for all. Leaves out timelines whose writer is alive.
    Makes the files of dead processes' runs that only sentinels count."""
    from . import live_runs
    from .ended import has_writer

    for path in live_runs.find(root).values():
        keep_dead(root, path)
    found = []
    for file in names_in(os.path.join(root, "runs")):
        name, suffix = os.path.splitext(file)
        path = os.path.join(root, "runs", file)
        try:
            written = suffix == file_kinds.EVENTS and has_writer(path)
        except OSError:
            written = False
        if suffix in (file_kinds.RUN, file_kinds.EVENTS) and not written and (names is None or name in names):
            found.append(path)
    return found


def read_all(root: str) -> Iterator[dict[str, Any]]:
    """Yields the values of every run that can be read, oldest first."""
    return (values for _, values in read_named(root))


def read_named(root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name and values of every run that can be read, oldest first."""
    from . import live_runs

    live = live_runs.find(root)  # first: a process that ends meanwhile writes its file before the sentinel goes
    for name in sorted({*_names(root), *live}, key=_unique):
        try:
            yield name, read(root, name, live)
        except (OSError, ValueError):
            continue
