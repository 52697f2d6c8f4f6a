"""The store of store.tar.xz, which an earlier build of this format wrote, is read: every kind of file. The layer and
the scripted driver made it. A new format version needs a new one::

    PYTHONPATH=tests .venv/bin/python tests/golden/test_golden.py
"""

from __future__ import annotations

import functools
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from scripted_driver import ScriptedDriver
from world import BUILD, World
from xxhash import xxh3_64_hexdigest

from pylayer.common import file_kinds
from pylayer.store import block_files, runs, state
from pylayer.store.format import Damage
from pylayer.store.reader import Reader

ARCHIVE = Path(__file__).with_name("store.tar.xz")
SCRIPT = "payload=64;binaries=yes"
#: Pipelines of the demo program: so many that vkDestroyDevice joins them to chunks (seed 1), and binaries (seed 2).
CHUNKS, BINARIES = 260, 3
#: Those of a program with recordings, of which the last is in the journal of a run that was killed.
RECORDED = 6
BEGIN, END = ("instance", "device", "pipelines"), ("destroy-device", "destroy-instance")
#: Its records below store/ and state/.
RECORDS = {
    "OBJT": 15,
    "CHNK": 9,
    "CRTD": 6,
    "CELL": 6,
    "TABL": 3,
    "BINR": 3,
    "USED": 2,
    "NOTE": 1,
    "VRDT": 1,
    "ATST": 1,
}
#: What its runs found and compiled, oldest first.
RUNS = [(0, CHUNKS), (3, 0), (3, 0), (0, 0), (0, 0), (0, 0), (0, BINARIES), (0, 3), (3, 2), (5, 1)]
#: One of the programs' modules, as a test builds it.
MODULE = "08f6c0c4b862d037"
KEEPS_NOTHING = "the layer is off, because the driver finds nothing in its own cache data"


@pytest.fixture
def golden(scripted: ScriptedDriver) -> World:
    """A world whose store is that of the archive."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = lambda member, path: member  # of our own making; 3.11.2 knows no filter
        archive.extractall(scripted.directory)
    return scripted.world


def test_every_kind_of_file_is_there(golden: World) -> None:
    """Only temporary files, what a fleet gave, and what `pylayer warm` noted are not."""
    there = {path.suffix for path in golden.store.rglob("*") if path.is_file()}
    assert there == {*file_kinds.TABLE} - {file_kinds.TEMPORARY, file_kinds.INDEX, file_kinds.WARMED}


def test_what_it_says(golden: World) -> None:
    """All of it is whole, and says of programs and runs what they did."""
    root, folder = str(golden.store), golden.folder()
    damaged: list[Damage] = []
    paths = [str(path) for path in golden.store.glob("s*/**/*-*") if path.suffix != file_kinds.LIVE]
    parts = [part for path in paths for part in Reader(path).parts(damaged)]
    assert damaged == []
    assert Counter(bytes(record.magic).decode() for part in parts for record in part.records) == RECORDS
    assert [(run["counters"]["hits"], run["counters"]["compiled"]) for run in runs.read_all(root)] == RUNS
    assert [run["reason"] for run in runs.read_all(root)].count(KEEPS_NOTHING) == 1
    assert [len(state.read(root, program).created) for program in state.programs(root)] == [RECORDED]
    (block_list,) = block_files.read_all(folder).values()
    assert block_list.memorable()
    (known,) = golden.known_data()
    assert known.sketch and known.size == 4992
    golden.pylayer("ls", "--verify")


def test_programs_find_all_of_it(golden: World, scripted: ScriptedDriver) -> None:
    """The programs that filled it compile nothing. The driver's witness has not seen what an earlier process gave."""
    module = (BUILD / "demo" / "shaders" / "particles_comp_11.h").read_bytes()
    if xxh3_64_hexdigest(module) != MODULE:
        pytest.skip("this system's glslang compiles shaders differently")
    demo = functools.partial(scripted.demo, script=SCRIPT, allow=True)
    demo("--count", CHUNKS)
    assert (scripted.counts["compiles"], golden.last()["fetched"]) == (0, CHUNKS)
    scripted.program("host", *BEGIN, RECORDED, *END, script=SCRIPT, allow=True)
    assert (scripted.counts["compiles"], golden.last()["fetched"]) == (0, RECORDED)
    scripted.settings(mode="binaries")
    demo("--count", BINARIES, "--seed", 2, "--api", "1.3")
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, BINARIES)
    scripted.verify()


# ---- How the store is made ----------------------------------------------------------------------


def fill(driver: ScriptedDriver) -> None:
    """Fills a store."""
    driver.settings(record_state=False)
    driver.demo("--count", CHUNKS, script=SCRIPT)
    own = driver.directory / "own.cache"
    for _ in range(2):
        driver.demo("--count", BINARIES, "--cache", own, "--cache-save", own, script=SCRIPT)
    for _ in range(3):
        driver.application("--source", "plain", script=f"{SCRIPT};pipeline=ignore")
    driver.settings(record_state=False, mode="binaries")
    driver.demo("--count", BINARIES, "--seed", 2, "--api", "1.3", script=SCRIPT)
    driver.settings()
    driver.program("host", *BEGIN, RECORDED - 3, *END, script=SCRIPT)
    driver.world.pylayer("trim")
    driver.program("host", *BEGIN, RECORDED - 1, *END, script=SCRIPT)
    killed = f"{SCRIPT};pipeline=kill?compile@2"
    last = "await-journal", 1, "pipelines", RECORDED + 1
    driver.program("host", *BEGIN, RECORDED, *last, script=killed, check=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        driver = ScriptedDriver(Path(directory))
        fill(driver)
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(driver.world.store, "store")
