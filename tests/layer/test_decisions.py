"""Decisions: the layer uses them without waiting for Python, and only for exactly the same request."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest
from disk import FailingDisk
from host_steps import END, HOST, two_instances
from world import BUILD, PACKAGE, ROOT, World

#: Nothing here depends on the driver.
QUICK = True


def plans(world: World) -> list[Path]:
    return sorted(world.store.glob("plans/*.plan"))


def modes(world: World) -> list[str]:
    return [run["mode"] for run in world.runs()]


def test_second_run_takes_the_kept_plan(world: World, tmp_path: Path) -> None:
    """The second run uses the decision and does not write it again."""
    world.demo("--count", 4)
    assert len(plans(world)) == 1
    before = plans(world)[0].stat().st_ino
    world.demo("--count", 4)
    assert plans(world)[0].stat().st_ino == before
    assert world.last()["hits"] == 4 and modes(world) == ["cells", "cells"]


@pytest.mark.parametrize("operation", ["stat", "open", "read"])
def test_policy_file_that_fails_for_a_moment(world: World, operation: str) -> None:
    """If the layer or policy fails once to examine, open or read the policy file, no plan of that run is kept. Later
    runs obey the file, and share one plan."""
    config = world.directory / "config" / "pylayer" / "policy.yaml"
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text("settings: {mode: 'off'}\n")
    environment = {"PYLAYER_CONFIG": None, "XDG_CONFIG_HOME": str(config.parents[1])}
    for number in range(1, 40):
        shutil.rmtree(world.store, ignore_errors=True)
        disk = FailingDisk(world, f"{operation}:EIO:nth={number}")
        disk.environment |= {**environment, "PYLAYER_TEST_STORAGE_ROOT": str(config.parents[1])}
        world.demo("--count", 4, **disk.environment)
        if not disk.struck:
            break
        kept = plans(world)
        world.demo("--count", 4, **environment)
        assert modes(world)[-1] == "off" and len(plans(world)) == 1 and set(kept) <= set(plans(world)), disk.struck
    assert 1 < number < 39


@pytest.mark.parametrize("how", ["file appears", "file changes", "file goes"])
def test_policy_file_is_obeyed_at_once(world: World, how: str) -> None:
    """If a policy file appears, changes or is deleted, the next run gets a new plan."""
    config = world.directory / "policy.yaml"
    environment = {"PYLAYER_CONFIG": str(config)}
    on, off = "settings: {mode: cells}\n", "settings: {mode: 'off'}\n"
    if how != "file appears":
        config.write_text(on if how == "file changes" else off)
    world.demo("--count", 4, **environment)
    if how == "file goes":
        config.unlink()
    else:
        config.write_text(off)
    world.demo("--count", 4, **environment)
    assert modes(world) == (["off", "cells"] if how == "file goes" else ["cells", "off"])


def test_policy_file_that_was_changed_back(world: World) -> None:
    """A plan that was made by another content of the policy file is not found when the file has its old content again,
    even if it has its old time, too."""
    config = world.directory / "policy.yaml"
    environment = {"PYLAYER_CONFIG": str(config)}
    for mode in ("cells", "off!!", "cells"):
        config.write_text(f"settings: {{mode: '{mode.rstrip('!')}'}}{mode.count('!') * ' '}\n")
        os.utime(config, (1_000_000_000,) * 2)
        world.demo("--count", 4, **environment)
    assert modes(world) == ["cells", "off", "cells"] and len(plans(world)) == 2


def test_containers_share_a_plan(world: World, tmp_path: Path) -> None:
    """The same build and policy file in another file system find the plan that was kept: each container mounts its
    image anew, so device, inode and change time differ."""
    counts = []
    for container in ("one", "two"):
        image = tmp_path / container
        shutil.copytree(PACKAGE, image / "pylayer")
        world.install_manifest(image / "pylayer")
        config = tmp_path / "policy.yaml"
        config.unlink(missing_ok=True)
        config.write_text("settings: {mode: cells}\n")
        os.utime(config, (1_000_000_000,) * 2)
        world.demo("--count", 4, PYLAYER_CONFIG=str(config))
        counts.append((len(plans(world)), world.last()["fetched"]))
    assert counts == [(1, 0), (1, 4)]


def test_image_carries_a_plan(world: World, tmp_path: Path) -> None:
    """A new store that has another store's plans and exported pipelines serves its first program without the
    interpreter. Without the plans the first program starts it, and finds the pipelines all the same."""
    steps = ["instance", "device", "pipelines", "4", "threads", *END]
    world.run([str(HOST), *steps])
    exported = tmp_path / "pipelines"
    world.pylayer("export", exported, "--app", "host")
    kept = world.store / "plans"
    for carried in (True, False):
        world.store = tmp_path / f"carried {carried}"
        world.environment["PYLAYER_STORE"] = str(world.store)
        world.pylayer("import", exported)
        if carried:
            shutil.copytree(kept, world.store / "plans")
        stdout = world.run([str(HOST), *steps]).stdout
        assert ("threads: 1" in stdout) == carried
        assert (world.last()["hits"], world.last()["compiled"]) == (4, 0)


def test_each_build_has_its_own_plans(tmp_path: Path) -> None:
    """A change of any source makes another build, and the same sources in another place do not."""
    sys.path.insert(0, str(ROOT / "shim" / "policy"))
    layer_tables = importlib.import_module("layer_tables")
    ids = []
    for name in ("pylayer/policy.py", "shim/layer/base.h", "config/default.yaml", ""):
        copy = tmp_path / (name.replace("/", "-") or "same")
        for folder in ("pylayer/common", "shim/layer", "config"):
            (copy / folder).mkdir(parents=True)
        for path in ("pylayer/policy.py", "pylayer/common/a.json", "shim/layer/base.h", "config/default.yaml"):
            (copy / path).write_text("changed" if path == name else "content")
        ids.append(layer_tables.build_id(copy))
    assert len(set(ids)) == 4 and layer_tables.build_id(tmp_path / "same") == ids[3]
    assert layer_tables.build_id(ROOT) != ids[3]


def test_each_program_has_its_own(world: World) -> None:
    """Each program has a decision of its own, whatever its arguments."""
    for count in (4, 5, 4):
        world.demo("--count", count)
    assert len(plans(world)) == 1
    other = shutil.copy(BUILD / "demo" / "pipelines", world.directory / "other")
    world.run([str(other), "--count", "4"])
    assert len(plans(world)) == 2


def test_rule_for_one_program_leaves_others_alone(world: World) -> None:
    """A plan made for one program is not used for another."""
    environment = world.policy('rules:\n  - match: {application: "pipelines"}\n    set: {mode: "off"}\n')
    for _ in range(2):
        world.demo("--count", 1, **environment)
        world.run(two_instances(), **environment)
    assert modes(world) == ["off", "cells", "cells"] * 2


def test_policy_class_is_asked_every_time(world: World) -> None:
    """A policy class of the user decides in every run. Its plans are not kept."""
    config = world.policy_class(
        "class Mine(Policy):\n"
        "    def plan_device(self, program, facts, settings):\n"
        "        print('asked')\n"
        "        return super().plan_device(program, facts, settings)\n"
    )
    for _ in range(2):
        assert "asked" in world.demo("--count", 4, **config, PYLAYER_LOG="info").stderr
    assert plans(world) == []


def test_damaged_plans_are_not_taken(world: World) -> None:
    """A damaged plan, with bytes changed, removed or added, is not used: policy makes and keeps a new one."""
    world.demo("--count", 1)
    (path,) = plans(world)
    good = path.read_bytes()
    damaged = [good[:size] for size in (0, 15, len(good) - 1)] + [good + b"\0", bytes(len(good))]
    for at in (0, 15, 16, 40, len(good) - 1):
        flipped = bytearray(good)
        flipped[at] ^= 1
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        result = world.demo("--count", 1)
        assert result["created"] == 1
        assert path.read_bytes() == good, "the plan was made and kept again"


def test_kept_plan_and_no_python(world: World, tmp_path: Path) -> None:
    """With a decision and a missing Python the program goes on."""
    copy = tmp_path / "site" / "pylayer"
    shutil.copytree(PACKAGE, copy)
    world.install_manifest(copy)
    world.demo("--count", 8)
    assert len(plans(world)) == 1
    shutil.rmtree(copy / "_private" / "dynload")
    shutil.rmtree(copy / "_private" / "site")
    assert world.demo("--count", 8)["created"] == 8
