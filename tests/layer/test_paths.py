"""Every way to create a pipeline, through the real layer. The program sees what it sees without the layer, and the
second run compiles nothing. Each mode is a file of tests/paths."""

from __future__ import annotations

import functools
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from layer.recorder import only, record
from layer.validation import NEEDS_VALIDATION, without_mistakes
from world import BUILD, LAYER_NAME, ROOT, World

PROGRAM = str(BUILD / "tests" / "paths")
MODES = (
    "caches",
    "constants",
    "derivatives",
    "descriptor_heap",
    "device_group",
    "executables",
    "feedback",
    "flags",
    "inline_modules",
    "libraries",
    "private_data",
    "rendering",
    "robustness",
    "shader_objects",
    "stages",
    "subgroups",
)

#: Ways in which every mode can run.
WAYS = {
    "plain": (),
    "feedback": ("--feedback",),
    "flags2": ("--flags2",),
    "statistics": ("--statistics",),
    "own cache, feedback": ("--cache", "--feedback"),
}

#: How many pipelines RADV puts into no cache and creates again each time: those whose internal representations are
#: captured, and a library made only of other libraries (for which nothing is left to compile).
NEVER_KEPT = {"executables": 14, "libraries": 1}

#: The mode of VK_EXT_descriptor_heap creates pipelines that differ in their mappings alone, each once. Not every driver
#: has it; ``make descriptor-heap`` runs these tests with one that does.
HEAP, HEAP_PIPELINES = "descriptor_heap", 36

#: Flags of creation feedback. UNTOUCHED is what a driver leaves that writes nothing.
VALID, APPLICATION_HIT, BASE_ACCELERATION = 1, 2, 4
UNTOUCHED = -1


@dataclass
class Feedback:
    """Feedback of one create info: first of the pipeline, then of each of its stages."""

    flags: list[int]

    @classmethod
    def parse(cls, text: str) -> Feedback:
        return cls([UNTOUCHED if one == "u" else int(one) for one in text.replace(":", ",").split(",")])


@dataclass
class Line:
    """What the program printed about one call: its results, or what else it saw."""

    name: str
    seen: str
    feedback: list[Feedback]

    @classmethod
    def parse(cls, text: str) -> Line:
        name, _, rest = text.partition(" ")
        seen, *told = rest.rstrip().split(" feedback=")
        return cls(name, seen, [Feedback.parse(one) for one in told])


def run(world: World, *arguments: str, **environment: str | None) -> list[Line]:
    return [Line.parse(text) for text in world.run([PROGRAM, *arguments], **environment).stdout.splitlines()]


def seen(lines: list[Line]) -> list[tuple[str, str]]:
    return [(line.name, line.seen) for line in lines]


def check_feedback(alone: list[Line], layered: list[Line], own_cache: bool) -> None:
    """Asserts the rules of VkPipelineCreationFeedback, and that the layer leaves nothing unwritten that the driver
    writes."""
    for line, without in zip(layered, alone, strict=True):
        for told, expected in zip(line.feedback, without.feedback, strict=True):
            for flags, driver in zip(told.flags, expected.flags, strict=True):
                if flags == UNTOUCHED:
                    assert driver == UNTOUCHED, line
                    continue
                assert flags & ~(VALID | APPLICATION_HIT | BASE_ACCELERATION) == 0, line
                assert flags == 0 or flags & VALID, line
                # The flag is only about the cache that the program passed.
                assert own_cache or line.name.startswith("caches.") or not flags & APPLICATION_HIT, line


def compiled(counters: dict[str, int]) -> int:
    return sum(counters[name] for name in ("compiled", "plain_compiled", "uncacheable", "failed"))


#: All ways with the carrier that most devices have; with the others only the ways that make a difference to them.
CARRIERS = {
    "cells": ("plain", "feedback", "flags2", "statistics", "own cache, feedback"),
    "snapshot": ("own cache, feedback",),
    "binaries": ("feedback", "own cache, feedback"),
}
EACH_CARRIER = pytest.mark.parametrize(
    ("carrier", "way"),
    [(carrier, way) for carrier, ways in CARRIERS.items() for way in ways],
    indirect=["carrier"],
)


@pytest.fixture
def carrier(world: World, request: pytest.FixtureRequest) -> str:
    config = world.directory / "policy.yaml"
    # On a busy machine a run's statistics are written later than vkDestroyDevice waits by default.
    config.write_text(f"settings: {{carrier: {request.param}, flush_wait_ms: 60000}}\n")
    world.environment["PYLAYER_CONFIG"] = str(config)
    return str(request.param)


@functools.cache
def run_alone(*arguments: str) -> list[Line]:
    """Returns what the program prints without the layer. Do not change the returned list."""
    with tempfile.TemporaryDirectory() as directory:
        return run(World(Path(directory)), *arguments, VK_INSTANCE_LAYERS=None)


def check_cold_and_warm(world: World, carrier: str, own_cache: bool, never_kept: int, *arguments: str) -> None:
    """Asserts that the program sees in two runs what it sees without the layer, and that the second run compiles only
    ``never_kept`` pipelines."""
    alone = run_alone(*arguments)
    for _ in range(2):
        layered = run(world, *arguments)
        assert seen(layered) == seen(alone)
        check_feedback(alone, layered, own_cache)
    first, second = world.runs()
    assert first["carrier"] == second["carrier"] == carrier
    assert compiled(first["counters"]) > 0
    assert compiled(second["counters"]) == never_kept
    assert second["counters"]["passed"] == second["counters"]["events_dropped"] == 0


