"""What pylayer does to a program that nobody changes, as a table: ``make demo``.

The program, ``build/demo/pipelines``, creates pipelines and has no cache of its own. It runs without the layer, with
it and an empty store, and with it once more. On a GPU if there is one; else Mesa's RADV compiles for a GPU that is not
there. Exit status 1 when the last run still compiled something.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from pylayer.store import runs

sys.path.insert(0, str(Path(__file__).parents[1]))
import radv

PROGRAM = Path("build/demo/pipelines")
COUNT = 1000
PYLAYER = Path(sys.executable).with_name("pylayer")

# Drivers keep a cache on disk too. It would answer the second run, with and without the layer.
NO_DRIVER_CACHES = {"MESA_SHADER_CACHE_DISABLE": "1", "__GL_SHADER_DISK_CACHE": "0"}
OURS = ("PYLAYER_", "VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE")

# Counters of pipelines that a driver compiled, whatever the layer then did with them.
COMPILED = ("compiled", "uncacheable", "plain_compiled")


class DemoError(Exception):
    """The demo cannot go on; the text says why and what to do."""


def radv_without_hardware() -> dict[str, str]:
    """Environment that makes RADV compile for a GPU that is not there."""
    driver = radv.manifest()
    if not driver:
        raise DemoError("no GPU, and no radeon_icd*.json in /usr/share/vulkan/icd.d: install mesa-vulkan-drivers")
    return {"VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver, **radv.gpu("navi21")}


def environment(store: Path, gpu: bool) -> dict[str, str]:
    """What every run gets: no layers, no driver caches, a store of its own."""
    result = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    result |= NO_DRIVER_CACHES
    result |= {"PYLAYER_STORE": str(store), "XDG_CONFIG_HOME": str(store / "config")}
    return result if gpu else result | radv_without_hardware()


def run(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Runs the program and returns what it says of itself."""
    # RADV without hardware writes a line about a missing PCI bus to stderr; stderr is shown only with a failure.
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    try:
        if done.returncode == 0:
            return json.loads(done.stdout)
    except ValueError:
        pass
    raise DemoError(f"{' '.join(command)} ended with status {done.returncode}\n{done.stdout}{done.stderr}".rstrip())


def counters_of_last_run(store: Path) -> dict[str, int]:
    """What the layer counted in the run that ended last."""
    found = list(runs.read_all(str(store)))
    if not found:
        raise DemoError("the layer wrote no statistics; 'pylayer doctor' tells why")
    return found[-1]["counters"]


def measure(store: Path) -> dict[str, Any]:
    """The three runs."""
    few, program = ([str(PROGRAM), "--count", str(number), "--json"] for number in (40, COUNT))
    try:
        gpu = bool(run(few, environment(store, gpu=True))["gpu"])
    except DemoError:  # no driver
        gpu = False
    env = environment(store, gpu)
    run(few, env)  # the driver's files come into memory
    plain = run(program, env)
    rows = [{"run": "no pylayer", "pipelines": plain["created"], "compiled": plain["created"], "hits": 0}]
    times = [plain["create_ns_total"]]
    for name in ("first run", "second run"):
        told = run([str(PYLAYER), "run", "--", *program], env)
        counters = counters_of_last_run(store)
        compiled = sum(counters[key] for key in COMPILED)
        rows.append({"run": name, "pipelines": told["created"], "compiled": compiled, "hits": counters["hits"]})
        times.append(told["create_ns_total"])
    for row, nanoseconds in zip(rows, times, strict=True):
        row["total_ms"] = nanoseconds / 1e6
        row["per_pipeline_us"] = nanoseconds / 1e3 / max(row["pipelines"], 1)
        row["times_faster"] = times[0] / max(nanoseconds, 1)
    return {"device": plain["device"], "driver": plain["driver"], "hardware": gpu, "rows": rows}


def show(result: dict[str, Any]) -> None:
    """The table, and what it means."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)  # nothing is cut in a file
    console.print(f"{result['device']}; driver {result['driver']}")
    if not result["hardware"]:
        console.print("No GPU here: Mesa's compiler for AMD works without one.")
    console.print("The driver's own disk cache is off, so that only pylayer's store can help.")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for title in ("pipelines", "compiled", "hits", "total", "per pipeline", "faster"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in result["rows"]:
        table.add_row(
            row["run"],
            str(row["pipelines"]),
            str(row["compiled"]),
            str(row["hits"]),
            f"{row['total_ms']:.1f} ms",
            f"{row['per_pipeline_us']:.1f} µs",
            f"{row['times_faster']:.{0 if row['times_faster'] >= 10 else 1}f} x",
        )
    console.print(table)
    warm = result["rows"][-1]
    if warm["compiled"]:
        console.print(f"The second run still compiled {warm['compiled']} pipelines; that should not be.")
        return
    console.print(
        f"The program was not changed and has no cache of its own. Its second run compiled nothing and had its "
        f"pipelines {warm['times_faster']:.0f} times faster: the first run left them in pylayer's store."
    )
    console.print(f"Next: {os.path.relpath(PYLAYER)} run -- your-program, and then {os.path.relpath(PYLAYER)} stats")


def main() -> int:
    """Runs the demo."""
    try:
        with tempfile.TemporaryDirectory(prefix="pylayer-demo-") as directory:
            result = measure(Path(directory))
    except (DemoError, OSError, subprocess.TimeoutExpired) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    show(result)
    return 1 if result["rows"][-1]["compiled"] else 0


if __name__ == "__main__":
    sys.exit(main())
