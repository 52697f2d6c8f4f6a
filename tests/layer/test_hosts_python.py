"""Programs that load a Python of their own while the layer's Python works."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from host_steps import END, STORED, hits_again, run_host
from world import World

PLACES = (
    "/usr/lib/*/libpython3.*.so.1.0",
    "/usr/local/lib/libpython3.*.so.1.0",
    str(Path.home() / ".pyenv/versions/*/lib/libpython3.*.so.1.0"),
)
LIBRARIES = sorted(path for place in PLACES for path in glob.glob(place))
CODE = "import sys; assert 'pylayer' not in sys.modules; print('mine', sys.version_info[:2], flush=True)"
MORE = "print('more', len('text'), flush=True)"
#: Extension modules find their Python only if it was loaded with RTLD_GLOBAL.
WITH_MODULES = "; import math, json, threading, struct, zlib; print(math.pi, zlib.crc32(b'x'), flush=True)"


#: Nothing here depends on the driver.
QUICK = True


def home(library: str) -> str:
    """Returns the PYTHONHOME for a libpython."""
    return library.partition("/lib/")[0]


def test_there_are_libraries() -> None:
    """The machine has at least one shared libpython to test with."""
    assert LIBRARIES


#: When the program loads its Python, and with which scope. Global symbols can collide with the layer's at any moment,
#: most of all while both start; local ones cannot.
WAYS = [("before the instance", "global"), ("between", "global"), ("behind pipelines", "global")]
WAYS += [("while it starts", "local")]


#: Every library at that moment, and one library in the other ways.
CASES = [("while it starts", "global", library) for library in LIBRARIES]
CASES += [(*way, library) for way in WAYS for library in LIBRARIES[-1:]]


@pytest.mark.parametrize(("when", "scope", "library"), CASES)
def test_python_of_the_programs(world: World, library: str, scope: str, when: str) -> None:
    """A program that loads a libpython of any version, with either scope, before, between or after its pipelines, runs
    its own code in it, and the layer's Python works beside it."""
    modules = WITH_MODULES if scope == "global" else ""
    python, more = ["python", library, scope, CODE + modules], ["python", library, scope, MORE + modules]
    steps = {
        "before the instance": [*python, *STORED, *more, "pipelines", "3", *END],
        "while it starts": ["instance", *python, "device", "pipelines", "3", *more, "pipelines", "3", *END],
        "between": ["instance", "device", *python, "pipelines", "3", *more, "pipelines", "3", *END],
        "behind pipelines": [*STORED, *python, "pipelines", "3", *END, *more],
    }[when]
    process = run_host(world, *steps, PYTHONHOME=home(library))
    assert "mine (3, " in process.stdout and "more 4" in process.stdout
    hits_again(world, 6)


def test_no_symbols_of_python(world: World) -> None:
    """The layer's Python is invisible to the program: RTLD_DEFAULT has none of its symbols."""
    process = run_host(world, "no-python-symbols", *STORED, "no-python-symbols", *END, "no-python-symbols")
    assert process.stdout.count("symbols of Python: 0") == 3
    assert os.path.exists(world.store)
