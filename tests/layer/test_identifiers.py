"""VK_EXT_shader_module_identifier: programs that keep identifiers of their shaders and no SPIR-V get their pipelines
from the store. tests/recipes/identifiers.py has the recipes."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

import pytest
from layer.recorder import days_ago, only, record
from layer.validation import broken_rules, needs_validation, validated
from pipeline_binaries import bytes_on_disk, with_disk_cache
from recipes.identifiers import WITHOUT_EXTENSION, recipe
from recipes.seen import parse
from world import BUILD, LAYER_NAME, World

PROGRAM = str(BUILD / "tests" / "recipes")
COMPILE_REQUIRED = 1000297000
NOT_REQUIRED = "skip not-required"

WAYS = {"plain": (), "feedback": ("--feedback",), "own cache": ("--cache",)}


#: Every way with the mode that most devices have; with the others only the ways that make a difference to them.
WAYS_OF_MODES = {"cells": tuple(WAYS), "binaries": ("plain", "feedback")}
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


def run(world: World, way: str, *options: str, device: str = "", **environment: str | None) -> list[str]:
    """Returns what the program saw, a line for each call in order: the call's name without the way's, its result and
    its pipelines. A call that was not required is none."""
    lines = parse(world.run([PROGRAM, *options, write(world, way, device)], **environment).stdout)
    return [f"{line.name.partition('.')[2]} {line.seen}" for line in lines if line.seen not in ("done", NOT_REQUIRED)]


def made(line: str) -> str:
    """Returns a digit for each pipeline of a call: whether it is there."""
    return "".join(str(int(state == "set")) for state in re.findall(r" P\d=(\w+)", line))


@functools.cache
def recorded_alone() -> bytes:
    """Returns the identifiers that a run without the layer recorded. They are the driver's, and the same in every
    run."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        run(world, "record", VK_INSTANCE_LAYERS=None)
        return (world.directory / "identifiers").read_bytes()


def take_identifiers(world: World) -> None:
    """Gives the program the identifiers that it would have recorded without the layer."""
    (world.directory / "identifiers").write_bytes(recorded_alone())


@functools.cache
def run_alone(way: str, *options: str) -> list[str]:
    """Runs this way without the layer, after its identifiers were recorded. Do not change the returned list."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        take_identifiers(world)
        return run(world, way, *options, VK_INSTANCE_LAYERS=None)


@functools.cache
def run_on_warm_driver(way: str) -> list[str]:
    """Runs this way without the layer, with the driver's own disk cache filled by the recording run."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        disk = {"MESA_SHADER_CACHE_DISABLE": "0", "MESA_SHADER_CACHE_DIR": str(world.directory / "mesa")}
        return [run(world, one, VK_INSTANCE_LAYERS=None, **disk) for one in ("record", way)][-1]


def compiled(counters: dict[str, int]) -> int:
    return sum(counters[name] for name in ("compiled", "plain_compiled", "uncacheable", "failed"))


def required(lines: list[str]) -> list[str]:
    """Returns the names of calls that returned VK_PIPELINE_COMPILE_REQUIRED."""
    return [line.split()[0] for line in lines if f"result={COMPILE_REQUIRED}" in line]


@EACH_WAY
def test_hits_without_code(world: World, mode: str, way: str) -> None:
    """Pipelines created from modules are found by identifiers alone, as in the driver's own warm cache."""
    expected = run_on_warm_driver("replay")
    recorded = run(world, "record", *WAYS[way])
    assert all("equal=1" in line and "size=0" not in line for line in recorded if line.startswith("identify"))
    assert run(world, "replay", *WAYS[way]) == expected
    counters = world.last()
    assert compiled(counters) == 0
    # RADV creates libraries that retain what an optimized link needs only from code.
    assert required(expected) == ["retained-pre-rasterization", "retained-fragment"]
    assert sum(made(line) == "1" for line in expected) == counters["pipelines"] == 13


