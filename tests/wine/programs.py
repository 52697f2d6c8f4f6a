"""Windows programs under a real Wine: ``make wine``. Libraries that are not installed skip a test."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from radv import gpu_with_queues
from unit.things import program_id
from wine.wine import PROGRAM, PROGRAM_32, PROGRAMS, Wine, serving
from world import World

from pylayer.store.block_files import read_all
from pylayer.store.block_list import BLOCKED, LAYER_OFF
from pylayer.store.deaths import review


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    with serving(tmp_path_factory.mktemp("wine")) as served:
        yield served


#: By bits: the directories of Debian's packages of DXVK, and those in a release of vkd3d-proton, which no package has:
#: VKD3D_PROTON names its directory.
DXVK = {64: Path("/usr/lib/dxvk/wine64"), 32: Path("/usr/lib/dxvk/wine32")}
RELEASE = Path(os.environ.get("VKD3D_PROTON") or "VKD3D_PROTON")
VKD3D_PROTON = {64: RELEASE / "x64", 32: RELEASE / "x86"}
OWN: dict[int, Path] = {}
#: A program of tests/wine, its arguments, how many pipelines it has (with Direct3D at least), and libraries that go
#: beside it.
WAYS = {
    "one thread": ("vk", (20,), 20, OWN, []),
    "600 threads with stacks of 64 KiB": ("vk", (1, "threads", 600), 600, OWN, []),
    "threads whose faults and exceptions the program handles": ("vk", (10, "faults", 8), 80, OWN, []),
    "Direct3D 11, DXVK": ("d3d11", (25,), 25, DXVK, ["d3d11", "dxgi"]),
    "Direct3D 12, Wine's own": ("d3d12", (25,), 50, OWN, []),
    "Direct3D 12, vkd3d-proton": ("d3d12", (25,), 50, VKD3D_PROTON, ["d3d12", "d3d12core"]),
}


def add_libraries(real: World, directory: Path, names: list[str]) -> str:
    """Copies libraries into the program's directory. Returns the setting by which Wine takes these and not its own.
    Debian's names end in .dll.so."""
    for name in names:
        found = [path for path in (directory / f"{name}.dll", directory / f"{name}.dll.so") if path.exists()]
        if not found:
            pytest.skip(f"there is no {directory}/{name}.dll")
        shutil.copy(found[0], real.directory / f"{name}.dll")
    return ";".join([*(f"{name}=n" for name in names), "mscoree,mshtml="])


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("way", WAYS)
def test_second_run_compiles_nothing(wine: Wine, real: World, way: str, bits: int) -> None:
    """A Windows program finds in its second run what the first compiled, and prints the same as without the layer. A
    32-bit one does so where Wine runs it in a 64-bit process."""
    name, arguments, count, directories, libraries = WAYS[way]
    own = {}
    if name != "vk":
        own = gpu_with_queues("navi21") | {"DXVK_LOG_LEVEL": "none"}
        own["WINEDLLOVERRIDES"] = add_libraries(real, directories.get(bits, Path()), libraries)
    if bits == 32 and wine.how_32(real) != 64:
        pytest.skip("this Wine runs no 32-bit programs in 64-bit processes")
    if bits == 32 and own:
        real.environment["LD_PRELOAD"] = f"{PROGRAMS}/placed.so:{own.pop('LD_PRELOAD')}"
    kind = "x86_64" if bits == 64 else "i686"
    program = shutil.copy(PROGRAMS / f"{name}-{kind}.exe", real.directory / "game.exe")
    alone = wine.run(real, *arguments, program=program, variables={**own, "VK_INSTANCE_LAYERS": None})
    for _ in range(2):
        assert wine.run(real, *arguments, program=program, variables=own).stdout == alone.stdout
    first, second = (run["counters"] for run in real.runs()[-2:])
    assert first["compiled"] == count or (name != "vk" and first["compiled"] > count), first
    assert second["hits"] >= count and second["compiled"] == 0, second


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


# ---- However a program ends, nothing that is stored is held against it -------------------------------

COUNT, TIMES = 20, 4


@pytest.mark.parametrize(
    "end", ["return", "exit 4", "terminate 4", "terminate-late 4", "loop 4"], ids=lambda end: end.partition(" ")[0]
)
def test_normal_ends(wine: Wine, real: World, end: str) -> None:
    """A Windows program ends several times in the same way, with threads in the driver that use stored pipelines.
    Nothing is blocked, and nothing is switched off. A program that loops is ended by wineserver."""
    for _ in range(2):
        wine.run(real, COUNT)
    for _ in range(TIMES):
        process = wine.start(real, COUNT, *end.split())
        if end.startswith("loop"):
            wine.ready(process)
            time.sleep(0.2)
            wine.stop()
        process.communicate(timeout=60)
        review(real.folder())
        known = read_all(real.folder()).values()
        assert not [one for each in known for one in each.in_force(*BLOCKED, LAYER_OFF)]
    wine.run(real, COUNT)
    assert (real.last()["hits"], real.last()["compiled"]) == (COUNT, 0)


def test_ends_right_after_compiling(wine: Wine, real: World) -> None:
    """A Windows program that compiles a few pipelines and then ends by TerminateProcess loses them once at most."""
    for _ in range(2):
        wine.run(real, 3, "terminate")
    wine.run(real, 3)
    assert (real.last()["hits"], real.last()["compiled"]) == (3, 0)
