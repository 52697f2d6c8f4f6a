"""Runs programs with and without the layer on the scripted driver of tests/driver, whose witness counts calls and
checks every byte."""

from __future__ import annotations

import itertools
import struct
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from pipeline_binaries import APPLICATION
from world import BUILD, LAYER_NAME, Run, World, said, seen

from pylayer.cli.ls import ls

#: The demo program.
DEMO = (str(BUILD / "demo" / "pipelines"), "--json")
#: A counter of tests/driver/script.c.
COUNTER = struct.Struct("<24sQ")


def read_counts(path: Path) -> dict[str, int]:
    data = path.read_bytes() if path.exists() else b""
    return {name.rstrip(b"\0").decode(): value for name, value in COUNTER.iter_unpack(data)}


class ScriptedDriver:
    """A world with the scripted driver. tests/driver/driver.h documents ``script``.

    Every run asserts that the witness has no violation, unless ``allow`` is given."""

    def __init__(self, directory: Path, driver: str = "test") -> None:
        #: On another driver scripts have no effect, and nothing is counted.
        self.world = World(directory, driver)
        self.directory = directory
        self.witness = directory / "witness"
        self.numbers = itertools.count()
        self.counts: dict[str, int] = {}
        self.lines_before = 0
        #: The last run with a fault in ``compiles_after``, and its counters.
        self.under_fault = Run()
        self.counts_under_fault: dict[str, int] = {}
        self.settings()

    def settings(self, **settings: Any) -> None:
        """Writes policy settings for later runs."""
        self.world.configure(**settings)

    def environment(self, script: str) -> dict[str, str]:
        """Returns the environment of one process. Read its counters with ``take_counts``."""
        self.lines_before = len(self._all_lines())
        self.counts_file = self.directory / f"counts-{next(self.numbers)}"
        return {
            "PYLAYER_TEST_DRIVER": script,
            "PYLAYER_TEST_DRIVER_WITNESS": str(self.witness),
            "PYLAYER_TEST_DRIVER_COUNTS": str(self.counts_file),
        }

    def take_counts(self) -> dict[str, int]:
        """Returns the counters of what reached the driver in the last process."""
        self.counts = read_counts(self.counts_file)
        return self.counts

    def _all_lines(self) -> list[str]:
        return self.witness.read_text().splitlines() if self.witness.exists() else []

    def lines(self, first_word: str) -> list[str]:
        """Returns the witness's lines about the last process that begin with this word."""
        return [line for line in self._all_lines()[self.lines_before :] if line.startswith(f"{first_word} ")]

    @property
    def violations(self) -> list[str]:
        """Lines about uses of the driver that Vulkan forbids, and about bytes that it never returned."""
        return self.lines("VIOLATION")

    @property
    def devices(self) -> list[str]:
        """Lines about each vkCreateDevice of the last process: the result, the chain and the extensions."""
        return self.lines("device")

    def verify(self) -> None:
        """Asserts that `pylayer ls --verify` finds nothing wrong in the store. It runs in this process, because
        starting another one takes longer than the check."""
        if not self.world.store.exists():
            return
        done = CliRunner().invoke(ls, ["--verify", "--json"], env={"PYLAYER_STORE": str(self.world.store)})
        assert done.exit_code == 0, done.output

    def demo(self, *arguments: str | int | Path, verify: bool = False, **options: Any) -> Run:
        """Runs the demo program, with the options of ``program``. ``verify`` verifies the store afterwards."""
        result = Run.of(self.program(DEMO, *arguments, **options))
        if verify:
            self.verify()
        return result

    def compiles_after(self, script: str, *arguments: str | int, first: str | None = None) -> int:
        """Asserts that two runs with a fault see what the program sees without the layer. ``first`` is another fault
        for the first run. Then a run without faults may compile what the faults kept from the store, and the store must
        verify. If that run compiled, another one follows. Returns how many pipelines the last run compiled."""
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
        """Returns the layer's warnings and errors."""
        return "\n".join(said(result.stderr, "warn", "err"))

    def program(
        self,
        name: str | tuple[str, ...],
        *arguments: str | int | Path,
        script: str = "",
        layered: bool = True,
        check: bool = True,
        allow: bool = False,
        **environment: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of the programs that the tests build, or another command. ``allow`` permits violations."""
        command = [str(BUILD / "tests" / name)] if isinstance(name, str) else name
        process = self.world.run(
            [*command, *map(str, arguments)],
            check=check,
            VK_INSTANCE_LAYERS=LAYER_NAME if layered else None,
            **self.environment(script),
            **environment,
        )
        self.take_counts()
        assert allow or not self.violations
        return process

    def recipe(self, lines: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs a recipe (tests/recipes/main.c), with the options of ``program``. What is printed about a line begins
        with its name."""
        file = self.directory / "test.recipe"
        file.write_text(lines)
        process = self.program("recipes", *options, file, **more)
        process.stdout = process.stdout.replace("test.", "")
        return process

    def application(self, *arguments: str | int | Path, **options: Any) -> Run:
        """Runs the program that uses VK_KHR_pipeline_binary, with the options of ``program``."""
        return Run.of(self.program(APPLICATION, *arguments, **options))
