"""Indexes and packs of a fleet for the fuzz targets: seeds, mutators, and what must hold for any bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
from collections.abc import Callable
from typing import Any

from fuzz.exports import IDENTITY, KEY, PUBLIC, packed, require
from unit.things import add_record

from pylayer.common.outcomes import HEADER
from pylayer.fleet import index, signatures, trust
from pylayer.store import format, pack, portable
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader
from pylayer.store.store import Refused

PROGRAM = 7
NOW = 1_700_000_000
KEYS = {signatures.public_text(PUBLIC): "seed"}
#: Values that no publisher writes, and some that it could.
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 9, 1 << 31, 1 << 64, 10**400, 1.5, float("inf"), "", "x", "../x", "a" * 64, "0" * 16, [],
    {}, [{}], [[]], {"0" * 16: "x"}, "\x1b[31m", "\ud800", "é" * 5000,
)  # fmt: skip


def pack_bytes(count: int = 4) -> bytes:
    """A small published pack, the same bytes each time."""
    head = HEADER.pack(32, 1, 0x1002, 0x73BF, bytes(range(16)))

    def fill(writer: pack.PackWriter) -> None:
        for number in range(count):
            fields = {"kind": 1, "flags": format.PULLED, "create_ns": 1000, "fingerprint": number}
            add_record(writer, head + bytes([number]) * 60, **fields, last_used=format.NEVER_USED)

    return packed(fill, IDENTITY, PROGRAM, "seven")


def payload() -> bytes:
    """The payload of a small index."""
    packs = tuple(index.Pack(hashlib.sha256(bytes([at])).hexdigest(), 100 + at, f"{PROGRAM:016x}") for at in range(4))
    return index.Index(IDENTITY, 5, NOW, NOW + 10, packs).payload()


def signed(data: bytes) -> bytes:
    """A payload with a trailer, the same each time."""
    head = signatures.SIGNED_PART.pack(signatures.MAGIC, len(data), NOW, 0, PUBLIC)
    return data + head + KEY.sign(signatures.INDEX_DOMAIN + head + hashlib.sha512(data).digest())


#: All that the key signed.
SIGNED = signed(payload())


def mutate_values(plain: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, bytes], bytes]:
    """Replaces, removes and adds values of JSON; now and then changes its text."""

    def places(value: Any) -> list[tuple[Any, Any]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [place for key, part in inner for place in [(value, key), *places(part)]]

    def mutate(rng: random.Random, seed: bytes) -> bytes:
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(seed)
            for _ in range(rng.choice((1, 1, 2, 4))):
                found = places(value)
                if not found or rng.random() < 0.2:
                    return plain(rng, seed)
                holder, key = rng.choice(found)
                if rng.random() < 0.15:
                    del holder[key]
                elif isinstance(holder[key], int) and rng.random() < 0.5:
                    holder[key] += rng.choice((-1, 1, 1 << 20))
                elif isinstance(holder, list) and rng.random() < 0.3:
                    holder.append(holder[key])
                else:
                    holder[key] = rng.choice(HOSTILE)
            return json.dumps(value).encode("utf-8", "surrogatepass")
        return plain(rng, seed)

    return mutate


def read_index(data: bytes) -> None:
    """index.parse: an index in which every number is within its limits and no text is a path, or Refused."""
    try:
        found = index.parse(data)
    except Refused as error:
        require(0 < len(str(error)) < 500, "an error that says nothing, or too much")
        return
    for one in found.packs:
        require(0 < one.bytes <= index.MAX_PACK_BYTES, "a pack that cannot be")
        path = "/" in one.name or len(one.name) != 69 or len(one.program) != 16
        require(not path, "a name that becomes a path")
    require(index.parse(found.payload()).payload() == found.payload(), "another index when it is written again")


def believe(data: bytes) -> None:
    """trust.Trust.index: only the bytes that the key signed pass."""
    for last in (None, SIGNED):
        with contextlib.suppress(trust.Untrusted):
            trust.Trust(KEYS, IDENTITY.name, last).index(data, NOW)
            require(data == SIGNED, "something passes that nobody signed")


def admit(path: str, root: str, data: bytes) -> None:
    """Admits a pack to a store: every record verifies and belongs to the device, or it is Refused."""
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        portable.admit(root, IDENTITY, PROGRAM, path, sha256)
    except Refused:
        require(os.path.exists(path), "a refused file is gone")
        return
    require(portable.held(root, IDENTITY, {sha256}) == {sha256}, "an admitted pack that is not held")
    (there,) = Folder(root, IDENTITY).files(PROGRAM)
    damage: list[format.Damage] = []
    header = HEADER.pack(32, 1, 0x1002, 0x73BF, bytes(range(16)))
    for part in Reader(there).verified(IDENTITY.digest, damage):
        for record in part.records:
            own = bytes(part.data_of(record))[4:32] == header[4:] and record.is_pulled
            require(record.magic != format.CELL or own, "a cell of another device, or one that was not published")
            require(record.magic in (format.CELL, format.NOTE, format.TABLE), f"a record of kind {record.magic!r}")
    os.unlink(there)
    require(not damage, "something damaged is in the store")
