"""Damage to files of a store, and to what a program keeps itself: kinds of it, and the bytes that a driver is given."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from disk import compact_everything
from pipeline_binaries import Archive

from pylayer.store.format import RECORD_HEADER
from pylayer.store.reader import Reader

Change = Callable[[random.Random, bytes], bytes]


def stretch(chance: random.Random, data: bytes) -> tuple[int, int]:
    """Returns the ends of a part of the data, which is not empty."""
    start, end = sorted(chance.sample(range(len(data) + 1), 2))
    return start, end


def _byte(chance: random.Random, data: bytes, change: Callable[[], int]) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ change()]) + data[at + 1 :]


def _stretch(chance: random.Random, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    start, end = stretch(chance, data)
    return data[:start] + change(data[start:end]) + data[end:]


def _exchanged(chance: random.Random, data: bytes) -> bytes:
    half = len(data) // 2
    size = chance.randint(1, half)
    one, other = chance.randint(0, half - size), chance.randint(half, len(data) - size)
    pieces = data[:one], data[other : other + size], data[one + size : other], data[one : one + size]
    return b"".join(pieces) + data[other + size :]


#: These keep the length, so that a file stays whole around a record that is damaged.
IN_PLACE: dict[str, Change] = {
    "one bit": lambda chance, data: _byte(chance, data, lambda: 1 << chance.randrange(8)),
    "one byte": lambda chance, data: _byte(chance, data, lambda: chance.randint(1, 255)),
    "random stretch": lambda chance, data: _stretch(chance, data, lambda part: chance.randbytes(len(part))),
    "zeroed stretch": lambda chance, data: _stretch(chance, data, lambda part: bytes(len(part))),
    "random tail": lambda chance, data: data[:32] + chance.randbytes(len(data[32:])),
    "0xff tail": lambda chance, data: data[:32] + b"\xff" * len(data[32:]),
    "stretches exchanged": _exchanged,
}
KINDS: dict[str, Change] = {
    **IN_PLACE,
    "truncated": lambda chance, data: data[: chance.randrange(1, len(data))],
    "stretch doubled": lambda chance, data: _stretch(chance, data, lambda part: part * 2),
    "stretch removed": lambda chance, data: _stretch(chance, data, lambda part: b""),
    "bytes more": lambda chance, data: data + chance.randbytes(chance.randint(1, 100)),
}
#: What is damaged, by scenario: whole files of the store, named by their suffix, the data of their records, and the
#: program's own files.
STORED = ("closed", "pack", "closed record", "pack record")
TARGETS = {
    "more": STORED,
    "binaries": STORED,
    "RADV more": STORED,
    "strict own cache": ("attest", "attest record", "cache"),
    "strict own binaries": ("attest", "attest record", "archive"),
}


def names(scenario: str) -> Iterator[tuple[str, str]]:
    """Returns what can be damaged in a scenario, and how."""
    for target in TARGETS.get(scenario, ()):
        for kind in IN_PLACE if target.endswith("record") else KINDS:
            yield target, kind


def changed(chance: random.Random, kind: str, data: bytes) -> bytes:
    """Returns other data than this."""
    while (new := KINDS[kind](chance, data)) == data:
        pass
    return new


def _file(chance: random.Random, kind: str, path: Path) -> int:
    path.write_bytes(changed(chance, kind, path.read_bytes()))
    return 1


def _records(chance: random.Random, kind: str, path: Path) -> int:
    """Damages most of a file's records. Intact ones stand between them."""
    data, count = bytearray(path.read_bytes()), 0
    for part in Reader(str(path)).parts([]):
        for record in part.records:
            if record.size > 32 and chance.random() < 0.75:
                start = part.place(record) + RECORD_HEADER.size
                data[start : start + record.size] = changed(chance, kind, bytes(data[start : start + record.size]))
                count += 1
    path.write_bytes(data)
    return count


def _archive(chance: random.Random, kind: str, path: Path) -> int:
    """Damages the data of a program's binaries. Under another key the layer would not know what they were."""
    archive = Archive.read(path)
    for binary in archive.binaries:
        binary.data = changed(chance, kind, binary.data)
    archive.write(path)
    return len(archive.binaries)


def damage(place: Path, target: str, kind: str, seed: int) -> int:
    """Damages each file or record of this sort. Returns how many those were."""
    chance = random.Random(f"{target} {kind} {seed}")
    suffix, _, record = target.partition(" ")
    if suffix == "pack":
        assert compact_everything(place / "store").wait(60) == 0
    if target in ("cache", "archive"):
        return (_file if target == "cache" else _archive)(chance, kind, place / target)
    change = _records if record else _file
    return sum(change(chance, kind, path) for path in sorted(place.glob(f"store/store/*/*.{suffix}")))
