"""The policy thread and pipeline binaries: which folder is read and when, what a program is told, and what it read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.fake_layer import SERIAL, FakeBoundary, FakeMessage, Send, message
from unit.things import facts, scan

from pylayer.common.identity import Identity, program_id
from pylayer.store import format, journal
from pylayer.store.folder import Folder
from pylayer.values import (
    CARRIER_BINARIES,
    CARRIER_CELLS,
    CARRIER_OFF,
    LOG_INFO,
)

KEY = b"global key"
IDENTITY = Identity.of(facts(), KEY)
PROGRAM = program_id("stutter", "Stutter")


def device(carrier: int = CARRIER_BINARIES, key: bytes = KEY, **changes: Any) -> list[FakeMessage | None]:
    """Returns the messages that create a device with binaries, and enough rounds of the loop to load its store."""
    content = {"facts": facts(binaries_supported=True, **changes)}
    state = {"binaries": bool(key), "global_key": key, "carrier": carrier}
    return [message("PLAN_DEVICE", **content), None, None, message("DEVICE_CREATED", state=state), None, None, None]


@pytest.fixture
def wants_binaries(host: Any) -> None:
    host.document = {"settings": {"carrier": "binaries"}}


@pytest.mark.parametrize("requested", [True, False])
def test_nothing_is_read_in_vain(
    send: Send, host: Any, boundary: FakeBoundary, root: str, monkeypatch: pytest.MonkeyPatch, requested: bool
) -> None:
    """If the device will have a global key, the store is not read before the key is known. Otherwise it is read
    early."""
    read: list[str] = []
    load = Folder.load
    monkeypatch.setattr(Folder, "load", lambda self, *rest: read.append(self.identity.name) or load(self, *rest))
    messages = device(CARRIER_CELLS, KEY if requested else b"", binaries_requested=requested)
    send(*messages[:3])
    assert read == ([] if requested else [Identity.of(facts()).name])
    send(*messages[3:])
    assert read == [(IDENTITY if requested else Identity.of(facts())).name]
    assert boundary.done == [SERIAL] and host.loading == {}


@pytest.mark.parametrize(
    ("carrier", "cache_control", "reason"),
    [
        (CARRIER_CELLS, True, "VK_KHR_pipeline_binary could not be enabled"),
        (2, False, "pipelineCreationCacheControl could not be enabled"),
    ],
)
def test_fallback(
    send: Send, boundary: FakeBoundary, wants_binaries: None, carrier: int, cache_control: bool, reason: str
) -> None:
    """If binaries cannot be enabled on a device, the reason for its other carrier is logged."""
    messages = device(carrier, b"")
    assert messages[3] is not None
    messages[3].content["state"]["cache_control"] = cache_control
    send(*messages)
    assert any(reason in line for line in boundary.lines(LOG_INFO))


def test_cache_verdicts_of_a_device_without_a_carrier(send: Send, host: Any, root: str) -> None:
    """Application caches are judged under the identity with the global key, even if nothing is loaded."""
    send(*device(CARRIER_OFF, internal_cache_disabled=True))
    assert host.sessions[SERIAL].identity.name == IDENTITY.name


def test_binaries_that_the_program_reads(
    send: Send, boundary: FakeBoundary, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several of them are stored with one write, separate from pipelines, and each message is released."""
    writes: list[int] = []
    append = journal.Journal.append
    monkeypatch.setattr(journal.Journal, "append", lambda self, parts: writes.append(len(parts)) or append(self, parts))
    reads = [message("BINARY_READ", data=b"%d" % number) for number in range(5)]
    gone = message("BINARY_READ", data=None, read={"size": 7, "digest": bytes(16)})
    send(*device(CARRIER_CELLS, binaries_requested=True), *reads, gone, message("CELL", data=b"a pipeline"))
    assert writes == [5 * 4 + 3, 3]
    (path,) = Path(root).rglob("*.binaries")
    assert [one.magic for one in scan(path.read_bytes(), [])] == [format.APPLICATION_BINARY] * 6
