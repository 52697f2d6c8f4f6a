"""Every way to create a pipeline, through the real layer: the program sees what it sees without the layer, and the
second run compiles nothing. The modes are those of tests/paths, a file each."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from layer.validation import without_mistakes
from world import BUILD, LAYER_NAME, ROOT, World

PROGRAM = str(BUILD / "tests" / "paths")
MODES = (
    "caches",
    "constants",
    "derivatives",
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

#: How every mode can be taken.
WAYS = {
    "plain": (),
    "feedback": ("--feedback",),
    "flags2": ("--flags2",),
    "statistics": ("--statistics",),
    "own cache": ("--cache",),
    "own cache, feedback": ("--cache", "--feedback"),
}

#: Pipelines that RADV creates anew each time and puts into no cache: those whose internal representations are captured,
#: and a library that is only made of others (where nothing is left to compile).
NEVER_KEPT = {"executables": 14, "libraries": 1}

#: Creation feedback, in flags; a driver that writes nothing leaves UNTOUCHED.
VALID, APPLICATION_HIT, BASE_ACCELERATION = 1, 2, 4
UNTOUCHED = -1


@dataclass
class Feedback:
    """What one create info was told: of the pipeline first, then of each of its stages."""

    flags: list[int]

    @classmethod
    def parse(cls, text: str) -> Feedback:
        return cls([UNTOUCHED if one == "u" else int(one) for one in text.replace(":", ",").split(",")])


@dataclass
class Line:
    """What the program printed about one call: its results, or something else that it saw."""

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
    """The rules of VkPipelineCreationFeedback, and nothing is left unwritten that the driver writes."""
    for line, without in zip(layered, alone, strict=True):
        for told, expected in zip(line.feedback, without.feedback, strict=True):
            for flags, driver in zip(told.flags, expected.flags, strict=True):
                if flags == UNTOUCHED:
                    assert driver == UNTOUCHED, line
                    continue
                assert flags & ~(VALID | APPLICATION_HIT | BASE_ACCELERATION) == 0, line
                assert flags == 0 or flags & VALID, line
                # It is said of the cache that the program passed, and of no other.
                assert own_cache or line.name.startswith("caches.") or not flags & APPLICATION_HIT, line


def compiled(counters: dict[str, int]) -> int:
    return sum(counters[name] for name in ("compiled", "plain_compiled", "uncacheable", "failed"))


#: All ways with the carrier that most devices have, and with the others those that make a difference to them.
CARRIERS = {
    "cells": tuple(WAYS),
    "snapshot": ("plain", "own cache, feedback"),
    "binaries": ("plain", "feedback", "own cache, feedback"),
}
EACH_CARRIER = pytest.mark.parametrize(
    ("carrier", "way"),
    [(carrier, way) for carrier, ways in CARRIERS.items() for way in ways],
    indirect=["carrier"],
)


@pytest.fixture
def carrier(world: World, request: pytest.FixtureRequest) -> str:
    config = world.directory / "policy.yaml"
    # A busy machine writes what a run was later than vkDestroyDevice waits for it by default.
    config.write_text(f"settings: {{carrier: {request.param}, flush_wait_ms: 60000}}\n")
    world.environment["PYLAYER_CONFIG"] = str(config)
    return str(request.param)


@functools.cache
def run_alone(*arguments: str) -> list[Line]:
    """What the program prints without the layer. Do not change what it returns."""
    with tempfile.TemporaryDirectory() as directory:
        return run(World(Path(directory)), *arguments, VK_INSTANCE_LAYERS=None)


def check_cold_and_warm(world: World, carrier: str, own_cache: bool, never_kept: int, *arguments: str) -> None:
    """Cold and warm the program sees what it sees without the layer, and warm nothing is compiled."""
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


@pytest.mark.parametrize("carrier", CARRIERS, indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_path(world: World, carrier: str, mode: str) -> None:
    """Each mode by itself; ``test_paths_at_the_same_time`` takes them all in the other ways."""
    assert any("result=0" in line.seen for line in run_alone(mode)), "the driver lacks what this mode is about"
    check_cold_and_warm(world, carrier, False, NEVER_KEPT.get(mode, 0), mode)


def test_nothing_is_missing(world: World) -> None:
    """RADV without hardware has everything that the modes ask for: none of them tests nothing."""
    assert not [line for line in run(world, "all", VK_INSTANCE_LAYERS=None) if line.seen == "not there"]


def test_chains_that_can_be_copied(world: World) -> None:
    """Only flags behind a struct that nobody knows keep the layer from asking whether a pipeline is there."""
    run(world, "flags")
    counters = world.last()
    assert counters["plain"] == 1 and counters["compiled"] == 10


@EACH_CARRIER
def test_paths_at_the_same_time(world: World, carrier: str, way: str) -> None:
    """All modes three times over, each in a thread of its own on one device."""
    arguments = (*WAYS[way], "--times", "3", "all")
    assert len(run_alone(*arguments)) > 3 * 100
    check_cold_and_warm(world, carrier, "cache" in way, 3 * sum(NEVER_KEPT.values()), *arguments)


@pytest.mark.parametrize(
    ("way", "timeline"),
    [*[(way, "told") for way in WAYS], ("plain", "not told"), ("own cache, feedback", "not told")],
)
def test_paths_on_lavapipe(lavapipe: World, way: str, timeline: str) -> None:
    """A driver whose cache keeps nothing is left alone, whatever the program asks of it; creations are timed alone."""
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
    # They pass through the layer: the program's own cache data is watched.
    assert second["counters"]["passed"] > 100
    assert (second["timeline_events"] > 10) is (timeline == "told")


def messages(world: World, log: Path, arguments: tuple[str, ...], layers: str | None) -> set[str]:
    """The rules that validation below the layer says are broken."""
    command = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), "--", PROGRAM, *arguments]
    world.run(command, VK_INSTANCE_LAYERS=layers)
    return {line for line in without_mistakes(log.read_text()).splitlines() if "VUID" in line}


@EACH_CARRIER
def test_validation_of_paths(world: World, tmp_path: Path, carrier: str, way: str) -> None:
    """Cold and warm, validation below the layer says nothing that it does not say of the program."""
    log, arguments = tmp_path / "validation.txt", (*WAYS[way], "all")
    alone = messages(world, log, arguments, None)
    for _ in range(2):
        assert messages(world, log, arguments, LAYER_NAME) <= alone
