"""Drivers without hardware, and what they say of their VkPipelineCaches: facts.json, made by asking them.

Each driver is one of Mesa's, and compiles for a chip that is not there. A library in LD_PRELOAD (mesa-drm-shim) answers
as the kernel's driver for that chip would.
"""

from __future__ import annotations

import glob
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import radv
from recipes.seen import Line, parse
from world import BUILD, ROOT, World

FACTS = ROOT / "tests" / "drivers" / "facts.json"
RECIPES = [str(BUILD / "tests" / "recipes")]
RECIPE = ROOT / "tests" / "drivers" / "facts.recipe"
#: `make drivers` builds it, because no package has it.
INTEL_SHIM = str(ROOT / "build" / "drivers" / "libintel_noop_drm_shim.so")


@dataclass(frozen=True)
class Target:
    """A driver and a chip."""

    driver: str
    chip: str
    #: Its manifest's name, the library of mesa-drm-shim, and the variable that chooses the chip.
    icd: str
    shim: str
    variable: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.driver} {self.chip}"

    def manifest(self) -> str:
        return next(iter(sorted(glob.glob(f"/usr/share/vulkan/icd.d/{self.icd}_icd*.json"))), "")

    def library(self) -> str:
        found = [INTEL_SHIM] if self.shim == "intel" else glob.glob(f"/usr/lib/*/lib{self.shim}_noop_drm_shim.so")
        return next((path for path in found if Path(path).exists()), "")

    def needs_shim(self) -> bool:
        return self.shim not in ("", "amdgpu") or (self.shim == "amdgpu" and not radv.has_null_hardware())

    def missing(self) -> str:
        """Returns why this driver cannot be had here, or an empty string."""
        if not self.manifest():
            return f"mesa-vulkan-drivers has no {self.icd}_icd.json here"
        if self.needs_shim() and not self.library():
            return (
                f"lib{self.shim}_noop_drm_shim.so is not here (package mesa-drm-shim; Intel's is built by make drivers)"
            )
        return ""

    def environment(self) -> dict[str, str]:
        """Returns the variables that select it."""
        own = {"VK_DRIVER_FILES": self.manifest(), "VK_ICD_FILENAMES": self.manifest(), "NODEVICE_SELECT": "1"}
        if self.driver == "RADV":
            return own | radv.gpu(self.chip)
        preloaded = {"LD_PRELOAD": self.library()} if self.shim else {}
        return own | preloaded | ({self.variable: self.value} if self.variable else {})

    def select(self, world: World) -> None:
        """Has programs of a world use this driver."""
        for name in ("LD_PRELOAD", "RADV_FORCE_FAMILY", *(one.variable for one in TARGETS)):
            world.environment.pop(name, None)
        world.environment |= self.environment()

    def world(self, directory: Path) -> World:
        """Returns a new world in this directory."""
        directory.mkdir(parents=True)
        world = World(directory, "here")
        self.select(world)
        return world


def _targets(driver: str, icd: str, shim: str, variable: str, chips: dict[str, str]) -> list[Target]:
    return [Target(driver, chip, icd, shim, variable, value) for chip, value in chips.items()]


INTEL = "INTEL_STUB_GPU_PLATFORM"
TARGETS = [
    *_targets("NVK", "nouveau", "nouveau", "NOUVEAU_CHIPSET", {"Maxwell": "120", "Turing": "168", "Ampere": "172"}),
    *_targets("Turnip", "freedreno", "freedreno", "FD_GPU_ID", {"a660": "660", "a730": "730"}),
    *_targets("Honeykrisp", "asahi", "asahi", "", {"M1": ""}),
    *_targets("ANV", "intel", "intel", INTEL, {chip: chip for chip in ("skl", "tgl", "dg2")}),
    *_targets("HASVK", "intel_hasvk", "intel", INTEL, {"bdw": "bdw"}),
    *_targets("RADV", "radeon", "amdgpu", "AMDGPU_GPU_ID", {chip: chip for chip in ("navi21", "navi31")}),
]
#: It renders, and no test of a driver's caches can use it.
LAVAPIPE = Target("Lavapipe", "CPU", "lvp", "")


def mesa_version(world: World) -> str:
    """Returns the driver's version without Debian's."""
    driver = world.demo("--count", 1, "--compute", layers=None)["driver"]
    found = re.search(r"Mesa (\d+\.\d+\.\d+)", driver)
    assert found, driver
    return found[1]


# ---- asking ----------------------------------------------------------------------------------------------------------


def lines_of(text: str) -> dict[str, Line]:
    return {line.name.removeprefix("facts."): line for line in parse(text)}


def _ran(line: Line) -> bool:
    return not line.seen.startswith("skip")


def _says(line: Line, word: str) -> str:
    """Returns the value of one word of a line, or an empty string."""
    return next((part.partition("=")[2] for part in line.seen.split() if part.startswith(f"{word}=")), "")


def _hits(cold: dict[str, Line], warm: dict[str, Line], kind: str) -> str:
    """Returns when APPLICATION_PIPELINE_CACHE_HIT is set."""
    times = {"compiled": cold[kind], "own cache": cold[f"{kind}-again"], "driver's cache": warm[kind]}
    return ", ".join(when for when, line in times.items() if any("H" in told[0] for told in line.feedback.values()))


