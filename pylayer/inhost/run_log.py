"""Records a run: what policy knows of it, and its timeline.

Plain Python over a ``commands`` object, as ``session``. Nothing here runs on a program's thread. The layer's messages
about cells and creations have their durations. C counts, where others see it: in the crash marker. Policy reads the
counters about once a second.
"""

from __future__ import annotations

import os
import time

from ..common import paths
from ..common.file_kinds import LIVE
from ..store import runs
from ..store.timeline import COMPILES, OUTCOMES, Event, RunFile
from ..values import CELL_EMPTY, KIND_NAMES, OUTCOME_KEPT, OUTCOME_NAMES, Cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..values import Activity, DeviceState
    from .device import Device

#: Counters that grow with each frame, for which alone policy does not stay awake.
OF_FRAMES = ("frames", "late_frames", "late_by_pipelines", "longest_frame_ns", "last_late_s", "first_frame_ns")


def _outcome(cell: Cell) -> str:
    """Returns one of ``timeline.OUTCOMES``, or ``named``."""
    if cell.outcome != OUTCOME_KEPT:
        return OUTCOME_NAMES[cell.outcome] if cell.outcome < len(OUTCOME_NAMES) else "compiled"
    return "uncacheable" if cell.flags & CELL_EMPTY else "compiled"


class RunLog:
    """The file of one run on one device."""

    def __init__(self, device: Device) -> None:
        self.started = time.time()
        self.started_ns = time.monotonic_ns()
        self._device = device
        name, root = runs.new_name(device.program_id), device.folder.root if device.folder is not None else ""
        self._file = RunFile(root, name, device.identity, device.program_id, device.program.name)
        self._ended = 0.0
        self._cache_wait_ns = 0
        self._passed_ns = 0
        #: Whether the driver says which plain pipelines it compiled.
        self.feedback = True
        self._kinds: dict[int, dict[str, int]] = {}
        self._described: set[int] = set()
        self._looked_ns = self.started_ns
        self._frames_lost = 0
        #: What ``write`` wrote last, without what each frame changes.
        self._lasting: dict[str, Any] = {}
        self._untold = 0

    # ---- events ----------------------------------------------------------------------------------

    def creation(self, cell: Cell, kept_bytes: int = 0) -> None:
        """Records a pipeline creation that the layer sent a message about."""
        outcome = _outcome(cell)
        if outcome == "named":
            for _, _, name in cell.shaders[:1]:
                self._file.add(Event("name", cell.start_ns, fingerprint=cell.fingerprint, text=name))
            return
        if outcome == "plain" and not self.feedback:
            outcome = "unknown"
        if outcome == "passed":
            self._passed_ns += cell.create_ns
        if outcome in COMPILES:
            kind = self._kind(cell.kind)
            kind["compiled"] += cell.pipelines
            kind["compile_ns"] += cell.create_ns
        self._file.add(
            Event(
                "pipeline",
                cell.start_ns,
                cell.create_ns,
                outcome if outcome in OUTCOMES else "compiled",
                kind=cell.kind,
                thread=cell.thread,
                fingerprint=cell.fingerprint,
                number=cell.pipelines,
                value=kept_bytes,
                stages=cell.stages,
                text="" if cell.entry_point == "main" else cell.entry_point,
            )
        )

        if cell.fingerprint and cell.fingerprint not in self._described:
            self._described.add(cell.fingerprint)
            for stage, code, name in cell.shaders:
                self._file.add(
                    Event("shader", cell.start_ns, fingerprint=cell.fingerprint, value=code, stages=stage, text=name)
                )

    def _kind(self, number: int) -> dict[str, int]:
        return self._kinds.setdefault(number, {"hits": 0, "compiled": 0, "compile_ns": 0})

    def cache(self, sent_ns: int, outcome: str, slot: int, size: int, reason: str, waited: bool = False) -> None:
        """Records what policy decided about an application's initial data. ``outcome`` is one of
        ``timeline.CACHE_OUTCOMES``. ``waited``: the program has waited for the decision since ``sent_ns``."""
        took = time.monotonic_ns() - sent_ns if waited else 0
        self._cache_wait_ns += took
        self._file.add(Event("cache", sent_ns, took, outcome, number=slot, value=size, text=reason))

    def device_created(self, state: DeviceState, created_ns: int) -> None:
        """Notes that the device exists since ``created_ns``, which may be long ago: a run that finds everything starts
        policy at its end. It may have a name already."""
        self.started -= (self.started_ns - created_ns) / 1e9
        self.started_ns = self._looked_ns = created_ns
        self._file.name = state.run_name or self._file.name
        self.feedback = state.feedback

    def end(self) -> None:
        """Notes the end of the run: vkDestroyDevice or exit."""
        self._ended = self._ended or time.time()

    def _look(self, counters: dict[str, int], activity: Activity | None) -> None:
        """Turns what C counted since the last call into events."""
        now = time.monotonic_ns()
        start, took = self._looked_ns, now - self._looked_ns
        self._looked_ns = now
        if activity is not None:
            for kind, hits in enumerate(activity.kind_hits):
                if not hits:
                    continue
                known = self._kind(kind)
                if hits > known["hits"]:
                    self._file.add(Event("hits", start, took, kind=kind, value=hits - known["hits"]))
                known["hits"] = hits
            self._untold = activity.untold
        if counters.get("frames", 0):
            presents, lost = self._device.commands.frames(self._device.serial)
            self._file.present(presents)
            self._frames_lost += lost

    # ---- writing ---------------------------------------------------------------------------------

    def write(self, totals: dict[str, Any], counters: dict[str, int], activity: Activity | None, folder: str) -> bool:
        """Appends what changed, and what happened, to the run's file. Returns whether more changed than frames.
        ``folder``: the path of the identity's folder. Raises OSError."""
        self._look(counters, activity)
        failed = None
        try:
            self._file.flush()
        except OSError as error:
            failed = error  # the totals may have room
        values = {
            **totals,
            "session": paths.getenv("PYLAYER_SESSION", "")[:64],
            "crash_marker": os.path.exists(os.path.join(folder, self._file.name + LIVE)),
            "started": self.started,
            "started_ns": self.started_ns,
            "ended": self._ended,
            "kinds": {KIND_NAMES[kind]: counts for kind, counts in self._kinds.items()},
            "cache_wait_ns": self._cache_wait_ns,
            "passed_ns": self._passed_ns,
            "feedback": self.feedback,
            "timeline_dropped": self._untold + self._file.dropped,
            "frames_lost": self._frames_lost + self._file.frames_left_out,
            "counters": counters,
        }
        lasting = {**values, "counters": {name: count for name, count in counters.items() if name not in OF_FRAMES}}
        changed, self._lasting = lasting != self._lasting, lasting
        if values["crash_marker"] and not self._ended:  # the crash marker has these numbers
            values |= {"counters": {}, "kinds": {}}
            for kind, counts in self._kinds.items():
                values["kinds"][KIND_NAMES[kind]] = {key: counts[key] for key in ("compiled", "compile_ns")}
        self._file.note(values)
        if failed is not None:
            raise failed
        return changed

    def close(self) -> None:
        """Ends the timeline. Values may still be written."""
        self._file.close()
