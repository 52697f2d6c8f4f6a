"""One device of the program, from its plan to its end: the parts that load and store for it, and its statistics."""

from __future__ import annotations

from ..common.files import remove
from ..store import format, sentinel
from ..store.verdict_words import sentence
from ..store.verdicts import KIND, PIPELINE, RECORD, TABLE, changing_variable
from ..values import CARRIER_CELLS, CARRIER_NAMES, LOG_DEBUG, LOG_WARN
from .application_binaries import ApplicationBinaries
from .application_caches import ApplicationCaches
from .device import Device
from .journal_writer import JournalWriter
from .learning import Learning
from .loading import StoreLoad
from .pipelines import Pipelines
from .recording import Recording
from .run_log import RunLog, described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from ..store.format import Damage
    from ..values import DeviceFacts, Program

#: Counters that are logged as soon as they are not zero, with the text of the line.
WARNINGS = {
    "load_failed": "the driver refused stored records; their pipelines are compiled again",
    "binaries_altered": "the program passed pipeline binaries that differ from those that it read",
    "binaries_stale": "the program passed pipeline binaries of another driver or device",
    "binaries_refused": "vkCreatePipelineBinariesKHR failed for the program, because the layer refused its binaries",
    "binaries_evicted": "the driver could not create pipelines from stored binaries; they were compiled again",
}


