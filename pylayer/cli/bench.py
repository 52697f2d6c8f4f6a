"""``pylayer bench``: what a program costs and gains with the layer, measured beside what it does without."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import statistics
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..common.files import unique_name
from ..common.paths import store_root
from . import layer_files
from .environment import DISABLE, with_layer, without_layer
from .output import (
    EXIT_PROBLEM,
    Failure,
    console,
    fail,
    human_bytes,
    human_time,
    is_quiet,
    json_option,
    print_facts,
    print_json,
    program_table,
    reason,
)
from .policy_in_force import compile_policy, policy_in_force, read_policy
from .process import ending_by_exception, program_argument

if TYPE_CHECKING:
    from .measuring import Measured

#: Beside the user's store, so that it is on the same disk. `pylayer uninstall --purge` looks for it.
DIRECTORY = "pylayer-bench-"
#: Where drivers keep their own caches: Mesa's, that of Mesa before 22.3, NVIDIA's.
DRIVER_CACHES = ("MESA_SHADER_CACHE_DIR", "MESA_GLSL_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH")
#: With this setting the layer counts pipelines and frames, and does nothing else.
OBSERVE = {"VK_PYLAYER_PIPELINE_CACHE_CARRIER": "observe"}


class Phase(NamedTuple):
    """One way to run the program. ``store`` and ``driver``: its store, empty text for none, and the driver's cache."""

    name: str
    title: str
    store: str
    driver: str
    environment: dict[str, str]


#: In the order in which they run.
PHASES = (
    Phase("without", "without pylayer", "", "without", {}),
    Phase("observed", "without, again", "observed", "without", OBSERVE),
    Phase("cold", "pylayer, cold", "with", "with", {}),
    Phase("warm", "pylayer, warm", "with", "with", {}),
)
#: It brings the program's files into memory, and lets the layer prepare what the phase ``observed`` is not to wait for.
FIRST = Phase("first", "a first run, which is not measured", "observed", "first", OBSERVE)

#: The numbers of a run, all None if the layer did not see it.
COUNTED = ("frames", "late_frames", "late_by_pipelines", "longest_frame_ns", "pipelines", "hits", "compiled")
NUMBERS = ("start_ns", "wall_ns", "processor_ns", "memory_bytes", "store_bytes", *COUNTED)


def _place() -> str:
    """Returns where stores for measuring go. Raises Failure if no variable tells."""
    root = store_root()
    if root is None:
        raise Failure("neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set; set one of them")
    return os.path.dirname(os.path.abspath(root))


@contextlib.contextmanager
def _own_directory() -> Iterator[str]:
    """Yields a new directory. It is removed afterwards, also when a signal ends this command."""
    place = _place()
    with ending_by_exception():
        interrupted = signal.getsignal(signal.SIGINT)
        directory = ""
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            directory = tempfile.mkdtemp(prefix=DIRECTORY, dir=place)
            yield directory
        finally:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            if directory:
                shutil.rmtree(directory, ignore_errors=True)
            signal.signal(signal.SIGINT, interrupted)


def _environment(phase: Phase, directory: str, session: str) -> dict[str, str]:
    """Returns a run's environment. Stores and the drivers' caches are below ``directory``."""
    caches = os.path.join(directory, f"driver-{phase.driver}")
    os.makedirs(caches, mode=0o700, exist_ok=True)
    environment = {**os.environ, **dict.fromkeys(DRIVER_CACHES, caches)}
    if not phase.store:
        return without_layer(environment)
    root = os.path.join(directory, f"store-{phase.store}")
    environment |= {"PYLAYER_STORE": root, "PYLAYER_SYSTEM_STORE": os.path.join(directory, "none")}
    environment |= {"PYLAYER_SESSION": session, **phase.environment}
    environment = with_layer(environment, str(layer_files.run_directory(root)))
    compile_policy(policy_in_force(), root)
    return environment


