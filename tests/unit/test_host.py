"""The policy thread's loop, over a mailbox that is a list. Whatever goes wrong with one message stays with it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from unit.things import FakeCommands, cell, counters, facts, program, record, scan, write_journal

import pylayer
from pylayer.identity import Identity, program_id
from pylayer.policy import Policy
from pylayer.store import journal, runs
from pylayer.store.folder import Folder
from pylayer.values import (
    CARRIER_CELLS,
    CARRIER_OFF,
    CARRIER_SNAPSHOT,
    LOG_INFO,
    LOG_WARN,
    VERDICT_EMPTY,
    VERDICT_PASS,
    CacheData,
    Cell,
    DeviceState,
    Plan,
)

SERIAL = 5
TYPES = (
    "CREATE_INSTANCE",
    "PLAN_DEVICE",
    "DEVICE_CREATED",
    "ADMIT_CACHE",
    "CACHE_REFUSED",
    "CELL",
    "FLUSH_DEVICE",
    "FLUSH_PROCESS",
)


class FakeMessage:
    """A message as the layer would send it."""

    def __init__(self, kind: str, device: int = SERIAL, late: bool = False, **content: Any) -> None:
        self.type = TYPES.index(kind) + 1
        self.device = device
        self.late = late
        self.content = content
        self.releases = 0
        self.plan: Plan | None = None
        self.kept: bool = content.get("kept", False)
        self.verdict: int | None = None

    def release(self) -> None:
        self.releases += 1

    def program(self, executable: str) -> Any:
        return program(executable="stutter")

    def device_facts(self) -> Any:
        return self.content.get("facts", facts())

    def answer_plan(self, plan: Plan) -> bool:
        self.plan = plan
        return not self.late

    def plan_to_keep(self, for_all_programs: bool) -> tuple[str, bytes, bytes]:
        return ("all.plan" if for_all_programs else "one.plan"), b"plan", b"key"

    def device_state(self) -> DeviceState:
        return DeviceState(
            cache_control=True, carrier=self.content.get("carrier", CARRIER_CELLS), empty_cache_bytes=32, feedback=True
        )

    def cache_data(self) -> CacheData:
        return CacheData(cache=1, data_is_null=False, data_size=100, header=self.content.get("header", b""), result=-1)

    def answer_verdict(self, verdict: int) -> bool:
        self.verdict = verdict
        return True

    def cell(self) -> Cell:
        return cell(self.content["data"])


class FakeBoundary(ModuleType, FakeCommands):
    """pylayer.boundary without the layer. ``next_message`` ends the loop when nothing is left."""

    def __init__(self) -> None:
        ModuleType.__init__(self, "pylayer.boundary")
        FakeCommands.__init__(self)
        for number, name in enumerate(TYPES, 1):
            setattr(self, name, number)
        self.queue: list[FakeMessage | None] = []
        self.timeouts: list[int] = []
        self.variables: dict[str, str] = {}

    def next_message(self, timeout_ns: int) -> FakeMessage | None:
        self.timeouts.append(timeout_ns)
        return self.queue.pop(0) if self.queue else None

    def is_open(self) -> bool:
        return bool(self.queue)

    def environment(self, name: str, default: str = "") -> str:
        return self.variables.get(name, default)


@pytest.fixture
def boundary(monkeypatch: pytest.MonkeyPatch) -> FakeBoundary:
    result = FakeBoundary()
    monkeypatch.setitem(sys.modules, "pylayer.boundary", result)
    monkeypatch.setattr(pylayer, "boundary", result, raising=False)
    return result


@pytest.fixture
def host_module(boundary: FakeBoundary, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """pylayer.host over the fake boundary; gone afterwards."""
    from pylayer import paths

    monkeypatch.delitem(sys.modules, "pylayer.host", raising=False)
    monkeypatch.setattr(paths, "getenv", boundary.environment)
    streams = sys.stdout, sys.stderr
    yield importlib.import_module("pylayer.host")
    sys.stdout, sys.stderr = streams
    sys.modules.pop("pylayer.host", None)
    if hasattr(pylayer, "host"):
        del pylayer.host


@pytest.fixture
def root(tmp_path: Path, boundary: FakeBoundary) -> str:
    boundary.variables = {"PYLAYER_STORE": str(tmp_path / "root"), "PYLAYER_CONFIG": str(tmp_path / "policy.yaml")}
    return str(tmp_path / "root")


@pytest.fixture
def host(host_module: Any, root: str) -> Any:
    return host_module.Host()


Send = Callable[..., None]


@pytest.fixture
def send(host: Any, boundary: FakeBoundary) -> Send:
    """Runs the loop over these messages; None is a wait that ended without one."""

    def run(*messages: FakeMessage | None) -> None:
        boundary.queue = [*messages, None, None]
        host.loop()
        assert all(message.releases == 1 for message in messages if message is not None)

    return run


def message(kind: str, **content: Any) -> FakeMessage:
    return FakeMessage(kind, **content)


def device(**content: Any) -> list[FakeMessage | None]:
    """What makes a device, and enough rounds of the loop to load its store."""
    return [message("PLAN_DEVICE", **content), message("DEVICE_CREATED", **content), None, None, None]


def in_store(root: str, name: str, *records: bytes) -> Path:
    folder = Folder(root, Identity.of(facts()))
    folder.prepare()
    return write_journal(Path(folder.path, name), folder.identity, *records)


def own(name: str) -> str:
    return f"{program_id('stutter', 'Stutter'):016x}-{name}.journal"


def stored(root: str) -> list[bytes]:
    found = []
    for path in Folder(root, Identity.of(facts())).files(None):
        data = Path(path).read_bytes()
        found += [data[start : start + size] for _, _, _, start, size, *_ in scan(data, [])]
    return found


# ---- devices -----------------------------------------------------------------------------------------


def test_a_device_from_plan_to_end(send: Send, boundary: FakeBoundary, root: str) -> None:
    """Planned, loaded, used and destroyed: the store is handed over, new cells and statistics are kept."""
    in_store(root, own("1"), record(b"stored"))
    plan = message("PLAN_DEVICE")
    boundary.totals = counters(pipelines=2, hits=1)
    send(
        message("CREATE_INSTANCE", device=0),
        plan,
        message("DEVICE_CREATED"),
        None,
        None,
        message("CELL", data=b"new"),
        message("FLUSH_DEVICE"),
    )
    assert plan.plan is not None
    assert plan.plan.carrier == CARRIER_CELLS
    assert boundary.loaded == [b"stored"]
    assert boundary.done == [SERIAL]
    assert stored(root) == [b"stored", b"new"]
    (run,) = runs.read_all(root)
    assert (run["counters"]["hits"], run["stored_records"]) == (1, 1)
    assert boundary.lines(LOG_WARN) == []


def test_late_plan(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """A plan that came too late leaves no session behind, and is said."""
    send(FakeMessage("PLAN_DEVICE", late=True))
    assert host.sessions == {}
    assert "too late" in boundary.lines(LOG_WARN)[0]


def test_carrier_off(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """With carrier off nothing is read, and the reason is logged."""
    send(message("PLAN_DEVICE", facts=facts(driver_id=13)), message("DEVICE_CREATED", carrier=CARRIER_OFF))
    assert host.loading == {}
    assert any("Lavapipe" in line for line in boundary.lines(LOG_INFO))


def test_carrier_that_became_off(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """Where the driver refused an empty cache, what was verified is not handed over."""
    in_store(root, own("1"), record(b"stored"))
    send(message("PLAN_DEVICE"), None, message("DEVICE_CREATED", carrier=CARRIER_OFF), None)
    assert (boundary.loaded, host.loading) == ([], {})


def test_session_that_could_not_be_made(
    send: Send, boundary: FakeBoundary, monkeypatch: pytest.MonkeyPatch, host: Any
) -> None:
    """A device whose plan was answered and that then got no session is switched off: nothing waits for it."""
    from pylayer import session

    monkeypatch.setattr(session, "DeviceSession", None)
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED"), message("ADMIT_CACHE"), message("FLUSH_DEVICE"))
    assert boundary.switched_off == [SERIAL]


# ---- loading -----------------------------------------------------------------------------------------


def test_store_is_verified_before_the_device_exists(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """While the driver creates the device the store is read; nothing is handed over until the device exists."""
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
    """Between two batches the mailbox is looked at without waiting, so that requests are answered meanwhile."""
    monkeypatch.setattr(journal, "PART_BYTES", 10 * 64)
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
    """A load that fails in an unforeseen way is given up, and no pipeline creation waits for it."""
    in_store(root, own("1"), record(b"stored"))

    def fail(path: str) -> bytes:
        raise MemoryError

    monkeypatch.setattr(journal, "Reader", fail)
    created = message("DEVICE_CREATED")
    send(message("PLAN_DEVICE"), *([None, created] if when.startswith("before") else [created, None]), None, None)
    assert boundary.done == [SERIAL]
    assert any("MemoryError" in line for line in boundary.lines(LOG_INFO))


def test_load_that_cannot_be_finished(
    send: Send, host: Any, boundary: FakeBoundary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the last step of a load fails, pipeline creations go on, and the loop does."""
    from pylayer import session

    monkeypatch.setattr(session.DeviceSession, "load_finished", lambda self: 1 / 0)
    send(*device())
    assert boundary.done == [SERIAL]
    assert host.loading == {}


