"""The policy thread and pipeline binaries: when they are read, what a program is told, and what it read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.fake_layer import SERIAL, FakeBoundary, FakeMessage, Send, message
from unit.things import FakeCommands, binaries, binary_read, cell, facts, keep, scan
from unit.things import session as new_session

from pylayer.store import format, journal
from pylayer.values import CARRIER_BINARIES, CARRIER_CELLS, CARRIER_OFF, LOG_INFO, UNIT_BINARIES


def device(carrier: int = CARRIER_BINARIES, enabled: bool = True, **changes: Any) -> list[FakeMessage | None]:
    """Returns the messages that create a device with binaries, and enough rounds of the loop to load its store."""
    content = {"facts": facts(binaries_supported=True, **changes)}
    state = {"binaries": enabled, "carrier": carrier}
    return [message("PLAN_DEVICE", **content), None, None, message("DEVICE_CREATED", state=state), None, None, None]


@pytest.fixture
def wants_binaries(host: Any) -> None:
    host.document = {"settings": {"carrier": "binaries"}}


def test_binaries_are_verified_before_the_device_exists(
    send: Send, host: Any, boundary: FakeBoundary, root: str, wants_binaries: None
) -> None:
    """The store is read while the driver creates the device. The layer gets what is in it once the device exists, and
    has its driver's global key."""
    session = new_session(root, FakeCommands(), carrier=CARRIER_BINARIES, binaries_supported=True)
    keep(session, cell(binaries(b"one"), unit=UNIT_BINARIES))
    session.close()
    messages = device()
    send(*messages[:3])
    assert boundary.binaries == [] and host.loading[SERIAL]._verified is not None
    send(*messages[3:])
    assert boundary.binaries == [binaries(b"one")] and boundary.done == [SERIAL]


def test_history_is_handed_over_when_the_program_passes_data(send: Send, boundary: FakeBoundary, root: str) -> None:
    """The layer is told once what the program read in earlier runs, and only if it passes data of binaries. Nothing
    waits for it before, without a carrier, too."""
    session = new_session(root, FakeCommands(), binaries_requested=True)
    session.binaries.write(session.binaries.new(binary_read(b"one")))
    session.close()
    send(*device(CARRIER_OFF, binaries_requested=True, internal_cache_disabled=True))
    assert (boundary.attested, boundary.done) == ([], [])
    send(message("BINARIES_PASSED"), message("BINARIES_PASSED"))
    assert [digest for _, digest, _ in boundary.attested] == [xxhash.xxh3_128_digest(b"one")]


@pytest.mark.parametrize(
    ("carrier", "cache_control", "reason"),
    [
        (CARRIER_CELLS, True, "VK_KHR_pipeline_binary could not be enabled"),
        (CARRIER_OFF, False, "pipelineCreationCacheControl could not be enabled"),
    ],
)
def test_fallback(
    send: Send, boundary: FakeBoundary, wants_binaries: None, carrier: int, cache_control: bool, reason: str
) -> None:
    """If binaries cannot be enabled on a device, the reason for its other carrier is logged."""
    messages = device(carrier, enabled=False)
    assert messages[3] is not None
    messages[3].content["state"]["cache_control"] = cache_control
    send(*messages)
    assert any(reason in line for line in boundary.lines(LOG_INFO))


def test_binaries_that_the_program_reads(
    send: Send, boundary: FakeBoundary, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several of them are stored with one write, separate from pipelines, and each message is released."""
    writes: list[int] = []
    append = journal.Journal.append
    monkeypatch.setattr(journal.Journal, "append", lambda self, parts: writes.append(len(parts)) or append(self, parts))
    reads = [message("BINARY_READ", data=b"%d" % number) for number in range(5)]
    send(*device(CARRIER_CELLS, binaries_requested=True), *reads, message("CELL", data=b"a pipeline"))
    assert writes == [5 * 3, 3]
    (path,) = Path(root).rglob("*.binaries")
    assert [one.magic for one in scan(path.read_bytes(), [])] == [format.APPLICATION_BINARY] * 5
