"""Which packs a machine takes, and which a publisher folds and keeps (``pylayer.fleet.choice``)."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from pylayer.fleet.choice import KEPT_SINGLES, MAX_FOLDED_BYTES, Ranges, add_range, largest, missing, to_fold, to_keep
from pylayer.fleet.index import Pack


def pack(first: int, last: int, size: int, published: int = 0) -> Pack:
    return Pack(f"{first:032x}{last:032x}", size, 1, "00000000000000aa", first, last, 0, 0, published)


def generations(packs: list[Pack]) -> set[int]:
    return {number for one in packs for number in range(one.first, one.last + 1)}


def in_ranges(ranges: Ranges) -> set[int]:
    return {number for low, high in ranges for number in range(low, high + 1)}


SPANS = st.tuples(st.integers(1, 9), st.integers(0, 4)).map(lambda span: (span[0], span[0] + span[1]))
PACKS = st.lists(st.tuples(SPANS, st.integers(1, 50)), max_size=6, unique_by=lambda item: item[0]).map(
    lambda items: [pack(*span, size) for span, size in items]
)


@given(st.lists(SPANS, max_size=6))
def test_ranges(spans: list[tuple[int, int]]) -> None:
    """Added ranges hold just what was added, and neither overlap nor touch."""
    ranges: Ranges = ()
    for first, last in spans:
        ranges = add_range(ranges, first, last)
    assert in_ranges(ranges) == {number for first, last in spans for number in range(first, last + 1)}
    assert all(before[1] + 1 < after[0] for before, after in pairwise(ranges))


@given(PACKS, st.lists(SPANS, max_size=3))
def test_missing_is_the_cheapest(packs: list[Pack], spans: list[tuple[int, int]]) -> None:
    """The packs to download hold everything that a machine lacks, and no other choice has fewer bytes."""
    have: Ranges = ()
    for first, last in spans:
        have = add_range(have, first, last)
    wanted = generations(packs) - in_ranges(have)
    chosen = missing(packs, have)
    assert wanted <= generations(chosen)
    choices = (list(some) for count in range(len(packs) + 1) for some in combinations(packs, count))
    least = min(sum(one.bytes for one in some) for some in choices if wanted <= generations(some))
    assert sum(one.bytes for one in chosen) == least


@given(PACKS)
def test_nothing_is_missing_twice(packs: list[Pack]) -> None:
    """A machine that took what was missing lacks nothing."""
    have: Ranges = ()
    for one in missing(packs, ()):
        have = add_range(have, one.first, one.last)
    assert missing(packs, have) == []


def published(days: int, size: int = 100) -> list[Pack]:
    """What a publisher has after so many daily generations of one size."""
    packs: list[Pack] = []
    for day in range(1, days + 1):
        packs.append(pack(day, day, size, published=day))
        chosen = to_fold(packs)
        if chosen:
            total = sum(one.bytes for one in chosen)
            packs.append(pack(chosen[0].first, chosen[-1].last, total, published=day))
        packs = to_keep(packs, since=0)
    return packs


def test_machine_that_pulls_each_week_downloads_what_is_new() -> None:
    """Whatever the publisher folded meanwhile, a machine that pulls every few days downloads each generation once."""
    for every in (1, 3, 7, KEPT_SINGLES):
        have, loaded = (), 0
        for day in range(every, 100, every):
            for one in missing(published(day), have):
                have, loaded = add_range(have, one.first, one.last), loaded + one.bytes
            assert loaded == 100 * day


def test_empty_machine_downloads_few_packs() -> None:
    """An empty machine downloads each generation once, in a number of packs that grows with the logarithm of days."""
    for days in (10, 100, 400):
        chosen = missing(published(days), ())
        assert sum(one.bytes for one in chosen) == 100 * days and len(chosen) <= 7


def test_index_does_not_grow_with_history() -> None:
    """After a year the index lists as many packs as after two months, give or take a fold."""
    assert max(len(published(days)) for days in range(60, 365, 7)) <= KEPT_SINGLES + 8


@given(PACKS)
def test_largest_hold_everything(packs: list[Pack]) -> None:
    """The packs that no other contains hold every generation, and none of them is within another."""
    chosen = largest(packs)
    assert generations(chosen) == generations(packs)
    assert not any(a is not b and a.first <= b.first and b.last <= a.last for a in chosen for b in chosen)


def test_large_packs_are_not_folded() -> None:
    """A pack near the limit is not written again, however much follows it."""
    assert to_fold([pack(1, 4, MAX_FOLDED_BYTES), pack(5, 5, MAX_FOLDED_BYTES)]) == []
    assert to_fold([pack(1, 1, 1000), pack(2, 2, 1)]) == []
    assert [one.first for one in to_fold([pack(1, 1, 1000), pack(2, 2, 2), pack(3, 3, 1)])] == [2, 3]


def test_old_single_generations_leave() -> None:
    """A single generation leaves the index when it is old and a fold contains it, and otherwise stays."""
    packs = [pack(1, 1, 5, published=1), pack(2, 2, 5, published=9), pack(1, 2, 10, published=9), pack(3, 3, 5, 1)]
    assert [(one.first, one.last) for one in to_keep(packs, since=5)] == [(1, 2), (2, 2), (3, 3)]
