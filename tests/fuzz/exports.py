"""Exports for the fuzz targets: seeds, with and without a signature, and what an import must do with any bytes."""

from __future__ import annotations

import contextlib
import hashlib
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
from pylayer.fleet import signatures
from pylayer.store import format, pack, portable, state

IDENTITY = Identity(
    {
        "abi": "64-bit little-endian", "device_id": 0x73BF, "driver_id": 3, "driver_info": "Mesa",
        "driver_name": "radv",
        "driver_version": 1, "pipeline_cache_uuid": bytes(range(16)).hex(), "vendor_id": 0x1002,
    }
)  # fmt: skip
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()


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


def signed_bytes(data: bytes) -> bytes:
    """The same with a trailer, the same each time."""
    head = signatures.SIGNED_PART.pack(signatures.MAGIC, len(data), 1_700_000_000, 0, PUBLIC)
    return data + head + KEY.sign(signatures.DOMAIN + head + hashlib.sha512(data).digest())


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
    trusted = {signatures.public_text(PUBLIC): "seed"}
    for required in ("it must be", ""):
        with (
            contextlib.suppress(portable.Refused),
            signatures.verified(path, trusted, required) as (content, key),
        ):
            if key in trusted:
                with open(content, "rb") as file:
                    require(file.read() == good, "something passes that nobody signed")
            else:
                require(not required, "something passes without the signature that is required")
            for _ in portable.Import(content).steps(root):
                pass
    shutil.rmtree(root, ignore_errors=True)
