"""What the installed package needs of the machine: the C library, and nothing of the Python that built it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import lints
from world import PACKAGE, World

LIBRARIES = sorted(path for path in PACKAGE.rglob("*.so*") if path.is_file())


def dynamic(library: Path, tag: str) -> list[str]:
    """Returns the values of one tag of the dynamic section."""
    text = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def test_nothing_of_the_building_machine() -> None:
    """No library searches directories outside the package for others, because on another machine anybody may own
    them."""
    assert len(LIBRARIES) > 10
    found = [(path.name, text) for path in LIBRARIES for tag in ("RUNPATH", "RPATH") for text in dynamic(path, tag)]
    directories = [(name, directory) for name, text in found for directory in re.split("[,:]", text)]
    lints.none(f"{name}: {where}" for name, where in directories if where and not where.startswith("$ORIGIN/"))


def test_needs_of_the_start() -> None:
    """The libraries that every program loads need only the C library, because containers have few others."""
    (policy,) = PACKAGE.glob("_policy*.so")
    (python,) = (PACKAGE / "_private" / "lib").glob("libpylayer-python*")
    layer = PACKAGE / "libVkLayer_pylayer_pipeline_cache.so"
    system = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libutil.so.1", "ld-linux-x86-64.so.2"}
    # Debian's libpython has modules built in that need these.
    system |= {"libz.so.1", "libexpat.so.1"}
    for library in (layer, policy, python):
        assert set(dynamic(library, "NEEDED")) <= system | {python.name}, library


def test_a_library_reached_by_a_link(world: World, tmp_path: Path) -> None:
    """A manifest may name a link to the library, as in Steam's containers. Policy is found beside the library
    itself."""
    links = tmp_path / "links" / "package"
    links.mkdir(parents=True)
    (links / "libVkLayer_pylayer_pipeline_cache.so").symlink_to(PACKAGE / "libVkLayer_pylayer_pipeline_cache.so")
    world.install_manifest(links)
    assert world.demo("--count", 4)["created"] == 4
    assert world.last()["compiled"] == 4


def test_the_standard_library_is_the_packages(world: World) -> None:
    """A policy class can import the standard library, with its extension modules, from the package alone. No other
    Python's is read, because a container need not have one."""
    own = world.directory / "own"
    own.mkdir()
    (own / "mine.py").write_text(
        "import ctypes, email.message, json, sqlite3, sys\n"
        "from pylayer.policy import Policy\n"
        "class Mine(Policy):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        files = [getattr(module, '__file__', None) for module in list(sys.modules.values())]\n"
        "        print('paths', json.dumps([sys.prefix, *sys.path, *filter(None, files)]))\n"
    )
    (own / "policy.yaml").write_text("policy: mine:Mine\n")
    log = world.demo("--count", 4, PYLAYER_CONFIG=str(own / "policy.yaml"), PYLAYER_LOG="info").stderr
    (line,) = [line for line in log.splitlines() if "paths [" in line]
    print(line)
    elsewhere = [path for path in re.findall(r'"(/[^"]*)"', line) if not path.startswith((str(PACKAGE), str(own)))]
    assert elsewhere == []
