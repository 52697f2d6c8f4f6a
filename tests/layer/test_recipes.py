"""Every way to create a pipeline, through the real layer: the recipes in tests/recipes/ways. The program sees what it
sees without the layer, and the second run compiles nothing."""

from __future__ import annotations

import functools
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from layer.recorder import only, record
from layer.validation import broken_rules, needs_validation, validated
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
    """Pipelines that differ only in where their descriptors are have each its own code without the layer, so that
    ``test_program_sees_the_same`` would notice a mix-up, and a fingerprint each."""
    needs_heaps(HEAP)
    contents = [re.findall("contents=([0-9a-f]+)", line.seen) for line in run_alone((HEAP,))]
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
