"""Programs of steps (tests/hosts), run without the layer and with it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from world import BUILD, World

from pylayer import LAYER_NAME

HOST = BUILD / "tests" / "host"
#: A device with three pipelines, whose journal is open and written.
STORED = ("instance", "device", "pipelines", "3", "await-journal", "3")
END = ("destroy-device", "destroy-instance")
#: What a program looks at that is about to enter a sandbox. The last two can be done once in a process.
SANDBOX = ("threads", "new-user", "filter")
#: A program that breaks a rule.
LEAKS_A_CACHE = (str(HOST), "instance", "device", "load-cache", "none", "destroy-device")


def two_instances(kind: str = "device") -> list[str]:
    """Two instances with a device each, alive at once, each of which creates the same pipeline. They are not destroyed
    in the order of creation, and the second creates the pipeline once more. ``kind``: of the second device."""
    steps = f"instance device other instance {kind} again 1 other again 1 destroy-device destroy-instance "
    return [str(HOST), *(steps + "other again 1 destroy-device destroy-instance threads").split()]


def run_host(
    world: World, *steps: str | int, layers: str = LAYER_NAME, command: tuple[str, ...] = (), **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Runs the steps without the layer and with it: what the program prints and how it ends is the same. Returns the
    run with the layer."""
    words = [*command, str(HOST), *map(str, steps)]
    others = layers.replace(LAYER_NAME, "").strip(":") or None
    alone = world.run(words, check=False, **{**environment, "VK_INSTANCE_LAYERS": others})
    under = world.run(words, check=False, **{**environment, "VK_INSTANCE_LAYERS": layers})
    assert alone.returncode != 3, alone.stderr  # a step that did not work
    ended, ended_alone = (under.returncode, under.stdout), (alone.returncode, alone.stdout)
    assert ended == ended_alone, f"{ended} with the layer, {ended_alone} without: {under.stderr}"
    return under


def stored(world: World) -> list[int]:
    """Pipelines stored in each run, oldest first."""
    return [run["stored_records"] for run in world.runs()]


def hits_again(world: World, count: int) -> None:
    """What was stored is found by the next program."""
    world.run([str(HOST), "instance", "device", "pipelines", str(count), *END])
    assert (world.last()["hits"], world.last()["compiled"]) == (count, 0)


def waits(world: World, steps: tuple[str, ...], begin: Callable[[], object] = tuple, **environment: str) -> bool:
    """Returns whether each of five runs, with ``begin`` before each, takes almost a second longer than without the
    layer. Whoever waits for policy in vain waits for a second or more."""

    def seconds(layers: str | None) -> float:
        begin()
        began = time.monotonic()
        world.run([str(HOST), *steps], VK_INSTANCE_LAYERS=layers, **environment)
        return time.monotonic() - began

    return all(seconds(LAYER_NAME) - seconds(None) > 0.9 for _ in range(5))
