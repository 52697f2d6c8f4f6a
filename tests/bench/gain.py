"""What a player gains: programs that take turns on a driver whose own disk cache is too small for all: `make gain`.

Each of three programs creates pipelines of its own, one program after the other, again and again, once without the
layer and once with it, each with a driver cache of its own. In the first turn everything is compiled. The figures are
of later turns. On RADV without hardware, with Mesa's cache (MESA_SHADER_CACHE_MAX_SIZE), or with --here on the driver
that the environment gives, also NVIDIA's (__GL_SHADER_DISK_CACHE_SIZE).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from world import BUILD, LAYER_NAME, Run, World

PROGRAMS = 3


class Player:
    """A home with one driver cache and, under the layer, one store."""

    def __init__(self, directory: Path, options: argparse.Namespace, layers: str | None) -> None:
        directory.mkdir()
        self.world = World(directory, "here" if options.here else "radv")
        self.layers = layers
        self.count = options.count
        disk = directory / "driver-cache"
        disk.mkdir()
        self.world.environment.pop("MESA_SHADER_CACHE_DISABLE", None)
        self.world.environment |= {
            "PYLAYER_LOG": "error",
            "MESA_SHADER_CACHE_DIR": str(disk),
            "MESA_SHADER_CACHE_MAX_SIZE": f"{options.kib}K",
            "__GL_SHADER_DISK_CACHE": "1",
            "__GL_SHADER_DISK_CACHE_PATH": str(disk),
            "__GL_SHADER_DISK_CACHE_SIZE": str(options.kib * 1024),
        }
        for number in range(PROGRAMS):
            shutil.copy(BUILD / "demo" / "pipelines", directory / f"game-{number + 1}")

    def turn(self) -> float:
        """Every program runs once. Returns the seconds in which they created their pipelines."""
        total = 0
        for number in range(1, PROGRAMS + 1):
            program = self.world.directory / f"game-{number}"
            command = [str(program), "--json", "--count", str(self.count), "--seed", str(number)]
            run = Run.of(self.world.run(command, VK_INSTANCE_LAYERS=self.layers))
            assert run["created"] == self.count
            total += run["create_ns_total"]
        return total / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="the environment's own driver, not RADV null hardware")
    parser.add_argument("--count", type=int, default=1000, help="pipelines of each program (1000)")
    parser.add_argument("--kib", type=int, default=1024, help="size of the driver's own disk cache (1024)")
    parser.add_argument("--turns", type=int, default=3, help="turns after the first (3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylayer-gain-") as directory:
        alone = Player(Path(directory, "alone"), options, None)
        under = Player(Path(directory, "layer"), options, LAYER_NAME)
        turns = [(alone.turn(), under.turn()) for _ in range(options.turns + 1)]
    for number, (without, layered) in enumerate(turns, 1):
        print(f"turn {number}: {without:.2f} s without pylayer, {layered:.2f} s with it")
    without, layered = (statistics.median(times) for times in zip(*turns[1:], strict=True))
    print(
        f"{PROGRAMS} programs, {options.count} pipelines each, a driver cache of {options.kib} KiB: "
        f"{without:.2f} s without pylayer, {layered:.2f} s with it, {without / layered:.0f} times faster"
    )


if __name__ == "__main__":
    main()
