"""The policy thread and pipeline binaries: which folder is read and when, what a program is told, and what it read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.fake_layer import SERIAL, FakeBoundary, FakeMessage, Send, message, own
from unit.things import binaries, counters, facts, record, scan, write_journal

from pylayer.common.identity import Identity, program_id
from pylayer.store import format, journal, runs
from pylayer.store.folder import Folder
from pylayer.values import (
    CARRIER_BINARIES,
    CARRIER_CELLS,
    CARRIER_OFF,
    LOG_INFO,
    LOG_WARN,
    UNIT_BINARIES,
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


def in_folder(root: str, identity: Identity, *records: bytes) -> Path:
    folder = Folder(root, identity)
    folder.prepare()
    return write_journal(Path(folder.path, own("1")), identity, *records, program_id=PROGRAM)


def test_a_device_of_binaries(send: Send, boundary: FakeBoundary, root: str, wants_binaries: None) -> None:
    """A device is planned, loaded, used and destroyed under the identity that includes the driver's global key."""
    in_folder(root, IDENTITY, record(binaries(b"stored"), format.BINARIES), record(b"a cell"))
    messages = device()
    new = message("CELL", data=binaries(b"new"), unit=UNIT_BINARIES)
    boundary.totals = counters(pipelines=2, hits=1, binary_hits=1, binaries_evicted=1)
    send(
        message("CREATE_INSTANCE", device=0), *messages, new, message("CELL", data=b"new cell"), message("FLUSH_DEVICE")
    )
    assert messages[0] is not None and messages[0].plan is not None
    assert messages[0].plan.carrier == CARRIER_BINARIES
    assert (boundary.binaries, boundary.loaded, boundary.done) == ([binaries(b"stored")], [b"a cell"], [SERIAL])
    folder = Folder(root, IDENTITY)
    magics = [one.magic for path in folder.files(None) for one in scan(Path(path).read_bytes(), [])]
    assert (magics.count(format.BINARIES), magics.count(format.CELL)) == (2, 2)
    (run,) = runs.read_all(root)
    assert (run["carrier"], run["loaded_binaries"], run["stored_records"]) == ("binaries", 1, 2)
    assert (run["identity"], run["counters"]["binary_hits"]) == (IDENTITY.name, 1)
    assert len(boundary.lines(LOG_WARN)) == 1 and "from stored binaries" in boundary.lines(LOG_WARN)[0]


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


def test_no_internal_caches(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """A program that disables internal caches gets no pipelines from the store. What it reads is still recorded."""
    in_folder(root, IDENTITY, record(b"a cell"), record(binaries(b"stored"), format.BINARIES))
    disabled = {"binaries_requested": True, "internal_cache_disabled": True}
    first = device(CARRIER_OFF, **disabled)
    send(*first, message("BINARY_READ", data=b"its own"), message("FLUSH_DEVICE"))
    assert first[0] is not None and first[0].plan is not None
    assert (first[0].plan.carrier, first[0].plan.check_caches, first[0].plan.check_binaries) == (
        CARRIER_OFF,
        True,
        True,
    )
    send(*device(CARRIER_OFF, **disabled))
    assert (boundary.loaded, boundary.binaries) == ([], [])
    assert boundary.attested == [(b"its key", xxhash.xxh3_128_digest(b"its own"), False, b"its own")]
    assert any("the program disables internal caches" in line for line in boundary.lines(LOG_INFO))
    assert host.loading == {}


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


def test_binaries_of_no_device(send: Send, root: str) -> None:
    """Binaries for a device that policy does not know are released and not stored."""
    send(message("BINARY_READ", data=b"one"))
    assert not list(Path(root).rglob("*.binaries"))
