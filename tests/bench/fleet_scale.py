"""10,000 machines in 30 days, simulated on one: ``python tests/bench/fleet_scale.py``.

Builders push and one publishes each day into a directory, with the code that pylayer ships. Machines differ in how
often they pull (each day, each third day, each week), and some are containers that begin empty every day. What a
machine downloads on a day depends on nothing but what it has. So of each group of machines with the same history one
is simulated with the shipped rules (``choice.missing``), and stands for all of them. Of the server's processor time a
sample of requests is measured: they go to nginx on the loopback interface, for the very files, at most 2,000 each day.

Day 5 brings a new game. On day 10 half of the machines get a driver update, and on day 12 the others: a new identity,
which begins empty. The ideal is that each machine downloads each record once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.stores import IDENTITY, OLD_DRIVER, cell_data
from fleet.fleets import Builder, nginx

from pylayer.common.identity import Identity
from pylayer.fleet.choice import Ranges, add_range, missing
from pylayer.fleet.index import Index
from pylayer.store.format import record_size

DAYS = 30
#: Pipelines that builders compile on a day: at the beginning of an identity or a game, and on any other day.
FIRST, DAILY = 400, 15
#: Bytes of a pipeline's data, about as RADV's.
SIZE = 4000
PROGRAMS = {("editor", "The Editor"): 0, ("game", "The Game"): 0, ("new game", ""): 5}
#: Share of machines, and in how many days they pull once; 0: a container, which begins empty each day.
HABITS = ((0.4, 1), (0.2, 3), (0.3, 7), (0.1, 0))
MOST_REQUESTS = 2000


@dataclass
class Group:
    """Machines with the same history. ``number`` is how many they are."""

    number: int
    every: int
    update: int
    start: int
    have: dict[tuple[str, str], Ranges] = field(default_factory=dict)
    #: Indexes that were downloaded last, by identity.
    seen: dict[str, int] = field(default_factory=dict)

    def identity(self, day: int) -> Identity:
        return OLD_DRIVER if day < self.update else IDENTITY

    def pulls(self, day: int) -> bool:
        return self.every == 0 or (day + self.start) % self.every == 0


@dataclass
class Day:
    """What all machines downloaded on a day."""

    index_bytes: int = 0
    pack_bytes: int = 0
    requests: int = 0
    unchanged: int = 0
    objects: Counter[str] = field(default_factory=Counter)


def groups(machines: int) -> list[Group]:
    """Returns the machines by what they do."""
    found = []
    for share, every in HABITS:
        for update in (10, 12):
            for start in range(max(every, 1)):
                found.append(Group(round(machines * share / 2 / max(every, 1)), every, update, start))
    return found


def pull(group: Group, indexes: dict[str, tuple[Index, int]], day: int, into: Day) -> None:
    """One pull of each machine of a group."""
    identity = group.identity(day).name
    if group.every == 0:
        group.have, group.seen = {}, {}
    if identity not in indexes:
        into.requests += group.number
        return
    index, size = indexes[identity]
    into.requests += group.number
    if group.seen.get(identity) == index.number:
        into.unchanged += group.number
        return
    group.seen[identity] = index.number
    into.index_bytes += size * group.number
    into.objects[f"v1/{identity}/index"] += group.number
    for program in index.programs:
        key = identity, program
        for pack in missing([pack for pack in index.packs if pack.program == program], group.have.get(key, ())):
            group.have[key] = add_range(group.have.get(key, ()), pack.first, pack.last)
            into.pack_bytes += pack.bytes * group.number
            into.requests += group.number
            into.objects[f"v1/{identity}/{pack.name}"] += group.number


class Farm:
    """The builders: one store and one publisher for each identity."""

    def __init__(self, directory: Path, builders: int) -> None:
        self.www = directory / "www"
        self.www.mkdir()
        self._builders = [
            {
                identity.name: Builder(directory / f"b{number}-{identity.name[:4]}", self.www, identity)
                for identity in (OLD_DRIVER, IDENTITY)
            }
            for number in range(builders)
        ]
        first = self._builders[0][IDENTITY.name]
        for own in self._builders:
            for builder in own.values():
                builder.key, builder.keys, builder.terms = first.key, first.keys, first.terms

    def work(self, day: int) -> float:
        """Compiles, pushes and publishes; returns the publisher's seconds. Builders compile much the same."""
        seconds = 0.0
        for identity, began in ((OLD_DRIVER, 0), (IDENTITY, 10)):
            if day < began:
                continue
            for at, (program, since) in enumerate(PROGRAMS.items()):
                age = day - max(began, since)
                if age < 0:
                    continue
                first, count = (0, FIRST) if age == 0 else (FIRST + (age - 1) * DAILY, DAILY)
                numbers = [at * 100_000 + number for number in range(first, first + count)]
                for own in self._builders:
                    own[identity.name].push(*numbers, program=program, size=SIZE)
            started = time.process_time()
            self._builders[0][identity.name].publish()
            seconds += time.process_time() - started
        return seconds

    def indexes(self) -> dict[str, tuple[Index, int]]:
        """Returns the indexes, each with its size."""
        found = {}
        for identity in (OLD_DRIVER, IDENTITY):
            builder = self._builders[0][identity.name]
            if (builder.place / "index").exists():
                found[identity.name] = builder.index, (builder.place / "index").stat().st_size
        return found

    def stored(self) -> int:
        """Returns the bytes in the storage."""
        return sum(path.stat().st_size for path in self.www.rglob("*") if path.is_file())


