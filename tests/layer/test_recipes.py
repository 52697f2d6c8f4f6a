"""Every way to create a pipeline, through the real layer: the recipes in tests/recipes/ways. The program sees what it
sees without the layer, and the second run compiles nothing. Programs that keep identifiers of their shaders and no
SPIR-V (VK_EXT_shader_module_identifier) get their pipelines from the store."""

from __future__ import annotations

import functools
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from layer.recorder import days_ago, only, record
from layer.validation import broken_rules, needs_validation, validated
from pipeline_binaries import bytes_on_disk, with_disk_cache
from recipes.identifiers import WITHOUT_EXTENSION, recipe
from recipes.seen import Line, differences, parse
from world import BUILD, LAYER_NAME, ROOT, World

from pylayer.store import runs, timeline

PROGRAM = str(BUILD / "tests" / "recipes")
RECIPES = {path.stem: str(path) for path in sorted((ROOT / "tests" / "recipes" / "ways").glob("*.recipe"))}
#: Not with all others on one device: validation crashes in them without the layer, and their devices are of their own.
RAYS = {"rays": [str(ROOT / "tests" / "recipes" / "rays.recipe")]}

#: Ways in which every recipe can be made.
WAYS = {
    "plain": (),
    "feedback": ("--feedback",),
    "flags2": ("--flags2",),
    "statistics": ("--statistics",),
    "own cache, feedback": ("--cache", "--feedback"),
}

#: How many pipelines RADV puts into no cache and creates again each time: a library made only of other libraries (for
#: which nothing is left to compile).
NEVER_KEPT = {"libraries": 1}
#: How many pass unchanged, because statistics or internal representations of them are captured, or of others of their
#: call.
PASSED = {"executables": 16, "flags": 5}

#: The recipe of VK_EXT_descriptor_heap creates pipelines that differ in their mappings alone, each once. Not every
#: driver has it; ``make descriptor-heap`` runs these tests with one that does.
HEAP, HEAP_PIPELINES = "descriptor_heap", 36


def command_of(arguments: tuple[str, ...]) -> list[str]:
    """Returns the command for recipes by name, all of them for ``all``, with options before."""
    files = {**{name: [path] for name, path in RECIPES.items()}, **RAYS, "all": list(RECIPES.values())}
    return [PROGRAM, *(word for argument in arguments for word in files.get(argument, [argument]))]


def run(world: World, *arguments: str, **environment: str | None) -> list[Line]:
    return parse(world.run(command_of(arguments), **environment).stdout)


def compiled(counters: dict[str, int]) -> int:
    return sum(counters[name] for name in ("compiled", "plain_compiled", "uncacheable", "failed"))


@dataclass(frozen=True)
class Row:
    """Recipes that run without the layer and twice with it."""

    recipe: str
    way: str = "plain"
    mode: str = "cells"
    driver: str = "radv"
    times: int = 0
    #: Pipelines that the second run compiles again, too.
    never_kept: int = 0
    passed: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*WAYS[self.way], *(("--times", str(self.times)) if self.times else ()), self.recipe)

    def __str__(self) -> str:
        return "-".join((self.recipe, self.way, self.mode, self.driver))


#: All recipes together, each twice and each in a thread of its own on one device: in all ways with the mode that
#: most devices have, with the others only in the ways that make a difference to them.
TOGETHER = {
    "cells": tuple(WAYS),
    "binaries": ("feedback", "own cache, feedback"),
}
ROWS = [
    *(Row(recipe, never_kept=NEVER_KEPT.get(recipe, 0), passed=PASSED.get(recipe, 0)) for recipe in RECIPES),
    Row(HEAP, mode="binaries"),
    # Pipelines whose handles are captured or replayed pass.
    Row("rays", passed=2),
    *(
        Row("all", way, mode, times=2, never_kept=2 * sum(NEVER_KEPT.values()), passed=2 * sum(PASSED.values()))
        for mode, ways in TOGETHER.items()
        for way in ways
    ),
]
#: Lavapipe's caches keep nothing.
ROWS_OF_LAVAPIPE = [Row("all", way, "off", "lavapipe") for way in ("flags2", "own cache, feedback")]


