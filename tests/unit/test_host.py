"""The policy thread's loop: devices from plan to end, loading, cells, statistics."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.fake_layer import SERIAL, FakeBoundary, FakeMessage, Send, device, in_store, message, own, policy_of, stored
from unit.things import counters, facts, record

from pylayer.policy import Policy
from pylayer.store import folder as folder_module
from pylayer.store import journal, reader, runs
from pylayer.values import (
    CARRIER_OFF,
    LOG_INFO,
    LOG_WARN,
    VERDICT_EMPTY,
    VERDICT_PASS,
    Cell,
)

# ---- devices -----------------------------------------------------------------------------------------


def test_late_plan(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """A plan that came too late leaves no session, and the log says so."""
    send(FakeMessage("PLAN_DEVICE", late=True))
    assert host.sessions == {}
    assert "too late" in boundary.lines(LOG_WARN)[0]


def test_carrier_off(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """With carrier off nothing is read, and the reason is logged."""
    send(message("PLAN_DEVICE", facts=facts(driver_id=13)), message("DEVICE_CREATED", carrier=CARRIER_OFF))
    assert host.loading == {}
    assert any("Lavapipe" in line for line in boundary.lines(LOG_INFO))


def test_carrier_that_became_off(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """If the driver refused an empty cache, verified data is not handed over."""
    in_store(root, own("1"), record(b"stored"))
    send(message("PLAN_DEVICE"), None, message("DEVICE_CREATED", carrier=CARRIER_OFF), None)
    assert (boundary.loaded, host.loading) == ([], {})


def test_session_that_could_not_be_made(
    send: Send, boundary: FakeBoundary, monkeypatch: pytest.MonkeyPatch, host: Any
) -> None:
    """A device that was planned but got no session is switched off, so that nothing waits for it."""
    from pylayer.inhost import session

    monkeypatch.setattr(session, "DeviceSession", None)
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED"), message("ADMIT_CACHE"), message("FLUSH_DEVICE"))
    assert boundary.switched_off == [SERIAL]


# ---- loading -----------------------------------------------------------------------------------------


def test_store_is_verified_before_the_device_exists(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """The store is read while the driver creates the device. Nothing is handed over until the device exists."""
    in_store(root, own("1"), record(b"stored"))
    send(message("PLAN_DEVICE"), None, None, None, None)
    assert boundary.loaded == []
    assert host.loading[SERIAL].step() is False
    send(message("DEVICE_CREATED"), None)
    assert boundary.loaded == [b"stored"]
    assert boundary.done == [SERIAL]
    assert host.loading == {}


def test_large_store_is_loaded_in_steps(
    send: Send, boundary: FakeBoundary, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two batches the loop polls the mailbox, so that requests are answered during a load."""
    monkeypatch.setattr(reader, "PART_BYTES", 10 * 80)
    in_store(root, own("1"), *(record(b"%d" % number) for number in range(50)))
    request = message("ADMIT_CACHE")
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED"), None, request, None, None, None, None)
    assert boundary.loaded == [b"%d" % number for number in range(50)]
    assert request.verdict == VERDICT_EMPTY
    assert boundary.timeouts[1:4] == [0, 0, 0]
    assert boundary.done == [SERIAL]


