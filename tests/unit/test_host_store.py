"""What the policy thread does for the store besides answering messages: application caches, folding, repairs."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.fake_layer import FakeBoundary, FakeMessage, Send, device, in_store, message, own
from unit.things import counters, facts, record, sketch_of

from pylayer.common.identity import Identity
from pylayer.store import fold, format, maintenance, quarantine, runs
from pylayer.store.folder import Folder
from pylayer.values import LOG_ERROR, LOG_INFO, LOG_WARN, VERDICT_PASS, VERDICT_SKETCH

GOOD = struct.pack("<IIII16s", 32, 1, 0x1002, 0x73BF, bytes(range(16))) + b"pipelines" * 10


def closed(name: str) -> str:
    return own(name).removesuffix(".journal") + ".closed"


def admit(data: bytes, slot: int = 0) -> FakeMessage:
    """Returns the message of vkCreatePipelineCache with this data."""
    cache = {
        "data_size": len(data),
        "digest": xxhash.xxh3_128_digest(data),
        "sketch": sketch_of(data),
        "slot": slot,
    }
    return message("ADMIT_CACHE", header=data[:32], cache=cache)


def read(data: bytes, **changes: Any) -> FakeMessage:
    """Returns the message of vkGetPipelineCacheData."""
    return message("CACHE_READ", data=data, read=changes)


def rounds(number: int) -> list[None]:
    return [None] * number


def suffixes(root: str) -> list[str]:
    return sorted(Path(path).suffix for path in Folder(root, Identity.of(facts())).files(None))


# ---- application caches ------------------------------------------------------------------------------


def test_what_was_read_may_come_back(send: Send, boundary: FakeBoundary) -> None:
    """Data that the program read passes later."""
    unknown, attested = admit(GOOD), admit(GOOD)
    send(*device(), unknown, read(GOOD), attested, message("FLUSH_DEVICE"))
    assert (unknown.verdict, attested.verdict) == (VERDICT_PASS, VERDICT_PASS)
    assert boundary.lines(LOG_WARN) == []


def test_a_sketch_is_asked_for_once(send: Send, boundary: FakeBoundary) -> None:
    """For data that was never read, policy asks for a sketch before it answers. For data that was read, it needs
    none."""
    without, known, sketched = admit(GOOD[:-1]), admit(GOOD), admit(GOOD[:-1])
    for one in (without, known):
        one.content["cache"]["sketch"] = b""
    send(*device(), read(GOOD), without, known, sketched)
    assert (without.verdict, known.verdict, sketched.verdict) == (VERDICT_SKETCH, VERDICT_PASS, VERDICT_PASS)


def test_messages_of_a_device_without_a_session(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """Messages about a device that policy does not know change nothing, and are no failure of policy."""
    of_nobody = [message("CELL", data=GOOD), message("BINARY_READ", data=b"one"), read(GOOD)]
    send(*of_nobody)
    assert [boundary.lines(level) for level in (LOG_ERROR, LOG_WARN)] == [[], []]
    assert [one.releases for one in of_nobody] == [1, 1, 1]
    send(message("CACHE_REFUSED"))
    assert host.sessions == {} and not list(Path(root).glob("store/*"))


def test_wait_for_a_verdict_is_recorded(send: Send, boundary: FakeBoundary, root: str) -> None:
    """The run says how long its program waited for policy to check its data."""
    asked = admit(GOOD)
    asked.sent_ns = time.monotonic_ns() - 5_000_000
    send(*device(), asked, message("FLUSH_DEVICE"))
    (run,) = runs.read_all(root)
    assert 5_000_000 <= run["cache_wait_ns"] < 60_000_000_000


# ---- folding -----------------------------------------------------------------------------------------


def test_folded_when_the_device_closes(send: Send, boundary: FakeBoundary, root: str) -> None:
    """After vkDestroyDevice is answered, journals of earlier runs are folded into a pack."""
    for number in range(fold.WORTH_JOURNALS):
        in_store(root, closed(f"{number}"), record(b"cell %d" % number))
    boundary.totals = counters(pipelines=1)
    send(*device(), message("FLUSH_DEVICE"), *rounds(300))
    assert suffixes(root) == [".pack"]
    assert any("folded 4 journals" in line for line in boundary.lines(LOG_INFO))


def test_few_journals_are_left(send: Send, boundary: FakeBoundary, root: str) -> None:
    """One or two journals are not folded."""
    in_store(root, closed("1"), record(b"cell"))
    boundary.totals = counters(pipelines=1)
    send(*device(), message("FLUSH_DEVICE"), *rounds(300))
    assert suffixes(root) == [".closed"]


def test_folded_when_the_program_is_idle(send: Send, boundary: FakeBoundary, root: str) -> None:
    """A program that keeps running folds when it is idle, and messages are answered in between."""
    for number in range(6):
        in_store(root, closed(f"{number}"), record(b"cell %d" % number))
    boundary.totals = counters(pipelines=1)
    asked = admit(b"")
    send(*device(), *rounds(3), asked, *rounds(300))
    assert asked.verdict is not None
    assert suffixes(root) == [".pack"]


def test_exit_folds_many_or_large_journals_only(send: Send, boundary: FakeBoundary, root: str) -> None:
    """A program that ends at once folds if many short runs have left their journals, or one has left a large one."""
    for number in range(maintenance.EXIT_JOURNALS - 1):
        in_store(root, closed(f"{number:02}"), record(b"cell %d" % number))
    boundary.totals = counters(pipelines=1)
    send(*device(), message("FLUSH_PROCESS"))
    assert suffixes(root) == [".closed"] * (maintenance.EXIT_JOURNALS - 1)
    in_store(root, closed("99"), record(b"one more"))
    send(message("PLAN_DEVICE"), message("FLUSH_PROCESS"))
    assert suffixes(root) == [".pack"]
    in_store(root, closed("100"), record(bytes(fold.WORTH_BYTES)))
    send(message("PLAN_DEVICE"), message("FLUSH_PROCESS"))
    assert suffixes(root) == [".pack"]


def test_exit_folds_as_much_as_it_has_time_for(send: Send, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large journals are left to a program that runs for longer, and do not prevent the fold of others."""
    monkeypatch.setattr(maintenance, "EXIT_BYTES", 10_000)
    in_store(root, closed("00"), record(bytes(20_000)))
    for number in range(1, maintenance.EXIT_JOURNALS + 1):
        in_store(root, closed(f"{number:02}"), record(b"%04d" % number * 500))
    send(*device(), message("FLUSH_PROCESS"))
    assert suffixes(root) == [".closed"] * (maintenance.EXIT_JOURNALS - 3) + [".pack"]
    sizes = [path.stat().st_size for path in Path(root).glob("store/*/*.closed")]
    assert max(sizes) > 20_000


