"""Runs that are counted in crash sentinels: those of processes in which policy has not started.

shim/layer/store/run_file.c writes them. Text behind the marks begins with ``layout`` (offset of the first group of
numbers, how many groups there are, and how far apart), ``counted`` and ``counted_kinds`` (what the numbers of a group
count). So every build reads what another one counted. Once there is a ``.run`` of the run's name, only that counts.
"""

from __future__ import annotations

import os
import struct

from ..common import flat, paths
from ..common.file_kinds import LIVE
from ..common.files import read_small
from . import format, sentinel
from .folder import identity_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Larger files are not read: no build has so many counters.
MAX_BYTES = 1 << 18


def find(root: str) -> dict[str, str]:
    """Returns the paths of all sentinels, by the names of their runs."""
    folders = [os.path.join(root, "store", identity) for identity in identity_names(root)]
    return {name_of(path): path for folder in folders for path in sentinel.files(folder)}


def name_of(path: str) -> str:
    """Returns the name of a sentinel's run, the last three parts of its own."""
    return "-".join(path.rpartition("/")[2].removesuffix(LIVE).split("-")[-3:])


def read(path: str) -> dict[str, Any]:
    """Returns the values of the run that a sentinel counts, and whether its process is ``alive``. Raises OSError, and
    ValueError if it counts none."""
    alive = sentinel.is_alive(path)
    data = read_small(path, MAX_BYTES)
    header, outcome = format.read_file_header(data)
    if header is None:
        raise ValueError(outcome)
    values = flat.loads(data[sentinel.RUN_OFFSET :].partition(b"\0")[0].decode("utf-8", "replace"))
    try:
        offset, groups, distance = (int(number) for number in values.pop("layout").split())
        names, kinds = values.pop("counted").split(), values.pop("counted_kinds").split(";")
        group = struct.Struct(f"={len(names) + len(kinds)}Q")
        if not group.size <= distance <= len(data) or not 0 < groups <= len(data) // distance:
            raise ValueError(f"{groups} groups")
        counted = [group.unpack_from(data, offset + number * distance) for number in range(groups)]
    except (AttributeError, KeyError, OverflowError, struct.error) as error:
        raise ValueError(f"no run: {error}") from error
    sums = [sum(column) for column in zip(*counted, strict=True)]
    numbers, hits = dict(zip(names, sums, strict=False)), dict(zip(kinds, sums[len(names) :], strict=True))
    fetched, fetched_ns = numbers.get("fetched", 0), numbers.get("fetched_compile_ns", 0)
    known = numbers.get("caches_known", 0)
    return {
        **values,
        "counters": {**numbers, "hits": sum(hits.values())},
        "kinds": {kind: {"hits": count, "compiled": 0, "compile_ns": 0} for kind, count in hits.items() if count},
        **({"cache_outcomes": {"attested": known}} if known else {}),
        "stored_records": 0,  # as the layer writes it: what policy stored is known only to policy's own file
        "stored_bytes": 0,
        "loaded_records": fetched,
        "loaded_bytes": numbers.get("fetched_bytes", 0),
        "mean_compile_ns": float(fetched_ns // fetched) if fetched else 0.0,
        "alive": alive,
    }


def end(path: str) -> None:
    """Takes the run out of a dead process's sentinel, which may have to stay for its marks. Raises OSError."""
    fd = paths.open_in_store(path, os.O_WRONLY)
    try:
        os.pwrite(fd, b"\0", sentinel.RUN_OFFSET)
    finally:
        os.close(fd)
