"""Searches for lasting harm of bad moments: `make recovery`, `corruption`, `stress`, `soak`, or some of it by options.

A trial copies a store that works, does one run in which exactly one thing goes wrong (the bad moment), and then clean
runs. In each clean run the program must see what it sees without the layer. After the second, all must be as if nothing
had gone wrong: the same hits, nothing compiled, pipelines found in the same way, and no file more.

With --together, many programs and moments at once on one store (together.py).
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from recovery.moments import SCENARIOS, Moment, all_of
from recovery.together import together
from recovery.trial import Bench, Outcome


def draw(moments: Iterable[Moment], count: int, seed: int) -> list[Moment]:
    """Draws ``count`` moments, or all if it is 0: one of each scenario and kind in turn, until none is left."""
    chance = random.Random(seed)
    groups: dict[tuple[str, str], list[Moment]] = defaultdict(list)
    for moment in moments:
        groups[moment.scenario, moment.kind].append(moment)
    for group in groups.values():
        chance.shuffle(group)
    drawn: list[Moment] = []
    while groups and (not count or len(drawn) < count):
        for key in list(groups):
            drawn.append(groups[key].pop())
            if not groups[key]:
                del groups[key]
    return drawn[: count or None]


def outcomes(benches: Callable[[str], Bench], moments: list[Moment], jobs: int) -> Iterator[Outcome]:
    """Tries the moments, so many at a time. Each thread has benches of its own."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda moment: benches(moment.scenario).trial(moment), moments)


class Benches(threading.local):
    """This thread's benches, made when they are needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made: dict[str, Bench] = {}

    def __call__(self, scenario: str) -> Bench:
        if scenario not in self.made:
            place = self.directory / f"{threading.get_native_id()}" / scenario.replace(" ", "-")
            self.made[scenario] = Bench(place, SCENARIOS[scenario])
        return self.made[scenario]


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=2000, help="how many are drawn; 0: all (2000)")
    parser.add_argument("--seed", type=int, help="of the draw (0; with --together the time)")
    parser.add_argument("--only", action="append", default=[], metavar="KIND", help="only moments whose kind begins so")
    parser.add_argument("--in", dest="scenarios", action="append", default=[], choices=SCENARIOS, metavar="SCENARIO")
    parser.add_argument("--like", default="", help="only moments with this text in their name")
    parser.add_argument("--jobs", type=int, default=2, help="trials or programs at a time (2)")
    parser.add_argument("--list", action="store_true", help="print the moments that would be drawn")
    parser.add_argument("--together", action="store_true", help="programs at once, until so many kills or minutes")
    parser.add_argument("--faults", action="store_true", help="together: driver and disk fail, files are damaged")
    parser.add_argument("--kills", type=int, default=1 << 30, help="together: so many processes are killed (any)")
    parser.add_argument("--minutes", type=float, default=60, help="together: no longer than this (60)")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="recovery-", ignore_cleanup_errors=True) as directory:
        if options.together:
            options.seed = int(time.time()) if options.seed is None else options.seed
            return together(Path(directory), options)
        benches = Benches(Path(directory))
        every = [
            moment
            for name in options.scenarios or SCENARIOS
            for moment in all_of(name, SCENARIOS[name].driver, benches(name).commands, benches(name).calls)
            if moment.kind.startswith(tuple(options.only or [""])) and options.like in moment.name
        ]
        if not every:
            parser.error("there is no such moment")
        drawn = draw(every, options.moments, options.seed or 0)
        if options.list:
            print(*drawn, sep="\n")
            return 0
        return report(outcomes(benches, drawn, options.jobs), len(every), started)


def report(found: Iterator[Outcome], possible: int, started: float) -> int:
    """Prints what came of the moments, and returns the exit status. ``by rule``: lasting harm that is documented."""
    drawn: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    by_rule: Counter[str] = Counter()
    for outcome in found:
        kind = outcome.moment.kind
        drawn[kind] += outcome.came
        missed[kind] += not outcome.came
        by_rule[kind] += bool(outcome.by_rule)
        if outcome.wrong and not outcome.by_rule:
            failed[kind] += 1
            said = f"after {outcome.after or 'no'} clean runs as before", *outcome.wrong, outcome.bad
            print(outcome.moment, *said, f"again: {outcome.moment.again}", sep="\n    ", flush=True)
    print(f"{'kind':<20}{'drawn':>8}{'not met':>8}{'by rule':>8}{'failed':>8}")
    for kind in sorted(drawn):
        print(f"{kind:<20}{drawn[kind]:>8}{missed[kind]:>8}{by_rule[kind]:>8}{failed[kind]:>8}")
    total = sum(failed.values())
    print(f"{drawn.total()} moments of {possible}, {total} failed ({time.monotonic() - started:.0f} s)")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
