"""Which packs a machine needs, and which packs a publisher keeps and folds. Pure functions of generations.

The records of a program are added in generations: 1, 2, 3 and so on. A pack holds a range of them: one generation when
it is new, many after it was folded. The same generation is in several packs then: a machine that pulls every day takes
the packs of the days, and an empty machine the folded ones. So nobody downloads again what it has because of a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from .index import Pack

#: Ranges of generations, both ends included, in order and apart from each other.
Ranges = tuple[tuple[int, int], ...]

#: A fold takes in the pack before it if that is at most this many times as large as what the fold has. So sizes grow by
#: a factor, and a record is rewritten a few times in its life instead of with each publication.
FOLD_FACTOR = 2
#: Folds end at this size; larger packs stay as they are.
MAX_FOLDED_BYTES = 64 << 20
#: So many of the newest single generations of a program stay in the index beside the folds that contain them.
KEPT_SINGLES = 14


def add_range(ranges: Ranges, first: int, last: int) -> Ranges:
    """Returns the ranges with one more, joined where they touch."""
    result: list[tuple[int, int]] = []
    for low, high in sorted((*ranges, (first, last))):
        if result and low <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(high, result[-1][1])
        else:
            result.append((low, high))
    return tuple(result)


def _holds(ranges: Ranges, first: int, last: int) -> bool:
    return any(low <= first and last <= high for low, high in ranges)


def missing(packs: Sequence[Pack], have: Ranges) -> list[Pack]:
    """Returns the packs of one program with the fewest bytes that together hold every generation which is in ``packs``
    and not in ``have``."""
    if not packs:
        return []
    points = sorted(
        {pack.first - 1 for pack in packs}
        | {pack.last for pack in packs}
        | {low - 1 for low, _ in have}
        | {high for _, high in have}
    )
    #: By generation: the bytes, and the packs, for everything up to it.
    best: dict[int, tuple[int, tuple[Pack, ...]]] = {points[0]: (0, ())}
    for before, point in pairwise(points):
        over = [pack for pack in packs if pack.first <= before + 1 and point <= pack.last]
        if not over or _holds(have, before + 1, point):
            best[point] = best[before]
        else:
            ways = ((best[pack.first - 1], pack) for pack in over)
            best[point] = min(((cost + pack.bytes, (*way, pack)) for (cost, way), pack in ways), key=lambda way: way[0])
    return list(best[points[-1]][1])


def largest(packs: Iterable[Pack]) -> list[Pack]:
    """Returns the packs of one program that no other pack contains, oldest generations first: what an empty machine
    takes, and what a fold may read."""
    result: list[Pack] = []
    for pack in sorted(packs, key=lambda pack: (pack.first, -pack.last)):
        if not result or pack.last > result[-1].last:
            result.append(pack)
    return result


def to_fold(packs: Iterable[Pack]) -> list[Pack]:
    """Returns the packs of one program to fold after its newest was added; empty if folding is not worthwhile."""
    *before, newest = largest(packs)
    chosen, size = [newest], newest.bytes
    for pack in reversed(before):
        if pack.bytes > FOLD_FACTOR * size or size + pack.bytes > MAX_FOLDED_BYTES:
            break
        chosen.insert(0, pack)
        size += pack.bytes
    return chosen if len(chosen) > 1 else []


def to_keep(packs: Sequence[Pack], since: int, most_singles: int = KEPT_SINGLES) -> list[Pack]:
    """Returns the packs of one program that the next index lists: those that no other contains, and the newest single
    generations that were published at or after ``since``."""
    singles = sorted(
        (pack for pack in packs if pack.first == pack.last and pack.published >= since), key=lambda pack: -pack.last
    )
    kept = {*largest(packs), *singles[:most_singles]}
    return sorted(kept, key=lambda pack: (pack.first, pack.last))
