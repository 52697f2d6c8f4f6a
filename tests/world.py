"""A world in which tests run programs: drivers without a GPU, a store, manifests, and the demo program.

A test fails if something is missing: `make test` installs and builds everything.
"""

from __future__ import annotations

import glob
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import others
import radv

import pylayer
from pylayer import LAYER_NAME
from pylayer.__main__ import main
from pylayer.common import file_kinds
from pylayer.report import recorded
from pylayer.store.cache_history import Known, known_in
from pylayer.store.folder import Folder, read_identity
from pylayer.store.reader import parts_of
from pylayer.store.runs import read_all

ROOT = Path(__file__).resolve().parents[1]
#: Variables with which tests/sanitize/run.py names its own programs and its own package with an instrumented layer.
OTHER_BUILD = ("PYLAYER_TEST_BUILD", "PYLAYER_TEST_PACKAGE")
BUILD = Path(os.environ.get("PYLAYER_TEST_BUILD", ROOT / "build"))
PACKAGE = Path(os.environ.get("PYLAYER_TEST_PACKAGE", Path(pylayer.__file__).parent))

#: Prefixes of variables that the shell may have set and that must not reach a test.
FOREIGN = ("VK_", "PYLAYER_", "MESA_", "RADV_", "AMDGPU_", "XDG_", "PYTHON", "QSG_", "QT_")


# The layer refuses what others may write to, so what tests create has the modes of umask 022, or of 002 if the user's
# group is private.
if not others.private_group():
    os.umask(os.umask(0o022) | 0o022)


def icd_file(name: str) -> str:
    found = sorted(glob.glob(f"/usr/share/vulkan/icd.d/{name}_icd*.json"))
    assert found, f"the driver {name} is not installed; `make test` installs it"
    return found[0]


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key in OTHER_BUILD or not key.startswith(FOREIGN)}