def _found(lines: dict[str, Line], what: str) -> bool:
    return all(_says(lines[f"{kind}-{what}"], "result") == "0" for kind in ("compute", "graphics"))


def _incomplete(lines: dict[str, Line]) -> str:
    """Returns the kinds for which VK_INCOMPLETE comes at the exact size."""
    kinds = {"plain": ("compute", "graphics"), "captured representations": ("captured-compute", "captured-graphics")}
    return ", ".join(
        kind for kind, names in kinds.items() if any(_says(lines[f"{name}-size"], "then") == "5" for name in names)
    )


def _sizes(lines: dict[str, Line]) -> list[int]:
    empty = int(_says(lines["empty-size"], "bytes") or 0)
    return [int(_says(lines[f"{kind}-size"], "bytes") or 0) - empty for kind in ("compute", "graphics")]


def facts_of(bare: dict[str, Line], cold: dict[str, Line], warm: dict[str, Line]) -> dict[str, Any]:
    """Returns the facts that three processes of facts.recipe tell: without a cache of the driver's own, over an empty
    one, and over a warm one."""
    captured = [_says(bare[f"captured-{kind}-size"], "size") for kind in ("compute", "graphics")]
    keys = {_says(lines["global-key"], "key") for lines in (bare, cold, warm)}
    compute, graphics = _sizes(bare)
    return {
        "cache_control": _ran(bare["control"]),
        "pipeline_binary": _ran(bare["global-key"]),
        "global_key": "" if not _ran(bare["global-key"]) else "same" if len(keys) == 1 else "differs by process",
        "compute_hits": _hits(cold, warm, "compute"),
        "graphics_hits": _hits(cold, warm, "graphics"),
        "small_caches_found": _found(bare, "read"),
        "merge": "loses" if not _found(bare, "merged") else "copies" if _found(bare, "source") else "moves",
        "captured_kept": all(size == "filled" for size in captured),
        "incomplete_at_exact_size": _incomplete(bare),
        "compute_bytes": compute,
        "graphics_bytes": graphics,
        "bytes_over_warm_cache": "same" if _sizes(warm) == [compute, graphics] else "others",
    }


def ask(target: Target) -> dict[str, Any] | str:
    """Returns the row of facts.json about a driver, or why this driver cannot be had."""
    if target.missing():
        return target.missing()
    with tempfile.TemporaryDirectory() as directory:
        world = target.world(Path(directory, "world"))
        runs = []
        for disabled in ("true", "false", "false"):
            cache = {"MESA_SHADER_CACHE_DIR": f"{directory}/cache", "MESA_SHADER_CACHE_DISABLE": disabled}
            run = world.run([*RECIPES, str(RECIPE)], check=False, VK_INSTANCE_LAYERS=None, **cache)
            if run.returncode:
                return run.stderr.strip().rpartition("\n")[2]
            runs.append(lines_of(run.stdout))
        name = {"driver": target.driver, "chip": target.chip, "version": mesa_version(world)}
        return name | facts_of(*runs)


# ---- facts.json ------------------------------------------------------------------------------------------------------


def read(path: Path = FACTS) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def about(row: dict[str, Any]) -> str:
    """Returns what a row is about: one of each driver, chip and version."""
    return f"{row['driver']} {row['chip']}, {row['version']}"


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Puts rows in, one a line, in place of those about the same."""
    kept = {about(row): row for row in [*read(path), *rows]}
    path.write_text("[\n" + ",\n".join(json.dumps(kept[name]) for name in sorted(kept)) + "\n]\n")


def before(row: dict[str, Any], known: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the row about the same driver and chip, of this version or of the last one before; or an empty one."""

    def version(of: dict[str, Any]) -> list[int]:
        return [int(number) for number in of["version"].split(".")]

    same = [one for one in known if (one["driver"], one["chip"]) == (row["driver"], row["chip"])]
    return max((one for one in same if version(one) <= version(row)), key=version, default={})


def differences(row: dict[str, Any]) -> list[str]:
    """Returns what a row says otherwise than the one before in facts.json, in words; of the same version sizes, too."""
    was = before(row, read())
    if not was:
        return [f"{about(row)}: new"]
    same = was["version"] == row["version"]
    return [
        f"{about(row)}: {name}: {value!r}, was {was[name]!r}"
        for name, value in row.items()
        if value != was[name] and (same or not name.endswith("_bytes"))
    ]


def printed(driver: str, chip: str, version: str, *outputs: str) -> dict[str, Any]:
    """Returns the row of a driver from what facts.recipe printed elsewhere, in files."""
    return {"driver": driver, "chip": chip, "version": version, **facts_of(*map(lines_of, map(_read, outputs)))}


def _read(name: str) -> str:
    return Path(name).read_text()


def main() -> None:
    """Puts rows into facts.json, and says what is new: those of other files, or with --printed DRIVER CHIP VERSION of
    three files that facts.recipe printed on another machine."""
    rows = (
        [printed(*sys.argv[2:])]
        if sys.argv[1] == "--printed"
        else [row for name in sys.argv[1:] for row in read(Path(name))]
    )
    changed = [change for row in rows for change in differences(row)]
    write(FACTS, rows)
    print(*(f"facts.json: {change}" for change in changed), sep="\n", end="\n" if changed else "")


if __name__ == "__main__":
    main()
