"""What is decided from a device's facts: cache headers, identities and modes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from unit import things
from unit.things import facts, program_id

from pylayer.common.identity import Identity
from pylayer.common.outcomes import judge
from pylayer.common.settings import DEFAULTS
from pylayer.policy import Policy, choose_mode
from pylayer.values import (
    MODE_BINARIES,
    MODE_CELLS,
    MODE_OFF,
    VERDICT_EMPTY,
    VERDICT_PASS,
    CacheData,
)

UUID = bytes(range(16))
GOOD = struct.pack("<IIII16s", 32, 1, 0x1002, 0x73BF, UUID)


def cache_data(header: bytes, size: int | None = None, is_null: bool = False) -> CacheData:
    size = len(header) if size is None else size
    return things.cache_data(header, data_is_null=is_null, data_size=size)


def header(length: int = 32, version: int = 1, vendor: int = 0x1002, device: int = 0x73BF, uuid: bytes = UUID) -> bytes:
    return struct.pack("<IIII16s", length, version, vendor, device, uuid)


CASES = [
    ("accepted", cache_data(GOOD)),
    ("accepted", cache_data(GOOD, 1 << 40)),
    ("accepted", cache_data(header(length=40), 41)),
    ("accepted", cache_data(header(version=1000629000, vendor=0), 100)),
    ("zero-length", cache_data(b"", 0)),
    ("zero-length", cache_data(b"", 0, is_null=True)),
    ("null", cache_data(b"", 100, is_null=True)),
    ("truncated", cache_data(GOOD[:1])),
    ("truncated", cache_data(GOOD[:31])),
    ("truncated", cache_data(GOOD[:20], 100)),
    ("wrong-length", cache_data(header(length=0), 100)),
    ("wrong-length", cache_data(header(length=31), 100)),
    ("wrong-length", cache_data(header(length=101), 100)),
    ("wrong-length", cache_data(header(length=2**32 - 1), 100)),
    ("wrong-version", cache_data(header(version=0), 100)),
    ("wrong-version", cache_data(header(version=2), 100)),
    ("wrong-version", cache_data(bytes(32), 100)),
    ("wrong-version", cache_data(struct.pack(">IIII16s", 32, 1, 0x1002, 0x73BF, UUID), 100)),
    ("wrong-vendor", cache_data(header(vendor=0x10DE), 100)),
    ("wrong-device", cache_data(header(device=1), 100)),
    ("wrong-uuid", cache_data(header(uuid=UUID[:15] + b"\x10"), 100)),
]


@pytest.mark.parametrize(("outcome", "data"), CASES)
def test_judge(outcome: str, data: CacheData) -> None:
    """Each possible error of a header has its outcome. Only accepted data passes."""
    assert judge(data, facts()) == outcome
    verdict, named = Policy().admit_cache(data, facts(), {**DEFAULTS, "application_caches": "check"})
    assert (verdict, named) == (VERDICT_PASS if outcome == "accepted" else VERDICT_EMPTY, outcome)


@pytest.mark.parametrize(
    ("history", "data", "verdict", "outcome"),
    [
        ("attested", GOOD, VERDICT_PASS, "attested"),
        ("unknown", GOOD, VERDICT_PASS, "unknown"),
        ("altered", GOOD, VERDICT_EMPTY, "altered"),
        ("stale", GOOD, VERDICT_EMPTY, "stale"),
        ("stale", header(vendor=0x10DE), VERDICT_EMPTY, "stale"),
        ("unknown", header(vendor=0x10DE), VERDICT_EMPTY, "wrong-vendor"),
        ("altered", header(vendor=0x10DE), VERDICT_EMPTY, "wrong-vendor"),
    ],
)
def test_history_decides(history: str, data: bytes, verdict: int, outcome: str) -> None:
    """If the header is right, the history of the data from earlier runs decides."""
    judged = cache_data(data, 100)
    judged.history = history
    assert Policy().admit_cache(judged, facts(), DEFAULTS) == (verdict, outcome)


# ---- identity ----------------------------------------------------------------------------------------

FIELDS = {
    "abi": "64-bit little-endian",
    "device_id": 0x73BF,
    "driver_id": 3,
    "driver_info": "Mesa 25.0.7",
    "driver_name": "radv",
    "driver_version": 104857607,
    "pipeline_cache_uuid": "000102030405060708090a0b0c0d0e0f",
    "vendor_id": 0x1002,
}


def test_identity_is_pinned() -> None:
    """These fields must keep this name. With another name, every existing store would be left unread."""
    assert Identity(FIELDS).name == "b806ea7b6b14ce02629cbeefe96fe1d7"
    assert program_id("stutter", "Stutter") == 0xE4685CB3B99C6FF1


# ---- plan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "device", "mode"),
    [
        ("auto", {}, MODE_CELLS),
        ("auto", {"cache_control_supported": False}, MODE_OFF),
        ("auto", {"cache_control_supported": False, "cache_control_requested": True}, MODE_CELLS),
        ("auto", {"driver_id": 13}, MODE_OFF),
        ("cells", {"driver_id": 13}, MODE_CELLS),
        ("cells", {"cache_control_supported": False}, MODE_OFF),
        ("off", {}, MODE_OFF),
        ("auto", {"binaries_supported": True}, MODE_CELLS),
        ("auto", {"binaries_requested": True}, MODE_CELLS),
        ("auto", {"binaries_requested": True, "cache_control_supported": False}, MODE_OFF),
        ("binaries", {"binaries_supported": True}, MODE_BINARIES),
        ("binaries", {"binaries_requested": True}, MODE_BINARIES),
        ("binaries", {"binaries_supported": True, "driver_id": 13}, MODE_BINARIES),
        ("binaries", {}, MODE_CELLS),
        ("binaries", {"driver_id": 13}, MODE_OFF),
        ("binaries", {"binaries_supported": True, "cache_control_supported": False}, MODE_OFF),
        *(
            (wanted, {"binaries_supported": True, "internal_cache_disabled": True}, MODE_OFF)
            for wanted in ("auto", "cells", "binaries", "off")
        ),
    ],
)
def test_choose_mode(wanted: str, device: dict[str, Any], mode: int) -> None:
    """The mode follows the policy file if the device supports it, and has a reason in words."""
    chosen, reason = choose_mode({**DEFAULTS, "mode": wanted}, facts(**device))
    assert chosen == mode
    assert reason
