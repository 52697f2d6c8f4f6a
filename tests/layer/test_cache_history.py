"""The layer never refuses a program's valid cache, whatever is missing from the history, and reads and merges are as
without the layer.

Each program here has many caches, and loads what it or another of its processes saved. Without the layer no cache is
emptied, so the layer may empty none."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from disk import FailingDisk
from host_steps import END, HOST
from scripted_driver import ScriptedDriver
from world import World

from pylayer.store.runs import read_all

PROCESSES = 8


#: Nothing here depends on the driver.
QUICK = True


@pytest.fixture
def caches(world: World, tmp_path: Path) -> Path:
    """Returns the directory of the program's caches."""
    world.configure()
    directory = tmp_path / "caches"
    directory.mkdir()
    return directory


def command(caches: Path, count: int, turns: int, program: Path = HOST) -> list[str]:
    return [str(program), "instance", "device", "caches", str(caches), str(count), str(turns), *END]


def outcome(printed: str) -> tuple[int, int]:
    loaded, emptied = re.findall(r"^caches (\d+) (\d+)$", printed, re.MULTILINE)[0]
    return int(loaded), int(emptied)


def run(world: World, caches: Path, count: int, turns: int = 1, **environment: str | None) -> tuple[int, int]:
    """Returns how many caches the program loaded, and how many of those were empty."""
    return outcome(world.run(command(caches, count, turns), **environment).stdout)


