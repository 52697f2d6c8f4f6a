"""The scripted driver of tests/driver: programs on it, with and without the layer, its counters and its witness."""

from __future__ import annotations

import itertools
import json
import struct
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from world import BUILD, LAYER_NAME, Run, World

from pylayer.cli import verify as command

#: A counter of tests/driver/counts.c.
COUNTER = struct.Struct("<24sQ")

#: What the program sees of its pipelines.
SEEN = ("pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")


def seen(result: Run) -> dict[str, Any]:
    """What the program saw, and how it ended."""
    return {**{key: result.get(key) for key in SEEN}, "returncode": result.returncode}


def read_counts(path: Path) -> dict[str, int]:
    data = path.read_bytes() if path.exists() else b""
    return {name.rstrip(b"\0").decode(): value for name, value in COUNTER.iter_unpack(data)}


class ScriptedDriver:
    """A world with the scripted driver; tests/driver/driver.h says what ``script`` can hold.

    After every run the witness has no violation, unless ``allow`` is given, and what is in the store verifies."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory, "test")
        self.directory = directory
        self.witness = directory / "witness"
        self.numbers = itertools.count()
        self.counts: dict[str, int] = {}
        #: The last run under a fault of ``compiles_after``, and its counters.
        self.under_fault = Run()
        self.counts_under_fault: dict[str, int] = {}
        self.settings()

    def settings(self, **settings: Any) -> None:
        """Policy settings from now on. A busy machine loads and writes the store, and judges a program's data, later
        than programs wait for it by default."""
        config = self.directory / "policy.yaml"
        patient = {"load_wait_ms": 60000, "answer_wait_ms": 10000, "flush_wait_ms": 60000}
        config.write_text(json.dumps({"settings": {**patient, **settings}}))
        self.world.environment["PYLAYER_CONFIG"] = str(config)

    def environment(self, script: str) -> dict[str, str]:
        """Of one process; its counters are read with ``take_counts``."""
        self.counts_file = self.directory / f"counts-{next(self.numbers)}"
        return {
            "PYLAYER_TEST_DRIVER": script,
            "PYLAYER_TEST_DRIVER_WITNESS": str(self.witness),
            "PYLAYER_TEST_DRIVER_COUNTS": str(self.counts_file),
        }

    def take_counts(self) -> dict[str, int]:
        """What reached the driver in the last process."""
        self.counts = read_counts(self.counts_file)
        return self.counts

    @property
    def violations(self) -> list[str]:
        lines = self.witness.read_text().splitlines() if self.witness.exists() else []
        return [line for line in lines if line.startswith("VIOLATION")]

    def verify(self) -> None:
        """`pylayer verify` finds nothing wrong in the store. It runs in this process, which saves more time than the
        program takes."""
        if not self.world.store.exists():
            return
        done = CliRunner().invoke(command.verify, ["--json"], env={"PYLAYER_STORE": str(self.world.store)})
        assert done.exit_code == 0, done.output

    def _check(self, allow: bool, verify: bool) -> None:
        self.take_counts()
        assert allow or not self.violations
        if verify:
            self.verify()

    def demo(
        self,
        *arguments: str | int,
        script: str = "",
        layered: bool = True,
        check: bool = True,
        allow: bool = False,
        verify: bool = False,
        **environment: Any,
    ) -> Run:
        """The demo program; ``allow`` lets the witness see violations, ``verify`` verifies the store afterwards."""
        result = self.world.demo(
            *arguments,
            layers=LAYER_NAME if layered else None,
            check=check,
            **self.environment(script),
            **environment,
        )
        self._check(allow, verify)
        return result

    def compiles_after(self, script: str, *arguments: str | int, first: str | None = None) -> int:
        """Two runs under a fault see what the program sees without the layer, or the first run has another one. Then
        the store verifies. A run without faults may compile what the faults kept from the store, and a second run
        follows if it did. Returns what the last run compiled."""
        alone = seen(self.demo(*arguments, layered=False, script=script, check=False))
        for number in range(2):
            under = first if first is not None and number == 0 else script
            result = self.demo(*arguments, script=under, check=False)
            assert seen(result) == alone if under == script else result.returncode == 0
        self.under_fault, self.counts_under_fault = result, self.counts
        self.demo(*arguments, verify=True)
        if self.counts["compiles"]:
            self.demo(*arguments)
        return self.counts["compiles"]

    @staticmethod
    def warnings(result: Run) -> str:
        """What the layer said to everybody."""
        return "\n".join(
            line for line in result.stderr.splitlines() if "pylayer: warn" in line or "pylayer: err" in line
        )

    def program(
        self,
        name: str,
        *arguments: str | int,
        script: str = "",
        layered: bool = True,
        check: bool = True,
        allow: bool = False,
        **environment: Any,
    ) -> subprocess.CompletedProcess[str]:
        """One of the programs that the tests build."""
        process = self.world.run(
            [str(BUILD / "tests" / name), *map(str, arguments)],
            check=check,
            VK_INSTANCE_LAYERS=LAYER_NAME if layered else None,
            **self.environment(script),
            **environment,
        )
        self._check(allow, False)
        return process
