"""How fast a pull is, against curl for the same bytes: ``python tests/bench/fleet_pull.py``.

nginx serves what a builder published, on the loopback interface, as docs/containers.md shows. Each round downloads the
packs with one curl process, runs `pylayer fleet pull` into an empty store, and pulls within a process that has its
modules. The figures are medians over rounds, which are interleaved. `pylayer fleet pull` includes the interpreter's
start, SHA-256 and the verification of every record.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.stores import GAME, cell
from fleet.fleets import Builder, Machine, nginx


def timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=4096, help="bytes of a record; RADV's have 4 KiB on average")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylayer-fleet-pull-") as directory:
        measure(Path(directory), options)


def measure(directory: Path, options: argparse.Namespace) -> None:
    builder = Builder(directory)
    builder.store.journal(GAME, *(cell(number, size=options.size) for number in range(options.records)))
    builder.export()
    builder.publish()
    packs, name = builder.index.packs, builder.store.identity.name
    size = sum(pack.bytes for pack in packs)
    times: dict[str, list[float]] = {"curl": [], "pylayer fleet pull": [], "the same, without start": []}
    with nginx(directory / "nginx", builder.www) as url:
        key = next(iter(builder.keys))
        policy = directory / "policy.yaml"
        policy.write_text(f"fleet: {{url: '{url}', keys: [{{name: builder, key: '{key}'}}]}}\n")
        policy.chmod(0o600)
        fetched = [f"{url}/v1/{name}/{pack.name}" for pack in packs]
        curl = ["curl", "-s", *[word for at, pack in enumerate(fetched) for word in ("-o", directory / f"c{at}", pack)]]
        pull = [Path(sys.executable).with_name("pylayer"), "fleet", "pull", "--identity", name]
        for number in range(options.rounds):
            store = directory / f"store-{number}"
            environment = {**os.environ, "PYLAYER_STORE": str(store), "PYLAYER_CONFIG": str(policy)}
            times["curl"].append(timed(partial(subprocess.run, curl, check=True)))
            command = partial(subprocess.run, pull, env=environment, check=True, stdout=subprocess.DEVNULL)
            times["pylayer fleet pull"].append(timed(command))
            machine = Machine(directory / f"machine-{number}", builder.keys)
            times["the same, without start"].append(timed(partial(machine.pull, url)))
            assert len(machine.numbers()) == options.records
            shutil.rmtree(store)
            shutil.rmtree(machine.root)
    print(f"{options.records} records in {len(packs)} packs, {size / 2**20:.1f} MiB")
    base = statistics.median(times["curl"])
    for what, values in times.items():
        median = statistics.median(values)
        print(
            f"{what:24} {median * 1000:7.1f} ms  {size / median / 1e6:7.0f} MB/s  {base / median:.2f} of curl's speed"
        )


if __name__ == "__main__":
    main()
