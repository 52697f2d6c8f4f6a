"""Numbers of a run for Prometheus: a file for node_exporter's textfile collector, one a device of a process.

Imported only where the policy file names a directory. docs/metrics.md lists the metrics; a test compares.
"""

from __future__ import annotations

import os
import time

from .paths import root_changed
from .store import owner
from .store.files import remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX, SUFFIX, TEMPORARY = "pylayer-", ".prom", ".tmp"
#: Files of processes that ended stay for so long, so that a short run is scraped; the next process removes them.
KEPT_SECONDS = 600.0
#: Looked at, at most, for files to remove.
MAX_FILES = 1000
#: A file is written no more often than this while its process runs.
INTERVAL_SECONDS = 5.0

#: Name, type and help of each metric, in the order of the file. Seconds and bytes, as Prometheus wants its units.
METRICS = (
    ("pylayer_run_info", "gauge", "A run of a program on a device, by what is known of it; always 1."),
    ("pylayer_run_start_time_seconds", "gauge", "When the run began, since 1970."),
    ("pylayer_run_ended", "gauge", "1 once the device was destroyed or the process ended in order."),
    ("pylayer_pipelines_total", "counter", "Pipelines created for the program, in any way."),
    ("pylayer_pipeline_hits_total", "counter", "Pipelines found in a cache or among binaries, by kind."),
    ("pylayer_pipeline_compiles_total", "counter", "Pipelines compiled, by kind."),
    ("pylayer_pipeline_compile_seconds_total", "counter", "Time that compiling took, summed over threads, by kind."),
    ("pylayer_pipeline_hit_seconds_total", "counter", "Time that hits took as the driver tells, summed over threads."),
    ("pylayer_pipelines_adopted_total", "counter", "Pipelines that the driver's own cache had, kept from then on."),
    ("pylayer_pipelines_failed_total", "counter", "Pipelines that the driver could not create."),
    ("pylayer_store_wait_seconds_total", "counter", "Time that pipeline creations waited for the store."),
    ("pylayer_loaded_records", "gauge", "Records that the driver took from the store at the start."),
    ("pylayer_loaded_bytes", "gauge", "Their bytes."),
    ("pylayer_stored_records_total", "counter", "Records that the run wrote into the store."),
    ("pylayer_stored_bytes_total", "counter", "Their bytes."),
    ("pylayer_lost_records_total", "counter", "Records that could not be written into the store."),
    ("pylayer_store_write_errors_total", "counter", "Failures to write to the store."),
    ("pylayer_store_bytes", "gauge", "What the store holds for this driver and device, of all programs."),
    ("pylayer_damaged_parts", "gauge", "Parts of the store that the start left out as damaged, by outcome."),
    ("pylayer_cache_data_total", "counter", "Initial data of the program's caches, by verdict and reason."),
    ("pylayer_queue_messages", "gauge", "Messages that wait for policy."),
    ("pylayer_queue_bytes", "gauge", "Their bytes."),
    ("pylayer_queue_dropped_total", "counter", "Compiled pipelines that were not stored: the queue was full."),
    ("pylayer_late_answers_total", "counter", "Times that the program went on before policy answered."),
)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())


