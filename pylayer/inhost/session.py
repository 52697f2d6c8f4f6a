"""One device of the program, from its plan to its end: the parts that load and store for it, and its statistics."""

from __future__ import annotations

from .. import values
from ..common import flat
from ..store import block_files, contents, crash_marker, decisions
from ..store.block_list import PIPELINE, RECORD, TABLE, BlockList
from .device import Device
from .found_damage import FoundDamage
from .journal_writer import JournalWriter
from .learning import Learning
from .pipelines import Pipelines
from .recording import Recording
from .run_log import RunLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..store.cache_history import History
    from ..store.format import Damage
    from ..store.reader import Record
    from ..values import Activity, CacheData, Plan


class ApplicationCaches:
    """The program's own VkPipelineCache objects on one device: compares data that it passes, and that the layer does
    not know, with what is known. ``say_damage`` reports the damage in the list it gets, and empties it."""

    def __init__(self, device: Device, say_damage: Callable[[list[Damage]], None]) -> None:
        self._device = device
        self._setting: str = device.settings["application_caches"]
        self._say_damage = say_damage
        #: None until first used.
        self._history: History | None = None
        #: Number of times each outcome occurred, for data that passed and for data that was refused.
        self.outcomes: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    def history(self, data: CacheData) -> str:
        """Returns what is known of initial data: one of ``outcomes.HISTORY``. Sets ``data.damage``."""
        device = self._device
        if data.data_is_null or data.data_size == 0 or device.folder is None or not device.remembers_caches:
            return "unknown"
        if self._history is None:
            from ..store.cache_history import History

            takes_passed = self._setting == "attest"  # strict believes only what was read
            self._history = History(device.folder, device.program_id, takes_passed)
        outcome, data.damage = self._history.outcome(data.digest, data.data_size, data.sketch)
        self._say_damage(self._history.damage)
        return outcome

    def count(self, outcome: str, refused: bool) -> None:
        """Counts the outcome of initial data."""
        counts = self.refused if refused else self.outcomes
        counts[outcome] = counts.get(outcome, 0) + 1

    @property
    def reports(self) -> bool:
        """Whether all data passes, and its outcome is only counted and logged."""
        return self._setting == "report"


