"""docs/policy-class.md: runs each class on the page unchanged under the real layer, and checks what the page says of
the API."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from world import BUILD, ROOT, Run, World

from pylayer import values
from pylayer.policy import Policy
from pylayer.store import format
from pylayer.store.reader import Reader

PAGE = (ROOT / "docs" / "policy-class.md").read_text()
#: The page's modules by name. Each begins with a comment that has its file's name.
MODULES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.M | re.S))
FILES = [text for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S) if "policy:" in text]


#: Nothing here depends on the driver.
QUICK = True


@pytest.fixture
def policies(world: World) -> Path:
    """Writes the modules of the page beside the policy file. Returns their directory."""
    for name, source in MODULES.items():
        (world.directory / name).write_text(source)
    return world.directory


def use(world: World, policies: Path, module: str) -> None:
    (text,) = (text for text in FILES if f"policy: {module}:" in text)
    world.environment |= world.policy(text)


def unharmed(world: World) -> None:
    """Asserts that the class did not fail in the newest run."""
    facts = world.runs()[-1]["policy"]
    assert facts["failures"] == 0 and facts["switched_off"] == ""


def stored_times(world: World) -> list[int]:
    """Returns how long each stored pipeline took to create, in nanoseconds, in ascending order."""
    times = []
    for path in world.stored_files(".closed", ".journal", ".pack"):
        reader = Reader(str(path))
        times += [one.create_ns for part in reader.parts([]) for one in part.records if one.magic == format.CELL]
    return sorted(times)


def test_blocks() -> None:
    """These tests run every Python block of the page."""
    assert set(MODULES) == {"small_programs.py", "slow_only.py", "test_slow_only.py"}
    assert len(MODULES) == PAGE.count("```python") and len(FILES) == 2


def run_padded(world: World, directory: Path, size: int) -> Run:
    """Runs a copy of the demo whose file has at least this many bytes. The log has what the class prints."""
    shutil.copytree(BUILD / "demo", directory)
    program = directory / "pipelines"
    with program.open("r+b") as file:
        file.truncate(max(size, program.stat().st_size))
    done = world.run([str(program), "--count", "8"], PYLAYER_LOG="info")
    run = Run()
    run.stderr, run.stdout, run.returncode = done.stderr, done.stdout, done.returncode
    return run


def test_small_programs(world: World, policies: Path, tmp_path: Path) -> None:
    """A small program is left alone, and the log says why. A large program's pipelines are stored and are hits in the
    next run."""
    use(world, policies, "small_programs")
    assert (BUILD / "demo" / "pipelines").stat().st_size < 1 << 20
    small = run_padded(world, tmp_path / "small", 0)
    assert "pipelines is small and left alone" in small.stderr
    assert world.runs() == [] and world.stored_files() == []
    run_padded(world, tmp_path / "large", 1 << 20)
    assert (world.runs()[-1]["carrier"], world.last()["compiled"]) == ("cells", 8)
    run_padded(world, tmp_path / "large again", 1 << 20)
    assert (world.last()["hits"], world.last()["compiled"]) == (8, 0)
    unharmed(world)


def test_slow_only(world: World, policies: Path) -> None:
    """The store gets the pipelines that took at least as long as the class says. The next run finds these and compiles
    the others again."""
    source = MODULES["slow_only.py"]
    assert "LEAST_NS = 5_000_000" in source
    use(world, policies, "slow_only")
    for _ in range(20):  # on a machine whose load changes, all may be slower than half of them were, or faster
        shutil.rmtree(world.store, ignore_errors=True)
        (policies / "slow_only.py").write_text(source.replace("5_000_000", "0"))
        world.demo("--count", 30)
        least = stored_times(world)[15]
        shutil.rmtree(world.store / "store")
        (policies / "slow_only.py").write_text(source.replace("5_000_000", str(least)))
        assert world.demo("--count", 30)["created"] == 30
        stored = world.runs()[-1]["stored_records"]
        if 0 < stored < 30:
            break
    assert 0 < stored < 30 and stored_times(world)[0] >= least
    world.demo("--count", 30)
    counters = world.runs()[-1]["counters"]
    assert (counters["hits"], counters["compiled"]) == (stored, 30 - stored)
    unharmed(world)


def test_slow_only_without_driver(policies: Path) -> None:
    """The test on the page passes as the page says: with pytest, in the directory of the class."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(policies)]
    done = subprocess.run([*command, "test_slow_only.py"], cwd=policies, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_class_is_explained(world: World, policies: Path) -> None:
    """The two commands that the page names for a new class accept it and show what it decides."""
    use(world, policies, "slow_only")
    unset = {"VK_INSTANCE_LAYERS": None, "VK_ADD_LAYER_PATH": None}
    for arguments, says in ((["check"], "is valid"), (["explain", "anything"], "slow_only")):
        assert says in world.pylayer("policy", *arguments, **unset).stdout


def test_everything_is_listed() -> None:
    """The page lists each method of Policy, each field of the methods' arguments, and each field of the plan."""
    methods = [name for name, _ in inspect.getmembers(Policy, inspect.isfunction) if not name.startswith("_")]
    for name in methods:
        arguments = ", ".join(list(inspect.signature(getattr(Policy, name)).parameters)[1:])
        assert f"| `{name}({arguments})` |" in PAGE
    for record in (values.Program, values.DeviceFacts, values.Cell, values.Plan):
        for field in record.__slots__:
            assert f"`{field}`" in PAGE, f"{record.__name__}.{field}"
    for name in re.findall(r"`((?:CARRIER|CELL|UNIT|VERDICT|KIND)_\w+)`", PAGE):
        assert hasattr(values, name), name
