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
from ..store.store import FINGERPRINTS
from .signatures import TRAILER_BYTES

FORMAT = 1
#: The most bytes of an index, signature included. A pack takes 240 bytes in it.
MAX_INDEX_BYTES = 4 << 20
#: The most bytes of a published pack. ``publishing`` begins another pack at a quarter of it.
MAX_PACK_BYTES = 256 << 20
MAX_PACKS = 16384
#: From this share of these limits on, a publisher leaves out what it can, and warns.
FULL = 0.75
_MAX_NAME = 4096
#: Times and numbers beyond this are nonsense: the year 5138.
_MAX_NUMBER = 10**11


class Malformed(ValueError):
    """An index that no publisher writes. The text says why."""


@dataclass(frozen=True)
class Pack:
    """One published pack. It holds what the publisher added in the generations ``first`` to ``last`` for a program."""

    sha256: str
    bytes: int
    records: int
    program: str
    first: int
    last: int
    #: When its records were first and last used on the machines that pushed them, in seconds since 1970.
    first_use: int
    last_use: int
    #: When it was published.
    published: int

    @property
    def name(self) -> str:
        """The pack's file name."""
        return f"{self.sha256}.pack"


@dataclass(frozen=True)
class IndexedProgram:
    """A program's name, and how often something was added for it: its last generation."""

    name: str
    generation: int


@dataclass(frozen=True)
class Index:
    """What is published for an identity. ``number`` grows by one with each index."""

    identity: Identity
    device: str
    number: int
    issued: int
    expires: int
    #: Programs by number, 16 hexadecimal digits. One whose packs were all withdrawn is none of them.
    programs: dict[str, IndexedProgram]
    packs: tuple[Pack, ...]

    @property
    def fullness(self) -> float:
        """How much of the largest index that machines read this one is: 1 or less if they read it."""
        size = len(self.payload()) + TRAILER_BYTES
        entries = max(len(self.packs), len(self.programs))
        return max(size / MAX_INDEX_BYTES, entries / MAX_PACKS, self.number / _MAX_NUMBER)

    def payload(self) -> bytes:
        """Returns the bytes to sign."""
        values = {
            "format": FORMAT,
            "fingerprints": FINGERPRINTS,
            "identity": self.identity.fields,
            "device": self.device,
            "number": self.number,
            "issued": self.issued,
            "expires": self.expires,
            "programs": {number: dataclasses.asdict(program) for number, program in self.programs.items()},
            "packs": [dataclasses.asdict(pack) for pack in self.packs],
        }
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()


def is_hex(value: Any, digits: int) -> bool:
    """Returns whether a value is text of so many lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and all(letter in "0123456789abcdef" for letter in value)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Malformed(what)


def _number(values: dict[str, Any], key: str, least: int = 0, most: int = _MAX_NUMBER) -> int:
    value = values[key]
    _require(type(value) is int and least <= value <= most, f"its {key} is no number from {least} to {most}")
    return int(value)


_PACK_KEYS = {field.name for field in dataclasses.fields(Pack)}
_KEYS = {"format", "fingerprints", "identity", "device", "number", "issued", "expires", "programs", "packs"}


def _pack(values: Any, programs: dict[str, IndexedProgram]) -> Pack:
    _require(isinstance(values, dict) and set(values) == _PACK_KEYS, "a pack has unknown or missing keys")
    _require(is_hex(values["sha256"], 64), "a pack's SHA-256 is none")
    _require(isinstance(values["program"], str) and values["program"] in programs, "a pack is of an unknown program")
    numbers = {key: _number(values, key) for key in ("records", "first_use", "last_use", "published")}
    numbers["bytes"] = _number(values, "bytes", 1, MAX_PACK_BYTES)
    numbers["first"] = _number(values, "first", 1)
    numbers["last"] = _number(values, "last", numbers["first"], programs[values["program"]].generation)
    return Pack(sha256=values["sha256"], program=values["program"], **numbers)


def _program(values: Any) -> IndexedProgram:
    _require(isinstance(values, dict) and set(values) == {"name", "generation"}, "a program has unknown keys")
    name = values["name"]
    sane = isinstance(name, str) and 0 < len(name) <= _MAX_NAME and name.isprintable()
    _require(sane, "a program has no name, or one that cannot be printed")
    return IndexedProgram(name, _number(values, "generation", 1))


def _programs(values: Any) -> dict[str, IndexedProgram]:
    _require(isinstance(values, dict) and len(values) <= MAX_PACKS, "its programs are no mapping")
    _require(all(is_hex(number, 16) for number in values), "a program's number is none")
    return {number: _program(program) for number, program in values.items()}


def _identity(fields: Any) -> Identity:
    _require(isinstance(fields, dict), "its identity is no mapping")
    _require(all(type(value) in (int, str) for value in fields.values()), "its identity has impossible fields")
    try:
        return Identity(fields)
    except ValueError as error:  # text that UTF-8 cannot encode, or a number with thousands of digits
        raise Malformed("its identity has impossible fields") from error


def parse(payload: bytes) -> Index:
    """Returns the index in a payload. Raises Malformed."""
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Malformed("it is not JSON") from error
    _require(isinstance(values, dict), "it is no mapping")
    if values.get("format") != FORMAT:
        raise Malformed(f"it has format {str(values.get('format'))[:20]}, and this pylayer reads format {FORMAT}")
    _require(set(values) == _KEYS, "it has unknown or missing keys")
    version = values["fingerprints"]
    if type(version) is not int or version != FINGERPRINTS:
        raise Malformed(
            f"its fingerprints have version {str(version)[:20]}, and this pylayer's have {FINGERPRINTS}: machines and "
            "publisher need the same release, and the publisher begins anew with --discard"
        )
    device = values["device"]
    _require(isinstance(device, str) and len(device) <= _MAX_NAME and device.isprintable(), "its device has no name")
    programs = _programs(values["programs"])
    packs = values["packs"]
    _require(isinstance(packs, list) and len(packs) <= MAX_PACKS, f"it lists no packs, or more than {MAX_PACKS}")
    return Index(
        identity=_identity(values["identity"]),
        device=device,
        number=_number(values, "number", 1),
        issued=_number(values, "issued"),
        expires=_number(values, "expires"),
        programs=programs,
        packs=tuple(_pack(pack, programs) for pack in packs),
    )
