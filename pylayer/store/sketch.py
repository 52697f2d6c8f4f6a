"""Sketches: what is kept of a program's cache data beside its digest, to recognise a damaged copy of it.

That data is none of what a program read proves nothing: the program may have run without the layer, the store may have
been full, or cleared. Only data that is nearly what the program read was damaged. No driver gives out such data for
other pipelines: those differ in a hash of 16 bytes or more. shim/layer/sketch.c makes sketches and has their layout.
"""

from __future__ import annotations

import struct

#: Three sums of the data's 64-bit words, and where the zeros at its end begin; 4 bytes for each piece follow.
HEAD = struct.Struct("=QQQQ")
PIECE = 4
_FIRST_PIECE_BYTES = 256
_PIECES_PER_DOUBLING = 64
_WORD = (1 << 64) - 1

#: So many whole pieces must be the same before data counts as the beginning of other data.
_FEWEST_PIECES = 4
#: Data with more zeros at its end is what the driver gave out padded; and a file that lost its end lost more.
_MOST_OWN_ZEROS = 64
_FEWEST_LOST_ZEROS = 512


def damage(sketch: bytes, size: int, good: bytes, good_size: int) -> str:
    """What was done to the data of ``good``, if ``sketch`` is of a damaged copy of it: empty where it is not known to
    be one."""
    if len(sketch) < HEAD.size or len(good) < HEAD.size:
        return ""
    if size < good_size:
        pieces = sketch[HEAD.size :]
        is_start = len(pieces) >= _FEWEST_PIECES * PIECE and good[HEAD.size :].startswith(pieces)
        return f"cut off, it has {size} of {good_size} bytes" if is_start else ""
    if size > good_size:
        return ""
    if _differ_in_one_word(HEAD.unpack_from(sketch), HEAD.unpack_from(good), size):
        return "changed in one place"
    zeros_from, good_zeros_from = HEAD.unpack_from(sketch)[3], HEAD.unpack_from(good)[3]
    if good_size - good_zeros_from >= _MOST_OWN_ZEROS or good_zeros_from - zeros_from < _FEWEST_LOST_ZEROS:
        return ""
    end = HEAD.size + _whole_pieces(zeros_from) * PIECE
    return f"zeros from byte {zeros_from} on" if sketch[:end][HEAD.size :] == good[:end][HEAD.size :] else ""


def _whole_pieces(size: int) -> int:
    """How many whole pieces the first ``size`` bytes have."""
    first = _FIRST_PIECE_BYTES * _PIECES_PER_DOUBLING
    if size < first:
        return size // _FIRST_PIECE_BYTES
    octave = size.bit_length() - first.bit_length()  # doublings before the one that ``size`` is in
    start = first << octave
    return _PIECES_PER_DOUBLING * (1 + octave) + (size - start) // (start // _PIECES_PER_DOUBLING)


def _differ_in_one_word(sums: tuple[int, ...], good: tuple[int, ...], size: int) -> bool:
    """Whether the data differs in a single 64-bit word: with a difference e in word k the three sums differ by e, k*e
    and k*k*e, modulo 2**64."""
    e, ke, kke = ((a - b) & _WORD for a, b in zip(sums[:3], good[:3], strict=True))
    if e == 0:
        return False
    twos = (e & -e).bit_length() - 1
    if ke & ((1 << twos) - 1):
        return False
    modulus = 1 << (64 - twos)
    k = (ke >> twos) * pow(e >> twos, -1, modulus) % modulus  # or more by a multiple of it, which makes no difference
    return k < (size + 7) // 8 and (k * ke - kke) & _WORD == 0