def processor_seconds(directory: Path) -> float:
    """Returns the processor time that nginx and its workers have used."""
    master = (directory / "pid").read_text().strip()
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    ticks = 0
    for process in (master, *children):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100


def serve(url: str, directory: Path, objects: Counter[str]) -> tuple[float, int]:
    """Requests a sample of a day's objects; returns nginx' processor seconds, and how many requests they were for."""
    total = sum(objects.values())
    part = min(1.0, MOST_REQUESTS / max(total, 1))
    before, made = processor_seconds(directory), 0
    for path, count in objects.items():
        for _ in range(max(1, round(count * part))):
            with urllib.request.urlopen(f"{url}/{path}") as answer:
                while answer.read(1 << 20):
                    pass
            made += 1
    return processor_seconds(directory) - before, made


def simulate(machines: int, builders: int, directory: Path) -> dict[str, Any]:
    """Runs 30 days; returns the sums."""
    farm, fleet, days = Farm(directory, builders), groups(machines), []
    publishing = nginx_seconds = 0.0
    sampled, sizes = 0, []
    with nginx(directory / "nginx", farm.www) as url:
        for day in range(DAYS):
            publishing += farm.work(day)
            indexes = farm.indexes()
            today = Day()
            for group in fleet:
                if group.pulls(day):
                    pull(group, indexes, day, today)
            seconds, made = serve(url, directory / "nginx", today.objects)
            nginx_seconds, sampled = nginx_seconds + seconds, sampled + made
            days.append(today)
            sizes.append({name: size for name, (_, size) in indexes.items()})
    return sums(machines, fleet, farm, days) | {
        "publisher_s_per_day": round(publishing / DAYS, 3),
        "nginx_ms_per_1000_requests": round(nginx_seconds / max(sampled, 1) * 1e6, 1),
        "index_bytes_by_day": [sum(size.values()) for size in sizes],
    }


def sums(machines: int, fleet: list[Group], farm: Farm, days: list[Day]) -> dict[str, Any]:
    """Returns the figures of 30 days."""
    downloaded = sum(day.pack_bytes for day in days)
    indexes = sum(day.index_bytes for day in days)
    ideal = sum(group.number * ideal_bytes(group) for group in fleet)
    return {
        "machines": machines,
        "bytes_per_machine_and_day": round((downloaded + indexes) / machines / DAYS),
        "of_that_indexes": round(indexes / machines / DAYS),
        "ideal_bytes_per_machine_and_day": round(ideal / machines / DAYS),
        "over_ideal": round((downloaded + indexes) / ideal, 3),
        "requests_per_machine_and_day": round(sum(day.requests for day in days) / machines / DAYS, 2),
        "not_modified_per_machine_and_day": round(sum(day.unchanged for day in days) / machines / DAYS, 2),
        "store_bytes": farm.stored(),
        "index_bytes": {name[:8]: size for name, (_, size) in farm.indexes().items()},
    }


def ideal_bytes(group: Group) -> int:
    """Returns the bytes of the records that a machine of a group gets in 30 days, each once for each time that it
    begins empty."""

    def there(identity: Identity, day: int) -> int:
        began = 0 if identity is OLD_DRIVER else 10
        ages = [day - max(began, since) for since in PROGRAMS.values()]
        return sum(FIRST + age * DAILY for age in ages if age >= 0) if day >= began else 0

    record, total = record_size(len(cell_data(0, size=SIZE))), 0
    if group.every == 0:
        return record * sum(there(group.identity(day), day) for day in range(DAYS))
    last: dict[str, int] = {}
    for day in range(DAYS):
        if group.pulls(day):
            last[group.identity(day).name] = day
    for identity in (OLD_DRIVER, IDENTITY):
        if identity.name in last:
            total += record * there(identity, last[identity.name])
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--machines", type=int, nargs="*", default=[100, 1000, 10_000])
    options = parser.parse_args()
    for machines in options.machines:
        with tempfile.TemporaryDirectory(prefix="pylayer-fleet-scale-") as directory:
            started = time.monotonic()
            result = simulate(machines, builders=3, directory=Path(directory))
            print(json.dumps(result | {"took_s": round(time.monotonic() - started)}), flush=True)


if __name__ == "__main__":
    main()