class DeviceSession(Device):
    """Everything policy holds for one VkDevice. Each part owns its state; this class connects them."""

    def __init__(self, plan: Plan, share: str, state_mib: int, *device: Any) -> None:
        """``device``: as for ``Device``."""
        super().__init__(*device)
        self.plan = plan
        #: Why the plan has its mode, in words.
        self.plan_reason = ""
        #: The key of the decision for later processes; zeros if none can be kept.
        self.decision_key = bytes(16)
        #: What the statistics say about the user's policy class, which is updated in place.
        self.policy: dict[str, Any] = {}
        self._reads_all = share == "all"
        #: Bytes that this run had stored when maintenance was last requested. None if it was not requested yet.
        self.maintained_at: int | None = None
        self.run_log = RunLog(self)
        #: How many records were stored when ``recording`` was last told.
        self._noted_records = 0
        self._totals: dict[str, int] = {}
        self.activity: Activity | None = None
        self.writer = JournalWriter(self)
        self.learning = Learning(self)
        self.found = FoundDamage(self, self.writer)
        self.caches = ApplicationCaches(self, self.found.say)
        self.pipelines = Pipelines(self, self.writer, self.learning, self.join)
        self.recording = Recording(self, state_mib << 20, self.found.say)

    # ---- the layer reads the store -----------------------------------------------------------------

    def _decide(self, own: BlockList, everyones: BlockList, began_ns: int = 0) -> values.Decision:
        """Returns the decision for this run, which looked for deaths at ``began_ns``; with 0, that for later runs."""
        found = decisions.compiled(own, everyones, self.plan.mode)
        reason = TABLE[found["off_by"]].effect if found["off_by"] else self.plan_reason
        return values.Decision(
            plan=self.plan,
            key=self.decision_key,
            header=crash_marker.header_template(self.identity, self.program.name, began_ns),
            reads_all=self._reads_all,
            reason=reason,
            about=flat.dumps({"reason": reason, **self._about()}),
            marker_outside=self.read_only,
            **found,
        )

    def keep_decision(self) -> None:
        """Stores the decision for later processes, if the stored one is missing or may be out of date."""
        if not self.is_stale or self.folder is None or not any(self.decision_key):
            return
        self.is_stale = False
        own, everyones = (block_files.read(self.folder, each) for each in (self.program_id, block_files.EVERY_PROGRAM))
        try:
            decision = self.commands.packed(self._decide(own, everyones))
            decisions.keep(self.folder.root, self.decision_key, decision)
        except OSError as error:
            self.log(values.LOG_DEBUG, f"the decision cannot be kept: {error.strerror or error}")

    def open_store(self) -> None:
        """Decides what follows from processes that died, and has the layer read the store. Call it when the device
        exists. Does nothing if the layer has read it already, or the driver only gets data of this run."""
        assert self.state is not None
        self._note_off(self.state.off_by)
        uses_store = self.keeps or self.checks_data or self.remembers_caches
        if self.folder is not None and uses_store and not self.state.reads_store:
            known = self.learning.known
            self.found.check_folder()
            decision = self._decide(known, self.learning.everyones, self.learning.looked_ns)
            self.state = self.commands.open_store(self.serial, decision) or self.state
            self._note_off(self.state.off_by)
            self.is_stale = True
        if self.state.reads_store and self.keeps:
            count = f"{self.state.stored_cells} stored records for {self.program.name}"
            self.log(values.LOG_INFO, f"{count}, read when it creates their pipelines")

    def _note_off(self, type: int) -> None:
        """Notes the type of the block by which the layer is off; 0: it is on."""
        if type:
            self.reason = TABLE[type].effect if type in TABLE else "a block"

    # ---- storing ---------------------------------------------------------------------------------

    def write_pipelines(self, parts: list[bytes | memoryview]) -> None:
        """Stores what ``pipelines.new`` returned. Its state is recorded, in the next run if need be."""
        self.pipelines.write(parts)
        self._note_stored()

    def store_large(self, joins: bool = True) -> None:
        """Stores what waits to be joined, while the device is there to join it; without ``joins`` as it is."""
        self.pipelines.store_large(joins)
        self._note_stored()

    def _note_stored(self) -> None:
        if self.pipelines.stored_records > self._noted_records:
            self._noted_records = self.pipelines.stored_records
            self.recording.missed()

    # ---- maintenance -----------------------------------------------------------------------------

    @property
    def joins(self) -> bool:
        """Whether the device can join cells."""
        return self.keeps and not self.has_binaries and not self.read_only

    def join(self, cells: list[tuple[Record, bytes]]) -> bytes | None:
        """Has the driver merge cells, and returns the data of their chunk. None if it cannot, or the device is gone.
        While something is blocked cells stay cells: it may have been a chunk of these."""
        if self.learning.known.in_force(RECORD, PIPELINE):
            return None
        merged = self.commands.join_cells(self.serial, [data for _, data in cells])
        if merged is None or not contents.is_worth(len(merged), [len(data) for _, data in cells]):
            return None
        return contents.chunk_data([record for record, _ in cells], merged)

    @property
    def wants_maintenance(self) -> bool:
        """Whether maintenance is due: once when the store was read, then each time WORTH_BYTES were stored."""
        if self.state is None or not self.state.reads_store:
            return False
        from ..store import compaction

        stored = self.pipelines.stored_bytes
        return self.maintained_at is None or stored - self.maintained_at >= compaction.WORTH_BYTES

    # ---- statistics ------------------------------------------------------------------------------

    def read_counters(self) -> dict[str, int]:
        """Returns the device's totals, or the last known ones if the device is gone."""
        now = self.commands.counters(self.serial)
        self._totals, self.activity = now or (self._totals, None)
        return self._totals

    @property
    def sees_frames(self) -> bool:
        """Whether the program presents frames on the device, which the layer holds for some seconds."""
        return self._totals.get("frames", 0) > 0 and self.folder is not None

    def _about(self) -> dict[str, str]:
        """Returns the keys of a run's file that are known before there is a device."""
        return {
            "program": self.program.name,
            **self.program.as_dict(),
            "device": self.facts.device_name,
            "driver": self.facts.driver_name,
            "driver_info": self.facts.driver_info,
        }

    def _run_totals(self) -> dict[str, Any]:
        """Returns the keys of a run's file that the session knows (docs/internals/format.md, 'Runs')."""
        pipelines = self.pipelines
        return {
            **self._about(),
            "mode": values.MODE_NAMES[self.state.mode] if self.state else "off",
            "reason": self.reason,
            "refused": self.caches.refused,
            "cache_outcomes": self.caches.outcomes,
            "damaged_records": len(self.found.damage),
            "damage": self.found.counts(),
            "stored_records": pipelines.stored_records,
            "stored_bytes": pipelines.stored_bytes,
            "write_errors": self.writer.errors,
            "lost_records": pipelines.lost_records,
            "left_out": self.learning.count(RECORD),
            "blocks": "; ".join(self.learning.told),
            "state_recorded": self.recording.recorded,
            "unrecorded": self.recording.unrecorded,
            "policy": self.policy,
        }

    def write_run(self) -> bool:
        """Writes the run's statistics for `pylayer stats`. Returns whether anything changed."""
        # Until policy is told that the device exists, it does not know the run's name: the layer may have given it one.
        if self.folder is None or self.state is None or not self._totals:
            return False
        try:
            return self.run_log.write(self._run_totals(), self._totals, self.activity, self.folder.path)
        except OSError as error:
            if self.read_only:
                return False
            self.writer.errors += 1
            if "write" not in self.writer.failures_said and self.writer.is_first("statistics"):
                self.log(values.LOG_WARN, f"statistics cannot be written: {error.strerror or error}")
            return False

    def judge(self, ended: bool = False) -> None:
        """Judges what the run has shown about the driver so far."""
        if self.activity is not None:
            self.learning.settle(self._totals, self.activity.kind_hits, ended)
        self.learning.tell_ends()
        self.recording.settle()

    def close(self) -> None:
        """Closes the files that this device wrote."""
        self.store_large()
        self.learning.store()
        self.learning.tell_ends()
        self.keep_decision()
        self.writer.close()
        self.recording.close()
        self.run_log.close()
