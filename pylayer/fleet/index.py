"""The index of a fleet: which packs there are for one driver identity (docs/internals/format.md, 'Fleets').

The payload is JSON with exactly the keys below. ``parse`` accepts nothing else and allocates nothing from a number that
it read. Whether to believe an index is ``trust``'s subject.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from ..common.identity import Identity
from ..store.checking import describes_device
from ..store.store import FINGERPRINTS, Refused

FORMAT = 3
#: The most bytes of an index, signature included. A pack takes 120 bytes in it.
MAX_INDEX_BYTES = 4 << 20
MAX_PACK_BYTES = 1 << 30
MAX_PACKS = 16384
#: What to do about an index of another release.
_ANEW = "all need the same release; delete v1 in the storage, have builders export again, and publish"
#: Times and numbers beyond this are nonsense: the year 5138.
_MAX_NUMBER = 10**11


@dataclass(frozen=True)
class Pack:
    """One published pack, of one program."""

    sha256: str
    bytes: int
    #: Its number, 16 hexadecimal digits.
    program: str

    @property
    def name(self) -> str:
        """The pack's file name."""
        return f"{self.sha256}.pack"


@dataclass(frozen=True)
class Index:
    """What is published for an identity. ``number`` grows with each index."""

    identity: Identity
    number: int
    issued: int
    expires: int
    packs: tuple[Pack, ...]

    def payload(self) -> bytes:
        """Returns the bytes to sign."""
        values = {
            "format": FORMAT,
            "fingerprints": FINGERPRINTS,
            "identity": self.identity.fields,
            "number": self.number,
            "issued": self.issued,
            "expires": self.expires,
            "packs": [dataclasses.asdict(pack) for pack in self.packs],
        }
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()


def is_hex(value: Any, digits: int) -> bool:
    """Returns whether a value is text of so many lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and all(letter in "0123456789abcdef" for letter in value)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Refused(what)


def _number(values: dict[str, Any], key: str, least: int = 0, most: int = _MAX_NUMBER) -> int:
    value = values[key]
    _require(type(value) is int and least <= value <= most, f"its {key} is no number from {least} to {most}")
    return int(value)


_PACK_KEYS = {field.name for field in dataclasses.fields(Pack)}
_KEYS = {"format", "fingerprints", "identity", "number", "issued", "expires", "packs"}


def _pack(values: Any) -> Pack:
    _require(isinstance(values, dict) and set(values) == _PACK_KEYS, "a pack has unknown or missing keys")
    _require(is_hex(values["sha256"], 64), "a pack's SHA-256 is none")
    _require(is_hex(values["program"], 16), "a pack's program is no number")
    return Pack(values["sha256"], _number(values, "bytes", 1, MAX_PACK_BYTES), values["program"])


def parse(payload: bytes) -> Index:
    """Returns the index in a payload. Raises Refused."""
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Refused("it is not JSON") from error
    _require(isinstance(values, dict), "it is no mapping")
    if values.get("format") != FORMAT:
        raise Refused(
            f"it has format {str(values.get('format'))[:20]}, and this pylayer reads format {FORMAT}: {_ANEW}"
        )
    _require(set(values) == _KEYS, "it has unknown or missing keys")
    version = values["fingerprints"]
    if type(version) is not int or version != FINGERPRINTS:
        raise Refused(
            f"its fingerprints have version {str(version)[:20]}, and this pylayer's have {FINGERPRINTS}: {_ANEW}"
        )
    _require(describes_device(values["identity"]), "its identity's fields do not describe a device")
    packs = values["packs"]
    _require(isinstance(packs, list) and len(packs) <= MAX_PACKS, f"it lists no packs, or more than {MAX_PACKS}")
    return Index(
        identity=Identity(values["identity"]),
        number=_number(values, "number", 1),
        issued=_number(values, "issued"),
        expires=_number(values, "expires"),
        packs=tuple(_pack(pack) for pack in packs),
    )