def _counted(root: str, session: str, begun_ns: int) -> tuple[dict[str, int | None], int | None]:
    """Returns what the layer counted in a run, and how long it was until the first frame; None if it saw none."""
    from ..report import recorded
    from ..report.totals import shown_sums, sum_known

    found = [run for run in recorded.read(root) if run.session == session]
    if not found:
        return dict.fromkeys(COUNTED), None
    sums = shown_sums([run.shown() for run in found])
    numbers = {key: sum_known([run.numbers[key] for run in found]) for key in COUNTED[:3]}
    longest = max(run.numbers["longest_frame_ns"] for run in found)
    first = min((at for run in found if (at := run.numbers["first_frame_ns"])), default=0)
    numbers |= {"longest_frame_ns": longest} | {key: sums[key] for key in COUNTED[4:]}
    return numbers, first - begun_ns if first > begun_ns else None


def _run(phase: Phase, directory: str, command: list[str], seconds: float | None) -> dict[str, Any]:
    """Runs the program once. Returns the run's numbers; ``start_ns`` is known only of a run with frames."""
    from ..store.store import Store
    from .measuring import measure

    session = unique_name()
    environment = _environment(phase, directory, session)
    done: Measured = measure(command, environment, seconds)
    root = environment["PYLAYER_STORE"] if phase.store else ""
    counted, first_frame = _counted(root, session, done.begun_ns) if root else (dict.fromkeys(COUNTED), None)
    return {
        "exit_status": done.status,
        "ended_by_bench": done.ended,
        "start_ns": first_frame,
        "wall_ns": done.wall_ns,
        "processor_ns": done.processor_ns,
        "memory_bytes": done.memory,
        "store_bytes": Store(root).total_bytes() if phase.store == "with" else None,
        **counted,
    }


def _run_all(directory: str, command: list[str], seconds: float | None, repeat: int) -> dict[str, list[dict[str, Any]]]:
    """Returns the runs of each phase. Phases take turns, so that what else the machine does hits all alike."""
    runs: dict[str, list[dict[str, Any]]] = {phase.name: [] for phase in PHASES}
    count = 1 + len(PHASES) * repeat
    number = 0

    def tell(phase: Phase) -> None:
        nonlocal number
        number += 1
        if not is_quiet():
            fail(f"run {number} of {count}: {phase.title}")

    tell(FIRST)
    _run(FIRST, directory, command, seconds)
    for _ in range(repeat):
        for name in ("store-with", "driver-with", "driver-without"):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
        for phase in PHASES:
            tell(phase)
            runs[phase.name].append(_run(phase, directory, command, seconds))
    if not any(run["frames"] for own in runs.values() for run in own):
        for run in (run for own in runs.values() for run in own if not run["ended_by_bench"]):
            run["start_ns"] = run["wall_ns"]
    return runs


def _median(runs: list[dict[str, Any]], key: str) -> int | None:
    """Returns the median; None if a run's number is unknown."""
    numbers = [run[key] for run in runs]
    return None if None in numbers else statistics.median_low(numbers)


def _cells(numbers: dict[str, int | None], runs: list[dict[str, Any]], with_frames: bool) -> list[str]:
    """Returns a row of the table."""

    def cell(key: str, shown: Any = str) -> str:
        number = numbers[key]
        return "?" if number is None else shown(number)

    ends = {"ended" if run["ended_by_bench"] else str(run["exit_status"]) for run in runs}
    return [
        cell("start_ns", human_time),
        *([cell("frames"), cell("late_frames")] if with_frames else []),
        *(cell(key) for key in ("pipelines", "compiled", "hits")),
        cell("memory_bytes", human_bytes),
        "-" if numbers["store_bytes"] is None else human_bytes(numbers["store_bytes"]),
        ", ".join(sorted(ends)),
    ]


def _print(found: dict[str, dict[str, int | None]], runs: dict[str, list[dict[str, Any]]]) -> None:
    with_frames = any(numbers["frames"] for numbers in found.values())
    frames = ("frames", "late") if with_frames else ()
    headings = ("start", *frames, "created", "compiled", "hits", "memory", "store", "exit")
    rows = [_cells(found[phase.name], runs[phase.name], with_frames) for phase in PHASES]
    out = console()
    out.print(program_table(out, headings, [phase.title for phase in PHASES], rows, ""))
    if not is_quiet():
        print_facts(out, _notes(found, with_frames, len(runs["warm"])), "dim")