def needs_heaps(mode: str) -> None:
    """Skips a test of the mode of descriptor heaps, where the driver has none."""
    if mode == HEAP and all(line.seen == "not there" for line in run_alone(HEAP)):
        pytest.skip("this driver has no VK_EXT_descriptor_heap; `make descriptor-heap` brings one that has")


@pytest.mark.parametrize("carrier", ["cells"], indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_path(world: World, carrier: str, mode: str) -> None:
    """Each mode by itself, in two runs. ``test_paths_at_the_same_time`` runs all modes with the other carriers and in
    the other ways."""
    needs_heaps(mode)
    assert any("result=0" in line.seen for line in run_alone(mode)), "the driver lacks what this mode is about"
    check_cold_and_warm(world, carrier, False, NEVER_KEPT.get(mode, 0), mode)


def test_nothing_is_missing(world: World) -> None:
    """RADV without hardware has everything that the modes need, so none of them is empty, except that of descriptor
    heaps with Mesa before 26.1."""
    missing = {line.name for line in run(world, "all", VK_INSTANCE_LAYERS=None) if line.seen == "not there"}
    assert missing <= {f"{HEAP}.descriptor-heap"}


@pytest.mark.parametrize("carrier", ["cells", "binaries"], indirect=True)
def test_mappings_are_not_mixed_up(world: World, carrier: str) -> None:
    """Pipelines that differ only in where their descriptors are have each its own code, also when they are found."""
    needs_heaps(HEAP)
    contents = [re.findall("contents=([0-9a-f]+)", line.seen) for line in run_alone(HEAP)]
    assert len({digest for line in contents for digest in line}) == HEAP_PIPELINES
    check_cold_and_warm(world, carrier, False, 0, HEAP)


def test_mappings_have_fingerprints(world: World) -> None:
    """Pipelines that differ only in where their descriptors are have a fingerprint each."""
    needs_heaps(HEAP)
    wanted = record(world)
    run(world, HEAP)
    fingerprints = set(only(wanted.take(), "destroyed")[0]["seen"])
    assert len(fingerprints) == HEAP_PIPELINES and 0 not in fingerprints


def test_chains_that_can_be_copied(world: World) -> None:
    """The layer probes every pipeline except one whose flags follow an unknown structure."""
    run(world, "flags")
    counters = world.last()
    assert counters["plain"] == 1 and counters["compiled"] == 10


@EACH_CARRIER
def test_paths_at_the_same_time(world: World, carrier: str, way: str) -> None:
    """All modes run twice at once, each in a thread of its own on one device, with the same results as alone."""
    arguments = (*WAYS[way], "--times", "2", "all")
    assert len(run_alone(*arguments)) > 2 * 100
    check_cold_and_warm(world, carrier, "cache" in way, 2 * sum(NEVER_KEPT.values()), *arguments)


@pytest.mark.parametrize(
    ("way", "timeline"),
    [("flags2", "told"), ("own cache, feedback", "told"), ("own cache, feedback", "not told")],
)
def test_paths_on_lavapipe(lavapipe: World, way: str, timeline: str) -> None:
    """With a driver whose caches keep nothing, the layer passes every call, whatever the program does, and only times
    creations."""
    arguments = (*WAYS[way], "all")
    if timeline == "not told":
        policy = lavapipe.directory / "policy.yaml"
        policy.write_text("settings: {timeline_mib: 0}\n")
        lavapipe.environment["PYLAYER_CONFIG"] = str(policy)
    alone = run(lavapipe, *arguments, VK_INSTANCE_LAYERS=None)
    for _ in range(2):
        layered = run(lavapipe, *arguments)
        assert seen(layered) == seen(alone)
        check_feedback(alone, layered, "cache" in way)
    first, second = lavapipe.runs()
    assert first["carrier"] == second["carrier"] == "off"
    assert first["stored_records"] == second["stored_records"] == 0
    assert second["counters"]["pipelines"] == 0
    # They pass through the layer, because it checks the program's own cache data.
    assert second["counters"]["passed"] > 100
    assert (second["timeline_events"] > 10) is (timeline == "told")


def messages(world: World, log: Path, arguments: tuple[str, ...], layers: str | None) -> set[str]:
    """Runs the program with validation below the layer. Returns the lines about broken rules."""
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--", PROGRAM, *arguments]
    world.run(command, VK_INSTANCE_LAYERS=layers)
    return {line for line in without_mistakes(log.read_text()).splitlines() if "VUID" in line}


@functools.cache
def messages_alone(arguments: tuple[str, ...]) -> set[str]:
    """Returns what validation reports without the layer."""
    with tempfile.TemporaryDirectory() as directory:
        return messages(World(Path(directory)), Path(directory) / "validation.txt", arguments, None)


@NEEDS_VALIDATION
#: A structure more in a chain, or the flags in another place, is what could break a rule.
@pytest.mark.parametrize(
    ("carrier", "way"),
    [
        ("cells", "flags2"),
        ("cells", "statistics"),
        ("cells", "own cache, feedback"),
        ("snapshot", "own cache, feedback"),
        ("binaries", "flags2"),
        ("binaries", "own cache, feedback"),
    ],
    indirect=["carrier"],
)
def test_validation_of_paths(world: World, tmp_path: Path, carrier: str, way: str) -> None:
    """Validation below the layer reports nothing that it does not report without the layer, with an empty store and a
    full one."""
    log, arguments = tmp_path / "validation.txt", (*WAYS[way], "all")
    for _ in range(2):
        assert messages(world, log, arguments, LAYER_NAME) <= messages_alone(arguments)