@EACH_WAY
def test_what_is_created_after_a_miss_is_kept(world: World, mode: str, way: str) -> None:
    """With an empty store an identifier gives VK_PIPELINE_COMPILE_REQUIRED. The pipeline that is then created from code
    is found by its identifier in the next run."""
    take_identifiers(world)
    alone = run_alone("translate", *WAYS[way])
    assert len(required(alone)) == 11
    assert run(world, "translate", *WAYS[way]) == alone
    assert run(world, "translate", *WAYS[way]) == run_on_warm_driver("translate")
    first, second = (one["counters"] for one in world.runs())
    assert compiled(first) > 0 and compiled(second) == 0
    assert first["pipelines"] == second["pipelines"] == 16


@EACH_MODE
def test_miss_leaves_nothing(world: World, mode: str) -> None:
    """Identifiers that nothing knows give the same result as without the layer in every run, and nothing is
    compiled."""
    take_identifiers(world)
    alone = run_alone("replay")
    libraries = ["pre-rasterization", "fragment", "retained-pre-rasterization", "retained-fragment"]
    assert required(alone) == ["kernel"] * 3 + ["scene", "patches", "tiles"] + libraries
    for _ in range(2):
        assert run(world, "replay") == alone
    assert compiled(world.last()) == 0


@EACH_WAY
def test_mixed_batches(world: World, mode: str, way: str) -> None:
    """With identifiers and modules in one call, each gives the same result as by itself, and EARLY_RETURN_ON_FAILURE
    ends the call at the same pipeline as without the layer."""
    take_identifiers(world)
    alone = run_alone("mixed", *WAYS[way])
    assert [made(line) for line in alone] == ["0101", "0000"]
    assert run(world, "mixed", *WAYS[way]) == alone
    run(world, "record", *WAYS[way])
    warm = run(world, "mixed", *WAYS[way])
    assert [made(line) for line in warm] == ["1101", "1100"]
    assert {line.split()[1] for line in warm} == {f"result={COMPILE_REQUIRED}"}
    run(world, "mixed", *WAYS[way])
    assert compiled(world.last()) == 0


@EACH_WAY
def test_garbage(world: World, mode: str, way: str) -> None:
    """Bytes that are no identifier, of every allowed size, are unknown, as without the layer."""
    run(world, "record", *WAYS[way])
    alone = run_alone("garbage", *WAYS[way])
    assert len(required(alone)) == 3 * 32 * 2 + 1 + 31
    for _ in range(2):
        assert run(world, "garbage", *WAYS[way]) == alone


@EACH_MODE
def test_extension_not_enabled(world: World, mode: str) -> None:
    """A program that chains identifiers without enabling the extension sees what it sees without the layer."""
    expected = run_on_warm_driver("replay")
    run(world, "record")
    assert run(world, "replay", device=WITHOUT_EXTENSION) == expected


# ---- recency -----------------------------------------------------------------------------------------


def driver_knows_inline_code(world: World) -> bool:
    """Returns whether the driver's own cache on disk finds pipelines of inline code that were made of modules. RADV
    26.1.6 compiles them again, RADV 25.0.7 does not."""
    disk = world.directory / "mesa"
    sizes = []
    for way in ("record", "inline"):
        run(world, way, VK_INSTANCE_LAYERS=None, **with_disk_cache(disk))
        sizes.append(bytes_on_disk(disk))
    return sizes[0] == sizes[1] > 0


def test_module_and_identifier_have_one_fingerprint(world: World) -> None:
    """A pipeline has the same fingerprint whether its code comes from a module, inline or as an identifier, so the
    store knows that its record is in use."""
    wanted = record(world)
    seen, stored = {}, {}
    for way, days in (("record", 6), ("inline", 4), ("replay", 2), ("translate", 0)):
        run(world, way, **days_ago(world, days))
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
        run(world, way, device=device, PYLAYER_SHADER_IDENTIFIERS=wish, **old)
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
    run(world, "record", **days_ago(world, 2))
    recorded = set(only(wanted.take(), "destroyed")[0]["seen"])
    lines = run(world, "garbage")
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
