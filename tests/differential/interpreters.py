"""Processes of build/tests/recipes, without the layer and with it, that run one program after the other."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path

from world import BUILD, World

from pylayer import LAYER_NAME

PROGRAM = BUILD / "tests" / "recipes"
#: After so many programs an interpreter is started anew, with an empty store: each device loads all of it.
PROGRAMS_A_STORE = 60


class Crash(Exception):
    """The interpreter ended in the middle of a program."""

    def __init__(self, who: str, output: list[str], status: int, messages: str) -> None:
        super().__init__(f"{who} ended with status {status} behind line {len(output)}\n{messages}")
        self.output = output


class Interpreter:
    """One environment, and a process in it while there is work."""

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        self.environment = environment
        self.directory = directory
        self.messages = directory / "messages"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        if self.process is None:
            with self.messages.open("w") as messages:
                self.process = subprocess.Popen(
                    [str(PROGRAM)],
                    env=self.environment,
                    cwd=self.directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=messages,
                    text=True,
                )
        return self.process

    def send(self, salt: int, lines: list[str]) -> None:
        """Begins a program; ``receive`` waits for what it printed."""
        process = self.start()
        assert process.stdin
        try:
            process.stdin.write("\n".join([f"begin {salt}", *lines, "end", ""]))
            process.stdin.flush()
        except BrokenPipeError:
            pass  # receive finds out

    def receive(self) -> list[str]:
        process = self.start()
        assert process.stdout
        output = []
        for line in process.stdout:
            if line == "end\n":
                return output
            output.append(line.rstrip("\n"))
        status = process.wait()
        self.stop()
        raise Crash(self.directory.name, output, status, self.messages.read_text()[-2000:])

    def stop(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.process.wait()
        self.process = None


class Outputs:
    """What one program printed: without the layer, and with it on an empty and on a filled store."""

    def __init__(self, driver: list[str], layer: dict[tuple[str, str], list[str]]) -> None:
        self.driver = driver
        self.layer = layer  # by (mode, "cold" or "warm")


class Bench:
    """The driver alone and the layer with each mode, for any number of programs."""

    def __init__(self, modes: tuple[str, ...]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="differential-"))
        self.worlds: dict[str, World] = {}
        self.interpreters: dict[str, Interpreter] = {}
        self.salts = itertools.count(16)
        self.programs = 0
        for name in ("driver", *modes):
            self.add(name)

    def add(self, name: str) -> None:
        directory = self.directory / name
        directory.mkdir()
        world = World(directory)
        config = directory / "policy.yaml"
        config.write_text(f"settings: {{mode: '{name}'}}\n")
        environment = {**world.environment, "PYLAYER_CONFIG": str(config), "PYLAYER_LOG": "info"}
        if name == "driver":
            del environment["VK_INSTANCE_LAYERS"]
        else:
            environment["VK_INSTANCE_LAYERS"] = LAYER_NAME
        self.worlds[name] = world
        self.interpreters[name] = Interpreter(environment, directory)

    def run(self, lines: list[str]) -> Outputs:
        """Every run of a program has shaders of its own, so its store is as good as empty the first time."""
        if self.programs % PROGRAMS_A_STORE == 0:
            self.renew()
        self.programs += 1
        try:
            return self._run(next(self.salts) & 0xFFFF, lines)
        except Crash:
            self.renew()
            raise

    def _run(self, salt: int, lines: list[str]) -> Outputs:
        layers = {name: one for name, one in self.interpreters.items() if name != "driver"}
        for interpreter in self.interpreters.values():
            interpreter.send(salt, lines)
        driver = self.interpreters["driver"].receive()
        outputs = {}
        for name, interpreter in layers.items():
            outputs[name, "cold"] = interpreter.receive()
            interpreter.send(salt, lines)
        for name, interpreter in layers.items():
            outputs[name, "warm"] = interpreter.receive()
        return Outputs(driver, outputs)

    def renew(self) -> None:
        self.stop()
        self.programs = 0
        for world in self.worlds.values():
            shutil.rmtree(world.store, ignore_errors=True)

    def stop(self) -> None:
        for interpreter in self.interpreters.values():
            interpreter.stop()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)
