"""Direct3D programs under a real Wine, with DXVK built from source: ``make wine-dxvk``."""

from __future__ import annotations

import shutil

import pytest
from wine.programs import wine as wine
from wine.wine import Wine
from world import BUILD, World

COUNT = 25


@pytest.mark.parametrize("kind", ["x86_64", "i686"])
def test_second_run_compiles_nothing(wine: Wine, real: World, kind: str) -> None:
    """A Direct3D 11 program of 64 or 32 bits, which draws with many shaders through DXVK, compiles pipelines in its
    first run, finds all of them in its second, and prints the same as without the layer."""
    program = shutil.copy(BUILD / "tests" / "wine" / f"d3d11-{kind}.exe", real.directory / "game.exe")
    for name in ("d3d11.dll", "dxgi.dll"):
        shutil.copy(BUILD / "dxvk" / kind / name, real.directory)
    own = {"WINEDLLOVERRIDES": "d3d11,dxgi=n;mscoree,mshtml=", "DXVK_LOG_LEVEL": "none"}
    alone = wine.run(real, COUNT, program=program, variables={**own, "VK_INSTANCE_LAYERS": None})
    for _ in range(2):
        assert wine.run(real, COUNT, program=program, variables=own).stdout == alone.stdout
    first, second = (run["counters"] for run in real.runs())
    assert first["compiled"] >= COUNT and second["hits"] >= COUNT and second["compiled"] == 0, (first, second)
