"""Sketches: summaries of a program's cache data, from which damaged copies of that data can be recognised.

Data that matches no record may still be valid: the program may have run without the layer, or the store may have been
full or cleared. Only a near match of recorded data counts as damaged. Valid data for other pipelines is no near match:
their keys are hashes of 16 bytes or more, so more than one word differs. shim/layer/caches/sketch.c makes sketches.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Sums over the data's 64-bit words: of the even ones, of the odd ones, of all times their index and times its square;
#: and the offset at which the run of equal bytes at its end begins. 4 bytes for each piece follow.
HEAD = struct.Struct("=QQQQQ")
PIECE = 4
_FIRST_PIECE_BYTES = 256
_PIECES_PER_DOUBLING = 64
_MOST_PIECES = 1088
_WORD = (1 << 64) - 1

#: Data counts as a cut-off copy from this many equal whole pieces.
_FEWEST_PIECES = 4
#: If the original data ends in at least this many equal bytes, the driver padded it, and it is not judged.
_MOST_PADDING = 64
#: A tail that a file system filled with zeros or 0xff is at least this long.
_SHORTEST_FILL = 512
#: From so many new sketches on, sorting all again is faster than inserting each.
_MANY = 64


class Sketches:
    """Sketches of good data. A damaged copy is looked up, so that it takes the same time however many there are: a
    program may wait for it in each of thousands of vkCreatePipelineCache."""

    def __init__(self) -> None:
        self._new: list[tuple[int, bytes]] = []
        #: Size and head, by the sum of the even words and by that of the odd words. A changed word leaves one of both.
        self._by_sum: dict[int, tuple[int, bytes]] = {}
        #: Sorted, so that data that begins with given pieces follows the place of these pieces.
        self._by_start: list[tuple[bytes, int]] = []
        self._by_size: list[tuple[int, bytes]] = []

    def add(self, size: int, sketch: bytes) -> None:
        """Adds good data. Ignores what is no sketch of data of this size, as one of another layout."""
        if len(sketch) == HEAD.size + min(_whole_pieces(size), _MOST_PIECES) * PIECE:
            self._new.append((size, sketch))

    def damage(self, size: int, sketch: bytes) -> str:
        """Returns how good data was damaged, in words, if ``sketch`` is that of a damaged copy; else an empty
        string."""
        if len(sketch) < HEAD.size:
            return ""
        from bisect import bisect_left  # imported here, because a program waits for the first plan

        self._take_new()
        *sums, filled_from = HEAD.unpack_from(sketch)
        pieces = sketch[HEAD.size :]
        for key in sums[:2]:
            good_size, good = self._by_sum.get(key, (0, b""))
            if good_size == size and _differ_in_one_word(sums, HEAD.unpack(good), size):
                return "one 64-bit word changed"
        if size - filled_from >= _SHORTEST_FILL:
            left = pieces[: _whole_pieces(filled_from) * PIECE]
            at = bisect_left(self._by_size, (size, left))
            if at < len(self._by_size) and self._by_size[at][0] == size and self._by_size[at][1].startswith(left):
                return f"one byte repeated from {filled_from} on"
        if len(pieces) >= _FEWEST_PIECES * PIECE:
            at = bisect_left(self._by_start, (pieces, size + 1))
            if at < len(self._by_start) and self._by_start[at][0].startswith(pieces):
                return f"cut off, it has {size} of {self._by_start[at][1]} bytes"
        return ""

    def _take_new(self) -> None:
        starts, sizes = [], []
        for size, sketch in self._new:
            head, pieces = sketch[: HEAD.size], sketch[HEAD.size :]
            even, odd, _, _, filled_from = HEAD.unpack(head)
            self._by_sum[even] = self._by_sum[odd] = (size, head)
            starts.append((pieces, size))
            if size - filled_from < _MOST_PADDING:
                sizes.append((size, pieces))
        self._new.clear()
        _insert(self._by_start, starts)
        _insert(self._by_size, sizes)


def _insert(into: list[Any], new: list[Any]) -> None:
    from bisect import insort

    if len(new) < _MANY:
        for one in new:
            insort(into, one)
    else:
        into += new
        into.sort()


def _whole_pieces(size: int) -> int:
    """Returns how many whole pieces the first ``size`` bytes have."""
    first = _FIRST_PIECE_BYTES * _PIECES_PER_DOUBLING
    if size < first:
        return size // _FIRST_PIECE_BYTES
    octave = size.bit_length() - first.bit_length()  # doublings before the one that contains ``size``
    start = first << octave
    return _PIECES_PER_DOUBLING * (1 + octave) + (size - start) // (start // _PIECES_PER_DOUBLING)


def _differ_in_one_word(sums: list[int], good: tuple[int, ...], size: int) -> bool:
    """Returns whether the data differs in a single 64-bit word. With a difference e in word k the sums of all words, of
    words times their index, and times its square, differ by e, k*e and k*k*e, modulo 2**64."""
    e = (sums[0] + sums[1] - good[0] - good[1]) & _WORD
    ke, kke = (sums[2] - good[2]) & _WORD, (sums[3] - good[3]) & _WORD
    if e == 0:
        return False
    twos = (e & -e).bit_length() - 1
    if ke & ((1 << twos) - 1):
        return False
    modulus = 1 << (64 - twos)
    k = (ke >> twos) * pow(e >> twos, -1, modulus) % modulus  # or larger by a multiple of it, which changes nothing
    return k < (size + 7) // 8 and (k * ke - kke) & _WORD == 0
