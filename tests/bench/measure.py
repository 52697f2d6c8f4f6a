"""One measurement in a fresh process: prints it as one JSON object. `scale.py` runs this again and again.

measure.py load ROOT [PROGRAM]   what a device loads, all programs or one, handed over as boundary.load_records does
measure.py read ROOT             the same files, by read() into one buffer of 128 KiB
measure.py hash ROOT             the same, and XXH3-128 over each buffer
measure.py fold ROOT             folds as a program's process does, until nothing is left to fold
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cffi
import xxhash
from stores import folder_of

from pylayer.store.folder import Loaded
from pylayer.store.reader import PART_BYTES

ffi = cffi.FFI()
# The compiled boundary has its types ready; here the first use of one would parse it, for a millisecond.
BYTES, NUMBERS = ffi.typeof("uint8_t[]"), ffi.typeof("uint64_t[]")


def status(key: str) -> int:
    """Bytes that /proc/self/status gives for a key."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


class Memory:
    """Resident memory since this was made: what stays, and the most there was."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._before = status("VmRSS:")

    def result(self) -> dict[str, int]:
        return {
            "rss_delta": status("VmRSS:") - self._before,
            "rss_peak_delta": status("VmHWM:") - self._before,
        }


def load(root: Path, program: int | None) -> dict[str, float]:
    folder, loaded = folder_of(root), Loaded()
    ffi.from_buffer(BYTES, b""), ffi.new(NUMBERS, [0])
    # What boundary.load_records keeps: the records published before stay until the next are.
    published: tuple[object, ...] = ()
    memory = Memory()
    first = 0
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    for batch in folder.load(program, loaded):
        published = (
            ffi.from_buffer(BYTES, batch.data),
            ffi.new(NUMBERS, batch.offsets),
            ffi.new(NUMBERS, batch.sizes),
            ffi.from_buffer(BYTES, b"".join(batch.digests)),
        )
        first = first or time.perf_counter_ns() - start
    wall, cpu = time.perf_counter_ns() - start, time.process_time_ns() - cpu
    assert published and not loaded.damage and not loaded.torn
    records = len(loaded.records)
    return {
        "first_ns": first,
        "all_ns": wall,
        "cpu_ns": cpu,
        "records": records,
        "bytes": loaded.bytes,
        **memory.result(),
    }


def read(root: Path, take: Callable[[memoryview], object] | None) -> dict[str, float]:
    paths = folder_of(root).files(None)
    buffer = bytearray(PART_BYTES)
    view = memoryview(buffer)
    total = 0
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
                if take is not None:
                    take(view[:count])
    wall, cpu = time.perf_counter_ns() - start, time.process_time_ns() - cpu
    return {"all_ns": wall, "cpu_ns": cpu, "bytes": total}


def fold(root: Path) -> dict[str, float]:
    from pylayer.store.fold import Fold
    from pylayer.store.journal import CLOSED

    folder = folder_of(root)
    memory = Memory()
    folds = steps = 0
    longest = longest_cpu = total = total_cpu = 0
    while programs := [program for program in folder.programs() if folder.files(program, (CLOSED,))]:
        work = Fold(folder, programs[0])
        iterator = work.steps()
        ended = False
        while not ended:
            cpu, start = time.thread_time_ns(), time.perf_counter_ns()
            ended = next(iterator, iterator) is iterator
            wall, cpu = time.perf_counter_ns() - start, time.thread_time_ns() - cpu
            steps += 1
            longest, longest_cpu = max(longest, wall), max(longest_cpu, cpu)
            total, total_cpu = total + wall, total_cpu + cpu
        assert work.result.claimed and not work.result.damage
        folds += 1
    return {
        "all_ns": total, "cpu_ns": total_cpu, "longest_step_ns": longest, "longest_step_cpu_ns": longest_cpu,
        "steps": steps, "folds": folds, **memory.result(),
    }  # fmt: skip


def main() -> None:
    what, root = sys.argv[1], Path(sys.argv[2])
    if what == "load":
        result = load(root, int(sys.argv[3]) if len(sys.argv) > 3 else None)
    elif what == "fold":
        result = fold(root)
    else:
        result = read(root, xxhash.xxh3_128_digest if what == "hash" else None)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
