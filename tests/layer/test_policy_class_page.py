"""The policy class in docs/policy.md: runs it under the real layer, and checks what the page says of the API."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from world import ROOT, World

from pylayer.policy import Policy

PAGE = (ROOT / "docs" / "policy.md").read_text()
MODULE = re.findall(r"^```python\n# new_and_slow\.py\n(.*?)^```", PAGE, re.M | re.S)[0]

#: Nothing here depends on the driver.
QUICK = True


@pytest.fixture
def module(world: World) -> Path:
    """The page's module, for programs of any version, beside a policy file that names it."""
    world.environment |= world.policy("policy: new_and_slow:NewAndSlow\n")
    path = world.directory / "new_and_slow.py"
    path.write_text(changed("LEAST_VERSION = 2", "LEAST_VERSION = 1"))
    return path


def changed(text: str, new: str, source: str = MODULE) -> str:
    assert text in source
    return source.replace(text, new)


def test_old_version(world: World, module: Path) -> None:
    """An old version of the program stores nothing, and the log says why. The demo's version is 1."""
    module.write_text(MODULE)
    old = world.demo("--count", 8, PYLAYER_LOG="info")
    assert "version 1 is too old" in old.stderr
    assert world.runs() == [] and world.stored_files() == []


def test_slow_only(world: World, module: Path) -> None:
    """The store gets the pipelines that took at least as long as the class says. The next run finds these and compiles
    the others again."""
    module.write_text(changed("5_000_000", "400_000_000", module.read_text()))
    world.environment["PYLAYER_TEST_DRIVER"] = "pipeline=slow:400?compile@/4"
    for hits in (0, 3):
        world.demo("--count", 12)
        assert (world.last()["hits"], world.last()["compiled"]) == (hits, 12 - hits)
    assert world.runs()[0]["stored_records"] == 3
    facts = world.runs()[-1]["policy"]
    assert facts["failures"] == 0 and facts["switched_off"] == ""


def test_class_is_explained(world: World, module: Path) -> None:
    """The two commands that the page names for a new class accept it and show what it decides."""
    unset = {"VK_INSTANCE_LAYERS": None, "VK_ADD_LAYER_PATH": None}
    for arguments, says in ((["check"], "is valid"), (["explain", "anything"], "new_and_slow")):
        assert says in world.pylayer("policy", *arguments, **unset).stdout


def test_methods_are_listed() -> None:
    """The page lists each method of Policy with its arguments."""
    for name, method in inspect.getmembers(Policy, inspect.isfunction):
        if not name.startswith("_"):
            arguments = ", ".join(list(inspect.signature(method).parameters)[1:])
            assert f"| `{name}({arguments})` |" in PAGE