@pytest.mark.parametrize("when", ["before the device", "after the device"])
def test_store_that_cannot_be_read(
    send: Send, boundary: FakeBoundary, root: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A load that fails unexpectedly is abandoned, and no pipeline creation waits for it."""
    in_store(root, own("1"), record(b"stored"))

    def fail(path: str) -> bytes:
        raise MemoryError

    monkeypatch.setattr(folder_module, "Reader", fail)
    created = message("DEVICE_CREATED")
    send(message("PLAN_DEVICE"), *([None, created] if when.startswith("before") else [created, None]), None, None)
    assert boundary.done == [SERIAL]
    assert any("MemoryError" in line for line in boundary.lines(LOG_INFO))


def test_load_that_cannot_be_finished(
    send: Send, host: Any, boundary: FakeBoundary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the last step of a load fails, pipeline creations and the loop still continue."""
    from pylayer.inhost import session

    monkeypatch.setattr(session.DeviceSession, "load_finished", lambda self: 1 / 0)
    send(*device())
    assert boundary.done == [SERIAL]
    assert host.loading == {}


def test_device_destroyed_while_loading(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """The load of a destroyed device is dropped."""
    in_store(root, own("1"), record(b"stored"))
    send(message("PLAN_DEVICE"), message("FLUSH_DEVICE"), None)
    assert (host.loading, host.sessions, boundary.loaded) == ({}, {}, [])


# ---- plans that are kept -----------------------------------------------------------------------------


def test_plan_is_kept(send: Send, host: Any, root: str) -> None:
    """The built-in policy's plan is stored for the next run, after a digest of its file's name and itself."""
    host.configure()
    send(message("PLAN_DEVICE"))
    data = Path(root, "plans", "all.plan").read_bytes()
    assert data == xxhash.xxh3_128_digest(b"all.planplan") + b"plan"


def test_plan_made_by_rules_is_kept_for_its_program(send: Send, host: Any, root: str) -> None:
    """If the policy file has rules, a plan is valid only for the program for which it was made."""
    host.configure()
    host.document = {"rules": [{"match": {"executable": "other"}, "set": {"carrier": "off"}}]}
    send(message("PLAN_DEVICE"))
    assert os.listdir(Path(root, "plans")) == ["one.plan"]


def test_kept_plan_is_not_answered(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """If the layer found a stored plan, nobody waits for an answer, but the session is still made."""
    request = message("PLAN_DEVICE", kept=True, late=True)
    send(request)
    assert request.plan is None
    assert list(host.sessions) == [SERIAL]
    assert not any("too late" in line for line in boundary.lines(LOG_WARN))


# ---- cells -------------------------------------------------------------------------------------------


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the number of records of each append."""
    writes: list[int] = []
    append = journal.Journal.append

    def counting(self: journal.Journal, parts: list[Any]) -> None:
        writes.append(len(parts) // 3)
        append(self, parts)

    monkeypatch.setattr(journal.Journal, "append", counting)
    return writes


def test_cells_are_written_in_batches(send: Send, host_module: Any, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of cells is stored with as few writes as possible."""
    writes = count_writes(monkeypatch)
    limit = host_module.WRITE_RECORDS
    cells = [message("CELL", data=b"%d" % number) for number in range(limit + 10)]
    send(*device(), *cells)
    assert writes == [limit, 10]
    assert stored(root) == [b"%d" % number for number in range(limit + 10)]


def test_message_behind_cells(send: Send, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request after a run of cells is answered. Cells of another device start another write."""
    writes = count_writes(monkeypatch)
    request = message("ADMIT_CACHE")
    other = 6
    send(
        *device(),
        FakeMessage("PLAN_DEVICE", other),
        FakeMessage("DEVICE_CREATED", other),
        message("CELL", data=b"1"),
        message("CELL", data=b"2"),
        FakeMessage("CELL", other, data=b"3"),
        request,
        message("CELL", data=b"4"),
    )
    assert writes == [2, 1, 1]
    assert request.verdict == VERDICT_EMPTY
    assert sorted(stored(root)) == [b"1", b"2", b"3", b"4"]


def test_cell_kept_beyond_its_call(send: Send, host: Any) -> None:
    """A policy class gets a cell's data as bytes, which it may keep. It never gets the view of the layer's memory."""
    kept: list[Cell] = []

    host.policy = policy_of(keep_cell=lambda self, cell, *_: kept.append(cell) or True)
    send(*device(), message("CELL", data=b"1"))
    assert (type(kept[0].data), kept[0].data) == (bytes, b"1")


def test_policy_refuses_a_cell(send: Send, host: Any, root: str) -> None:
    """A cell that the policy does not want is not stored."""
    host.policy = policy_of(keep_cell=lambda self, cell, *_: bytes(cell.data) != b"no")
    send(*device(), message("CELL", data=b"yes"), message("CELL", data=b"no"))
    assert stored(root) == [b"yes"]


# ---- application caches ------------------------------------------------------------------------------


def test_application_cache(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """Good data passes silently. Bad data is answered with an empty cache, counted by its outcome, and logged."""
    good = facts()
    header = b"".join(
        number.to_bytes(4, "little") for number in (32, 1, good.vendor_id, good.device_id)
    ) + bytes(range(16))  # fmt: skip
    passing, refused = message("ADMIT_CACHE", header=header), message("ADMIT_CACHE", header=bytes(32))
    send(*device(), passing, refused, message("CACHE_REFUSED"))
    assert (passing.verdict, refused.verdict) == (VERDICT_PASS, VERDICT_EMPTY)
    assert host.sessions[SERIAL].caches.refused == {"wrong-version": 1, "driver-error": 1}
    assert boundary.lines(LOG_WARN) == [
        "application cache of 100 bytes: wrong-version; the program gets an empty cache",
        "the driver failed (-1) on an application cache of 100 bytes; the program gets an empty cache",
    ]


# ---- flush and quiet ---------------------------------------------------------------------------------


class Witness(Policy):
    """A policy that records which files existed when it was called."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: list[tuple[str, int]] = []

    def device_destroyed(self, program: Any, facts: Any, counters: dict[str, int]) -> None:
        self.seen.append(("destroyed", len(list(runs.read_all(self.root)))))


def test_flush_order(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """When the policy is told of a device's end, the device's statistics are already on disk."""
    host.policy = Witness(root)
    boundary.totals = counters(plain=1, plain_compiled=1)
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED"), message("FLUSH_DEVICE"))
    assert host.policy.seen == [("destroyed", 1)]
    assert host.sessions == {}


def test_device_that_was_never_made(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """A device whose creation failed after its plan leaves nothing behind, and the policy is not told of an end."""
    host.policy = Witness(root)
    boundary.totals = None
    send(message("PLAN_DEVICE"), message("FLUSH_DEVICE"))
    assert (host.sessions, host.loading, host.policy.seen) == ({}, {}, [])
    assert list(runs.read_all(root)) == []


def test_flush_of_the_process(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """At exit every device is settled first, even if the policy then fails for one of them."""

    class FailsOnce(Witness):
        def device_destroyed(self, program: Any, facts: Any, counters: dict[str, int]) -> None:
            super().device_destroyed(program, facts, counters)
            if len(self.seen) == 1:
                raise SystemExit

    host.policy = FailsOnce(root)
    send(
        *device(),
        FakeMessage("PLAN_DEVICE", 6),
        FakeMessage("DEVICE_CREATED", 6),
        message("FLUSH_PROCESS", device=0),
    )
    assert host.policy.seen == [("destroyed", 2)] * 2


def test_failing_policy_costs_no_statistics(send: Send, host: Any, root: str) -> None:
    """If a policy fails at the end of a device, the device's statistics are still written."""
    host.policy = policy_of(device_destroyed=lambda self, *_: sys.exit())
    send(*device(), message("FLUSH_DEVICE"))
    assert len(list(runs.read_all(root))) == 1


def test_quiet(send: Send, boundary: FakeBoundary, host_module: Any, root: str) -> None:
    """A second after the last event, statistics are written. Then the loop looks once more."""
    boundary.totals = counters(plain=1, plain_compiled=1)
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED"), *[None] * 5)
    assert len(list(runs.read_all(root))) == 1
    assert boundary.timeouts[-1] == host_module.SETTLE_INTERVAL_NS


def test_hits_alone(send: Send, boundary: FakeBoundary, host_module: Any, root: str) -> None:
    """Statistics that change without a message are written each second. Unchanged ones are looked at once more."""
    rarely, often = host_module.SETTLE_INTERVAL_NS, host_module.STATISTICS_INTERVAL_NS
    send(*device(), *[None] * 4)
    boundary.timeouts.clear()
    boundary.totals = counters(pipelines=5, hits=5)
    send(None, None, None)
    assert [run["counters"]["hits"] for run in runs.read_all(root)] == [5]
    assert boundary.timeouts[:3] == [rarely, often, rarely]


def test_idle(send: Send, boundary: FakeBoundary, host_module: Any, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When everything is written, the loop sleeps. A pipeline that is created wakes it, and is counted at once."""
    monkeypatch.setattr(host_module, "SETTLE_INTERVAL_NS", 0)
    send(*device(), *[None] * 4)
    often = host_module.STATISTICS_INTERVAL_NS
    assert boundary.timeouts[-3:] == [often, 0, -1]
    boundary.totals = counters(pipelines=5, hits=5)
    send(None)
    assert [run["counters"]["hits"] for run in runs.read_all(root)] == [5]
    assert often in boundary.timeouts[-2:]


def test_old_runs_are_pruned(send: Send, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once in each process, when it is idle, the oldest runs beyond the limit are deleted."""
    calls: list[str] = []
    monkeypatch.setattr(runs, "prune", calls.append)
    send(*device(), None, None, message("CREATE_INSTANCE", device=0), None, None)
    assert calls == [root]


def test_one_failing_device_leaves_the_others(send: Send, host: Any, root: str) -> None:
    """If the statistics of one device cannot be read, those of another are still written."""
    send(*device(), FakeMessage("PLAN_DEVICE", 6), FakeMessage("DEVICE_CREATED", 6))
    for path in Path(root, "runs").glob("*"):
        path.unlink()
    host.sessions[SERIAL].read_counters = lambda: 1 / 0
    host.sessions[6].run_log._run._written = ""
    host._idle()
    assert len(list(runs.read_all(root))) == 1
