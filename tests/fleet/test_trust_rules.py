"""The rules of ``pylayer.fleet.trust``: what is believed, and what is not."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from cli.stores import IDENTITY, OLD_DRIVER
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from pylayer.fleet.index import MAX_INDEX_BYTES, MAX_PACK_BYTES, Index, Pack
from pylayer.fleet.signatures import public_of, signed_index
from pylayer.fleet.trust import Arriving, Trust, Untrusted
from pylayer.store.format import FINGERPRINTS

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEYS = {public_of(KEY): "builder"}
NOW = 1_800_000_000
DATA = b"a pack"
PACK = Pack(hashlib.sha256(DATA).hexdigest(), len(DATA), "00000000000000aa")
INDEX = Index(IDENTITY, 5, NOW, NOW + 3600, (PACK,))


def signed(index: Index = INDEX, key: Ed25519PrivateKey = KEY, **changes: Any) -> bytes:
    return signed_index(dataclasses.replace(index, **changes).payload(), key)


def refused(data: bytes, trust: Trust | None = None, now: float = NOW) -> str:
    with pytest.raises(Untrusted) as raised:
        (trust or Trust(KEYS, IDENTITY.name)).index(data, now)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_good_index() -> None:
    """An index by a listed key, for the identity, newer than the last one and not expired, is believed."""
    for last in (None, signed(number=4), signed(), b"damaged on the disk"):
        assert Trust(KEYS, IDENTITY.name, last).index(signed(), NOW).payload() == INDEX.payload()


def test_keys() -> None:
    """An index by a key that is not listed (any more) is refused, and so is one without a signature."""
    other = Ed25519PrivateKey.generate()
    assert public_of(other) in refused(signed(key=other))
    assert "fleet.keys" in refused(signed(), Trust({}, IDENTITY.name))
    assert "not signed" in refused(INDEX.payload())
    assert "not signed" in refused(b"")


@given(st.data())
def test_every_altered_byte_is_refused(data: st.DataObject) -> None:
    """Whatever byte of an index is changed, added or left out, the index is refused."""
    good = signed()
    at, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(good)
    changed[at] ^= 1 << bit
    refused(bytes(changed))
    refused(good[:at] + good[at + 1 :])
    refused(good[:at] + b"\0" + good[at:])


@pytest.mark.parametrize(
    "changes",
    [
        {"bytes": MAX_PACK_BYTES + 1},
        {"bytes": 0},
        {"bytes": -1},
        {"bytes": True},
        {"sha256": "../../../../etc/passwd"},
        {"sha256": "A" * 64},
        {"program": "../x"},
        {"bytes": 1e9},
        {"more": 1},
    ],
)
def test_impossible_packs(changes: dict[str, Any]) -> None:
    """An index that lists an impossible pack is refused as a whole. No text in it can become a path."""
    values = json.loads(INDEX.payload())
    values["packs"][0] |= changes
    assert "refused" in refused(signed_index(json.dumps(values).encode(), KEY))


def test_other_fingerprints() -> None:
    """An index of a release that computes fingerprints otherwise is refused: programs would find none of its
    pipelines."""
    values = json.loads(INDEX.payload())
    for version in (1, FINGERPRINTS + 1, str(FINGERPRINTS), None, True):
        values["fingerprints"] = version
        assert "same release" in refused(signed_index(json.dumps(values).encode(), KEY))


def test_huge_index() -> None:
    """An index with more bytes than an index can have is refused before its signature is looked at."""
    assert str(MAX_INDEX_BYTES) in refused(bytes(MAX_INDEX_BYTES + 1))


def test_other_identity() -> None:
    """A valid index of another driver is refused."""
    message = refused(signed(identity=OLD_DRIVER))
    assert OLD_DRIVER.name in message and IDENTITY.name in message


def test_rollback() -> None:
    """An index with a lower number than the last is refused, and so is another one with the same number."""
    trust = Trust(KEYS, IDENTITY.name, signed(number=6))
    assert "it is an old one" in refused(signed(), trust)
    assert trust.index(signed(number=7), NOW).number == 7
    for number in (5, 6):
        assert "restored from a backup" in refused(signed(number=number, issued=NOW + 1), trust)


def test_rollback_after_a_key_was_replaced() -> None:
    """The last number counts, whichever listed key signed the last index. A thief's number is forgotten with his
    key."""
    old = Ed25519PrivateKey.generate()
    last = signed(key=old, number=6)
    assert "it is an old one" in refused(signed(), Trust({**KEYS, public_of(old): "old"}, IDENTITY.name, last))
    assert Trust(KEYS, IDENTITY.name, last).index(signed(), NOW).number == 5


def test_expired() -> None:
    """An index that has expired is refused."""
    assert Trust(KEYS, IDENTITY.name).index(signed(), NOW + 3599).payload() == INDEX.payload()
    assert "expired 0 hours ago" in refused(signed(), now=NOW + 3600)


def test_export_signature_is_no_index_signature() -> None:
    """A signature that was made for an export does not make an index valid."""
    from pylayer.fleet import signatures

    payload = INDEX.payload()
    head = signatures.SIGNED_PART.pack(signatures.MAGIC, len(payload), 0, 0, KEY.public_key().public_bytes_raw())
    message = signatures.DOMAIN + head + hashlib.sha512(payload).digest()
    assert "invalid" in refused(payload + head + KEY.sign(message))


@given(st.lists(st.binary(max_size=4), max_size=5))
def test_pack_bytes(pieces: list[bytes]) -> None:
    """A pack is accepted if its bytes are those of the index, and refused at the first byte too many."""
    arriving = Arriving(PACK)
    try:
        for piece in pieces:
            arriving.take(piece)
        arriving.require_whole()
        assert b"".join(pieces) == DATA
    except Untrusted:
        assert b"".join(pieces) != DATA
    assert arriving.size <= len(DATA) + 4