@functools.cache
def run_alone(arguments: tuple[str, ...], driver: str = "radv") -> list[Line]:
    """Returns what the program prints without the layer. Do not change the returned list."""
    with tempfile.TemporaryDirectory() as directory:
        return run(World(Path(directory), driver), *arguments, VK_INSTANCE_LAYERS=None)


def same_twice(world: World, row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Asserts that the program sees in two runs what it sees without the layer. Returns the statistics of both."""
    alone = run_alone(row.arguments, row.driver)
    for _ in range(2):
        assert differences(run(world, *row.arguments), alone, "--cache" in row.arguments, not row.times) == []
    first, second = world.runs()
    assert first["mode"] == second["mode"] == row.mode
    return first, second


def needs_heaps(recipe: str) -> None:
    """Skips a test of the recipe of descriptor heaps, where the driver has none."""
    if recipe == HEAP and all(line.seen == "skip feature" for line in run_alone((HEAP,))):
        pytest.skip("this driver has no VK_EXT_descriptor_heap; `make descriptor-heap` brings one that has")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_program_sees_the_same(world: World, row: Row) -> None:
    """The program sees in two runs what it sees without the layer, and the second run compiles nothing. Pipelines that
    capture statistics or representations pass."""
    needs_heaps(row.recipe)
    assert any("result=0" in line.seen for line in run_alone(row.arguments)), "the driver lacks what this is about"
    world.configure(mode=row.mode)
    first, second = same_twice(world, row)
    counters = second["counters"]
    assert counters["events_dropped"] == 0
    if row.way == "statistics":
        assert counters["pipelines"] == 0 and counters["passed"] > 200
        return
    assert compiled(first["counters"]) > 0
    assert (compiled(counters), counters["passed"]) == (row.never_kept, row.passed)


@pytest.mark.parametrize("row", ROWS_OF_LAVAPIPE, ids=str)
def test_program_sees_the_same_without_caches(lavapipe: World, row: Row) -> None:
    """With a driver whose caches keep nothing, the layer passes every call, whatever the program does, and only times
    creations."""
    first, second = same_twice(lavapipe, row)
    assert first["stored_records"] == second["stored_records"] == 0
    assert second["counters"]["pipelines"] == 0
    # They pass through the layer, because it checks the program's own cache data.
    assert second["counters"]["passed"] > 100
    *_, (name, _) = runs.read_named(str(lavapipe.store))
    line = timeline.read(str(lavapipe.store), name)
    assert line is not None and len(line.events) > 10


def test_nothing_is_missing() -> None:
    """RADV without hardware has everything that the recipes need, so that no line is skipped, except for descriptor
    heaps with Mesa before 26.1."""
    missing = {line.name.partition(".")[0] for line in run_alone(("all",)) if line.seen.startswith("skip")}
    assert missing <= {HEAP}


def test_mappings_are_told_apart(world: World) -> None:
    """Pipelines that differ only in where their descriptors are have each its own code without the layer, and a
    fingerprint each."""
    needs_heaps(HEAP)
    contents = [re.findall("contents=([0-9a-f]+)", line.seen) for line in run_alone(("--statistics", HEAP))]
    assert len({digest for line in contents for digest in line}) == HEAP_PIPELINES
    wanted = record(world)
    run(world, HEAP)
    fingerprints = set(only(wanted.take(), "destroyed")[0]["seen"])
    assert len(fingerprints) == HEAP_PIPELINES and 0 not in fingerprints


def rules_broken(world: World, arguments: tuple[str, ...], layers: str | None) -> set[str]:
    """Runs recipes with validation below the layer. Returns the lines about broken rules."""
    return broken_rules(validated(world, command_of(arguments), VK_INSTANCE_LAYERS=layers))


@functools.cache
def rules_broken_alone(arguments: tuple[str, ...]) -> set[str]:
    """Returns what validation reports without the layer."""
    with tempfile.TemporaryDirectory() as directory:
        return rules_broken(World(Path(directory)), arguments, None)


@needs_validation
#: A structure more in a chain, or the flags in another place, is what could break a rule.
@pytest.mark.parametrize(
    "row",
    [
        Row("all", "flags2", "cells"),
        Row("all", "statistics", "cells"),
        Row("all", "own cache, feedback", "cells"),
        Row("all", "flags2", "binaries"),
        Row("all", "own cache, feedback", "binaries"),
    ],
    ids=str,
)
def test_validation_of_recipes(world: World, row: Row) -> None:
    """Validation below the layer reports nothing that it does not report without the layer, with an empty store and a
    full one."""
    world.configure(mode=row.mode)
    for _ in range(2):
        assert rules_broken(world, row.arguments, LAYER_NAME) <= rules_broken_alone(row.arguments)


# ---- VK_EXT_shader_module_identifier: tests/recipes/identifiers.py has the recipes ---------------


COMPILE_REQUIRED = 1000297000
NOT_REQUIRED = "skip not-required"

IDENTIFIED_WAYS = {"plain": (), "feedback": ("--feedback",), "own cache": ("--cache",)}


#: Every way with the mode that most devices have; with the others only the ways that make a difference to them.
WAYS_OF_MODES = {"cells": tuple(IDENTIFIED_WAYS), "binaries": ("plain", "feedback")}
EACH_WAY = pytest.mark.parametrize(
    ("mode", "way"),
    [(mode, way) for mode, ways in WAYS_OF_MODES.items() for way in ways],
    indirect=["mode"],
)
EACH_MODE = pytest.mark.parametrize("mode", WAYS_OF_MODES, indirect=True)


@pytest.fixture
def mode(world: World, request: pytest.FixtureRequest) -> str:
    world.environment |= world.policy(f"settings: {{mode: {request.param}}}\n")
    return str(request.param)


def write(world: World, way: str, device: str = "") -> str:
    """Writes the recipe of a way, and returns its file."""
    file = world.directory / f"{way}.recipe"
    file.write_text(recipe(way, world.directory / "identifiers", device))
    return str(file)


def identify(world: World, way: str, *options: str, device: str = "", **environment: str | None) -> list[str]:
    """Returns what the program saw, a line for each call in order: the call's name without the way's, its result and
    its pipelines. A call that was not required is none."""
    lines = parse(world.run([PROGRAM, *options, write(world, way, device)], **environment).stdout)
    return [f"{line.name.partition('.')[2]} {line.seen}" for line in lines if line.seen not in ("done", NOT_REQUIRED)]


def made(line: str) -> str:
    """Returns a digit for each pipeline of a call: whether it is there."""
    return "".join(str(int(state == "set")) for state in re.findall(r" P\d=(\w+)", line))


def take_identifiers(world: World) -> None:
    """Gives the program the identifiers that it records without the layer. They are the driver's, and the same in every
    run."""
    identify(world, "record", VK_INSTANCE_LAYERS=None)


@functools.cache
def identify_alone(way: str, *options: str) -> list[str]:
    """Runs this way without the layer, after its identifiers were recorded. Do not change the returned list."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        take_identifiers(world)
        return identify(world, way, *options, VK_INSTANCE_LAYERS=None)


@functools.cache
def run_on_warm_driver(way: str) -> list[str]:
    """Runs this way without the layer, with the driver's own disk cache filled by the recording run."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        disk = {"MESA_SHADER_CACHE_DISABLE": "0", "MESA_SHADER_CACHE_DIR": str(world.directory / "mesa")}
        return [identify(world, one, VK_INSTANCE_LAYERS=None, **disk) for one in ("record", way)][-1]


def required(lines: list[str]) -> list[str]:
    """Returns the names of calls that returned VK_PIPELINE_COMPILE_REQUIRED."""
    return [line.split()[0] for line in lines if f"result={COMPILE_REQUIRED}" in line]


@EACH_WAY
def test_hits_without_code(world: World, mode: str, way: str) -> None:
    """Pipelines created from modules are found by identifiers alone, as in the driver's own warm cache, also if the
    program does not enable the extension."""
    expected = run_on_warm_driver("replay")
    recorded = identify(world, "record", *IDENTIFIED_WAYS[way])
    assert all("equal=1" in line and "size=0" not in line for line in recorded if line.startswith("identify"))
    assert identify(world, "replay", *IDENTIFIED_WAYS[way]) == expected
    counters = world.last()
    assert compiled(counters) == 0
    # RADV creates libraries that retain what an optimized link needs only from code.
    assert required(expected) == ["retained-pre-rasterization", "retained-fragment"]
    assert sum(made(line) == "1" for line in expected) == counters["pipelines"] == 13
    assert identify(world, "replay", *IDENTIFIED_WAYS[way], device=WITHOUT_EXTENSION) == expected


@EACH_WAY
def test_what_is_created_after_a_miss_is_kept(world: World, mode: str, way: str) -> None:
    """With an empty store an identifier gives VK_PIPELINE_COMPILE_REQUIRED. The pipeline that is then created from code
    is found by its identifier in the next run."""
    take_identifiers(world)
    alone = identify_alone("translate", *IDENTIFIED_WAYS[way])
    assert len(required(alone)) == 11
    assert identify(world, "translate", *IDENTIFIED_WAYS[way]) == alone
    assert identify(world, "translate", *IDENTIFIED_WAYS[way]) == run_on_warm_driver("translate")
    first, second = (one["counters"] for one in world.runs())
    assert compiled(first) > 0 and compiled(second) == 0
    assert first["pipelines"] == second["pipelines"] == 16


@EACH_MODE
def test_miss_leaves_nothing(world: World, mode: str) -> None:
    """Identifiers that nothing knows give the same result as without the layer in every run, and nothing is
    compiled."""
    take_identifiers(world)
    alone = identify_alone("replay")
    libraries = ["pre-rasterization", "fragment", "retained-pre-rasterization", "retained-fragment"]
    assert required(alone) == ["kernel"] * 3 + ["scene", "patches", "tiles"] + libraries
    for _ in range(2):
        assert identify(world, "replay") == alone
    assert compiled(world.last()) == 0


@EACH_WAY
def test_mixed_batches(world: World, mode: str, way: str) -> None:
    """With identifiers and modules in one call, each gives the same result as by itself, and EARLY_RETURN_ON_FAILURE
    ends the call at the same pipeline as without the layer."""
    take_identifiers(world)
    alone = identify_alone("mixed", *IDENTIFIED_WAYS[way])
    assert [made(line) for line in alone] == ["0101", "0000"]
    assert identify(world, "mixed", *IDENTIFIED_WAYS[way]) == alone
    identify(world, "record", *IDENTIFIED_WAYS[way])
    warm = identify(world, "mixed", *IDENTIFIED_WAYS[way])
    assert [made(line) for line in warm] == ["1101", "1100"]
    assert {line.split()[1] for line in warm} == {f"result={COMPILE_REQUIRED}"}
    identify(world, "mixed", *IDENTIFIED_WAYS[way])
    assert compiled(world.last()) == 0


@EACH_WAY
def test_garbage(world: World, mode: str, way: str) -> None:
    """Bytes that are no identifier, of every allowed size, are unknown, as without the layer."""
    identify(world, "record", *IDENTIFIED_WAYS[way])
    alone = identify_alone("garbage", *IDENTIFIED_WAYS[way])
    assert len(required(alone)) == 3 * 32 * 2 + 1 + 31
    for _ in range(2):
        assert identify(world, "garbage", *IDENTIFIED_WAYS[way]) == alone


# ---- recency -----------------------------------------------------------------------------------------


def driver_knows_inline_code(world: World) -> bool:
    """Returns whether the driver's own cache on disk finds pipelines of inline code that were made of modules. RADV
    26.1.6 compiles them again, RADV 25.0.7 does not."""
    disk = world.directory / "mesa"
    sizes = []
    for way in ("record", "inline"):
        identify(world, way, VK_INSTANCE_LAYERS=None, **with_disk_cache(disk))
        sizes.append(bytes_on_disk(disk))
    return sizes[0] == sizes[1] > 0


def test_module_and_identifier_have_one_fingerprint(world: World) -> None:
    """A pipeline has the same fingerprint whether its code comes from a module, inline or as an identifier, so the
    store knows that its record is in use."""
    wanted = record(world)
    seen, stored = {}, {}
    for way, days in (("record", 6), ("inline", 4), ("replay", 2), ("translate", 0)):
        identify(world, way, **days_ago(world, days))
        found = wanted.take()
        seen[way] = set(only(found, "destroyed")[0]["seen"])
        stored[way] = {cell["fingerprint"] for cell in only(found, "cell")} - {0}
    assert stored["record"] <= seen["record"] and len(seen["record"]) == 14
    assert seen["inline"] == seen["translate"] == seen["record"]
    # Without the two libraries that RADV creates only from code, and without what is linked from them.
    assert seen["replay"] < seen["record"] and len(seen["replay"]) == 11
    assert not stored["replay"] | stored["translate"]
    assert not stored["inline"] or not driver_knows_inline_code(world)


def test_identifiers_ignored(world: World) -> None:
    """With PYLAYER_SHADER_IDENTIFIERS=ignore pipelines have the fingerprints that they have in a program that does not
    enable the extension. `pylayer prewarm` sets it for such programs."""
    wanted = record(world)
    seen = []
    for days, device, wish in ((4, "", None), (2, "", "ignore"), (0, WITHOUT_EXTENSION, None)):
        way, old = "inline" if device else "record", days_ago(world, days)
        identify(world, way, device=device, PYLAYER_SHADER_IDENTIFIERS=wish, **old)
        ended = only(wanted.take(), "destroyed")[0]
        seen.append((set(ended["seen"]), ended["counters"]["identified_shaders"] > 0))
    (identified, counted), (ignored, ignored_counted), (without, without_counted) = seen
    assert ignored == without and len(ignored) == 14
    # Two libraries have no shaders.
    assert len(identified & ignored) == 2
    assert counted and not ignored_counted and not without_counted


def test_identifier_of_no_bytes(world: World) -> None:
    """An empty identifier is ignored, and the code that comes with it counts."""
    wanted = record(world)
    identify(world, "record", **days_ago(world, 2))
    recorded = set(only(wanted.take(), "destroyed")[0]["seen"])
    lines = identify(world, "garbage")
    assert [line for line in lines if line.startswith("no-bytes") and "result=0 P0=set" in line] == lines[-2:]
    seen = only(wanted.take(), "destroyed")[0]["seen"]
    assert len(seen) == 2 and set(seen) < recorded


# ---- other drivers and checks --------------------------------------------------------------------------


@needs_validation
@pytest.mark.parametrize("way", ["record", "translate", "mixed"])
def test_validation(world: World, way: str) -> None:
    """Validation below the layer reports the same as without the layer, with an empty store and a full one."""
    take_identifiers(world)
    said = []
    for layers in (None, LAYER_NAME, LAYER_NAME):
        said.append(broken_rules(validated(world, [PROGRAM, write(world, way)], VK_INSTANCE_LAYERS=layers)))
    assert said[0] == said[1] == said[2]