def test_device_destroyed_while_loading(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """The load of a device that is gone is dropped."""
    in_store(root, own("1"), record(b"stored"))
    send(message("PLAN_DEVICE"), message("FLUSH_DEVICE"), None)
    assert (host.loading, host.sessions, boundary.loaded) == ({}, {}, [])


# ---- plans that are kept -----------------------------------------------------------------------------


def test_plan_is_kept(send: Send, host: Any, root: str) -> None:
    """The built-in policy's plan is kept for the next run, as plan and key behind a header with their sizes."""
    from pylayer.store import plans

    host.configure()
    send(message("PLAN_DEVICE"))
    data = Path(root, "plans", "all.plan").read_bytes()
    assert plans.HEADER.unpack_from(data) == (plans.MAGIC, 4, 3, plans.fnv1a(b"plankey"))
    assert data[plans.HEADER.size :] == b"plankey"


def test_plan_made_by_rules_is_kept_for_its_program(send: Send, host: Any, root: str) -> None:
    """With rules in the policy file a plan holds for the program that it was made for."""
    host.configure()
    host.document = {"rules": [{"match": {"executable": "other"}, "set": {"carrier": "off"}}]}
    send(message("PLAN_DEVICE"))
    assert os.listdir(Path(root, "plans")) == ["one.plan"]


def test_kept_plan_is_not_answered(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """Where the layer found a kept plan nobody waits, and the session is made all the same."""
    request = message("PLAN_DEVICE", kept=True, late=True)
    send(request)
    assert request.plan is None
    assert list(host.sessions) == [SERIAL]
    assert not any("too late" in line for line in boundary.lines(LOG_WARN))


# ---- cells -------------------------------------------------------------------------------------------


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records of each append."""
    writes: list[int] = []
    append = journal.Journal.append

    def counting(self: journal.Journal, parts: list[Any]) -> None:
        writes.append(len(parts) // 3)
        append(self, parts)

    monkeypatch.setattr(journal.Journal, "append", counting)
    return writes


def test_cells_are_written_in_batches(send: Send, host_module: Any, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of cells is stored with one write for as many as one write takes."""
    writes = count_writes(monkeypatch)
    limit = host_module.WRITE_RECORDS
    cells = [message("CELL", data=b"%d" % number) for number in range(limit + 10)]
    send(*device(), *cells)
    assert writes == [limit, 10]
    assert stored(root) == [b"%d" % number for number in range(limit + 10)]


def test_message_behind_cells(send: Send, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request behind a run of cells is answered; cells of another device begin another write."""
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


def test_cell_of_an_unknown_device(send: Send, root: str) -> None:
    """A cell whose device has no session is released, and nothing else."""
    send(message("CELL", data=b"1"), message("CELL", data=b"2"))
    assert stored(root) == []


def test_cell_kept_beyond_its_call(send: Send, host: Any) -> None:
    """A policy that keeps a cell's data gets an exception from it later, not freed memory."""
    kept: list[Cell] = []

    class Keeper(Policy):
        def keep_cell(self, cell: Cell, program: Any, settings: Any) -> bool:
            kept.append(cell)
            return True

    host.policy = Keeper()
    send(*device(), message("CELL", data=b"1"))
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0].data)


def test_policy_refuses_a_cell(send: Send, host: Any, root: str) -> None:
    """A cell that the policy does not want is not stored."""

    class Choosy(Policy):
        def keep_cell(self, cell: Cell, program: Any, settings: Any) -> bool:
            return bytes(cell.data) != b"no"

    host.policy = Choosy()
    send(*device(), message("CELL", data=b"yes"), message("CELL", data=b"no"))
    assert stored(root) == [b"yes"]


# ---- failures of a policy ----------------------------------------------------------------------------


class Broken(Policy):
    """Fails in everything, with ``error``."""

    error: Any = RuntimeError("broken on\npurpose")

    def fail(self, *_: Any) -> Any:
        raise self.error

    plan_device = admit_cache = keep_cell = device_created = device_destroyed = fail


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("in __str__")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RuntimeError("x"), Unspeakable(), MemoryError()])
def test_failing_policy(send: Send, host: Any, boundary: FakeBoundary, error: BaseException) -> None:
    """An exception of any kind, SystemExit included, is logged in one line and ends neither loop nor process."""
    host.policy = Broken()
    host.policy.error = error
    request = message("PLAN_DEVICE")
    send(request, message("ADMIT_CACHE"), message("FLUSH_DEVICE"), message("CREATE_INSTANCE", device=0))
    assert request.plan is None
    failures = [line for line in boundary.lines(LOG_INFO) if line.startswith("policy failed")]
    assert failures
    assert all(type(error).__name__ in line and "test_host.py, line" in line for line in failures)


