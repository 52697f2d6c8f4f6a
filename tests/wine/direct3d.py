"""Direct3D programs under a real Wine: ``make wine``. What is not installed is skipped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from radv import gpu_with_queues
from wine.programs import wine as wine
from wine.wine import Wine
from world import BUILD, World

PROGRAMS = BUILD / "tests" / "wine"
COUNT = 25
#: By bits: the directories of Debian's packages of DXVK, and those in a release of vkd3d-proton, which no package has:
#: VKD3D_PROTON names its directory.
DXVK = {64: Path("/usr/lib/dxvk/wine64"), 32: Path("/usr/lib/dxvk/wine32")}
RELEASE = Path(os.environ.get("VKD3D_PROTON") or "VKD3D_PROTON")
VKD3D_PROTON = {64: RELEASE / "x64", 32: RELEASE / "x86"}
#: A program of tests/wine, whose libraries go beside it, which, and how many pipelines the program has at least.
WAYS = {
    "Direct3D 11, DXVK": ("d3d11", DXVK, ["d3d11", "dxgi"], COUNT),
    "Direct3D 12, Wine's own": ("d3d12", {}, [], 2 * COUNT),
    "Direct3D 12, vkd3d-proton": ("d3d12", VKD3D_PROTON, ["d3d12", "d3d12core"], 2 * COUNT),
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
    """A Direct3D program compiles pipelines in its first run, finds all of them in its second, and prints the same as
    without the layer."""
    name, directories, libraries, count = WAYS[way]
    own = gpu_with_queues("navi21") | {"DXVK_LOG_LEVEL": "none"}
    own["WINEDLLOVERRIDES"] = add_libraries(real, directories.get(bits, Path()), libraries)
    if bits == 32:
        if wine.how_32(real) != 64:
            pytest.skip("this Wine runs no 32-bit programs in 64-bit processes")
        real.environment["LD_PRELOAD"] = f"{PROGRAMS}/placed.so:{own.pop('LD_PRELOAD')}"
    kind = "x86_64" if bits == 64 else "i686"
    program = shutil.copy(PROGRAMS / f"{name}-{kind}.exe", real.directory / "game.exe")
    alone = wine.run(real, COUNT, program=program, variables={**own, "VK_INSTANCE_LAYERS": None})
    for _ in range(2):
        assert wine.run(real, COUNT, program=program, variables=own).stdout == alone.stdout
    first, second = (run["counters"] for run in real.runs()[-2:])
    assert first["compiled"] >= count and second["hits"] >= count and second["compiled"] == 0, (first, second)
