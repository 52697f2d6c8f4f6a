"""Neighbouring cells become chunks: the driver merges them in the run that stored them, and a later run gives the
driver a whole chunk at once. Whatever goes wrong with a chunk, its pipelines come back as cells. What short or
killed runs leave is compacted."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from typing import Any

import pytest
from disk import FailingDisk, content_of, leftovers
from scripted_driver import ScriptedDriver
from world import AWAKE, World, repeated

from pylayer.store import runs
from pylayer.store.format import CELL, CHUNK, CHUNK_CELLS
from pylayer.store.reader import Reader

COUNT = 3 * CHUNK_CELLS
#: So large that these cells are more than the bytes from which on cells are joined.
PAYLOAD = "payload=2048;guilty=40"
#: All cells have the same large part in them.
SHARED = 1 << 18
LARGE = f"payload=2048;shared={SHARED}"


def records(world: World) -> Counter[bytes]:
    """Returns how many records of each magic with pipelines the store has."""
    found: Counter[bytes] = Counter()
    for path in (*world.stored_files(".pack"), *world.stored_files(".closed")):
        for part in Reader(str(path)).parts([]):
            found.update(record.magic for record in part.records if record.is_pipeline)
    return found


def run(
    scripted: ScriptedDriver, *arguments: str | int, script: str = PAYLOAD, check: bool = True, **environment: Any
) -> int:
    """Runs the program; returns how many pipelines the driver compiled."""
    result = scripted.demo("--count", COUNT, *arguments, script=script, check=check, **environment)
    assert not check or result["created"] == COUNT
    return scripted.counts["compiles"]


def test_large_cells_are_joined_before_they_are_stored(scripted: ScriptedDriver) -> None:
    """If all cells have the same large part in them, the store has it once for many pipelines, and a later run finds
    all of them."""
    assert run(scripted, script=LARGE) == COUNT
    stored = sum(path.stat().st_size for path in scripted.world.stored_files())
    assert stored < 12 * SHARED  # as cells, they are 96 times as large
    assert run(scripted, script=LARGE) == 0
    found = records(scripted.world)
    assert found[CHUNK]


def test_large_cells_at_exit(scripted: ScriptedDriver) -> None:
    """No mark counts in exit(), so a driver that crashes when it joins cells would do so in each run: large cells that
    wait for others are stored as they are."""
    scripted.program("host", "instance", "device", "pipelines", 8, script=f"{LARGE};merge=crash@9+")
    assert scripted.counts["compiles"] == 8
    assert records(scripted.world) == {CELL: 8}


@pytest.mark.parametrize("rules", ["write:ENOSPC:path=.pack:nth=2", "rename:EIO:path=.pack", "fsync:EIO:path=.pack"])
def test_large_cells_on_a_disk_that_fails(scripted: ScriptedDriver, rules: str) -> None:
    """Half a chunk does not stay on a full disk, and the next run stores it. Chunks replace no other file, so policy
    syncs none, and a disk that fails to sync loses nothing."""
    disk = FailingDisk(scripted.world, rules)
    run(scripted, script=LARGE, **disk.environment)
    assert bool(disk.struck) == ("fsync" not in rules) and not leftovers(scripted.world.store)
    assert (run(scripted, script=LARGE) > 0) == bool(disk.struck)
    assert run(scripted, script=LARGE) == 0


def test_large_cells_while_storing_is_paused(scripted: ScriptedDriver) -> None:
    """After a failed write nothing is joined and written for some seconds, as with other cells. What is lost is
    counted."""
    disk = FailingDisk(scripted.world, "write:ENOSPC:path=.pack")
    run(scripted, script=LARGE, **disk.environment)
    last = scripted.world.runs()[-1]
    assert (len(disk.struck), last["write_errors"], last["lost_records"]) == (1, 1, COUNT)


def test_large_cells_in_a_folder_that_is_gone(scripted: ScriptedDriver) -> None:
    """Somebody deletes the store while a program compiles. It is made anew, as for other cells."""
    gone = ("instance", "device", "spawn", f"rm -r {scripted.world.store}/store", "pipelines", 8)
    scripted.program("host", *gone, "destroy-device", "destroy-instance", script=LARGE)
    assert records(scripted.world) == {CHUNK: 1}


def test_a_few_large_cells_are_stored_as_they_are(scripted: ScriptedDriver) -> None:
    """There are too few to join, and a later run finds them."""
    for compiles in (2, 0):
        scripted.demo("--count", 2, script=f"payload={1 << 18}")
        assert scripted.counts["compiles"] == compiles


def store_chunks(scripted: ScriptedDriver, script: str = PAYLOAD) -> None:
    """Runs the program until its cells are chunks: on a busy machine vkDestroyDevice may have no time to join them."""

    def stored() -> bool:
        shutil.rmtree(scripted.world.store / "store", ignore_errors=True)
        assert run(scripted, script=script) == COUNT
        return records(scripted.world) == {CHUNK: 3}

    repeated(stored)


def test_cells_become_chunks(scripted: ScriptedDriver) -> None:
    """The first run leaves chunks alone. The second has the driver load and merge each of them once, and changes
    nothing."""
    store_chunks(scripted)
    before = content_of(scripted.world)
    assert run(scripted) == 0
    assert scripted.counts["merge"] == 3
    assert scripted.world.last()["fetched"] == COUNT
    assert content_of(scripted.world) == before


@pytest.mark.parametrize("threads", [1, 8])
def test_few_of_many(scripted: ScriptedDriver, threads: int) -> None:
    """A program that creates a few of many pipelines loads their chunk and no other."""
    store_chunks(scripted)
    scripted.demo("--count", 8, "--threads", threads, script=PAYLOAD)
    assert scripted.counts["compiles"] == 0
    assert scripted.world.last()["fetched"] == CHUNK_CELLS


@pytest.mark.parametrize(
    "script",
    ["merge=error:out-of-host-memory", "create-cache=null?data", f"get-data=overstate?data@{COUNT + 2}+"],
)
def test_driver_that_does_not_join(scripted: ScriptedDriver, script: str) -> None:
    """If the driver fails to join cells, or what it joined cannot be read, they stay cells."""
    run(scripted, script=f"{PAYLOAD};{script}", check=False)
    assert records(scripted.world)[CHUNK] == 0
    assert records(scripted.world)[CELL] > 0


def test_merge_that_loses_pipelines(scripted: ScriptedDriver) -> None:
    """What a joined cache lacks is compiled once more and stored as cells, which stay cells."""
    store_chunks(scripted, f"{PAYLOAD};merge=ignore@{COUNT + 3}")
    assert run(scripted) == 1
    assert [run(scripted), run(scripted)] == [0, 0]
    assert records(scripted.world) == {CHUNK: 3, CELL: 1}


@pytest.mark.parametrize("action", ["crash", "abort", "kill", "hang"])
def test_death_while_cells_are_joined(scripted: ScriptedDriver, action: str) -> None:
    """A driver that dies while it joins cells dies once: they stay cells, and everything is found. One that never
    returns holds up the end of one run for seconds. The device is not destroyed then."""
    joining, hangs = f"{PAYLOAD};merge={action}@{COUNT + 3}", action == "hang"

    def joins() -> bool:  # as in store_chunks
        shutil.rmtree(scripted.world.store / "store", ignore_errors=True)
        return hangs is (scripted.demo("--count", COUNT, script=joining, check=hangs, allow=hangs).returncode == 0)

    repeated(joins)
    assert run(scripted, script=joining) == 0
    scripted.world.pylayer("trim")  # a process that ends within a compaction leaves cells in a journal and in a pack
    assert records(scripted.world) == {CELL: COUNT}
    assert hangs or run(scripted) == 0


@pytest.mark.parametrize("command", ["create-cache", "merge", "pipeline"])
def test_death_over_a_chunk(scripted: ScriptedDriver, command: str) -> None:
    """If the driver crashes over a chunk, that chunk is blocked. Its pipelines are compiled once more, into cells,
    and the driver never gets the chunk again."""
    store_chunks(scripted)
    script = f"{PAYLOAD};{command}=crash?guilty"
    result = scripted.demo("--count", COUNT, script=script, check=False)
    assert result.returncode == -signal.SIGSEGV
    assert 0 < run(scripted, script=script) <= CHUNK_CELLS
    assert run(scripted, script=script) == 0
    assert records(scripted.world)[CHUNK] == 3


def test_damaged_chunk(scripted: ScriptedDriver) -> None:
    """Of a chunk with one changed byte nothing reaches the driver. Its pipelines are compiled and stored again."""
    store_chunks(scripted)
    (path,) = scripted.world.stored_files(".pack")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    assert run(scripted) == CHUNK_CELLS
    assert run(scripted) == 0
    scripted.verify()


def test_chunks_are_joined_once(scripted: ScriptedDriver) -> None:
    """What later runs compile becomes chunks of its own; those that are there stay as they are."""
    store_chunks(scripted)
    scripted.demo("--count", 2 * COUNT, script=PAYLOAD)
    assert scripted.counts["compiles"] == COUNT
    repeated(lambda: scripted.demo("--count", 2 * COUNT, script=PAYLOAD) and records(scripted.world) == {CHUNK: 6})
    assert scripted.counts["compiles"] == 0


#: How a run goes on that finds what a killed one left: it ends, is killed once it has joined the cells, or just exits.
LATER = {
    "ends": ("destroy-device", "destroy-instance"),
    "is killed": ("spawn", "until ls {store}/store/*/*.pack; do sleep 0.05; done", "end", "kill"),
    "exits": (),
}


@pytest.mark.parametrize("later", LATER)
def test_killed_program(scripted: ScriptedDriver, later: str) -> None:
    """What a killed program compiled becomes chunks in the first later run that lasts, or destroys its device, and no
    run after that starts policy for it."""
    store = scripted.world.store
    cells = f"cat {store}/store/*/*.journal | grep -aoF CELL | wc -l"
    written = f"until [ $({cells}) -ge {COUNT} ]; do sleep 0.05; done"
    host = ("instance", "device", "pipelines", str(COUNT))
    kept = {CELL: COUNT} if later == "exits" else {CHUNK: 3}
    scripted.program("host", "instance", "device", *LATER["ends"])  # keeps a plan for the later runs

    def compacted() -> bool:  # there is little time for it when a device or a program ends
        shutil.rmtree(store / "store", ignore_errors=True)
        never_idle = scripted.world.never_idle()
        scripted.program("host", *host, "spawn", written, "end", "kill", script=PAYLOAD, check=False, **never_idle)
        scripted.settings()
        steps = (word.format(store=store) for word in LATER[later])
        scripted.program("host", *host, *steps, script=PAYLOAD, check=False)
        assert scripted.counts["compiles"] == 0
        return records(scripted.world) == kept and not scripted.world.stored_files(".closed", ".journal")

    repeated(compacted)
    last = scripted.program("host", *host, "mapped", "_policy.", *LATER["ends"], script=PAYLOAD)
    assert scripted.counts["merge"] == sum(kept.values())
    assert "_policy. is not mapped" in last.stderr


# ---- Compacting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [[], ["--no-destroy"]])
def test_the_first_run_leaves_a_pack(scripted: ScriptedDriver, ending: list[str]) -> None:
    """A run that stores a mebibyte compacts it when it ends, because the runs after it have no policy that could."""
    never_idle = scripted.world.never_idle()

    def compacted() -> bool:
        shutil.rmtree(scripted.world.store, ignore_errors=True)
        scripted.demo("--count", 40, *ending, script="payload=40000", **never_idle)
        return [path.suffix for path in scripted.world.stored_files()] == [".pack"]

    repeated(compacted)
    scripted.demo("--count", 40, script="payload=40000")
    assert scripted.world.last()["compiled"] == 0


@pytest.mark.parametrize("ending", [[], ["--no-destroy"]])
def test_statistics_of_short_runs_are_pruned(world: World, ending: list[str]) -> None:
    """Short runs in which policy starts delete old statistics, so their files do not accumulate."""
    world.demo("--count", 1)
    (one,) = world.store.glob("runs/*.run")
    for number in range(runs.MAX_RUNS):
        (one.parent / f"{7:016x}-{number:016x}-{number:016x}.run").symlink_to(one)
    world.demo("--count", 1, *ending, **AWAKE)
    assert len(list(one.parent.iterdir())) < runs.MAX_RUNS
    assert one.exists()