def run_at_once(world: World, caches: Path, count: int, turns: int = 1, programs: tuple[Path, ...] = (HOST,)) -> int:
    """Runs eight processes with the same caches. Returns how many of the caches that they loaded were empty."""
    processes = [
        subprocess.Popen(
            command(caches, count, turns, programs[number % len(programs)]),
            env=world.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    output = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    return sum(outcome(printed)[1] for printed in output)


def refused(world: World) -> dict[str, int]:
    """Returns how often data was refused in all runs, by outcome."""
    found: dict[str, int] = {}
    for one in world.runs():
        for outcome, count in one["refused"].items():
            found[outcome] = found.get(outcome, 0) + count
    return found


def change_one_byte(caches: Path, at: int = 100) -> None:
    for path in caches.glob("*.cache"):
        data = bytearray(path.read_bytes())
        data[at] ^= 0x10
        path.write_bytes(data)


def test_many_caches(world: World, caches: Path) -> None:
    """A program with 200 caches gets all of them in every run, and none in which one byte was changed."""
    for turn in range(3):
        assert run(world, caches, 200) == (200 if turn else 0, 0)
    assert refused(world) == {}
    change_one_byte(caches)
    assert run(world, caches, 200) == (200, 200)
    assert refused(world) == {"altered": 200}


DAMAGES: tuple[Callable[[bytes, int], bytes], ...] = (
    lambda data, at: data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :],
    lambda data, at: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    lambda data, at: data[: len(data) * 7 // 8],
)


def test_damaged_files_of_a_library(real: World, tmp_path: Path) -> None:
    """Of many caches of RADV's, which differ in little, exactly the damaged ones are refused: in each run, until the
    program saves them anew."""
    caches = tmp_path / "caches"
    caches.mkdir()
    assert run(real, caches, 300) == (0, 0)
    for number in range(0, 300, 5):
        path = caches / f"{number}.cache"
        data = path.read_bytes()
        # A sketch knows a missing end from 1 KiB on. Mesa 26's caches are smaller.
        damage = DAMAGES[number % 3 if len(data) > 1024 else 0]
        path.write_bytes(damage(data, 40 + 29 * number % (len(data) - 40)))
    damaged = {path: path.read_bytes() for path in caches.iterdir()}
    for turn in (1, 2):
        for path, data in damaged.items():
            path.write_bytes(data)
        assert run(real, caches, 300) == (300, 60)
        assert refused(real) == {"altered": 60 * turn}
    run(real, caches, 300)  # as the program saved them
    assert refused(real) == {"altered": 120}


def test_processes_that_share_their_caches(world: World, caches: Path) -> None:
    """Eight processes that load and save the same caches at once get all of them, and none in which one byte was
    changed."""
    for _ in range(3):
        assert run_at_once(world, caches, 20) == 0
    assert refused(world) == {}
    change_one_byte(caches)
    assert run(world, caches, 20) == (20, 20)
    assert refused(world) == {"altered": 20}


def test_programs_that_share_their_caches(world: World, caches: Path) -> None:
    """Two programs that load and save the same caches at once get all of them, also with application_caches: strict. A
    changed byte is found in what either of them has saved, by the program that has read that cache before."""
    programs = tuple(Path(shutil.copy(HOST, caches.parent / name)) for name in ("one", "other"))
    for setting in ("attest", "strict"):
        world.configure(application_caches=setting)
        for _ in range(2):
            assert run_at_once(world, caches, 20, 2, programs) == 0
    assert refused(world) == {}
    change_one_byte(caches)
    assert outcome(world.run(command(caches, 20, 1, programs[1])).stdout) == (20, 20)


def test_cache_made_of_many(world: World, caches: Path) -> None:
    """A program that merges a thousand caches into one gets all that is in them, and saves and loads that one."""
    run(world, caches, 1000)
    merge = ["load-cache", str(caches / "whole"), "merge-caches", str(caches), "1000", "again", "1000"]
    for _ in range(2):
        done = world.run([str(HOST), "instance", "device", *merge, "save-cache", str(caches / "whole"), *END])
        assert "merged 0, 0 empty" in done.stdout
        assert (world.last()["application_hits"], world.last()["compiled"]) == (1000, 0)
    assert world.outcomes() == {"attested": 1001} and refused(world) == {}


def without_the_layer(world: World, caches: Path) -> None:
    """Deletes all caches and saves new ones."""
    for path in caches.iterdir():
        path.unlink()
    assert run(world, caches, 20, VK_INSTANCE_LAYERS=None) == (0, 0)


def more_without_the_layer(world: World, caches: Path) -> None:
    """Loads, uses and saves the caches, and adds more of them."""
    assert run(world, caches, 25, VK_INSTANCE_LAYERS=None)[1] == 0


def with_a_store_that_is_full(world: World, caches: Path) -> None:
    full = FailingDisk(world, "write:ENOSPC:nth=1-100000")
    without_the_layer(world, caches)
    assert run(world, caches, 20, turns=2, **full.environment) == (40, 0)


def with_a_store_that_is_only_read(world: World, caches: Path) -> None:
    world.configure(store="read-only")
    for path in caches.iterdir():
        path.unlink()
    assert run(world, caches, 20, turns=2) == (20, 0)
    world.configure()


def after_the_store_was_cleared(world: World, caches: Path) -> None:
    shutil.rmtree(world.store)
    assert run(world, caches, 20) == (20, 0)


def after_attestations_went(world: World, caches: Path) -> None:
    """Deletes every other history file, as an eviction or a repair might."""
    for path in world.stored_files(".attest")[::2]:
        path.unlink()


def by_another_program(world: World, caches: Path) -> None:
    """Loads, uses and saves the caches under another name, under which they have another history."""
    other = shutil.copy(HOST, caches.parent / "other")
    assert outcome(world.run(command(caches, 20, 2, other)).stdout) == (40, 0)


@pytest.mark.parametrize(
    "between",
    [
        by_another_program,
        without_the_layer,
        more_without_the_layer,
        with_a_store_that_is_full,
        with_a_store_that_is_only_read,
        after_the_store_was_cleared,
        after_attestations_went,
    ],
)
def test_history_with_a_gap(world: World, caches: Path, between: Callable[[World, Path], None]) -> None:
    """The program gets all its caches, whatever happened to them or to the history without the layer's knowledge."""
    for turn in range(2):
        assert run(world, caches, 20) == (20 if turn else 0, 0)
    for _ in range(2):
        between(world, caches)
        assert run(world, caches, 20) == (20, 0)
    assert refused(world) == {}


def test_data_of_the_same_run(world: World) -> None:
    """What a program has read of a cache is known in the same run, without policy."""
    lines = {number: f"of-{number}: compute C0 : P{number} shader=kernel spec={number}" for number in (1, 2)}
    # The third run records the state of what the second compiled. The last one reads what no run has read before.
    for numbers in ((1,), (2,), (2,), (1, 2)):
        used = "\n".join(lines[number] for number in numbers)
        world.recipe(f"device all modules\nfirst: cache C0\n{used}\nread: read D0 C0\nsecond: cache C1 data=D0\n")
    counters = world.last()
    assert (counters["hits"], counters["compiled"], counters["caches_known"]) == (2, 0, 1)
    # Only policy writes this number, and only the newest run did not need it.
    *_, before, newest = ("cache_wait_ns" in run for run in read_all(str(world.store)))
    assert (before, newest) == (True, False), "policy was asked"


# ---- Cache objects -------------------------------------------------------------------------------


MODES = ["cells", "off"]

DEVICE = "device control modules\n"
#: Buffers that are too small or larger, and a cache of whatever was read.
SIZES = f"{DEVICE}cache C0\ncompute C0 : P0 shader=comp0\n" + "".join(
    f"read: read D0 C0 {room} exact\ncache C1 data=D0\n"
    for room in ("room=0", "room=1", "room=31", "room=32", "room=33", "less", "", "more")
)
#: Reads all, then with room for that when there is more, and makes a cache of each.
GROWTH = f"""{DEVICE}
cache C0
compute C0 : P0 shader=comp0
read: read D0 C0 exact
compute C0 : P0 shader=comp1
read: read D1 C0 room=D0 exact
cache C1 data=D1
read: read D2 C0 exact
cache C2 data=D2
"""
#: Empty caches, one source twice, many sources, caches with and without EXTERNALLY_SYNCHRONIZED; pipelines are compiled
#: in some and found in others, whichever way they came there.
MERGES = (
    DEVICE
    + "".join(f"cache C{number}{' external' if number % 2 else ''}\n" for number in range(10))
    + """
compute C1 : P0 shader=comp0
compute C2 : P1 shader=comp1
one-twice-and-an-empty-one: merge C0 C1 C1 C4
nothing-into-nothing: merge C3 C5
many: merge C9 C0 C1 C2 C3 C4 C5 C6 C7 C8
merged-ones: merge C6 C9
read: read D0 C0 exact
read: read D0 C9 exact
read: read D0 C6 exact
compute C0 : P0 shader=comp0
compute C9 : P0 shader=comp1
compute C6 : P0 shader=comp0
"""
)


#: VkResult
INCOMPLETE = "5"


def found(printed: str) -> list[dict[str, str]]:
    """Returns what the lines named "read" say."""
    lines = [line.split() for line in printed.splitlines()]
    return [dict(word.split("=") for word in words) for name, *words in lines if name == "read"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recipe", [SIZES, GROWTH, MERGES], ids=["sizes", "growth", "merges"])
def test_same_as_without_the_layer(scripted: ScriptedDriver, recipe: str, mode: str) -> None:
    """Sizes, VK_INCOMPLETE, partial data and merges of every mix are as without the layer. No buffer is written beyond
    its end, and a cache can be created from whatever was read."""
    scripted.settings(mode=mode)
    alone = scripted.recipe(recipe, layered=False).stdout
    assert scripted.recipe(recipe).stdout == alone and "beyond=1" not in alone


def test_small_reads(scripted: ScriptedDriver) -> None:
    """A buffer too small for the header gets no data and VK_INCOMPLETE. A buffer with room for all data gets all of
    it."""
    reads = found(scripted.recipe(SIZES).stdout)
    assert [read["then"] for read in reads] == [INCOMPLETE] * 6 + ["0"] * 2
    assert all(read["beyond"] == "0" for read in reads)
    sizes = [read["bytes"] for read in reads]
    assert sizes[:3] == ["0", "0", "0"] and sizes[6] == sizes[7]


def test_partial_data_is_known(scripted: ScriptedDriver) -> None:
    """What was read is known as it was read, partial data too. A read that returned no data says nothing."""
    lines = found(scripted.recipe(SIZES).stdout) + found(scripted.recipe(GROWTH).stdout)
    assert {line["then"] for line in lines} == {"0", INCOMPLETE} and "0" in {line["bytes"] for line in lines}
    known = {one.size for one in scripted.world.known_data()}
    assert known == {int(line["bytes"]) for line in lines} - {0}


@pytest.mark.parametrize("mode", MODES)
def test_pipelines_are_found_after_merges(scripted: ScriptedDriver, mode: str) -> None:
    """Pipelines compiled with one cache are found in the caches that it was merged into, in the run that compiles and
    later."""
    scripted.settings(mode=mode)
    for compiled in (2, 0):
        scripted.recipe(MERGES)
        counters = scripted.world.last()
        if mode == "cells":
            assert (counters["compiled"], counters["hits"]) == (compiled, 5 - compiled)
