"""What it costs a process to be left alone: its first vkCreateInstance, in processes of five kinds by turns.

skip.py [ROUNDS]   prints medians and quartiles, and what each kind takes more than one in which the layer is
switched off: by the clock, and of the calling thread's own time, which other processes do not lengthen
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

RULES = "skip:\n" + "".join(f"  - {{executable: 'launcher-{number}*'}}\n" for number in range(100))


def main(rounds: int) -> None:
    from world import BUILD, World

    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), "test")
        world.environment.pop("PYLAYER_LOG")
        names = {name: Path(directory, name) for name in ("game", "vulkaninfo", "launcher-99")}
        for path in names.values():
            shutil.copy(BUILD / "bench" / "first_instance", path)
        rules = Path(directory, "rules.yaml")
        rules.write_text(RULES)
        kinds: dict[str, tuple[str, dict[str, str]]] = {
            "no layer": ("game", {"VK_INSTANCE_LAYERS": ""}),
            "switched off (DISABLE_PYLAYER)": ("game", {"DISABLE_PYLAYER": "1"}),
            "left alone by a built-in rule": ("vulkaninfo", {}),
            "left alone by the last of 100 own rules": ("launcher-99", {"PYLAYER_CONFIG": str(rules)}),
            "not left alone": ("game", {}),
        }
        world.run([str(BUILD / "demo" / "pipelines"), "--count", "1"], check=False, PYLAYER_CONFIG=str(rules))
        assert list(world.store.glob("policy/*")), "there is no compiled copy"
        times: dict[tuple[str, str], list[float]] = {
            (kind, clock): [] for clock in ("wall", "processor") for kind in kinds
        }
        for _ in range(rounds):
            for kind, (name, changes) in kinds.items():
                done = subprocess.run(
                    [str(names[name])], env={**world.environment, **changes}, capture_output=True, text=True, check=True
                )
                for clock, nanoseconds in zip(("wall", "processor"), done.stdout.split(), strict=True):
                    times[kind, clock].append(int(nanoseconds) / 1000)
        for (kind, clock), values in times.items():
            base = statistics.median(times["switched off (DISABLE_PYLAYER)", clock])
            low, median, high = statistics.quantiles(values, n=4)
            print(f"{kind:<40} {clock:<10} {median:6.0f} us  ({low:.0f} to {high:.0f})  {median - base:+6.0f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
