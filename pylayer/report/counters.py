"""The table of the numbers that a run records, and how each is shown.

To count something, add a row here: the layer's C is built with a member of this name in PylayerCounters. `pylayer
stats`, with --prometheus too, the report's remarks and, after ``make docs``, their documentation follow this table.
"""

from __future__ import annotations

from typing import NamedTuple


class Number(NamedTuple):
    """How one number is shown. A name that ends in ``_ns`` or ``_bytes`` has that unit. All others are counts."""

    #: The meaning in docs/json.yaml, and the text of the remark.
    meaning: str
    #: Whether `pylayer stats` and `pylayer report` print a line when the number is not 0.
    remark: bool = False
    #: The Prometheus metric that is the sum over the runs, if there is one, without pylayer_ and _total. Nanoseconds
    #: become seconds.
    metric: str = ""


#: What the layer counts for a device, in the order in which it is shown. The build runs this file.
COUNTERS = {
    "pipelines": Number("pipelines created for the program", metric="pipelines"),
    "hits": Number("pipelines found in a cache or among pipeline binaries"),
    "application_hits": Number("hits in the program's own cache"),
    "compiled": Number(
        "pipelines that the driver compiled, whether or not they could be stored; null if that is unknown of some"
    ),
    "uncacheable": Number("pipelines that left nothing to store", True),
    "plain": Number("pipelines created without probing the cache; their hits are unknown", True),
    "plain_compiled": Number("of these, pipelines that the driver's creation feedback does not call a hit"),
    "passed": Number("pipelines of calls that the layer did not touch"),
    "compile_required": Number("pipelines that no cache had and that the program did not want compiled"),
    "failed": Number("pipelines that the driver could not create", True, "pipelines_failed"),
    "events_dropped": Number(
        "compiled pipelines not stored, because more came than the queue holds", True, "queue_dropped"
    ),
    "answers_late": Number("times that the program went on before policy answered", True, "late_answers"),
    "hit_ns": Number("time that hits took, summed over threads", metric="pipeline_hit_seconds"),
    "compile_ns": Number("time that compiling took, summed over threads"),
    "plain_ns": Number("time that creating plain pipelines took, summed over threads"),
    "load_failed": Number("stored records that the driver refused", True),
    "fingerprints_dropped": Number("pipeline creations whose fingerprint was dropped because there were too many"),
    "binary_hits": Number("hits created from pipeline binaries", True),
    "binaries_kept": Number("pipelines kept as pipeline binaries", True),
    "binaries_evicted": Number(
        "stored pipeline binaries with which the driver failed; their pipelines were created anew", True
    ),
    "application_binaries": Number("pipeline binaries that the program brought itself", True),
    "binaries_attested": Number("the program's own pipeline binaries that are as it read them"),
    "binaries_altered": Number("the program's own pipeline binaries that are not as it read them", True),
    "binaries_stale": Number("the program's own pipeline binaries that it read from another driver or device", True),
    "binaries_refused": Number("calls of the program that failed for them (VK_ERROR_INITIALIZATION_FAILED)", True),
    "deferred": Number("pipelines created in deferred operations"),
    "fetched": Number("stored pipelines that were read from the store", metric="loaded_records"),
    "fetched_bytes": Number("bytes of these pipelines"),
    "fetched_compile_ns": Number("time that it had taken to compile them"),
    "fetch_ns": Number("time that it took to find, read and merge them, summed over threads"),
    "identified_shaders": Number("shaders known by their VK_EXT_shader_module_identifier"),
    "frames": Number("frames that the program presented, on all its swapchains", metric="frames"),
    "late_frames": Number(
        "late frames, which took over 16.7 ms and over 1.5 times the median of the 60 frames before",
        metric="late_frames",
    ),
    "late_by_pipelines": Number(
        "frames that were late because of pipelines, which took at least half of the time beyond that median",
        metric="late_frames_by_pipelines",
    ),
    "longest_frame_ns": Number(
        "duration of the longest frame; a pause of over 2 s does not count unless pipelines took half of it"
    ),
    "last_late_s": Number("when the last late frame was presented, in seconds since 1970; 0 if none was late"),
    "first_frame_ns": Number("when the first frame was presented, on CLOCK_MONOTONIC; 0 if none was"),
}
#: What the layer counts, too. `pylayer stats` has outcomes of caches instead.
NOT_SHOWN = {
    "caches_emptied": Number("the program's caches whose initial data was refused"),
    "caches_known": Number("the program's caches with known data, of which policy was not asked"),
}
#: The other values of a run, which the policy thread counts (``DeviceSession._run_totals``).
RUN_VALUES = {
    "stored_records": Number("records that the runs wrote to the store", metric="stored_records"),
    "stored_bytes": Number("bytes of these records", metric="stored_bytes"),
    "state_recorded": Number("pipelines whose state the store has, for pylayer rebuild"),
    "left_out": Number(
        "stored records blocked because a process died over them (see pylayer ls)", True, "left_out_records"
    ),
    "lost_records": Number("records that could not be written to the store", metric="lost_records"),
    "cache_wait_ns": Number("time that the program waited until data of its own caches was judged"),
    "damaged_records": Number("damaged parts of the store that were not loaded"),
    "passed_ns": Number("time that the longer ones of calls took that the layer did not touch, summed over threads"),
    "frames_lost": Number("frames that the timeline lacks, because it was full or policy was busy"),
    "write_errors": Number("failures to write to the store (see pylayer doctor)", True, "store_write_errors"),
}
#: All rows by name, in the order of `pylayer stats --json`.
NUMBERS = COUNTERS | RUN_VALUES
