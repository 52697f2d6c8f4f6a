"""Arrays that cross the boundary, with cffi's own objects and without the layer."""

from __future__ import annotations

from typing import Any

import pytest
from pylayer._policy import ffi

from pylayer.inhost import boundary
from pylayer.report.counters import COUNTERS
from pylayer.store.folder import Batch
from pylayer.values import Attested, Plan


class Layer:
    """Fake commands that take arrays. Each reads its arguments before it returns."""

    def __init__(self) -> None:
        self.attested: list[tuple[bytes, bytes, int, int, bytes | None]] = []
        self.binaries: list[bytes] = []

    def load_attested(self, device: int, array: Any, count: int) -> int:
        for one in (array[number] for number in range(count)):
            data = bytes(ffi.buffer(one.data, one.size)) if one.data else None
            key = bytes(ffi.buffer(one.key, one.key_size))
            self.attested.append((key, bytes(ffi.buffer(one.digest)), one.stale, one.size, data))
        return count

    def load_binaries(self, device: int, base: Any, offsets: Any, sizes: Any, count: int) -> int:
        self.binaries += [bytes(ffi.buffer(base + offsets[number], sizes[number])) for number in range(count)]
        return count


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Layer:
    result = Layer()
    monkeypatch.setattr(boundary, "_shim", result)
    return result


def test_attested(layer: Layer) -> None:
    """Keys of any length, data in the middle of a buffer, and missing data arrive unchanged."""
    buffer = bytearray(b"before data behind")
    known = [
        Attested(data=memoryview(buffer)[7:11], digest=bytes(range(16)), key=b"k", size=4, stale=False),
        Attested(data=None, digest=bytes(16), key=bytes(range(32)), size=1 << 40, stale=True),
    ]
    assert boundary.load_attested(5, known) == 2
    assert layer.attested == [
        (b"k", bytes(range(16)), 0, 4, b"data"),
        (bytes(range(32)), bytes(16), 1, 1 << 40, None),
    ]


def test_binaries(layer: Layer) -> None:
    """Offsets into a part of a file arrive unchanged."""
    batch = Batch(bytearray(b"one two three"))
    batch.binary_offsets, batch.binary_sizes = [0, 8], [3, 5]
    assert boundary.load_binaries(5, batch) == 2
    assert layer.binaries == [b"one", b"three"]


@pytest.mark.parametrize(
    ("structure", "names"),
    [
        ("PylayerPlan", Plan.__slots__),
    ],
)
def test_names(structure: str, names: tuple[str, ...]) -> None:
    """Every field of these structures has its name in Python, and every name has a field."""
    assert sorted(name for name, _ in ffi.typeof(structure).fields) == sorted(names)


def test_counters_are_shown() -> None:
    """Every counter of PylayerCounters has a row in the table of what is shown, but three that only policy uses."""
    hidden = ("caches_emptied", "absorbed", "caches_attested")
    assert [name for name in boundary.COUNTER_NAMES if name not in hidden] == list(COUNTERS)