class DeviceSession(Device):
    """Everything policy holds for one VkDevice. Each part owns its state; this class connects them."""

    def __init__(
        self,
        commands: ModuleType,
        serial: int,
        program: Program,
        facts: DeviceFacts,
        root: str | None,
        share: str,
        settings: dict[str, Any],
        state_mib: int = 256,
    ) -> None:
        super().__init__(commands, serial, program, facts, root, settings)
        #: What the statistics say about the user's policy class, which is updated in place.
        self.policy: dict[str, Any] = {}
        #: The carrier is off because of a verdict.
        self.off_by_verdict = False
        #: Path of the crash sentinel, if policy made it. With a read-only store it is in the runtime directory.
        self._sentinel: str | None = None
        #: Bytes that this run had stored when maintenance was last requested. None if it was not requested yet.
        self.maintained_at: int | None = None
        self.run_log: RunLog | None = None
        if root:
            self.run_log = RunLog(self, root)
        self._totals: dict[str, int] = {}
        self._warned: set[str] = set()
        self.writer = JournalWriter(self)
        self.learning = Learning(self)
        self.caches = ApplicationCaches(self, self.writer, self.learning, self._say_damage)
        self.binaries = ApplicationBinaries(self, self.writer, self._say_damage)
        self.load = StoreLoad(self, self.writer, self.learning, share == "all")
        self.pipelines = Pipelines(self, self.load, self.writer, self.learning)
        self.recording = Recording(self, state_mib << 20)

    def _say_damage(self, damage: list[Damage]) -> None:
        self.load.say_damage(damage)

    def load_finished(self) -> None:
        """Ends the load after everything was handed over, and records it."""
        self.load.finish()
        if self.run_log is not None:
            self.run_log.loaded(self.load.records, self.load.loaded.bytes)

    # ---- what the layer does itself ----------------------------------------------------------------

    @property
    def layer_may_read(self) -> bool:
        """Whether the layer may read the stored cells itself in later runs."""
        return self.folder is not None and self.carrier_planned == CARRIER_CELLS

    @property
    def sentinel_header(self) -> bytes:
        """The file header of a sentinel of this identity, in which the layer fills in program and process."""
        return sentinel.header_template(self.identity)

    # ---- crashes ---------------------------------------------------------------------------------

    @property
    def needs_watching(self) -> bool:
        """Whether the driver may get data that it did not make in this run."""
        return self.keeps or self.checks_data

    def watch(self) -> None:
        """Creates the crash sentinel and has the layer obey the verdicts. Call it when the device exists and before
        stored data is handed over."""
        if self.keeps:
            self._obey_verdicts()
        run = self.run_log.name if self.run_log is not None else None
        if self.folder is None:
            return
        try:
            self._sentinel = sentinel.open_sentinel(
                self.folder,
                self.program_id,
                self.program.name,
                lambda fd: int(self.commands.watch(self.serial, fd)),
                self.read_only,
                run,
                self.learning.looked_ns,
                changed=bool(changing_variable()),
            )
        except OSError as error:  # the store cannot be written to
            self.log(LOG_DEBUG, f"the crash sentinel cannot be created: {error.strerror or error}")

    def _obey_verdicts(self) -> None:
        known, commands = self.learning.known, self.commands
        off = self.learning.off
        if off is not None:
            self.switch_off_by_verdict(sentence([off]))
            return
        kinds = known.kinds(KIND)
        if known.in_force(RECORD, PIPELINE, KIND):
            commands.suspect(self.serial, known.fingerprints, kinds)
        for call, kind in self.learning.calls_off:
            commands.call_off(self.serial, call, kind)

    def obeyed_by_layer(self, type: int) -> None:
        """Notes that the layer itself obeyed a verdict of this type, by which it is off."""
        self.off_by_verdict = True
        self.reason = TABLE[type].effect if type in TABLE else "a verdict"

    def switch_off_by_verdict(self, reason: str) -> None:
        """Switches the layer off for this device, because of a verdict."""
        self.off_by_verdict = True
        self.switch_off(reason)
        self.log(LOG_WARN, f"{self.facts.device_name}: {reason}; pylayer rm --all --blocks switches it on again")

    # ---- storing ---------------------------------------------------------------------------------

    def write_pipelines(self, parts: list[bytes | memoryview]) -> None:
        """Stores what ``pipelines.new`` returned. Its state is recorded, in the next run if need be."""
        stored = self.pipelines.stored_records
        self.pipelines.write(parts)
        if self.pipelines.stored_records > stored:
            self.recording.missed()

    # ---- maintenance -----------------------------------------------------------------------------

    @property
    def wants_maintenance(self) -> bool:
        """Whether maintenance is due: once after the load, and again each time MAX_JOURNAL_BYTES were stored."""
        if not self.load.whole:
            return False
        stored = self.pipelines.stored_bytes
        return self.maintained_at is None or stored - self.maintained_at >= format.MAX_JOURNAL_BYTES

    # ---- statistics ------------------------------------------------------------------------------

    def warn(self, counters: dict[str, int]) -> None:
        """Logs each counter of ``WARNINGS`` once, when it is no longer zero."""
        for name, text in WARNINGS.items():
            if counters[name] and name not in self._warned:
                self._warned.add(name)
                self.log(LOG_WARN, f"{text} ({counters[name]} so far)")

    def read_counters(self) -> dict[str, int]:
        """Returns the device's totals, or the last known ones if the device is gone."""
        totals = self.commands.counters(self.serial)
        if totals is not None:
            self._totals = totals
        return self._totals

    @property
    def sees_frames(self) -> bool:
        """Whether the program presents frames on the device, which the layer holds for some seconds."""
        return self._totals.get("frames", 0) > 0 and self.run_log is not None

    def _run_totals(self) -> dict[str, Any]:
        """Returns the keys of a run's file that the session knows (docs/internals/format.md, 'Runs')."""
        load, pipelines = self.load, self.pipelines
        return {
            **described(self.program, self.facts, self.identity),
            "read_only": self.read_only,
            "carrier": CARRIER_NAMES[self.state.carrier] if self.state else "off",
            "reason": self.reason,
            "counters": self._totals,
            "refused": self.caches.refused,
            "cache_outcomes": self._cache_outcomes,
            "duplicates": pipelines.duplicates,
            "loaded_records": load.records + self._totals.get("fetched", 0),
            "loaded_bytes": load.loaded.bytes + self._totals.get("fetched_bytes", 0),
            "loaded_binaries": load.indexed,
            "attested_binaries": self.binaries.attested,
            "verify_ns": load.verify_ns,
            "load_ns": load.load_ns,
            "damaged_records": len(load.loaded.damage),
            "damage": load.damage_counts(),
            "mean_compile_ns": self._mean_compile_ns,
            "stored_records": pipelines.stored_records,
            "stored_bytes": pipelines.stored_bytes,
            "write_errors": self.writer.errors,
            "lost_records": pipelines.lost_records,
            "left_out": self.load.loaded.left_out,
            "verdicts": "; ".join(self.learning.told),
            "state_recorded": self.recording.recorded,
            "unrecorded": self.recording.unrecorded,
            "policy": self.policy,
        }

    @property
    def _cache_outcomes(self) -> dict[str, int]:
        """How often each outcome occurred for data that passed, known to policy or to the layer itself."""
        outcomes = dict(self.caches.outcomes)
        known = self._totals.get("caches_attested", 0)
        if known:
            outcomes["attested"] = outcomes.get("attested", 0) + known
        return outcomes

    @property
    def _mean_compile_ns(self) -> float:
        """Mean time that it had taken to compile one of the loaded pipelines."""
        fetched = self._totals.get("fetched", 0)
        return self._totals["fetched_compile_ns"] / fetched if fetched else self.load.loaded.mean_create_ns

    def write_run(self, early: bool = False) -> bool:
        """Writes the run's statistics for `pylayer stats`. Returns whether anything changed. An early
        write, the first one, only makes the run known if the program is killed. If it fails, the next one says so."""
        # Until policy is told that the device exists, it does not know the run's name: the layer may have given it one.
        if self.run_log is None or self.folder is None or self.state is None or not self._totals:
            return False
        try:
            return self.run_log.write(self._run_totals(), self._totals, self.folder.path, early)
        except OSError as error:
            if self.read_only or early:
                return False
            self.writer.errors += 1
            if "write" not in self.writer.failures_said and self.writer.is_first("statistics"):
                self.log(LOG_WARN, f"statistics cannot be written: {error.strerror or error}")
            return False

    def judge(self, ended: bool = False) -> None:
        """Judges what the run has shown about the driver so far."""
        doing = self.commands.activity(self.serial)
        if doing is not None and self._totals:
            self.learning.settle(self._totals, doing.kind_hits, ended)
        self.learning.tell_ends()
        self.recording.settle()

    def close(self) -> None:
        """Closes the files that this device wrote, and waits a moment for fsync where the fsync policy wants it."""
        if self._sentinel is not None:
            remove(self._sentinel)
        self.learning.store()
        self.learning.tell_ends()
        self.writer.close()
        self.caches.close()
        self.recording.close()
        if self.run_log is not None:
            self.run_log.close()
        self.binaries.close()
        self.writer.wait()
