"""Installs the wheel of dist/ into an empty environment, with nothing in PATH that could compile, and uses it there.

    make check-wheel

It ends with status 1 and says what went wrong, or prints one line.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from world import BUILD, clean_environment, driver_environment

DEMO = BUILD / "demo" / "pipelines"
COUNT = 20

#: Modules of the standard library that need libraries which not every system has.
POLICY = """
import bz2, ctypes, hashlib, json, lzma, sqlite3, sys, uuid, zlib
from pylayer.policy import Policy

class Mine(Policy):
    def __init__(self):
        super().__init__()
        rows = sqlite3.connect(":memory:").execute("select 6 * 7").fetchall()
        data = zlib.decompress(zlib.compress(lzma.decompress(lzma.compress(bz2.decompress(bz2.compress(b"bytes"))))))
        print("wheel", json.dumps([rows[0][0], data.decode(), ctypes.sizeof(ctypes.c_int), sys.prefix]))
"""


def fail(message: str) -> None:
    sys.exit(f"check-wheel: {message}")


class Machine:
    """A virtual environment, a home, and an environment in which they are all that there is."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True)
        self.bin = directory / "venv" / "bin"
        self.environment = {
            **clean_environment(),
            **driver_environment("radv"),
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self.environment.pop("CC", None)

    def run(self, *command: str | Path, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        program = shutil.which(str(command[0]), path=str(self.bin)) or str(command[0])
        done = subprocess.run(
            [program, *map(str, command[1:])],
            env={**self.environment, **environment},
            cwd=self.directory,
            capture_output=True,
            text=True,
        )
        if done.returncode != status:
            fail(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def pip(self, *arguments: str | Path) -> None:
        """Runs this environment's pip on the other one, which takes less time than putting a pip into it."""
        self.run(sys.executable, "-m", "pip", "--python", self.bin / "python", "--quiet", *arguments)

    def json(self, *command: str) -> Any:
        return json.loads(self.run("pylayer", *command, "--json").stdout)


def check(machine: Machine, wheel: Path) -> None:
    for compiler in ("cc", "gcc", "clang", "ld", "strip"):
        if shutil.which(compiler, path=machine.environment["PATH"]):
            fail(f"{compiler} is in PATH")
    machine.pip("install", "--no-compile", "--only-binary", ":all:", wheel)
    if not machine.json("doctor")["works"]:
        fail("doctor finds a problem")
    for _ in range(2):
        machine.run("pylayer", "run", "--", DEMO, "--count", str(COUNT))
    (row,) = machine.json("stats")["programs"]
    if (row["compiled"], row["hits"]) != (COUNT, COUNT):
        fail(f"two runs of {COUNT} pipelines compiled {row['compiled']} and hit {row['hits']}")
    own = machine.directory / "own"
    own.mkdir()
    (own / "mine.py").write_text(POLICY)
    (own / "policy.yaml").write_text("policy: mine:Mine\n")
    done = machine.run("pylayer", "run", "--log", "debug", "--policy", own / "policy.yaml", "--", DEMO, "--count", "4")
    if '[42, "bytes", 4, "' + str(machine.directory) not in done.stderr:
        fail(f"a policy class does not find its modules\n{done.stderr}")
    machine.run("pylayer", "install", "--implicit")
    (before,) = machine.json("stats")["programs"]
    machine.pip("install", "--no-compile", "--no-deps", "--force-reinstall", wheel)
    machine.run(DEMO, "--count", str(COUNT), ENABLE_PYLAYER="1")
    (row,) = machine.json("stats")["programs"]
    if row["hits"] - before["hits"] != COUNT:
        fail(f"installed and upgraded, a run of {COUNT} pipelines has {row['hits'] - before['hits']} hits")
    machine.run("pylayer", "uninstall")
    left = [path for path in (machine.home / ".local").rglob("*") if "pylayer" in path.name]
    machine.pip("uninstall", "--yes", "vk-pylayer")
    left += [path for path in (machine.directory / "venv").rglob("*pylayer*") if "__pycache__" not in path.parts]
    if left:
        fail(f"uninstall leaves {left[0]}")


def main() -> None:
    began = time.monotonic()
    wheels = sorted(Path(sys.argv[1]).resolve().glob("*.whl"))
    if len(wheels) != 1:
        fail(f"{len(wheels)} wheels in {sys.argv[1]}")
    with tempfile.TemporaryDirectory(prefix="pylayer-wheel-") as scratch:
        check(Machine(Path(scratch)), wheels[0])
    print(f"check-wheel: {wheels[0].name} works without a compiler ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
