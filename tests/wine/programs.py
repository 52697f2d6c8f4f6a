"""Windows programs under a real Wine: ``make wine``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.things import program_id
from wine.wine import PROGRAM, PROGRAM_32, Wine, serving
from world import World


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    with serving(tmp_path_factory.mktemp("wine")) as served:
        yield served


#: What a program does, and how many pipelines that makes.
WORK = {
    "one thread": ((20,), 20),
    "600 threads with stacks of 64 KiB": ((1, "threads", 600), 600),
    "threads whose faults and exceptions the program handles": ((10, "faults", 8), 80),
}


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("work", WORK)
def test_second_run_compiles_nothing(wine: Wine, real: World, work: str, bits: int) -> None:
    """A Windows program finds in its second run what the first compiled. A 32-bit one does so where Wine runs it in a
    64-bit process."""
    if bits == 32 and wine.how_32(real) != 64:
        pytest.skip("this Wine runs no 32-bit programs in 64-bit processes")
    arguments, count = WORK[work]
    for _ in range(2):
        wine.run(real, *arguments, program=PROGRAM if bits == 64 else PROGRAM_32)
    first, second = (run["counters"] for run in real.runs()[-2:])
    assert first["compiled"] == count and (second["hits"], second["compiled"]) == (count, 0), second


def test_32_bit_process(wine: Wine, real: World) -> None:
    """A 32-bit Windows program that Wine runs in a 32-bit process runs as without the layer. Nothing is recorded and
    nothing is printed, and other programs keep the layer."""
    if wine.how_32(real) != 32:
        pytest.skip("this Wine runs no 32-bit programs in 32-bit processes")
    alone = wine.run(real, 20, program=PROGRAM_32, variables={"VK_INSTANCE_LAYERS": None})
    under = wine.run(real, 20, program=PROGRAM_32)
    assert (under.stdout, under.stderr) == (alone.stdout, alone.stderr) and not real.runs()
    wine.run(real, 20)
    assert real.last()["compiled"] == 20


@pytest.fixture
def game(real: World) -> Path:
    """The Windows program under a name of its own, in a world whose policy file commands can edit."""
    real.policy("# mine\n")
    real.environment["PYLAYER_CONFIG"] = str(real.directory / "policy.yaml")
    return Path(shutil.copy(PROGRAM, real.directory / "My Game64.exe"))


def test_one_name(wine: Wine, real: World, game: Path) -> None:
    """A Windows program has one name and finds its pipelines, however it is started."""
    wine.run(real, 5, program=game)
    windows = f"Z:{game}".replace("/", "\\")
    for program, *words in ((windows,), (game.name,), ("my game64",), ("MY GAME64.EXE",), (game, "start", "map1")):
        wine.run(real, 5, *words, program=program)
        last = real.runs()[-1]
        assert (last["executable"], last["counters"]["hits"]) == (game.name, 5), (program, words)
    assert len(real.runs()) == 6


NAMES = ("My Game64.exe", "my game64.EXE", "C:\\Games\\My Game64.exe", "My Game64.exe (App)", "my*64.exe", "NUMBER")


@pytest.mark.parametrize("name", NAMES)
def test_off(wine: Wine, real: World, game: Path, name: str) -> None:
    """off excludes a Windows program by each of its names, status says so, also while it runs, and on includes it."""
    wine.run(real, 5, program=game)
    name = name.replace("NUMBER", f"{program_id(game.name, 'App'):016x}")
    assert "Off" not in real.pylayer("doctor", name).stdout
    real.pylayer("off", name)
    process = wine.start(real, 5, "loop", program=game)
    wine.ready(process)
    status = real.pylayer("doctor", name, check=False).stdout
    assert "is running (pid" in status and "the skip rule executable" in status, status
    wine.stop()
    process.communicate(timeout=60)
    assert len(real.runs()) == 1
    real.pylayer("off", "--undo", name)
    wine.run(real, 5, program=game)
    assert len(real.runs()) == 2 and real.last()["hits"] == 5