def _samples(values: dict[str, Any]) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Values of each metric, with the labels that it has beside those of the run."""
    counters = values["counters"]
    kinds = values["kinds"]
    refused = {("refused", reason): count for reason, count in values["refused"].items()}
    passed = {("passed", reason): count for reason, count in values["cache_outcomes"].items()}
    info = ("executable", "application", "engine", "driver", "driver_info", "identity", "carrier", "pylayer")
    plain: dict[str, float] = {
        "pylayer_run_start_time_seconds": values["started"],
        "pylayer_run_ended": int(values["ended"] > 0),
        "pylayer_pipelines_total": counters["pipelines"] + counters["passed"],
        "pylayer_pipeline_hit_seconds_total": counters["hit_ns"] / 1e9,
        "pylayer_pipelines_adopted_total": counters["adopted"],
        "pylayer_pipelines_failed_total": counters["failed"],
        "pylayer_store_wait_seconds_total": counters["load_wait_ns"] / 1e9,
        "pylayer_loaded_records": values["loaded_records"],
        "pylayer_loaded_bytes": values["loaded_bytes"],
        "pylayer_stored_records_total": values["stored_records"],
        "pylayer_stored_bytes_total": values["stored_bytes"],
        "pylayer_lost_records_total": values["lost_records"],
        "pylayer_store_write_errors_total": values["write_errors"],
        "pylayer_store_bytes": values["store_bytes"],
        "pylayer_queue_messages": values["queued"],
        "pylayer_queue_bytes": values["queued_bytes"],
        "pylayer_queue_dropped_total": counters["events_dropped"],
        "pylayer_late_answers_total": counters["answers_late"],
    }
    return {
        "pylayer_run_info": [({"pid": str(values["pid"])} | {name: str(values[name]) for name in info}, 1)],
        "pylayer_pipeline_hits_total": [({"kind": kind}, of["hits"]) for kind, of in kinds.items()],
        "pylayer_pipeline_compiles_total": [({"kind": kind}, of["compiled"]) for kind, of in kinds.items()],
        "pylayer_pipeline_compile_seconds_total": [
            ({"kind": kind}, of["compile_ns"] / 1e9) for kind, of in kinds.items()
        ],
        "pylayer_cache_data_total": [
            ({"verdict": verdict, "reason": reason}, count)
            for (verdict, reason), count in {**passed, **refused}.items()
        ],
        "pylayer_damaged_parts": [({"outcome": outcome}, count) for outcome, count in values["damage"].items()],
        **{name: [({}, value)] for name, value in plain.items()},
    }


def render(run: str, values: dict[str, Any]) -> str:
    """The file for a run, by the values of its .run file."""
    samples = _samples(values)
    common = {"run": run, "program": str(values["program"]), "device": str(values["device"])}
    lines = []
    for name, kind, text in METRICS:
        lines.append(f"# HELP {name} {text}")
        lines.append(f"# TYPE {name} {kind}")
        lines += [f"{name}{{{_labels(common | labels)}}} {value!r}" for labels, value in samples[name]]
    return "\n".join(lines) + "\n"


class Textfile:
    """The file of one run in a directory that node_exporter reads."""

    def __init__(self, directory: str, name: str) -> None:
        #: Two devices of a process are two files, and their metrics must differ in a label.
        self._run = name.rpartition("-")[2]
        self.path = os.path.join(directory, f"{PREFIX}{name}{SUFFIX}")
        self._next = 0.0

    def write(self, values: dict[str, Any]) -> None:
        """Replaces the file, at the end always and else when it is time. Raises OSError."""
        now = time.monotonic()
        if now < self._next and not values["ended"]:
            return
        if root_changed():
            raise OSError("the program changed its root directory")
        if not self._next:
            remove_left(os.path.dirname(self.path))
        self._next = now + INTERVAL_SECONDS
        machine, pid, ticks = owner.this_process()
        text = f"# process {machine.hex()} {pid} {ticks}\n{render(self._run, values)}"
        temporary = self.path + TEMPORARY
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        remove(temporary)
        fd = os.open(temporary, flags, 0o644)
        try:
            try:
                os.fchmod(fd, 0o644)  # node_exporter is another user
                data = text.encode("utf-8", "replace")
                while data:
                    data = data[os.write(fd, data) :]
            finally:
                os.close(fd)
            os.rename(temporary, self.path)
        except BaseException:
            remove(temporary)
            raise


def _has_ended(path: str, age: float) -> bool:
    """Whether the process that wrote a file is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            words = os.read(fd, 256).split(b"\n")[0].decode().split()
        finally:
            os.close(fd)
        sign, process, machine, pid, ticks = words
        return (sign, process) == ("#", "process") and owner.has_ended(
            bytes.fromhex(machine), int(pid), int(ticks), age
        )
    except (OSError, ValueError):
        return False


def remove_left(directory: str) -> int:
    """Deletes files of processes that ended a while ago; returns how many."""
    removed = 0
    try:
        with os.scandir(directory) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_FILES:
                    break
                if not entry.name.startswith(PREFIX) or not entry.name.endswith((SUFFIX, SUFFIX + TEMPORARY)):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                age = time.time() - status.st_mtime
                if status.st_uid == os.geteuid() and age > KEPT_SECONDS:
                    removed += _has_ended(entry.path, age) and remove(entry.path)
    except OSError:
        pass
    return removed