def driver_environment(driver: str) -> dict[str, str]:
    """Returns the variables that select a driver: RADV null hardware (``radv``) or Lavapipe (``lavapipe``), without
    Mesa's disk cache; the scripted driver of tests/driver (``test``); or the driver that the environment names
    (``here``), for measurements on other machines."""
    if driver == "here":
        return {key: value for key, value in os.environ.items() if key.startswith(("VK_", "MESA_", "RADV_", "AMDGPU_"))}
    if driver == "test":
        icd = str(BUILD / "tests" / "driver" / "test_driver.json")
        return {"VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd}
    icd = icd_file({"radv": "radeon", "lavapipe": "lvp"}[driver])
    environment = {"VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd, "MESA_SHADER_CACHE_DISABLE": "1"}
    environment["NODEVICE_SELECT"] = "1"  # Mesa's implicit layer: 1.5 ms of each program's 25
    return environment | (radv.gpu("navi21") if driver == "radv" else {})


#: Parts of a log line: the time, and after the sentence its facts as key=value, with the pid last.
LOG_TIME = re.compile(r"^(pylayer: \w+: )\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", re.MULTILINE)
LOG_FIELDS = re.compile(r"^(pylayer: \w+: .*?)(?: \w+=(?:\"(?:[^\"\\\n]|\\.)*\"|[^\s\"]+))* pid=\d+$", re.MULTILINE)


def sentences(text: str) -> str:
    """Returns log lines without the parts that differ from run to run."""
    return LOG_FIELDS.sub(r"\1", LOG_TIME.sub(r"\1", text))


def said(text: str, *levels: str) -> list[str]:
    """Returns the layer's lines in what a program wrote: all of them, or those of these levels."""
    beginnings = tuple(f"pylayer: {level}" for level in levels or ("",))
    return [line for line in text.splitlines() if line.startswith(beginnings)]


#: Variables that the C library, the linker or Python reads when a process starts.
AT_START = ("ASAN_", "GLIBC_", "LANG", "LC_", "LD_", "LSAN_", "MALLOC_", "PYTHON", "TSAN_", "TZ", "UBSAN_")


#: Commands that may use obstore. Its threads are none of a fork's: a command there would wait for them for ever.
USE_STORAGE = {"export", "fleet", "run"}


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """A command asks drivers in children of its own, so what only they need to be loaded does not count."""
    return {key: value for key, value in environment.items() if key.startswith(AT_START) and value != radv.DRM_SHIM}


def run_pylayer(
    arguments: list[str], environment: dict[str, str], directory: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Returns what ``subprocess.run`` returns for ``python -m pylayer``. A command changes signals, the environment and
    its outputs, and may become another program, so it needs a process. A fork of this one has imported most of what
    commands need, which takes longer than a short command. A command for which what is read at the start differs is
    started as a process of its own, and so is one for which this process has threads."""
    command = [sys.executable, "-m", "pylayer", *arguments]
    threads = "obstore" in sys.modules and USE_STORAGE & set(arguments[:2])
    if threads or _read_at_start(environment) != _read_at_start(clean_environment()):
        return subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, timeout=timeout)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:

        def become() -> None:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", 1)
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            time.tzset()
            sys.argv = ["pylayer", *arguments]
            sys.exit(main())

        process = multiprocessing.get_context("fork").Process(target=become)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(command, process.exitcode, out.read(), error.read())


class Run(dict[str, Any]):
    """The demo's JSON, with the process's ``stderr``, ``stdout`` and ``returncode``."""

    stderr: str
    stdout: str
    returncode: int

    @classmethod
    def of(cls, process: subprocess.CompletedProcess[str]) -> Run:
        """Returns the last line of JSON that a program printed, with its output and exit status."""
        lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
        result = cls(json.loads(lines[-1]) if lines else {})
        result.stdout, result.stderr, result.returncode = process.stdout, process.stderr, process.returncode
        return result


#: Keys of what a program sees of its device and its pipelines.
SEEN = ("driver", "device", "pipelines", "created", "failed", "null_handles", "compile_required", "calls", "results")


def seen(result: Run) -> dict[str, Any]:
    """Returns what the program saw and how it ended, which must be the same with and without the layer."""
    return {**{key: result.get(key) for key in SEEN}, "returncode": result.returncode}


#: With lines of policy to write, policy starts in vkCreateInstance.
AWAKE = {"PYLAYER_LOG": "info"}


class World:
    """One store, one set of manifests, and the environment in which programs run. As for users, the log has no lines
    below the level warn. A test that reads others asks for them with PYLAYER_LOG, and then policy starts in each
    program."""

    def __init__(self, directory: Path, driver: str = "radv") -> None:
        self.directory = directory
        self.store = directory / "store"
        self.manifests = directory / "manifests"
        self.manifests.mkdir()
        self.install_manifest(PACKAGE)
        #: Standard error of the last program that ``run`` ran, with complete log lines.
        self.raw_stderr = ""
        self.environment = {
            **clean_environment(),
            **driver_environment(driver),
            "VK_ADD_LAYER_PATH": f"{self.manifests}:{BUILD / 'tests'}",
            "VK_INSTANCE_LAYERS": LAYER_NAME,
            "PYLAYER_STORE": str(self.store),
            "PYLAYER_LOG": "warn",
            "HOME": str(directory / "home"),
            "PYLAYER_SYSTEM_CONFIG": str(directory / "etc" / "policy.yaml"),
            "PYLAYER_SYSTEM_STORE": str(directory / "system"),
        }

    def install_manifest(self, package: Path) -> None:
        template = (PACKAGE / "data" / "manifests" / "VkLayer_pylayer_pipeline_cache.json").read_text()
        library = package / "libVkLayer_pylayer_pipeline_cache.so"
        text = template.replace("../../libVkLayer_pylayer_pipeline_cache.so", str(library))
        (self.manifests / "VkLayer_pylayer_pipeline_cache.json").write_text(text)

    def configure(self, **settings: Any) -> None:
        """Writes policy settings for later runs."""
        self.environment |= self.policy(json.dumps({"settings": settings}))

    def policy(self, text: str) -> dict[str, str]:
        """Writes a policy file. Returns the variable that selects it."""
        path = self.directory / "policy.yaml"
        path.write_text(text)
        return {"PYLAYER_CONFIG": str(path)}

    def never_idle(self) -> dict[str, str]:
        """Returns the variable of a policy that is never idle. On a busy machine policy is idle between two pipelines,
        and then closes the journal and joins what is in it."""
        return self.policy_class(
            "from pylayer.inhost import host\n"
            "host.INTERVAL_NS = host.LAST_INTERVAL_NS = 1 << 60\n"
            "class Mine(Policy):\n"
            "    pass\n"
        )

    def policy_class(self, source: str, more: str = "") -> dict[str, str]:
        """Writes a module with the policy class Mine, and a policy file that names it and has ``more``. Returns the
        variable that selects it."""
        (self.directory / "mine.py").write_text(f"from pylayer.policy import Policy\n{source}")
        return self.policy(f"policy: mine:Mine\n{more}")

    def environment_with(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Returns the environment with these changes. A variable that is None is unset. Libraries that both preload are
        joined. The driver's comes first, because tests/storage makes its calls by number, past all others."""
        given = {key: value for key, value in {**self.environment, **changes}.items() if value is not None}
        if changes.get("LD_PRELOAD"):
            if "PYLAYER_TEST_REPORTS" in os.environ:
                import pytest

                pytest.skip("a sanitizer's runtime must be the first library (tests/sanitize)")
            given["LD_PRELOAD"] = f"{self.environment.get('LD_PRELOAD', '')}:{changes['LD_PRELOAD']}"
        return given

    def run(
        self,
        command: list[str],
        check: bool = True,
        timeout: float = 120,
        input: str | None = None,
        **environment: str | None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program with ``input`` on its standard input. A variable that is None is unset. With ``check``,
        asserts that the program exits with 0."""
        given = self.environment_with(environment)
        if command[:3] == [sys.executable, "-m", "pylayer"] and input is None:
            process = run_pylayer(command[3:], given, self.directory, timeout)
        else:
            process = subprocess.run(
                command, env=given, input=input, capture_output=True, text=True, timeout=timeout, cwd=self.directory
            )
        self.raw_stderr, process.stderr = process.stderr, sentences(process.stderr)
        if check:
            assert process.returncode == 0, f"exit {process.returncode}\n{process.stdout}\n{process.stderr}"
        return process

    def pylayer(
        self, *arguments: str | Path, check: bool = True, **environment: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of pylayer."""
        return self.run([sys.executable, "-m", "pylayer", *map(str, arguments)], check=check, **environment)

    def recipe(
        self, lines: str, *options: str, check: bool = True, **environment: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a recipe (tests/recipes/main.c). What is printed about a line begins with its name."""
        file = self.directory / "test.recipe"
        file.write_text(lines)
        process = self.run([str(BUILD / "tests" / "recipes"), *options, str(file)], check=check, **environment)
        process.stdout = process.stdout.replace("test.", "")
        return process

    def demo(
        self, *arguments: str | float | Path, check: bool = True, layers: str | None = LAYER_NAME, **environment: Any
    ) -> Run:
        """Runs the demo program. With ``layers`` None it runs without layers."""
        command = [str(BUILD / "demo" / "pipelines"), "--json", *map(str, arguments)]
        return Run.of(self.run(command, check=check, VK_INSTANCE_LAYERS=layers, **environment))

    def stored_files(self, *suffixes: str) -> list[Path]:
        """Returns the store's files with pipelines, oldest first, or only those with these suffixes."""
        wanted = suffixes or tuple(kind for kind in file_kinds.TABLE if kind.verified)
        return sorted(path for path in self.store.glob("store/*/*") if path.suffix in wanted)

    def known_data(self) -> list[Known]:
        """Returns what the store says of data that programs read or passed, oldest file first."""
        files = [(str(path), bytes.fromhex(path.parent.name)) for path in self.stored_files(file_kinds.ATTEST)]
        return [known for path, identity in files for part in parts_of(path, identity, []) for known in known_in(part)]

    def live_files(self) -> list[Path]:
        """Returns the crash markers in the store."""
        return self.stored_files(file_kinds.LIVE)

    def folder(self) -> Folder:
        """Returns the store's only folder."""
        (path,) = (self.store / "store").iterdir()
        identity = read_identity(str(self.store), path.name)
        assert identity is not None
        return Folder(str(self.store), identity)

    def runs(self) -> list[dict[str, Any]]:
        """Returns the statistics of every run, oldest first. What only policy counts is 0 in a run without policy, and
        not in its file."""
        policy = {"refused": {}, "stored_records": 0, "stored_bytes": 0}
        key = "cache_outcomes"
        return [{**policy, **run, key: recorded.Run(run).counts(key)} for run in read_all(str(self.store))]

    def without_policy(self, runs: int) -> bool:
        """Returns whether the layer wrote one of the last runs by itself. By chance, policy starts at the end of one
        run in 64."""
        return any("lost_records" not in run for run in self.runs()[-runs:])

    def outcomes(self) -> dict[str, int]:
        """Returns what became of initial data of the newest run's caches, and how often."""
        run = self.runs()[-1]
        return {**run["cache_outcomes"], **run["refused"]}

    def last(self) -> dict[str, int]:
        """Returns the counters of the newest run."""
        return self.runs()[-1]["counters"]  # type: ignore[no-any-return]


#: The driver of tests/driver compiles as slowly as RADV with it.
SLOW_COMPILES = "pipeline=slow:3?compile"


def quick_world(directory: Path) -> World:
    """Returns a world with the driver of tests/driver, which loads in a tenth of RADV's time, and here compiles as
    slowly as RADV. It is for tests of what does not depend on the driver."""
    world = World(directory, "test")
    world.environment["PYLAYER_TEST_DRIVER"] = SLOW_COMPILES
    return world


def until(process: subprocess.Popen[str], holds: Callable[[], object]) -> None:
    """Waits until this holds, while the process runs."""
    while not holds():
        assert process.poll() is None
        time.sleep(0.01)


def repeated(attempt: Callable[[], Any], tries: int = 20) -> Any:
    """Returns the first result of these tries that is true: what a busy machine has no time for in one, it has in
    another."""
    found = next(filter(None, (attempt() for _ in range(tries))), None)
    assert found is not None, f"none of {tries} tries did it"
    return found


def python_hosts() -> list[str]:
    """Returns the Python interpreters on this machine, one for each version, for tests of programs that are Python."""
    places = ("/usr/bin/python3.*", "/usr/local/bin/python3.*", f"{Path.home()}/.pyenv/versions/3.*/bin/python3")
    candidates = [path for place in places for path in sorted(glob.glob(place))] + [sys.executable]
    versions = {Path(path).resolve().name: path for path in candidates}
    return [path for name, path in sorted(versions.items()) if re.fullmatch(r"python3\.\d+", name)]
