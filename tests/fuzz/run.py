"""Runs the fuzz targets: ``python tests/fuzz/run.py --inputs 10000``, of one target with ``--target``.

Mutators that know the formats make inputs of seeds; a number seeds them, so that a run can be repeated. An input that
fails is written to build/fuzz/, and ``--repeat FILE`` tries it again.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fuzz import shapes
from fuzz.targets import TARGETS, Target, bounded, on_alarm

FAILED = Path(__file__).resolve().parents[2] / "build" / "fuzz"

#: Of the inputs so many are tried with a look at memory, which makes them slow.
MEMORY_EVERY = 128


def one_input(target: Target, data: bytes, with_memory: bool) -> None:
    with bounded(len(data), with_memory, target.memory):
        target.run(data)


def tell(name: str, key: str, error: BaseException, data: bytes) -> None:
    """Keeps an input that failed, and says how to try it again."""
    FAILED.mkdir(parents=True, exist_ok=True)
    path = FAILED / f"{name}-{zlib.crc32(data):08x}"
    path.write_bytes(data)
    print(f"--- {name}: {key}\n    --target {name} --repeat {path}", flush=True)
    traceback.print_exception(error, limit=-6)


def signature(error: BaseException) -> str:
    """Where in pylayer an input failed, and with what: inputs that fail alike are shown once."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/pylayer/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    digits = "".join(character for character in str(error) if not character.isdigit())
    return f"{type(error).__name__} {place} {digits if type(error).__name__ == 'Wrong' else ''}"


def run(name: str, inputs: int, seed: int, seconds: float, large: bool) -> tuple[int, Counter[str]]:
    """Inputs tried, and how often each kind of failure came, which is told once."""
    target, failures = TARGETS[name], Counter[str]()
    rng = random.Random(f"{name}{seed}")
    pool = [data for _, data in sorted(shapes.seeds()[name].items())]
    extra = [*pool, *(shapes.large(target.large).values() if large else ())]
    began, done = time.monotonic(), 0
    while done < max(inputs, len(extra)) and time.monotonic() - began < seconds:
        if done < len(extra):
            data = extra[done]
        else:
            base = rng.choice(pool)
            if rng.random() < 0.05 and len(base) + len(pool[0]) < 8192:
                base = base[: rng.randrange(len(base) + 1) & ~15] + rng.choice(pool)[256:]
            data = target.mutate(rng, base)
        try:
            one_input(target, data, done % MEMORY_EVERY == 0 or done < len(extra))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failures[key := signature(error)] += 1
            if failures[key] == 1:
                tell(name, key, error, data)
        done += 1
    took = time.monotonic() - began
    print(f"{name}: {done} inputs, {done / max(took, 1e-9):.0f} a second, {failures.total()} failed", flush=True)
    return done, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, shared out by how slow a target is")
    parser.add_argument("--target", help="this one alone")
    parser.add_argument("--seconds", type=float, default=1e9, help="no longer than this for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="without the large inputs, which take seconds each")
    parser.add_argument("--repeat", metavar="FILE", help="an input that failed")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGPROF, on_alarm)
    if options.repeat:
        one_input(TARGETS[options.target], Path(options.repeat).read_bytes(), True)
        print("nothing is wrong")
        return 0
    names = [options.target] if options.target else list(TARGETS)
    share = sum(1 / TARGETS[name].cost for name in names)
    total, failed = 0, 0
    for name in names:
        inputs = round(options.inputs / TARGETS[name].cost / share)
        done, failures = run(name, inputs, options.seed, options.seconds, not options.small)
        total += done
        failed += len(failures)
    print(f"{total} inputs, {failed} kinds of failure")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
