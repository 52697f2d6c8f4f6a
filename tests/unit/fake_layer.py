"""A fake of the layer as the policy thread sees it. Its mailbox is a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from unit.things import (
    SERIAL,
    FakeCommands,
    binary_read,
    cache_data,
    cache_read,
    cell,
    device_state,
    facts,
    program,
    scan,
    write_journal,
)

from pylayer.common.identity import Identity, program_id
from pylayer.policy import Policy
from pylayer.store.folder import Folder
from pylayer.values import CARRIER_CELLS, BinaryRead, CacheData, CacheRead, Cell, DeviceState, Plan

TYPES = (
    "CREATE_INSTANCE",
    "PLAN_DEVICE",
    "DEVICE_CREATED",
    "ADMIT_CACHE",
    "CACHE_REFUSED",
    "CELL",
    "FLUSH_DEVICE",
    "FLUSH_PROCESS",
    "CACHE_EMPTY",
    "CACHE_READ",
    "BINARY_READ",
    "BINARIES_PASSED",
    "STATE",
    "STORE_DAMAGED",
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
        self.skip_undecided: bool | None = content.get("skip_undecided")
        self.verdict: int | None = None
        self.sent_ns: int = content.get("sent_ns", 0)

    def release(self) -> None:
        self.releases += 1

    def program(self, executable: str) -> Any:
        return program(executable="stutter")

    def device_facts(self) -> Any:
        return self.content.get("facts", facts())

    def answer_plan(self, plan: Plan, record_now: bool = False) -> bool:
        self.plan = plan
        return not self.late

    def plan_to_keep(
        self, for_all_programs: bool, reads_store: int, sentinel_outside: bool, header: bytes, reason: str
    ) -> tuple[str, bytes]:
        return ("all.plan" if for_all_programs else "one.plan"), b"plan"

    def device_state(self) -> DeviceState:
        return device_state(**{"carrier": self.content.get("carrier", CARRIER_CELLS)} | self.content.get("state", {}))

    @property
    def run_name(self) -> str:
        return str(self.content.get("run_name", ""))

    def cache_data(self) -> CacheData:
        changes = {"data_is_null": False, "data_size": 100, "header": self.content.get("header", b""), "result": -1}
        return cache_data(**changes | self.content.get("cache", {}))

    def cache_read(self) -> CacheRead:
        return cache_read(self.content.get("data"), **self.content.get("read", {}))

    def answer_verdict(self, verdict: int) -> bool:
        self.verdict = verdict
        return not self.late

    def cell(self) -> Cell:
        return cell(
            self.content["data"], fingerprint=self.content.get("fingerprint", 0), unit=self.content.get("unit", 0)
        )

    def binary_read(self) -> BinaryRead:
        return binary_read(self.content["data"], **self.content.get("read", {}))


class FakeBoundary(ModuleType, FakeCommands):
    """Replaces pylayer.inhost.boundary without the layer. ``next_message`` ends the loop when no message is left."""

    def __init__(self) -> None:
        ModuleType.__init__(self, "pylayer.inhost.boundary")
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

    def executable(self) -> str:
        return "stutter"

    def environment(self, name: str, default: str = "") -> str:
        return self.variables.get(name, default)


Send = Callable[..., None]


def message(kind: str, **content: Any) -> FakeMessage:
    return FakeMessage(kind, **content)


def policy_of(**methods: Callable[..., Any]) -> Policy:
    """Returns a policy of a user's class, Mine, with these methods."""
    return type("Mine", (Policy,), methods)()  # type: ignore[no-any-return]


def device(**content: Any) -> list[FakeMessage | None]:
    """Returns the messages that create a device, and enough rounds of the loop to load its store."""
    return [message("PLAN_DEVICE", **content), message("DEVICE_CREATED", **content), None, None, None]


def in_store(root: str, name: str, *records: bytes) -> Path:
    folder = Folder(root, Identity.of(facts()))
    folder.prepare()
    return write_journal(
        Path(folder.path, name), folder.identity, *records, program_id=program_id("stutter", "Stutter")
    )


def own(name: str) -> str:
    return f"{program_id('stutter', 'Stutter'):016x}-{name}.journal"


def stored(root: str) -> list[bytes]:
    found = []
    for path in Folder(root, Identity.of(facts())).files(None):
        data = Path(path).read_bytes()
        found += [data[one.start : one.start + one.size] for one in scan(data, [])]
    return found