def test_failure_is_one_line(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """The text of an exception cannot forge lines of the log."""
    host.policy = Broken()
    send(message("PLAN_DEVICE"))
    (line,) = boundary.lines(LOG_INFO)
    assert line.startswith("policy failed, nothing is done for this call: RuntimeError: broken on purpose (test_host")


@pytest.mark.parametrize("answer", [None, 5, object()])
def test_plan_of_another_type(send: Send, host: Any, boundary: FakeBoundary, answer: Any) -> None:
    """A plan_device that returns no Plan is a failure that says so, and the device runs without the layer."""

    class Wrong(Policy):
        def plan_device(self, *_: Any) -> Any:
            return answer

    host.policy = Wrong()
    request = message("PLAN_DEVICE")
    send(request)
    assert (request.plan, host.sessions, host.failures) == (None, {}, 1)
    assert f"plan_device returned {type(answer).__name__}, not a Plan" in boundary.lines(LOG_INFO)[0]


def test_policy_that_fails_too_often(send: Send, host: Any, host_module: Any, boundary: FakeBoundary) -> None:
    """After MAX_FAILURES failures in a row, whatever succeeds between them besides the policy, the built-in policy
    takes over, and the next device is planned."""
    host.policy = Broken()
    last = message("PLAN_DEVICE")
    requests: list[FakeMessage | None] = []
    for _ in range(host_module.MAX_FAILURES):
        requests += [message("PLAN_DEVICE"), message("CREATE_INSTANCE", device=0), None]
    send(*requests, last)
    assert type(host.policy) is Policy
    assert last.plan is not None
    assert boundary.lines(LOG_WARN) == ["the policy class failed too often; the built-in one is in force"]


def test_policy_that_fails_on_every_cell(send: Send, host: Any, host_module: Any, root: str) -> None:
    """A keep_cell that always fails is replaced too, although storing goes on between the failures."""

    class Picky(Policy):
        def keep_cell(self, *_: Any) -> bool:
            raise ValueError

    host.policy = Picky()
    messages: list[FakeMessage | None] = []
    for number in range(host_module.MAX_FAILURES + 2):
        messages += [message("CELL", data=b"%d" % number), None]
    send(*device(), *messages)
    assert type(host.policy) is Policy
    assert len(stored(root)) == 2


def test_policy_that_fails_sometimes(send: Send, host: Any, host_module: Any) -> None:
    """Failures with successes between them do not cost a user the policy class."""

    class Moody(Policy):
        calls = 0

        def keep_cell(self, *_: Any) -> bool:
            self.calls += 1
            if self.calls % host_module.MAX_FAILURES:
                raise ValueError
            return True

    host.policy = Moody()
    count = 3 * host_module.MAX_FAILURES
    send(*device(), *(message("CELL", data=b"%d" % number) for number in range(count)))
    assert isinstance(host.policy, Moody)
    assert host.policy.calls == count


# ---- application caches ------------------------------------------------------------------------------


def test_application_cache(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """Good data passes silently; bad data is answered with an empty cache, counted by its outcome and said."""
    good = facts()
    header = b"".join(
        number.to_bytes(4, "little") for number in (32, 1, good.vendor_id, good.device_id)
    ) + bytes(range(16))  # fmt: skip
    passing, refused = message("ADMIT_CACHE", header=header), message("ADMIT_CACHE", header=bytes(32))
    send(*device(), passing, refused, message("CACHE_REFUSED"))
    assert (passing.verdict, refused.verdict) == (VERDICT_PASS, VERDICT_EMPTY)
    assert host.sessions[SERIAL].refused == {"wrong-version": 1, "driver-error": 1}
    assert boundary.lines(LOG_WARN) == [
        "application cache of 100 bytes: wrong-version; the program gets an empty cache",
        "the driver failed (-1) on an application cache of 100 bytes; the program gets an empty cache",
    ]


# ---- flush and quiet ---------------------------------------------------------------------------------


class Witness(Policy):
    """Notes what was there when it was called."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: list[tuple[str, int, int]] = []

    def device_destroyed(self, program: Any, facts: Any, counters: dict[str, int]) -> None:
        files = Folder(self.root, Identity.of(facts)).files(None)
        snapshots = [path for path in files if path.endswith(".snapshot")]
        self.seen.append(("destroyed", len(snapshots), len(list(runs.read_all(self.root)))))


def test_flush_order(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """When the policy hears of a device's end, its snapshot and statistics are on disk already."""
    host.policy = Witness(root)
    boundary.totals = counters(plain=1, plain_compiled=1)
    boundary.merged = b"x" * 100
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED", carrier=CARRIER_SNAPSHOT), message("FLUSH_DEVICE"))
    assert host.policy.seen == [("destroyed", 1, 1)]
    assert host.sessions == {}


def test_device_that_was_never_made(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """A device whose creation failed after its plan leaves nothing behind, and the policy hears of no end."""
    host.policy = Witness(root)
    boundary.totals = None
    send(message("PLAN_DEVICE"), message("FLUSH_DEVICE"))
    assert (host.sessions, host.loading, host.policy.seen) == ({}, {}, [])
    assert list(runs.read_all(root)) == []


def test_flush_of_the_process(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """At exit every device is settled first, also when the policy then fails for one of them."""

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
    assert host.policy.seen == [("destroyed", 0, 2)] * 2


def test_failing_policy_costs_no_statistics(send: Send, host: Any, root: str) -> None:
    """A policy that fails at the end of a device does not keep its statistics from the disk."""

    class Bad(Policy):
        def device_destroyed(self, *_: Any) -> None:
            raise SystemExit

    host.policy = Bad()
    send(*device(), message("FLUSH_DEVICE"))
    assert len(list(runs.read_all(root))) == 1


def test_quiet(send: Send, boundary: FakeBoundary, host_module: Any, root: str) -> None:
    """A second after the last event statistics and snapshots are written; then the loop wakes rarely."""
    boundary.totals = counters(plain=1, plain_compiled=1)
    boundary.merged = b"x" * 100
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED", carrier=CARRIER_SNAPSHOT), *[None] * 5)
    assert len(list(runs.read_all(root))) == 1
    assert stored(root) == [b"x" * 100]
    assert boundary.merged_reads == 1
    assert boundary.timeouts.count(host_module.QUIET_NS) == 2  # after the plan, and after the device
    assert set(boundary.timeouts[-3:]) == {host_module.STATISTICS_INTERVAL_NS}


def test_nothing_to_do(send: Send, boundary: FakeBoundary) -> None:
    """Without a device the loop sleeps until a message comes."""
    send(None)
    assert set(boundary.timeouts) == {-1}


def test_old_runs_are_pruned(send: Send, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a process, when it is quiet, the oldest runs beyond the limit are deleted."""
    calls: list[str] = []
    monkeypatch.setattr(runs, "prune", calls.append)
    send(*device(), None, None, message("CREATE_INSTANCE", device=0), None, None)
    assert calls == [root]


def test_one_failing_device_leaves_the_others(send: Send, host: Any, root: str) -> None:
    """Statistics of one device that cannot be had do not keep those of another from the disk."""
    send(*device(), FakeMessage("PLAN_DEVICE", 6), FakeMessage("DEVICE_CREATED", 6))
    for path in Path(root, "runs").glob("*"):
        path.unlink()
    host.sessions[SERIAL].read_counters = lambda: 1 / 0
    host.sessions[6]._run._written = ""
    host._idle()
    assert len(list(runs.read_all(root))) == 1


# ---- policy file and policy class --------------------------------------------------------------------


def configured(host_module: Any, tmp_path: Path, text: str | bytes) -> Any:
    path = tmp_path / "policy.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    host = host_module.Host()
    host.configure()
    return host


def test_policy_file(host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path) -> None:
    """The policy file's settings reach the plan."""
    host = configured(host_module, tmp_path, "settings: {carrier: off}")
    request = message("PLAN_DEVICE")
    boundary.queue = [request, None]
    host.loop()
    assert request.plan is not None
    assert request.plan.carrier == CARRIER_OFF
    assert any("switched off by the policy file" in line for line in boundary.lines(LOG_INFO))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("settings: {carrier: some}", "carrier is 'some'"),
        ("1: x\na: y", "unknown key 1"),
        (b"\xff\xfe", "not UTF-8"),
        ("[" * 1000, "not YAML"),
        ("policy: m:C", "policy_path, the directory that holds the module, is not set"),
    ],
)
def test_policy_file_that_cannot_be_used(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, text: str | bytes, words: str
) -> None:
    """A file that cannot be used is one warning, and the defaults are in force."""
    host = configured(host_module, tmp_path, text)
    (line,) = boundary.lines(LOG_WARN)
    assert words in line
    assert line.endswith("in force")
    assert type(host.policy) is Policy


def test_yaml_that_cannot_be_imported(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation without PyYAML costs the policy file, not the layer."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "pylayer.config", raising=False)
    monkeypatch.delattr(pylayer, "config", raising=False)
    configured(host_module, tmp_path, "share: all")
    assert "the defaults are in force" in boundary.lines(LOG_WARN)[0]


def test_policy_file_of_others(host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path) -> None:
    """A policy file that others may write is not used, and named."""
    path = tmp_path / "policy.yaml"
    path.touch()
    os.chmod(path, 0o666)
    host = configured(host_module, tmp_path, "settings: {carrier: off}")
    assert host.document == {}
    assert f"{path} can be written by others" in boundary.lines(LOG_WARN)[0]


def test_no_home(host_module: Any, boundary: FakeBoundary) -> None:
    """Without a home directory and without PYLAYER_STORE it is said that nothing is stored."""
    host = host_module.Host()
    host.configure()
    assert host.root is None
    assert len(boundary.lines(LOG_WARN)) == 1


USER_POLICY = """
from pylayer.policy import Policy
class Good(Policy):
    pass
class NoPolicy:
    pass
class Failing(Policy):
    def __init__(self):
        raise SystemExit(4)
number = 5
"""


@pytest.fixture
def policy_directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "policies"
    directory.mkdir(mode=0o700)
    (directory / "unit_user_policy.py").write_text(USER_POLICY)
    (directory / "unit_user_broken.py").write_text("def x(:\n")
    (directory / "unit_user_exits.py").write_text("raise SystemExit('bye')\n")
    before = list(sys.path)
    yield directory
    assert sys.path == before
    for name in [name for name in sys.modules if name.startswith("unit_user_")]:
        del sys.modules[name]


def test_user_policy(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, policy_directory: Path
) -> None:
    """A class of the user's own is taken from policy_path, which is on the module path during the import only."""
    host = configured(host_module, tmp_path, f"policy: unit_user_policy:Good\npolicy_path: {policy_directory}")
    assert type(host.policy).__name__ == "Good"
    assert boundary.lines(LOG_WARN) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("unit_user_policy:Absent", "AttributeError"),
        ("unit_user_policy:NoPolicy", "TypeError: NoPolicy is not a subclass of pylayer.policy.Policy"),
        ("unit_user_policy:number", "TypeError"),
        ("unit_user_policy:Failing", "SystemExit: 4 (unit_user_policy.py, line 9)"),
        ("unit_user_absent:Good", "ModuleNotFoundError"),
        ("unit_user_broken:Good", "SyntaxError"),
        ("unit_user_exits:Good", "SystemExit: bye (unit_user_exits.py, line 1)"),
    ],
)
def test_user_policy_that_cannot_be_used(
    host_module: Any,
    boundary: FakeBoundary,
    root: str,
    tmp_path: Path,
    policy_directory: Path,
    wanted: str,
    words: str,
) -> None:
    """A class that is missing, none, or fails, in import or construction, leaves the built-in policy in force."""
    host = configured(host_module, tmp_path, f"policy: {wanted}\npolicy_path: {policy_directory}")
    (line,) = boundary.lines(LOG_WARN)
    assert line.startswith(f"policy {wanted} cannot be used: ")
    assert line.endswith("; the built-in one is in force")
    assert words in line
    assert type(host.policy) is Policy


def test_policy_directory_of_others(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, policy_directory: Path
) -> None:
    """Code is not taken from a directory that others may write to, sticky or not."""
    os.chmod(policy_directory, 0o1777)
    host = configured(host_module, tmp_path, f"policy: unit_user_policy:Good\npolicy_path: {policy_directory}")
    assert type(host.policy) is Policy
    assert "can be written by others" in boundary.lines(LOG_WARN)[0]


def test_reason_names_the_policy_class(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """When a policy class chose the carrier, the log does not give the built-in policy's reason for it."""

    class Chooses(Policy):
        def plan_device(self, *arguments: Any) -> Plan:
            plan = super().plan_device(*arguments)
            plan.carrier = CARRIER_SNAPSHOT
            return plan

    host.policy = Chooses()
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED", carrier=CARRIER_SNAPSHOT))
    assert any("carrier snapshot" in line and "policy class" in line for line in boundary.lines(LOG_INFO))


# ---- prepare -----------------------------------------------------------------------------------------


def test_prepare(host_module: Any, boundary: FakeBoundary, root: str) -> None:
    """What a policy prints goes to the log, also while it is imported, and what is returned is the loop."""

    def speak() -> str:
        print("hello", "world")
        print("no end of line", end="")
        print("x" * 10_000, end="", file=sys.stderr)
        return root

    boundary.queue = []
    host_module.store_root = speak
    host_module.prepare()()
    assert boundary.lines(LOG_INFO) == ["hello world"]
    assert boundary.lines(LOG_WARN) == ["x" * 10_000]
