#!/usr/bin/env python3
"""Draws with pipelines of every sort on a real GPU, without the layer and with each mode, cold and twice warm, and
compares results, creation feedback, images and buffers.

    make gpu                                    builds what is needed, and runs it on the first Vulkan device
    python3 tests/gpu/gpu.py --package DIRECTORY --program FILE     where they were built elsewhere
    python3 tests/gpu/gpu.py --recipes tests/recipes/ways/*.recipe  every way to create a pipeline; draws nothing

A sort is: in a render pass or without one; with one view, two, or VIEW_INDEX_FROM_DEVICE_INDEX; whole, or linked from
libraries; with tessellation, geometry, or stages that write to a storage buffer.

Needs nothing but Python's standard library. Ends with 1 where something differs from a run without the layer, where a
process died under the layer, or where a second warm run compiles what is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from recipes.seen import Line, difference, parse

LAYER = "VK_LAYER_PYLAYER_pipeline_cache"
MODES = ("auto", "cells", "binaries", "observe")
#: How the program creates its pipelines.
WAYS = {"no cache": (), "own cache": ("--cache",)}
#: Runs with one store, in order.
RUNS = ("cold", "warm", "warm again")
#: A driver that crashes in a call that the layer adds ends one process. The next must do without the call.
ATTEMPTS = 3
COUNTED = ("hits", "binary_hits", "compiled", "plain", "plain_compiled", "passed", "uncacheable", "failed")


#: The parts of what is linked from libraries, none for whole pipelines, and whether the link is optimized.
MAKES = {
    "whole": ((), False),
    "fast": (("input", "vertex", "fragment", "output"), False),
    "optimized": (("input", "vertex", "fragment", "output"), True),
    "fast-two-stages": (("input", "vertex,fragment", "output"), False),
    "optimized-two-stages": (("input", "vertex,fragment", "output"), True),
}
SHAPES = {
    "plain": "",
    "tessellation": "tessellation",
    "geometry": "geometry",
    "tessellation-geometry": "tessellation geometry",
    "vertex-writes": "vertex-writes",
    "fragment-writes": "fragment-writes",
    "all": "tessellation geometry vertex-writes fragment-writes",
}
VIEWS = ("one-view", "two-views", "device-index")
DEVICE = "device rendering multiview libraries tessellation geometry vertex-stores fragment-stores modules"


def element_of(place: str, views: str, shape: str, variant: int) -> str:
    """Returns what all parts of a pipeline have in common (tests/recipes/graphics.c)."""
    seen, two = views != "one-view", views == "two-views"
    suffix = "_views" if seen else ""
    words = [f"vert=vertex{suffix}{'_writes' if 'vertex-writes' in shape else ''}"]
    words += [f"tesc=control tese=evaluation{suffix}"] if "tessellation" in shape else []
    words += [f"geom=geometry{suffix}"] if "geometry" in shape else []
    words += [f"frag=colors{'_writes' if 'fragment-writes' in shape else ''}"]
    words += [("pass=views" if two else "pass=plain") if place == "pass" else f"pass=dynamic mask={3 if two else 0}"]
    return f"{' '.join(words)} spec={variant} static"


def lines_of(place: str, views: str, make: str, shape: str, variant: int) -> list[str]:
    """Returns the lines of a recipe that create one pipeline, draw with it, and destroy it and its parts. Drivers may
    read libraries when they draw with what is linked from them."""
    name = f"{place}.{views}.{make}.{shape}.{variant}"
    element = element_of(place, views, SHAPES[shape], variant)
    parts, optimized = MAKES[make]
    lines = []
    for number, part in enumerate(parts, 1):
        flags = ["library", *(["retain"] if optimized else [])]
        flags += ["view-index"] if views == "device-index" and "vertex" in part else []
        lines.append(f"{name}.{part}: graphics - : P{number} {element} part={part} flags={','.join(flags)}")
    slots = [f"P{number}" for number in range(1, len(parts) + 1)]
    flags = ["lto"] if optimized else ["view-index"] if views == "device-index" and not parts else []
    what = f"link={','.join(slots)}" if parts else element
    given = f" flags={flags[0]}" if flags else ""
    lines.append(f"{name}: graphics - : P0 {what}{given} feedback=pipeline")
    return [*lines, f"{name}.image: draw P0", f"{name}.end: unpipeline {' '.join(['P0', *slots])}"]


def drawn(variants: int, only: str) -> str:
    """Returns a recipe with pipelines of every sort that drivers are known to treat apart."""
    lines = [DEVICE, "about: about"]
    for variant in range(variants):
        lines.append(f"compute.{variant}: compute - : P0 shader=numbers spec={variant} feedback=pipeline")
        lines.append(f"compute.{variant}.image: draw P0")
        for place in ("pass", "dynamic"):
            for views in VIEWS:
                for make in MAKES:
                    for shape in SHAPES:
                        if only in f"{place}.{views}.{make}.{shape}.{variant}":
                            lines += lines_of(place, views, make, shape, variant)
    return "\n".join([*lines, ""])


@dataclass
class Outcome:
    """One process: its exit status, what it printed, and the layer's mode and counters."""

    status: int
    said: str
    lines: dict[str, Line]
    mode: str
    counters: dict[str, int]


