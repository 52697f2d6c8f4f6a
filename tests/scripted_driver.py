"""Programs on a watched driver, with and without the layer: the scripted driver of tests/driver, which counts and
watches by itself, or RADV below the layer of tests/witness, which does it in its place."""

from __future__ import annotations

import itertools
import json
import struct
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from world import BUILD, LAYER_NAME, WITNESS, Run, World, seen

from pylayer.cli import verify as command

#: A counter of tests/driver/counts.c.
COUNTER = struct.Struct("<24sQ")


def read_counts(path: Path) -> dict[str, int]:
    data = path.read_bytes() if path.exists() else b""
    return {name.rstrip(b"\0").decode(): value for name, value in COUNTER.iter_unpack(data)}


class ScriptedDriver:
    """A world with the scripted driver; tests/driver/driver.h says what ``script`` can hold. With a ``world`` it is
    that world's own driver, which takes no script.

    After every run the witness has no violation, unless ``allow`` is given, and what is in the store verifies."""

    def __init__(self, directory: Path, world: World | None = None) -> None:
        self.world = world or World(directory, "test")
        self.takes_scripts = world is None
        self.directory = directory
        self.witness = directory / "witness"
        self.numbers = itertools.count()
        self.counts: dict[str, int] = {}
        self.lines_before = 0
        #: The last run under a fault of ``compiles_after``, and its counters.
        self.under_fault = Run()
        self.counts_under_fault: dict[str, int] = {}
        self.settings()

    def layers(self, layered: bool) -> str | None:
        """VK_INSTANCE_LAYERS of a program, with the layer and without."""
        layers = [LAYER_NAME] if layered else []
        return ":".join(layers if self.takes_scripts else [*layers, WITNESS]) or None

    def settings(self, **settings: Any) -> None:
        """Policy settings from now on. A busy machine loads and writes the store, and judges a program's data, later
        than programs wait for it by default."""
        config = self.directory / "policy.yaml"
        patient = {"load_wait_ms": 60000, "answer_wait_ms": 10000, "flush_wait_ms": 60000}
        config.write_text(json.dumps({"settings": {**patient, **settings}}))
        self.world.environment["PYLAYER_CONFIG"] = str(config)

    def environment(self, script: str) -> dict[str, str]:
        """Of one process; its counters are read with ``take_counts``."""
        assert self.takes_scripts or not script
        self.lines_before = len(self._all_lines())
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

    def _all_lines(self) -> list[str]:
        return self.witness.read_text().splitlines() if self.witness.exists() else []

    def lines(self, first_word: str) -> list[str]:
        """What the witness wrote of the last process."""
        return [line for line in self._all_lines()[self.lines_before :] if line.startswith(f"{first_word} ")]

    @property
    def violations(self) -> list[str]:
        """Uses of the driver that Vulkan forbids, and bytes that it never gave out."""
        return self.lines("VIOLATION")

    @property
    def hazards(self) -> list[str]:
        """What RADV is known to do wrong."""
        return self.lines("HAZARD")

    @property
    def devices(self) -> list[str]:
        """How the last process asked the driver for devices: the result, the chain and the extensions."""
        return self.lines("device")

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
        *arguments: str | int | Path,
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
            layers=self.layers(layered),
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
        *arguments: str | int | Path,
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
            VK_INSTANCE_LAYERS=self.layers(layered),
            **self.environment(script),
            **environment,
        )
        self._check(allow, False)
        return process

    def application(self, *arguments: str | int | Path, **options: Any) -> Run:
        """The program that uses VK_KHR_pipeline_binary, with the options of ``program``."""
        process = self.program("binaries", *arguments, **options)
        return Run.of(process)