def _notes(found: dict[str, dict[str, int | None]], with_frames: bool, count: int) -> list[tuple[str, str]]:
    """Returns what the columns and the rows of the table are."""
    until = "until the first frame" if with_frames else "until the program ended, because it presented no frames"
    unknown = _unknown(found, with_frames)
    return [
        ("start", until + (f"; all numbers are medians of {count} runs" if count > 1 else "")),
        ("memory", "the most that one process had"),
        *([("?", unknown)] if unknown else []),
        ("without, again", "the layer counts, and restores nothing (carrier: observe)"),
        ("pylayer, cold", "the store is empty"),
        ("pylayer, warm", "the store has what the cold run stored"),
        ("driver's cache", _driver_caches()),
    ]


def _unknown(found: dict[str, dict[str, int | None]], with_frames: bool) -> str:
    """Returns why numbers are unknown; empty text if none is."""
    reasons = ["without the layer nothing counts pipelines" + " and frames" * with_frames]
    if found["warm"]["pipelines"] is None:
        reasons.append("the layer saw no Vulkan device of this program")
    elif any(found[phase.name]["compiled"] is None for phase in PHASES[1:]):
        reasons.append("the driver does not say what it compiles")
    if any(numbers["memory_bytes"] is None for numbers in found.values()):
        reasons.append("the program needs less memory than pylayer itself, so how much is not seen")
    if not with_frames and any(numbers["start_ns"] is None for numbers in found.values()):
        reasons.append("a program that presents no frames and was ended has no start")
    return "; ".join(reasons)


def _driver_caches() -> str:
    """Returns what the drivers' own caches did to the numbers."""
    off = os.environ.get("MESA_SHADER_CACHE_DISABLE", "").lower() in ("1", "true", "yes")
    if off or os.environ.get("__GL_SHADER_DISK_CACHE") == "0":
        return "the environment switches it off"
    return (
        "empty at first and in the cold run; the run after each has what that left (Mesa, NVIDIA; others as they are)"
    )


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: 0 success, 1 a run failed or the layer saw nothing, 127 if the program is not found, "
    "126 if it cannot be executed, 2 usage error.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    metavar="N",
    help="End each run after N seconds: SIGTERM, and SIGKILL 5 seconds later. Default: wait until the program ends.",
)
@click.option(
    "--repeat", type=click.IntRange(1, 100), default=1, metavar="N", help="Run everything N times, and show medians."
)
@json_option
@program_argument
def bench(seconds: float | None, repeat: int, as_json: bool, command: tuple[str, ...]) -> None:
    """Measure a program without pylayer, with an empty store, and with a filled one.

    The program runs five times: once so that its files are in memory, twice without pylayer, and twice with it. Your
    own store is not used: these runs have one of their own, which is deleted afterwards. Each first run begins with an
    empty driver cache. The program's input is empty, and its output goes to standard error. End a game yourself each
    time, or give --seconds.

    \b
    Example:
      pylayer bench --seconds 30 -- ./game
      pylayer bench --repeat 5 -- ./tool --batch
    """
    if DISABLE in os.environ:
        raise Failure(f"nothing was measured: {DISABLE} is set; unset it")
    try:
        with _own_directory() as directory:
            runs = _run_all(directory, list(command), seconds, repeat)
    except OSError as error:
        raise Failure(f"nothing was measured: {reason(error)}; pylayer bench needs room beside your store") from error
    found = {name: {key: _median(own, key) for key in NUMBERS} for name, own in runs.items()}
    failed = [phase for phase in PHASES if any(r["exit_status"] and not r["ended_by_bench"] for r in runs[phase.name])]
    if as_json:
        phases = [{"phase": phase.name, **found[phase.name], "runs": runs[phase.name]} for phase in PHASES]
        print_json({"command": list(command), "seconds": seconds, "repeat": repeat, "phases": phases})
    else:
        _print(found, runs)
    if failed:
        rows = "each row" if len(failed) == len(PHASES) else "; ".join(phase.title for phase in failed)
        fail(f"the program failed in {rows} (see the column exit)")
    unseen = found["warm"]["pipelines"] is None
    if unseen:
        from .run import why_unseen

        fail(f"the layer counted nothing: {why_unseen(read_policy()[0], command[0])}")
    if failed or unseen:
        raise click.exceptions.Exit(EXIT_PROBLEM)
