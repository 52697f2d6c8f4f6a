"""What machines give each other, for the fuzz targets: exports, indexes and packs of a fleet. Seeds, mutators, and what
must hold for any bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import xxhash
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from unit.things import add_record

from pylayer.common import flat
from pylayer.common.identity import NO_IDENTITY, Identity
from pylayer.common.outcomes import HEADER
from pylayer.fleet import index, signatures, trust
from pylayer.store import format, pack, portable, state
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader

IDENTITY = Identity(
    {
        "abi": "64-bit little-endian", "device_id": 0x73BF, "driver_id": 3, "driver_info": "Mesa",
        "driver_name": "radv",
        "driver_version": 1, "pipeline_cache_uuid": bytes(range(16)).hex(), "vendor_id": 0x1002,
    }
)  # fmt: skip
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
KEYS = {signatures.public_text(PUBLIC): "seed"}
NOW = 1_700_000_000


class Wrong(Exception):
    """Something that must hold does not."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise Wrong(what)


def packed(fill: Callable[[pack.PackWriter], None], *about: Any, **kind: Any) -> bytes:
    """The bytes of a pack as pylayer writes it, the same each time. A mutation that fits a hash knows no salt."""
    unsalted = mock.patch.object(format, "new_salt", lambda: 0)
    with tempfile.TemporaryDirectory() as directory, unsalted:
        os.chmod(directory, 0o700)
        writer = pack.PackWriter(os.path.join(directory, "x.pack"), *about, **kind)
        fill(writer)
        with open(writer.finish(), "rb") as file:
            return file.read()


def export_bytes() -> bytes:
    """A small export."""

    def fill(writer: pack.PackWriter) -> None:
        head = struct.pack("<IIII", 32, 1, 0x1002, 0x73BF) + bytes(range(16))
        about = {"identity": IDENTITY.fields, "device": "A device", "fingerprints": format.FINGERPRINTS}
        notes = [(format.NOTE, flat.dumps(about).encode())]
        cells = [(format.CELL, head + bytes([number]) * 60) for number in range(5)]
        programs = [
            (format.NOTE, flat.dumps({"program": f"{number:016x}", "name": name}).encode())
            for number, name in ((7, "seven"), (8, "eight"))
        ]
        for magic, data in (*notes, programs[0], *cells, programs[1], *cells[:1]):
            add_record(writer, data, magic, create_ns=1000, fingerprint=5, last_used=1000)

    return packed(fill, IDENTITY, kind=format.EXPORT)


def state_bytes() -> bytes:
    """The state of two pipelines that have a shader in common."""

    def made(kind: int, *inputs: bytes) -> bytes:
        handles = [state.HANDLE.pack(8 * number, kind, digest) for number, digest in enumerate(inputs)]
        head = state.HEADER.pack(state.MAGIC, state.VERSION, kind, 0, 32, 0, len(handles), 1, 0, 0)
        return head + bytes([kind]) * 32 + b"".join(handles)

    def fill(writer: pack.PackWriter) -> None:
        objects = [made(kind) for kind in (*state.ROOTS, state.SHADER_MODULE)]
        instance, device, module = (xxhash.xxh3_128_digest(data) for data in objects)
        objects += [made(10, module, module), made(11, module)]
        notes = ({"fingerprints": format.FINGERPRINTS}, {"program": f"{7:016x}", "name": "seven"})
        records = [
            *(format.record_parts(format.NOTE, flat.dumps(note).encode()) for note in notes),
            *map(state.object_parts, objects),
            state.note_parts("seven"),
            state.identified_parts(bytes(16), module),
        ]
        for data in objects[3:]:
            created = state.CREATED.pack(xxhash.xxh3_128_digest(data), device, instance, 5)
            records.append(state.created_parts(state.Created(created, 1000, 1000)))
        for parts in records:
            writer.add_parts(parts)

    return packed(fill, NO_IDENTITY, kind=format.EXPORT)


def signed_bytes(data: bytes, domain: bytes = signatures.DOMAIN) -> bytes:
    """The same with a trailer, the same each time."""
    head = signatures.SIGNED_PART.pack(signatures.MAGIC, len(data), NOW, 0, PUBLIC)
    return data + head + KEY.sign(domain + head + hashlib.sha512(data).digest())


def mutate(mutate_pack: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, bytes], bytes]:
    """Changes the pack, the trailer or both; now and then the trailer goes behind a pack that was changed."""

    def mutated(rng: random.Random, seed: bytes) -> bytes:
        body, trailer = seed[: -signatures.TRAILER_BYTES], bytearray(seed[-signatures.TRAILER_BYTES :])
        if not trailer.startswith(signatures.MAGIC):
            body, trailer = seed, bytearray()
        if rng.random() < 0.6:
            body = mutate_pack(rng, body)
        if trailer and rng.random() < 0.6:
            at = rng.choice((0, 8, 16, 24, 32, 64, rng.randrange(len(trailer))))
            size = rng.choice((1, 8, 32))
            trailer[at : at + size] = rng.choice((bytes(size), rng.randbytes(size), struct.pack("<Q", len(body))))
        elif trailer and rng.random() < 0.3:
            struct.pack_into("<Q", trailer, 8, len(body))
        return body + bytes(trailer)

    return mutated


def take(path: str, root: str, good: bytes) -> None:
    """Tries an import."""
    for required in ("it must be", ""):
        with (
            contextlib.suppress(portable.Refused),
            signatures.verified(path, KEYS, required) as (content, key),
        ):
            if key in KEYS:
                with open(content, "rb") as file:
                    require(file.read() == good, "something passes that nobody signed")
            else:
                require(not required, "something passes without the signature that is required")
            for _ in portable.Import(content).steps(root):
                pass
    shutil.rmtree(root, ignore_errors=True)


# ---- fleets ------------------------------------------------------------------------------------------

PROGRAM = 7
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


#: All that the key signed.
SIGNED = signed_bytes(payload(), signatures.INDEX_DOMAIN)


def mutate_json(plain: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, bytes], bytes]:
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
    except portable.Refused as error:
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
    os.makedirs(root, mode=0o700, exist_ok=True)
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        portable.admit(root, IDENTITY, PROGRAM, path, sha256)
    except portable.Refused:
        require(os.path.exists(path), "a refused file is gone")
        return
    require(portable.held(root, IDENTITY, {sha256}) == {sha256}, "an admitted pack that is not held")
    (there,) = Folder(root, IDENTITY).files(PROGRAM)
    damage: list[format.Damage] = []
    header = HEADER.pack(32, 1, 0x1002, 0x73BF, bytes(range(16)))
    for part in Reader(there).verified(IDENTITY.digest, damage):
        for record in part.records:
            own = bytes(part.data_of(record))[4:32] == header[4:] and bool(record.flags & format.PULLED)
            require(record.magic != format.CELL or own, "a cell of another device, or one that was not published")
            require(record.magic in (format.CELL, format.NOTE, format.TABLE), f"a record of kind {record.magic!r}")
    os.unlink(there)
    require(not damage, "something damaged is in the store")
