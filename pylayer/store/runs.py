"""The files of runs, one for each run of a program on a device. `pylayer stats` adds them up.

``<root>/runs/<program>-<unique>.run`` has what is known of the run, and its timeline (``timeline``). While the device
exists, the layer counts in the crash marker of the same name. Until policy starts, there is only that. What was
counted goes into the run's file at the end, or at the next start after a kill.

shim/layer/store/run_file.c writes the part of the crash marker after the marks (``timeline.counted``).
"""

from __future__ import annotations

import os

from ..common import file_kinds, flat, paths
from ..common.file_kinds import FileName
from ..common.files import append, date_of_name, entries_in, names_in, read_small, remove, replace_file, unique_name
from ..common.paths import make_private_below
from . import crash_marker, format, timeline
from .folder import identity_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from typing import Any

#: Beyond this many runs the oldest of the programs with the most are deleted, a quarter of all at a time.
MAX_RUNS = 2000
#: The same beyond so many bytes in all.
MAX_TOTAL_BYTES = 128 << 20
#: What an earlier pylayer wrote is not read: files whose names have no program, and timelines of their own.
EARLIER = ".events"
#: Larger files are not read: no build has so many counters.
MAX_BYTES = 1 << 18
#: The keys of a run's values that are not in its text.
DERIVED = ("alive", "identity", "pid", "process", "program_id")


def crash_markers(root: str) -> dict[str, str]:
    """Returns the paths of all crash markers, by the names of their runs."""
    folders = [os.path.join(root, "store", identity) for identity in identity_names(root)]
    return {name_of(path): path for folder in folders for path in crash_marker.files(folder)}


def name_of(path: str) -> str:
    """Returns the name of a crash marker's run, the last three parts of its own."""
    return "-".join(path.rpartition("/")[2].removesuffix(file_kinds.LIVE).split("-")[-3:])


def of_header(header: format.FileHeader) -> dict[str, Any]:
    """Returns what the header of a run's file, or of its crash marker, says of the run."""
    known = header.process if header.process[3] else None
    identity = header.identity_digest.hex()
    return {"identity": identity, "program_id": header.program, "pid": header.process[1], "process": known}


def read_marker(path: str) -> dict[str, Any]:
    """Returns the values of the run that a crash marker counts, and whether its process is ``alive``. Raises OSError,
    and ValueError if it counts none."""
    alive = crash_marker.is_alive(path)
    data = read_small(path, MAX_BYTES)
    header, outcome = format.read_file_header(data)
    if header is None:
        raise ValueError(outcome)
    values = timeline.counted(data, data[crash_marker.RUN_OFFSET :].partition(b"\0")[0])
    return {**values, **of_header(header), "alive": alive}


def _take_out(path: str) -> None:
    """Takes the run out of a dead process's crash marker, which may have to stay for its marks. Raises OSError."""
    fd = paths.open_in_store(path, os.O_WRONLY)
    try:
        os.pwrite(fd, b"\0", crash_marker.RUN_OFFSET)
    finally:
        os.close(fd)


def new_name(program: int) -> str:
    """Returns the name of a run that begins."""
    return f"{program:016x}-{unique_name()}"


def _names(root: str) -> list[str]:
    found = names_in(os.path.join(root, "runs"))
    return [name.removesuffix(file_kinds.RUN) for name in found if name.endswith(file_kinds.RUN)]


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
    """Deletes runs beyond ``MAX_RUNS`` or ``MAX_TOTAL_BYTES``; returns how many files it deleted."""
    sizes, deleted = {}, 0
    for entry, status in entries_in(os.path.join(root, "runs")):
        if FileName.parse(entry.name) is not None:
            sizes[entry.name.removesuffix(file_kinds.RUN)] = status.st_size
        elif entry.name.endswith((file_kinds.RUN, EARLIER)):
            deleted += remove(entry.path)
    total = 0
    for number, name in enumerate(newest_of_each(sizes)):
        total += sizes[name]
        if total > MAX_TOTAL_BYTES or (number >= MAX_RUNS * 3 // 4 and len(sizes) > MAX_RUNS):
            deleted += remove(timeline.path_of(root, name))
    return deleted


def _note(values: dict[str, Any], salt: int) -> list[bytes | memoryview]:
    return format.seal(format.record_parts(format.NOTE, flat.dumps(values).encode("utf-8", "replace")), salt)


def _load(root: str, name: str) -> dict[str, Any]:
    """Raises OSError, and ValueError if the file has no values."""
    line = timeline.Timeline()
    line.read(timeline.path_of(root, name), only_values=True)
    if line.header is None or not line.values:
        raise ValueError(line.outcome)
    return line.values | of_header(line.header)


def read(root: str, name: str, path: str | None = None) -> dict[str, Any]:
    """Returns the values of a run, with ``alive`` if that is known of its process. ``path``: that of its crash marker,
    if ``crash_markers`` found one just now. Raises OSError, and ValueError if no values can be read."""
    try:
        values = _load(root, name)
    except FileNotFoundError:
        if path is None:
            raise
        return read_marker(path)
    if values.get("ended") or values.get("died"):
        return values
    if path is None:
        return {"alive": False, **values} if values.get("crash_marker") else values
    try:
        counted = read_marker(path)
    except FileNotFoundError:
        return {"alive": False, **_load(root, name)}  # it may have ended since
    except ValueError:
        return {"alive": crash_marker.is_alive(path), **values}
    except OSError:
        return values
    timeline.merge(counted, values)
    return counted


def keep_dead(root: str, path: str) -> None:
    """Adds what the crash marker at ``path`` counted to the file of its run, because the process died. A run that
    cannot be read or written is lost."""
    file = timeline.path_of(root, name_of(path))
    try:
        values = read_marker(path)
        if values["alive"]:
            return
        told = {key: value for key, value in values.items() if key not in DERIVED} | {"died": True}
        counted = {key: told[key] for key in ("counters", "kinds", "died")}
        head = format.with_kind(read_small(path, format.FILE_HEADER.size), format.RUN_FILE)
        try:
            there = format.read_file_header(read_small(file, format.FILE_HEADER.size))[0]
            if there is not None:
                append(file, _note(counted, there.salt))
        except FileNotFoundError:
            make_private_below(root, "runs")
            replace_file(file, b"".join([head, *_note(told, int.from_bytes(head[240:248], "little"))]))
        _take_out(path)
    except (OSError, ValueError):
        pass


def recorded_paths(root: str, names: Container[str] | None) -> list[str]:
    """Returns the files of these runs; None for all. Makes the files of dead processes' runs that only crash markers
    count."""
    for path in crash_markers(root).values():
        keep_dead(root, path)
    return [timeline.path_of(root, name) for name in _names(root) if names is None or name in names]


def read_all(root: str) -> Iterator[dict[str, Any]]:
    """Yields the values of every run that can be read, oldest first."""
    return (values for _, values in read_named(root))


def read_named(root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name and values of every run that can be read, oldest first."""
    live = crash_markers(root)  # first: a process that ends meanwhile writes its file before the crash marker goes
    for name in sorted({*_names(root), *live}, key=_unique):
        try:
            yield name, read(root, name, live.get(name))
        except (OSError, ValueError):
            continue