def counters_of(store: Path) -> tuple[str, dict[str, int]]:
    """Returns mode and counters of the newest run in a store (docs/internals/format.md, 'Runs')."""
    runs = sorted(store.rglob("*.run"), key=lambda path: path.stat().st_mtime_ns)
    if not runs:
        return "-", {}
    lines = dict(re.findall(r"(counters\.\w+|mode)=[is]:(\w+)", runs[-1].read_text("latin-1")))
    return lines.get("mode", "-"), {name: int(lines.get(f"counters.{name}", 0)) for name in COUNTED}


class Bench:
    """Where the processes run: a directory with a manifest, policy files, stores and caches of the driver."""

    def __init__(self, directory: Path, package: Path, program: list[str], below: str) -> None:
        self.directory = directory
        self.below = [below] if below else []
        self.layer_paths = [str(directory / "layers"), *filter(None, [os.environ.get("VK_LAYER_PATH")])]
        self.command = program
        template = package / "data" / "manifests" / "VkLayer_pylayer_pipeline_cache.json"
        manifest = json.loads(template.read_text())
        manifest["layer"]["library_path"] = str(package.resolve() / "libVkLayer_pylayer_pipeline_cache.so")
        (directory / "layers").mkdir()
        (directory / "layers" / "pylayer.json").write_text(json.dumps(manifest))

    def run(self, name: str, way: str, mode: str | None) -> Outcome:
        """Runs the program once. ``name`` decides which store and which cache of the driver it uses."""
        own = self.directory / name
        own.mkdir(exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYLAYER_")}
        environment |= {
            "MESA_SHADER_CACHE_DIR": str(own / "driver"),
            "__GL_SHADER_DISK_CACHE_PATH": str(own / "driver"),
            "VK_LAYER_PATH": ":".join(self.layer_paths),
            "VK_INSTANCE_LAYERS": ":".join([LAYER, *self.below] if mode else self.below),
        }
        (own / "driver").mkdir(exist_ok=True)
        if mode is not None:
            config = own / "policy.yaml"
            config.write_text(json.dumps({"settings": {"mode": mode}}))
            environment |= {
                "PYLAYER_CONFIG": str(config),
                "PYLAYER_STORE": str(own / "store"),
                "PYLAYER_LOG": "warn",
            }
        command = [self.command[0], *WAYS[way], *self.command[1:]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        lines = {line.name: line for line in parse(done.stdout)}
        return Outcome(done.returncode, done.stderr, lines, *counters_of(own / "store"))


def differing(alone: Outcome, under: Outcome, own_cache: bool) -> dict[str, str]:
    """Returns the lines that a program sees otherwise than without the layer, and how."""
    found = {}
    for name, line in alone.lines.items():
        what = difference(under.lines[name], line, own_cache, True) if name in under.lines else f"{name}: no line"
        if what:
            found[name] = what
    return found


def is_wrong(alone: Outcome, way: str, mode: str, run: str, outcome: Outcome, warm_twice: bool) -> bool:
    """Prints a row about a process, and what is wrong with it."""
    different = differing(alone, outcome, bool(WAYS[way]))
    faults = [f"ended with {outcome.status}"] if outcome.status else []
    faults += [f"{len(different)} of {len(alone.lines)} differ"] if different else []
    stored = mode != "observe" and outcome.mode not in ("off", "-")
    if warm_twice and stored and outcome.counters.get("compiled"):
        faults.append(f"{outcome.counters['compiled']} compiled again")
    counted = ", ".join(f"{value} {name}" for name, value in outcome.counters.items() if value)
    print(f"{way:10} {mode:9} {run:11} {'; '.join(faults) or 'as alone':40} {counted}", flush=True)
    for line in [*list(different.values())[:8], *outcome.said.splitlines()[:12]]:
        print(f"    {line}")
    return bool(faults)


def try_mode(bench: Bench, alone: Outcome, way: str, mode: str) -> int:
    """Returns how many processes were wrong."""
    wrong = 0
    for run in RUNS:
        for attempt in range(ATTEMPTS):
            outcome = bench.run(f"{way.replace(' ', '-')}-{mode}", way, mode)
            again = f" {attempt + 1}" if attempt else ""
            wrong += is_wrong(alone, way, mode, run + again, outcome, run == RUNS[-1])
            if outcome.status == 0:
                break
    return wrong


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, help="the installed package pylayer (default: that of .venv)")
    parser.add_argument("--program", type=Path, default=root / "build" / "tests" / "recipes")
    parser.add_argument("--recipes", nargs="+", type=Path, help="files with other recipes")
    parser.add_argument("--variants", type=int, default=2, help="pipelines of each sort")
    parser.add_argument("--only", default="", help="leaves out sorts of pipelines without this text in their names")
    parser.add_argument("--below", default="", help="a layer between pylayer and the driver, found by VK_LAYER_PATH")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--modes", default=",".join(MODES))
    options = parser.parse_args()
    package = options.package or next(iter(sorted(root.glob(".venv/lib/python3*/site-packages/pylayer"))), None)
    if package is None or not options.program.exists():
        parser.error("nothing is built: make gpu")
    with tempfile.TemporaryDirectory() as directory:
        recipe = Path(directory, "drawn.recipe")
        recipe.write_text(drawn(options.variants, options.only))
        files = [str(file.resolve()) for file in options.recipes or [recipe]]
        bench = Bench(Path(directory), package, [str(options.program.resolve()), *files], options.below)
        ways = options.ways.split(",")
        alone = {way: bench.run("alone", way, None) for way in ways}
        for way, outcome in alone.items():
            own = bool(WAYS[way])
            unsteady = {name for _ in range(2) for name in differing(outcome, bench.run("alone", way, None), own)}
            for name in unsteady:
                del outcome.lines[name]
            about = outcome.lines.get("drawn.about")
            graphics = [line.seen for name, line in outcome.lines.items() if ".compute." not in name]
            absent, blank = (sum(seen.startswith(what) for seen in graphics) for what in ("skip feature", "drawn=0 "))
            print(
                f"{way}: {len(outcome.lines)} lines on {about.seen if about else '-'}; {absent} absent, {blank} blank, "
                f"{len(unsteady)} left out because they differ from run to run without the layer"
            )
            if outcome.status:
                print(outcome.said)
                return 1
        wrong = sum(try_mode(bench, alone[way], way, mode) for way in ways for mode in options.modes.split(","))
        print("all as without the layer" if not wrong else f"{wrong} runs differ")
        return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
