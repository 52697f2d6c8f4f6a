"""A machine that never compiled starts warm, as a table: ``make fleet-demo``.

A builder runs the demo program, exports what it compiled and publishes it to a directory, which nginx serves as
docs/fleets.md shows. A second, empty home pulls it and runs the same program. Then the driver changes overnight:
the builder compiles what it recorded for the new one, without the program, and publishes that, too. Another card of
RADV's stands for the new driver, so a machine with a GPU shows only the first half. On a third machine the program runs
without the layer: a pull fills the driver's own cache there. Exit status 1 when a run of the second or third machine
compiled something.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from demo.demo import (
    COMPILED,
    NO_DRIVER_CACHES,
    PROGRAM,
    PYLAYER,
    DemoError,
    counters_of_last_run,
    environment,
    has_gpu,
)
from demo.demo import run as run_program
from fleet.fleets import nginx
from rich import box
from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """What a machine did, how long it took, and what came of it."""

    who: str
    what: str
    seconds: float
    result: str


class Home:
    """A machine with a home of its own."""

    def __init__(self, who: str, directory: Path, gpu: bool, rows: list[Row]) -> None:
        self.who = who
        self.store = directory / "store"
        self.config = self.store / "config" / "pylayer" / "policy.yaml"
        self.config.parent.mkdir(parents=True, mode=0o700)
        self.store.chmod(0o700)
        self._environment = {**environment(self.store, gpu), "HOME": str(directory)}
        self.rows = rows

    def policy(self, url: str, key: str, **more: str) -> None:
        """Writes the policy file."""
        keys = [{"name": "builder", "key": key}]
        self.config.write_text(json.dumps({"fleet": {"url": url, "keys": keys}, **more}))

    def keep_driver_cache(self) -> None:
        """From now on the driver has a disk cache."""
        for name in NO_DRIVER_CACHES:
            del self._environment[name]
        self._environment["XDG_CACHE_HOME"] = str(self.store.parent)

    def change_driver(self) -> None:
        """From now on the machine has another one."""
        self._environment["RADV_FORCE_FAMILY"] = "navi31"

    def pylayer(self, what: str, *arguments: str) -> str:
        """Runs a command, and returns what it prints."""
        started = time.monotonic()
        done = subprocess.run([PYLAYER, *arguments], env=self._environment, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise DemoError(f"pylayer {' '.join(arguments)}: {done.stdout}{done.stderr}".rstrip())
        if what:
            self.rows.append(Row(self.who, what, time.monotonic() - started, ""))
        return done.stdout

    def run(self, what: str, count: int) -> int:
        """Runs the program; returns how many pipelines it compiled."""
        command = [PYLAYER, "run", "--", PROGRAM.resolve(), "--count", str(count), "--json"]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise DemoError(f"{PROGRAM}: {done.stdout}{done.stderr}".rstrip())
        counters = counters_of_last_run(self.store)
        compiled = sum(counters[key] for key in COMPILED)
        seconds = json.loads(done.stdout)["create_ns_total"] / 1e9
        self.rows.append(Row(self.who, what, seconds, f"{compiled} compiled, {counters['hits']} hits"))
        return compiled

    def run_without_layer(self, what: str, count: int) -> int:
        """Runs the program, in which the driver may compile nothing; returns how many pipelines it lacked."""
        command = [str(PROGRAM), "--count", str(count), "--fail-on-compile-required", "--json"]
        said = run_program(command, self._environment)
        lacking = said["compile_required"]
        result = f"{lacking} to compile, {said['created']} found"
        self.rows.append(Row(self.who, what, said["create_ns_total"] / 1e9, result))
        return int(lacking)


def told(rows: list[Row], result: str) -> None:
    """Adds what came of the last row."""
    rows[-1].result = result


def show(rows: list[Row]) -> None:
    """The table."""
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("machine", "does", "time", ""):
        table.add_column(title, justify="right" if title == "time" else "left", no_wrap=True)
    for row in rows:
        table.add_row(row.who, row.what, f"{row.seconds * 1000:.0f} ms", row.result)
    Console(highlight=False).print(table)


def publish(builder: Home, key: str, export: Path) -> None:
    """The builder gives out what it has."""
    export.unlink(missing_ok=True)
    told(builder.rows, first(builder.pylayer("export", "export", str(export), "--app", "*", "--sign", key)))
    told(builder.rows, first(builder.pylayer("publish", "fleet", "publish", str(export), "--key", key)))


def pull(machine: Home, what: str = "pull") -> None:
    """The machine takes what was given out."""
    told(machine.rows, first(machine.pylayer(what, "fleet", "pull")))


def first(text: str) -> str:
    """What a command says of what it did."""
    return text.partition("\n")[0].partition(": ")[2]


def demonstrate(count: int, directory: Path) -> int:
    """Does everything; returns how many pipelines the machines compiled that pull."""
    rows: list[Row] = []
    gpu = has_gpu()
    names = ("builder", "empty home", "without layer")
    builder, machine, bare = (Home(who, directory / who.replace(" ", "-"), gpu, rows) for who in names)
    key, www = str(directory / "builder.key"), directory / "www"
    public = builder.pylayer("", "key", key, "--new").rpartition(": ")[2].strip()
    builder.policy(f"file://{www}", public)
    builder.run("runs it", count)
    publish(builder, key, directory / "export")
    with nginx(directory / "nginx", www) as url:
        machine.policy(url, public)
        pull(machine)
        compiled = machine.run("runs it", count)
        if not gpu:
            bare.policy(url, public, warm="after-pull")
            bare.keep_driver_cache()
            pull(bare, "pull, warm")
            compiled += bare.run_without_layer("runs it", count)
            builder.change_driver()
            told(rows, first(builder.pylayer("rebuild, new driver", "rebuild")))
            publish(builder, key, directory / "export")
            machine.change_driver()
            pull(machine)
            compiled += machine.run("runs, new driver", count)
    show(rows)
    return compiled


def main() -> int:
    """Runs the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000, help="pipelines to create (default 1000)")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="pylayer-fleet-demo-") as directory:
            compiled = demonstrate(options.count, Path(directory))
    except (DemoError, OSError, subprocess.TimeoutExpired) as error:
        print(f"fleet-demo: {error}", file=sys.stderr)
        return 1
    print("The other machines compiled nothing." if not compiled else f"They still compiled {compiled} pipelines.")
    return 1 if compiled else 0


if __name__ == "__main__":
    sys.exit(main())
