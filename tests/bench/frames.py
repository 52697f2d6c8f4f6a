"""What it costs that the layer sees frames: part of `make bench`.

On the scripted driver (tests/driver), whose calls take next to no time: RADV without hardware has no surface to present
to.
"""

from __future__ import annotations

from pathlib import Path

from figures import Figure, Row
from world import BUILD, LAYER_NAME, World

PRESENTS, PIPELINES = 200_000, 10_000


def nanoseconds(world: World, layers: str | None, what: str, *arguments: str) -> float:
    """Returns how long one call took, as the program measured it."""
    done = world.run([str(BUILD / "tests" / "frames"), *arguments], VK_INSTANCE_LAYERS=layers)
    return next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(what))


def frames(directory: Path, rounds: int) -> list[Row]:
    """Returns a row for presents, and one for pipelines of a program that has presented."""
    world = World(directory, "test")
    present = Figure("vkQueuePresentKHR", "without the layer, scripted driver", 100, "ns", difference=True)
    pipeline = Figure("a stored pipeline, after a frame", "the same before the first one", None, "ns", difference=True)
    loop, create = ("2", "every=0", f"loop={PRESENTS}"), ("every=0", f"create={PIPELINES}")
    for _ in range(2):
        nanoseconds(world, LAYER_NAME, "pipeline", "2", *create)
    for _ in range(rounds):
        present.add(*(nanoseconds(world, layers, "present", *loop) for layers in (None, LAYER_NAME)))
        pipeline.add(*(nanoseconds(world, LAYER_NAME, "pipeline", count, *create) for count in ("0", "2")))
    return [Row(None, present), Row(None, pipeline)]
