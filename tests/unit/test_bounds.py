"""Which records are evicted when there are too many."""

from __future__ import annotations

import time

import pytest
from unit.folders import data_of, loaded, packs, put, run_all
from unit.things import facts

from pylayer.common.identity import Identity
from pylayer.store import bounds, compaction, format, journal
from pylayer.store.contents import used_parts
from pylayer.store.folder import Folder

# ---- recency and limits ------------------------------------------------------------------------------


def uses(folder: Folder, program: int, fingerprints: list[int], when: int) -> None:
    writer = journal.Journal(folder, program, f"program {program}")
    writer.append(used_parts(fingerprints, when))
    writer.close()


def numbers_left(folder: Folder, program: int) -> list[int]:
    left = set(loaded(folder, program)[0])
    return [number for number in range(1000) if data_of(number) in left]


def enforce(folder: Folder, max_store: int) -> bounds.Eviction:
    trimmed = bounds.Eviction(folder.root, max_store)
    list(trimmed.steps())
    return trimmed


def test_uses_reach_packs_that_are_not_rewritten(folder: Folder) -> None:
    """A use that was recorded after its record was compacted counts, even if it was compacted into a pack of its
    own."""
    put(folder, 1, range(200), last_used=1000)
    run_all(folder)
    uses(folder, 1, [6], 9000)
    run_all(folder)
    assert len(packs(folder)) == 2
    enforce(folder, 100_000)
    assert 5 in numbers_left(folder, 1)


def test_old_drivers_leave_before_todays(folder: Folder) -> None:
    """The least recently used records of all identities are evicted first: another driver's old pipelines before the
    current driver's."""
    old = Folder(folder.root, Identity.of(facts(driver_version=1)))
    old.prepare()
    writer = journal.Journal(old, 1)
    for number in range(50):
        writer.append(format.record_parts(format.CELL, data_of(number), last_used=100))
    writer.close()
    run_all(old)
    put(folder, 1, range(50), last_used=5000)
    run_all(folder)
    enforce(folder, 200_000)
    assert len(numbers_left(folder, 1)) == 50
    assert bounds.total_bytes(folder.root) <= 200_000


def test_use_from_the_future(folder: Folder) -> None:
    """A use that is dated a year ahead, because the clock was wrong, does not keep a record before those used since."""
    ahead = int(time.time()) + 365 * 86400
    put(folder, 1, range(20), last_used=ahead)
    put(folder, 1, range(20, 100), last_used=1000)
    uses(folder, 1, [number + 1 for number in range(20, 50)], ahead)
    uses(folder, 1, [number + 1 for number in range(50, 100)], int(time.time()))
    run_all(folder)
    enforce(folder, 200_000)
    left = numbers_left(folder, 1)
    assert set(range(50, 100)) <= set(left) and len(left) < 70


def test_pack_that_is_evicted_is_not_rewritten(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack of which nothing stays is deleted without a compaction, which a full disk would not let end."""
    monkeypatch.setattr(compaction, "PACK_FACTOR", 0)
    put(folder, 1, range(60), last_used=1000)
    run_all(folder)
    (old,) = packs(folder)
    put(folder, 2, range(60, 100), last_used=2000)
    run_all(folder)
    remove, removed = bounds.remove, []
    monkeypatch.setattr(bounds, "remove", lambda path: removed.append(path) or remove(path))
    enforce(folder, 135_000)
    assert removed == [old] and 35 < len(numbers_left(folder, 2)) < 40


def test_one_new_journal_rewrites_no_large_pack(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacting everything leaves a pack alone that is much larger than what there is to add, and joins packs of
    similar sizes."""
    monkeypatch.setattr(compaction, "SMALL_PACK_BYTES", 0)
    put(folder, 1, range(100))
    run_all(folder)
    (large,) = packs(folder)
    put(folder, 1, [200])
    run_all(folder, everything=True)
    assert large in packs(folder) and len(packs(folder)) == 2
    put(folder, 1, range(300, 390))
    run_all(folder, everything=True)
    assert len(packs(folder)) == 1 and numbers_left(folder, 1) == [*range(100), 200, *range(300, 390)]


def test_packs_have_a_size_limit(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large compaction writes several packs, none beyond the size limit. Enforcing a store limit rewrites one pack
    after another."""
    monkeypatch.setattr(compaction, "MAX_PACK_RECORDS", 50)
    put(folder, 1, range(180), last_used=1000)
    put(folder, 2, range(170, 220), last_used=2000)
    results = run_all(folder)
    assert [len(result.written) for result in results] == [4, 1] and len(packs(folder)) == 5
    assert (len(loaded(folder, 1)[0]), len(loaded(folder, 2)[0])) == (180, 50)
    assert [result.damage for result in run_all(folder, everything=True)] == [[], []]
    assert (len(loaded(folder, 1)[0]), len(loaded(folder, 2)[0])) == (180, 50)
    enforce(folder, 300_000)
    assert bounds.total_bytes(folder.root) <= 300_000
    assert numbers_left(folder, 2) == list(range(170, 220))
    assert 30 <= len(numbers_left(folder, 1)) < 180


def test_only_packs_with_something_to_lose_are_rewritten(folder: Folder) -> None:
    """A pack from which nothing is evicted is not rewritten."""
    put(folder, 1, range(100), last_used=1000)
    run_all(folder)
    (old,) = packs(folder)
    put(folder, 1, range(200, 500), last_used=9000)
    for number in range(3):
        put(folder, 1, [600 + number], last_used=9000)
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(compaction, "PACK_FACTOR", 0)
    try:
        run_all(folder)
    finally:
        monkeypatch.undo()
    (new,) = set(packs(folder)) - {old}
    enforce(folder, 1_200_000)
    assert new in packs(folder) and old not in packs(folder)
    assert set(range(200, 500)) <= set(numbers_left(folder, 1))