def test_damage_is_repaired(send: Send, boundary: FakeBoundary, root: str) -> None:
    """Files that a load found damaged go to quarantine when there is time, empty ones are deleted, and the next load
    finds no damage."""
    hurt = bytearray(record(b"hurt"))
    hurt[64] ^= 1
    in_store(root, closed("1"), record(b"good"), bytes(hurt))
    Path(Folder(root, Identity.of(facts())).path, own("2").replace(".journal", ".pack")).write_bytes(b"")
    boundary.totals = counters(pipelines=1)
    send(*device(), message("FLUSH_DEVICE"), *rounds(300))
    assert suffixes(root) == [".pack"]
    reasons = " ".join(item.reason for item in quarantine.items(root))
    assert ": damaged-data at byte" in reasons and "empty" not in reasons
    boundary.logged.clear()
    boundary.loaded.clear()
    send(*device(), *rounds(3))
    assert (boundary.loaded, boundary.lines(LOG_WARN)) == ([b"good"], [])


def test_store_within_its_limit(send: Send, boundary: FakeBoundary, root: str, host: Any) -> None:
    """A store beyond max_store_mib evicts the least recently used records."""
    host.document = {"max_store_mib": 1}
    for number in range(8):
        in_store(root, closed(f"{number}"), record(bytes([number]) + xxhash.xxh3_128_digest(b"") * 16000))
    with open(Path(Folder(root, Identity.of(facts())).path, closed("9")), "wb") as file:
        file.write(format.file_header(format.JOURNAL, Identity.of(facts()), 7, salt=0))
        for number in range(300):
            data = struct.pack("<I", number) * 1250
            file.write(record(data, last_used=number))
    boundary.totals = counters(pipelines=1)
    send(*device(), message("FLUSH_DEVICE"), *rounds(400))
    assert sum(path.stat().st_size for path in Path(root, "store").rglob("*")) <= 1 << 20
    assert any("least recently used pipelines were evicted" in line for line in boundary.lines(LOG_INFO))


def test_hard_limit_at_exit(send: Send, boundary: FakeBoundary, root: str, host: Any) -> None:
    """If every run is too short to rewrite packs, whole files are evicted, oldest first, except those that a program
    still writes."""
    host.document = {"max_store_mib": 1}
    paths = [
        in_store(root, closed(f"{number}"), record(bytes([number]) + xxhash.xxh3_128_digest(b"") * 16000))
        for number in range(8)
    ]
    for number, path in enumerate(paths):
        os.utime(path, (1000 + number, 1000 + number))
    boundary.totals = counters(pipelines=1)
    send(*device(), message("CELL", data=b"new"), message("FLUSH_PROCESS"))
    left = [path for path in paths if path.exists()]
    assert left == paths[-3:]
    assert any("oldest files were deleted" in line for line in boundary.lines(LOG_INFO))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(28, "No space left on device"), "maintenance of the store failed: "),
        (ZeroDivisionError(), "policy failed and does nothing for this call: ZeroDivisionError"),
    ],
)
def test_maintenance_that_fails(
    send: Send, boundary: FakeBoundary, root: str, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    """Any failure of a fold is logged in one line, and the loop continues."""
    for number in range(6):
        in_store(root, closed(f"{number}"), record(b"cell %d" % number))

    def fail(self: fold.Fold) -> Any:
        raise error

    monkeypatch.setattr(fold.Fold, "steps", fail)
    boundary.totals = counters(pipelines=1)
    send(*device(), message("FLUSH_DEVICE"), *rounds(10))
    assert sum(line.startswith(says) for line in boundary.lines(LOG_INFO)) == 1
    assert suffixes(root) == [".closed"] * 6
