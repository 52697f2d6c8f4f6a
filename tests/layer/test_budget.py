"""What a warm run costs, as exact numbers: calls of the driver, and file operations below the store. That it gets no
thread is in test_start.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from disk import FailingDisk
from host_steps import END
from scripted_driver import ScriptedDriver

COUNT = 40
STEPS = ("instance", "device", "pipelines", COUNT, *END)
#: More bytes than any operation has: all of them go through, and are noted.
ALL = 1 << 30


@pytest.fixture
def warm(scripted: ScriptedDriver) -> ScriptedDriver:
    """A driver whose pipelines are stored, with the plan of a run that found them."""
    for _ in range(3):
        scripted.program("host", *STEPS)
    return scripted


def struck(warm: ScriptedDriver, rule: str) -> list[str]:
    """Returns the kinds of the files about which a rule noted an operation of a warm run. By chance, policy starts at
    the end of one run in 64 and does more, so this is the run of four that did least."""

    def once() -> list[str]:
        disk = FailingDisk(warm.world, rule)
        warm.program("host", *STEPS, **disk.environment)
        return [Path(line.rpartition(": ")[2]).suffix for line in disk.struck]

    return min((once() for _ in range(4)), key=len)


def test_calls_of_the_driver(warm: ScriptedDriver) -> None:
    """A pipeline takes a cache of its own and a merge more than without the layer. The device takes one cache more, and
    one look at what is in it."""
    layered = Counter(warm.counts)
    warm.program("host", *STEPS, layered=False)
    more = layered - Counter(warm.counts)
    del more["allocate"]  # memory of the driver's, by what it does
    caches = Counter({"create-cache": COUNT + 1, "destroy-cache": COUNT + 1, "get-data": 2, "merge": COUNT})
    assert more == caches + Counter({"hits": COUNT, "initial-data": COUNT})


#: File operations below the store. A pipeline takes one open, stat and close of its file, and two reads. Directories
#: have no suffix.
OPERATIONS = {
    "open": {".closed": COUNT + 1, "": 11, ".flat": 1, ".plan": 1, ".live": 1, ".run": 1, ".tmp": 1},
    "stat": {".closed": COUNT + 2, "": 10, ".flat": 2, ".plan": 2, ".live": 1, ".tmp": 1},
    "read": {".closed": 3 * COUNT + 3, ".flat": 1, ".plan": 1},
    "write": {".live": 1, ".tmp": 1},
    "change": {".live": 2, ".tmp": 2, ".run": 1, "": 1},
    "fsync": {},
}
#: Of these reads, with headers that are read twice: when the device looks for records, and with the data.
BYTES = 25_781


@pytest.mark.parametrize("operation", OPERATIONS)
def test_file_operations(warm: ScriptedDriver, operation: str) -> None:
    """A warm run reads each record once and keeps no file open."""
    assert Counter(struck(warm, f"{operation}:SHORT={ALL}")) == OPERATIONS[operation]


def test_bytes_read(warm: ScriptedDriver) -> None:
    """A warm run asks for so many bytes of the store, and not for one less. The disk gives no more than the rule says,
    and is struck when that is too few."""
    assert struck(warm, f"read:SHORT={ALL}:after={BYTES}") == []
    disk = FailingDisk(warm.world, f"read:SHORT={ALL}:after={BYTES - 1}")
    warm.program("host", *STEPS, **disk.environment)
    assert disk.struck
