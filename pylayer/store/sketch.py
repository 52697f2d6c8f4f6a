"""Sketches: summaries of a program's cache data, from which damaged copies of that data can be recognised.

Data that matches no record may still be valid: the program may have run without the layer, or the store may have been
full or cleared. Only a near match of recorded data counts as damaged. Valid data for other pipelines is no near match:
their keys are hashes of 16 bytes or more, so more than one word differs. shim/layer/caches/sketch.c makes sketches.
"""

from __future__ import annotations

import struct

#: Three sums over the data's 64-bit words, and the offset at which the run of equal bytes at its end begins. 4 bytes
#: for each piece follow.
HEAD = struct.Struct("=QQQQ")
PIECE = 4
_FIRST_PIECE_BYTES = 256
_PIECES_PER_DOUBLING = 64
_WORD = (1 << 64) - 1

#: Data counts as a cut-off copy from this many equal whole pieces.
_FEWEST_PIECES = 4
#: If the original data ends in at least this many equal bytes, the driver padded it, and it is not judged.
_MOST_PADDING = 64
#: A tail that a file system filled with zeros or 0xff is at least this long.
_SHORTEST_FILL = 512


def damage(sketch: bytes, size: int, good: bytes, good_size: int) -> str:
    """Returns how the data of ``good`` was damaged, in words, if ``sketch`` is that of a damaged copy of it; else an
    empty string."""
    if len(sketch) < HEAD.size or len(good) < HEAD.size:
        return ""
    if size < good_size:
        pieces = sketch[HEAD.size :]
        is_start = len(pieces) >= _FEWEST_PIECES * PIECE and good[HEAD.size :].startswith(pieces)
        return f"cut off, it has {size} of {good_size} bytes" if is_start else ""
    if size > good_size:
        return ""
    if _differ_in_one_word(HEAD.unpack_from(sketch), HEAD.unpack_from(good), size):
        return "one 64-bit word changed"
    filled_from, good_filled_from = HEAD.unpack_from(sketch)[3], HEAD.unpack_from(good)[3]
    if good_size - good_filled_from >= _MOST_PADDING or good_filled_from - filled_from < _SHORTEST_FILL:
        return ""
    end = HEAD.size + _whole_pieces(filled_from) * PIECE
    return f"one byte repeated from {filled_from} on" if sketch[:end][HEAD.size :] == good[:end][HEAD.size :] else ""


def _whole_pieces(size: int) -> int:
    """Returns how many whole pieces the first ``size`` bytes have."""
    first = _FIRST_PIECE_BYTES * _PIECES_PER_DOUBLING
    if size < first:
        return size // _FIRST_PIECE_BYTES
    octave = size.bit_length() - first.bit_length()  # doublings before the one that contains ``size``
    start = first << octave
    return _PIECES_PER_DOUBLING * (1 + octave) + (size - start) // (start // _PIECES_PER_DOUBLING)


def _differ_in_one_word(sums: tuple[int, ...], good: tuple[int, ...], size: int) -> bool:
    """Returns whether the data differs in a single 64-bit word. With a difference e in word k the three sums differ by
    e, k*e and k*k*e, modulo 2**64."""
    e, ke, kke = ((a - b) & _WORD for a, b in zip(sums[:3], good[:3], strict=True))
    if e == 0:
        return False
    twos = (e & -e).bit_length() - 1
    if ke & ((1 << twos) - 1):
        return False
    modulus = 1 << (64 - twos)
    k = (ke >> twos) * pow(e >> twos, -1, modulus) % modulus  # or larger by a multiple of it, which changes nothing
    return k < (size + 7) // 8 and (k * ke - kke) & _WORD == 0
