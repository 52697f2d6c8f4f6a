"""Defects that drivers in use have, as behaviours of the scripted driver. With each of them a program sees what it sees
without the layer. What can be found is stored in the first run. Where nothing can be found, the layer is off and says
why, and the store does not grow."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from scripted_driver import ScriptedDriver
from world import seen

COUNT = 8

#: A program without a cache, and one with a cache of its own.
PROGRAMS: dict[str, list[str | int]] = {
    "no cache": ["--count", COUNT, "--api", "1.3"],
    "own cache": ["--count", COUNT, "--api", "1.3", "--cache", "object"],
}

NOTHING = "the driver finds nothing in its own cache data"


class Defect(NamedTuple):
    """``script`` is that of every run. ``warm``: the driver has all pipelines in the first run. ``finds``: the run,
    counted from 0, from which on everything is found, unless ``off``."""

    script: str
    warm: bool = False
    mode: str = "auto"
    finds: int = 1
    off: bool = False


DEFECTS = {
    # NVK, Honeykrisp and ANV since Mesa 26.1 report hits in an empty cache of what their disk cache has.
    "everything is a hit": Defect("feedback=hits"),
    "everything is a hit, warm": Defect("feedback=hits", warm=True),
    # Turnip of Mesa 26.1.6 and 26.2.6, for graphics pipelines.
    "nothing is a hit, warm": Defect("feedback=no-hits", warm=True),
    "compiles are hits, hits are none": Defect("feedback=wrong"),
    "compiles are hits, hits are none, warm": Defect("feedback=wrong", warm=True),
    # ANV of Mesa 26.1.6.
    "each process has a global key": Defect("global-key=process"),
    "each process has a global key, binaries": Defect("global-key=process", mode="binaries", finds=2),
    # NVK, for some pipelines.
    "VK_INCOMPLETE at the exact size": Defect("get-data=tight"),
    # ANV and HASVK of Mesa 22.3.6.
    "a count of 0": Defect("get-data=header:count", off=True),
    # Lavapipe.
    "a header alone": Defect("get-data=stub", off=True),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", DEFECTS)
def test_defect(scripted: ScriptedDriver, name: str, program: str) -> None:
    """The program sees the same in each run. Everything is stored once and found later, or the layer is off."""
    defect, arguments = DEFECTS[name], PROGRAMS[program]
    scripted.settings(mode=defect.mode)
    alone = seen(scripted.demo(*arguments, script=defect.script, layered=False))
    # Binaries are for pipelines without a cache.
    finds = 1 if program == "own cache" else defect.finds
    sizes = []
    for number in range(finds + 4):
        more = "warm=yes;" if defect.warm and number == 0 else "internal-cache=no;"
        assert seen(scripted.demo(*arguments, script=more + defect.script, verify=True)) == alone
        run = scripted.world.runs()[-1]
        if defect.off:
            assert (run["stored_records"], run["mode"]) == (0, "off")
            assert NOTHING in run["reason"]
        else:
            found = number >= finds
            assert run["stored_records"] == (0 if found else COUNT)
            assert scripted.counts["compiles"] == (0 if found or more == "warm=yes;" else COUNT)
        sizes.append(sum(path.stat().st_size for path in scripted.world.store.glob("s*/**/*") if path.is_file()))
    assert (scripted.world.last()["passed"] == COUNT) is defect.off
    assert sizes[-1] - sizes[finds + 1] < 1024  # pipelines, verdicts and recordings; a compaction may add a table


@pytest.mark.parametrize("name", DEFECTS)
def test_doctor(scripted: ScriptedDriver, name: str) -> None:
    """doctor says in one line whether pipelines can be stored, and if not, why."""
    defect = DEFECTS[name]
    scripted.settings(mode=defect.mode)
    done = scripted.world.pylayer("doctor", "--json", check=False, **scripted.environment(defect.script))
    (device,) = json.loads(done.stdout)["devices"]
    wanted = {"status": "ok", "mode": "cells", "tried": "its second run found it in the store"}
    if defect.off:
        wanted = {"status": "warning", "mode": "off", "tried": "nothing is stored", "reason": NOTHING}
    elif defect.mode == "binaries":
        wanted = {"status": "warning", "mode": "binaries", "tried": "its second run did not find it"}
    assert {key: part for key, part in wanted.items() if part in device[key]} == wanted
    assert "\n" not in device["reason"]


def test_representations(scripted: ScriptedDriver) -> None:
    """A pipeline that ANV finds in a cache has fewer internal representations than one that it compiled. Pipelines that
    capture them are compiled in each run, as without the layer, and others are found."""
    script = "executables=yes;internal-cache=no"
    recipe = "device control executables modules\n"
    for name, flags in (("captured", " flags=representations"), ("plain", "")):
        recipe += f"{name}: compute - : P0 shader=comp0{flags}\n{name}-has: executables P0\n"
    alone = scripted.recipe(recipe, script=script, layered=False).stdout
    assert "captured-has count=1 0,0,0,2," in alone
    for _ in range(3):
        assert scripted.recipe(recipe, script=script).stdout == alone
    counters = scripted.world.last()
    assert (counters["hits"], counters["compiled"], counters["passed"]) == (1, 0, 1)


NEW_DRIVER = "internal-cache=no;build=2;uuid=7e58"


def test_recorded_until_the_layer_is_off(scripted: ScriptedDriver) -> None:
    """Until a driver's useless caches switch the layer off for a program, its runs are recorded. These pipelines are
    rebuilt for a better driver, and the others are recorded when the program creates them there."""
    for count, mode_is_known in ((8, False), (16, False), (24, True)):
        scripted.demo("--count", count, "--api", "1.3", script="get-data=header:count")
        assert (scripted.world.last()["passed"] == count) is mode_is_known
    for found in (16, 24):
        scripted.world.pylayer("rebuild", **scripted.environment(NEW_DRIVER))
        scripted.demo("--count", 24, "--api", "1.3", script=NEW_DRIVER)
        assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (found, 24 - found)


def test_one_fingerprint_over_a_warm_cache(scripted: ScriptedDriver) -> None:
    """Flags are in no fingerprint. Of pipelines that share one, a run stores the first, and finds the others in the
    driver's own cache. It records all. Once that cache is gone, the next run compiles and stores the others."""
    recipe = (
        "device control modules\none: compute - : P0 shader=comp0\nother: compute - : P1 shader=comp0 flags=noopt\n"
    )
    for script, compiles, stored in (("warm=yes", 0, 1), ("warm=yes", 0, 0), ("", 1, 1), ("", 0, 0)):
        scripted.recipe(recipe, script=script or "internal-cache=no")
        assert (scripted.take_counts()["compiles"], scripted.world.runs()[-1]["stored_records"]) == (compiles, stored)
        if (script, stored) == ("warm=yes", 1):
            done = scripted.world.pylayer("rebuild", **scripted.environment(NEW_DRIVER))
            assert done.stdout.startswith("Rebuilt: 2 of 2 pipelines")


#: Why a process finds nothing of what others stored: its keys are other ones, as ANV's of compute pipelines in one of
#: some 250 processes, or it ignores the data that it is given.
BAD_PROCESS = ["keys=process", "create-cache=ignore"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("script", BAD_PROCESS)
def test_bad_process(scripted: ScriptedDriver, script: str, program: str) -> None:
    """Of a driver that finds nothing in some processes all others find everything and store nothing, and nothing is
    decided against it."""
    arguments = PROGRAMS[program]
    alone = seen(scripted.demo(*arguments, layered=False))
    for number in range(8):
        bad = number in (2, 4, 5)
        assert seen(scripted.demo(*arguments, script=f"internal-cache=no;{script if bad else ''}")) == alone
        run = scripted.world.runs()[-1]
        compiles = 0 if number > 0 and not bad else COUNT
        assert (run["mode"], scripted.counts["compiles"]) == ("cells", compiles)
        assert run["stored_records"] <= compiles
        assert compiles or run["counters"]["fetched"] == COUNT  # the records of bad processes are not read
    assert not list(scripted.world.store.glob("store/*/*.verdict"))
