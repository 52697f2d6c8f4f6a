"""A machine that never compiled starts warm, as a table: ``make fleet-demo``.

A builder runs the demo program, exports what it compiled and publishes it to a directory, which nginx serves as
docs/fleets.md shows. A second, empty home pulls it and runs the same program. Then the driver changes overnight:
the builder compiles what it recorded for the new one, without the program, and publishes that, too. Another card of
RADV's stands for the new driver. On a third machine the program runs without the layer: a pull fills the driver's own
cache there. Exit status 1 when a run of the second or third machine compiled something.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cli.user import DEMO, User
from fleet.fleets import nginx

NEW_DRIVER = {"RADV_FORCE_FAMILY": "navi31"}


class Home(User):
    """A machine with a home of its own, which prints who does what, how long it takes, and what comes of it."""

    def __init__(self, who: str, directory: Path) -> None:
        (directory / who).mkdir()
        super().__init__(directory / who)
        self.who = who

    def row(self, what: str, seconds: float, result: str) -> None:
        print(f"{self.who:14} {what:20} {seconds * 1000:6.0f} ms  {result}")

    def does(self, what: str, *words: object, **environment: str) -> None:
        """Runs a command, which says first what it did."""
        started = time.monotonic()
        said = self.says(*words, **environment)
        self.row(what, time.monotonic() - started, said.partition("\n")[0].partition(": ")[2])

    def runs(self, what: str, count: int, layer: bool = True, **environment: str) -> int:
        """Runs the program. Returns how many pipelines it compiled, or without the layer how many it lacked."""
        command = [str(DEMO), "--count", str(count), "--json"]
        command = self.process(("run", "--", *command))["args"] if layer else [*command, "--fail-on-compile-required"]
        given = {"env": self.environment | environment, "cwd": self.directory}
        said = json.loads(subprocess.run(command, **given, check=True, capture_output=True).stdout)
        lacked, found = said["compile_required"], said["created"]
        if layer:
            last = self.json("stats", "--runs")["processes"][0]
            lacked, found = last["compiled"], last["hits"]
        self.row(what, said["create_ns_total"] / 1e9, f"{lacked} compiled, {found} hits")
        return int(lacked)


def demonstrate(count: int, directory: Path) -> int:
    """Does everything; returns how many pipelines the machines compiled that pull."""
    builder, machine, bare = (Home(who, directory) for who in ("builder", "empty home", "without layer"))
    keys = [{"name": "builder", "key": builder.public_key("key", "--new")}]

    def publish() -> None:
        (builder.directory / "new").unlink(missing_ok=True)
        builder.does("export", "export", "new", "--app", "*", "--sign", "key", **driver)
        builder.does("publish", "fleet", "publish", "new", "--key", "key")

    driver: dict[str, str] = {}
    builder.policy_file.write_text(json.dumps({"fleet": {"url": f"file://{directory}/www", "keys": keys}}))
    builder.runs("runs it", count)
    publish()
    with nginx(directory / "nginx", directory / "www") as url:
        machine.policy_file.write_text(json.dumps({"fleet": {"url": url, "keys": keys}}))
        machine.does("pull", "fleet", "pull")
        compiled = machine.runs("runs it", count)
        bare.policy_file.write_text(json.dumps({"fleet": {"url": url, "keys": keys}, "warm": "after-pull"}))
        bare.environment["MESA_SHADER_CACHE_DISABLE"] = "false"
        bare.does("pull, warm", "fleet", "pull")
        compiled += bare.runs("runs it", count, layer=False)
        driver |= NEW_DRIVER
        builder.does("rebuild, new driver", "rebuild", **driver)
        publish()
        machine.does("pull", "fleet", "pull", **driver)
        return compiled + machine.runs("runs, new driver", count, **driver)


def main() -> int:
    """Runs the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000, help="pipelines to create (default 1000)")
    with tempfile.TemporaryDirectory(prefix="pylayer-fleet-demo-") as directory:
        compiled = demonstrate(parser.parse_args().count, Path(directory))
    print("The other machines compiled nothing." if not compiled else f"They still compiled {compiled} pipelines.")
    return 1 if compiled else 0


if __name__ == "__main__":
    sys.exit(main())
