"""Whatever happens to the layer's Python, and whatever a policy class does, the program goes on, and one line says why
the layer does nothing."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scripted_driver import ScriptedDriver
from world import BUILD, LAYER_NAME, PACKAGE, ROOT, Run, World, python_hosts, quick_world, repeated, said, seen

from pylayer.policy import Policy

HOST = Path(__file__).parent / "python_host.py"


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def assert_unharmed(world: World, reason: str, seconds: float = 10, **environment: str) -> None:
    """Asserts that the demo runs as without the layer, and that a log line has the reason."""
    result = world.demo("--count", 8, PYLAYER_LOG="info", **environment)
    assert result["created"] == 8 and result["results"] == [0]
    assert any(reason in line for line in said(result.stderr)), result.stderr
    assert result["create_instance_ns"] + result["create_device_ns"] < seconds * 1e9


def assert_silent(world: World, **environment: str) -> None:
    """Asserts that without PYLAYER_LOG the demo runs to its end and the layer writes nothing."""
    silent = world.demo("--count", 8, PYLAYER_LOG=None, **environment)
    assert silent["created"] == 8 and "pylayer" not in silent.stderr


@pytest.fixture
def broken(world: World, tmp_path: Path) -> Path:
    """Returns a copy of the installed package that a test may damage, with the manifest pointing to it."""
    copy = tmp_path / "site" / "pylayer"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("cli", "report"))
    world.install_manifest(copy)
    return copy


def test_package_that_was_never_compiled(world: World, broken: Path) -> None:
    """Without any __pycache__, in a package that cannot be written, policy compiles its modules in each run. It reads
    the policy file, writes statistics, and adds no file to the package."""
    for folder in [*broken.rglob("__pycache__")]:
        shutil.rmtree(folder)
    before = set(broken.rglob("*"))
    for path in before:
        path.chmod(path.stat().st_mode & ~0o222)
    world.configure(mode="observe")
    repeated(lambda: world.demo("--count", 8) and world.runs())  # in one, vkCreateDevice may not wait long enough
    assert world.runs()[-1]["mode"] == "observe"
    assert set(broken.rglob("*")) == before
    for path in before:
        path.chmod(path.stat().st_mode | 0o200)


def replace_by_another(library: Path) -> None:
    """Puts a library that has the name and nothing else in the place."""
    source = library.with_name("other.c")
    source.write_text("int Py_IsInitialized(void) { return 0; }\n")
    library.unlink()
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library, source], check=True)


LIBPYTHON, LIBRARY = "_private/lib/*", "_policy*.so"
#: What is damaged, what is done to it, and the reason that a line has.
DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no libpython": (LIBPYTHON, Path.unlink, "policy cannot start"),
    "another library as libpython": (LIBPYTHON, replace_by_another, "policy cannot start"),
    "half a libpython": (LIBPYTHON, lambda path: os.truncate(path, 4000), "policy cannot start"),
    "no policy library": (LIBRARY, Path.unlink, "policy cannot start"),
    "policy library of another build": (LIBRARY, replace_by_another, "policy cannot start"),
    "no packages inside": ("_private/site", shutil.rmtree, "_cffi_backend"),
}


@pytest.mark.parametrize(("what", "damage", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_package(world: World, broken: Path, what: str, damage: Callable[[Path], object], reason: str) -> None:
    """If a part of the package is missing or damaged, the program runs unharmed, with and without a kept plan, and a
    line has the reason if the user wants lines."""
    kept = str(world.directory / "kept")
    world.demo("--count", 8, PYLAYER_STORE=kept)
    for path in broken.glob(what):
        damage(path)
    assert_unharmed(world, reason)
    assert_silent(world)
    assert_silent(world, PYLAYER_STORE=kept)


# ---- policies that misbehave -------------------------------------------------------------------

BODIES = {
    "raises": "raise RuntimeError('no')",
    "exits": "raise SystemExit(3)",
    "interrupts": "raise KeyboardInterrupt",
    "returns nothing": "return None",
    "returns nonsense": "return object()",
    "recurses": "recurse = lambda: recurse()\n    recurse()",
    "calls sys.exit": "import sys; sys.exit(4)",
}


def write_policy(world: World, top: str = "", **methods: str) -> dict[str, str]:
    """Writes a policy class whose methods have these bodies. Returns the environment that enables it."""
    signatures = {"plan_device": "program, facts, settings", "keep_cell": "cell, program, settings"}
    signatures["device_destroyed"] = "program, facts, counters"
    text = f"{top}\nclass Mine(Policy):\n    pass\n"
    for name, body in methods.items():
        text += f"    def {name}(self, {signatures[name]}):\n        {body}\n"
    return world.policy_class(text)


def test_policy_that_fails_to_plan(world: World) -> None:
    """If plan_device fails, in whatever way, the program runs as without the layer."""
    # One body for each device, in turn, and a plan in between, so that the class is not switched off.
    functions = [f"def plan{n}(self, program, facts, settings):\n    {body}" for n, body in enumerate(BODIES.values())]
    names = ", ".join(f"plan{n}, Policy.plan_device" for n in range(len(BODIES)))
    top = "\n".join([*functions, f"PLANS = iter([{names}])"])
    environment = write_policy(world, top, plan_device="return next(PLANS)(self, program, facts, settings)")
    result = world.demo("--count", 8, "--repeat-instances", 2 * len(BODIES) - 1, PYLAYER_LOG="info", **environment)
    assert result["created"] == 8 and result["results"] == [0]
    assert result.stderr.count("policy failed") == len(BODIES)
    assert_silent(world, **environment)


def test_policy_that_imports_in_a_method(world: World) -> None:
    """A method can import a module of the standard library. No file beside the class hides it."""
    environment = write_policy(world, keep_cell="import colorsys; return bool(colorsys.rgb_to_hsv)")
    (world.directory / "colorsys.py").write_text("")
    result = world.demo("--count", 8, PYLAYER_LOG="info", **environment)
    assert "policy failed" not in result.stderr
    assert world.runs()[-1]["stored_records"] == 8


# ---- programs that are Python -------------------------------------------------------------------


#: The layer's own version in every way, two others in the most demanding one. test_hosts.py has every version.
PYTHONS = [("gil", sys.executable), ("nogil", sys.executable)]
PYTHONS += [("busy", interpreter) for interpreter in sorted({python_hosts()[0], python_hosts()[-1], sys.executable})]


@pytest.mark.parametrize(("gil", "interpreter"), PYTHONS)
def test_program_is_python(world: World, interpreter: str, gil: str) -> None:
    """A Python program of the same or another version, holding the GIL or not, compiles its pipelines once and ends
    normally."""
    words = ["nogil", "busy"] if gil == "busy" else [gil]
    command = [interpreter, str(HOST), str(BUILD / "demo" / "libpipelines.so"), *words, "--count", "12"]
    for _ in range(2):
        process = world.run(command)
        assert json.loads(process.stdout.splitlines()[-1])["status"] == 0
    first, second = (run["counters"] for run in world.runs())
    assert (first["compiled"], second["compiled"], second["hits"]) == (12, 0, 12)
    assert first["answers_late"] == second["answers_late"] == 0
    assert "python_host.py" in world.runs()[0]["program"]


# ---- the process ---------------------------------------------------------------------------------


#: Commands that the layer intercepts, the last four to record state.
INTERCEPTED = {
    "vkCreateShaderModule", "vkDestroyShaderModule", "vkCreatePipelineCache", "vkDestroyPipelineCache",
    "vkGetPipelineCacheData", "vkMergePipelineCaches", "vkCreateGraphicsPipelines", "vkCreateComputePipelines",
    "vkCreateSampler", "vkCreateDescriptorSetLayout", "vkCreatePipelineLayout", "vkCreateRenderPass",
}  # fmt: skip
OTHERS = {
    "vkGetDeviceQueue", "vkQueueSubmit", "vkAllocateMemory", "vkCreateBuffer", "vkCreateImageView", "vkDestroyPipeline",
    "vkUpdateDescriptorSets", "vkCreateFramebuffer", "vkBeginCommandBuffer", "vkCmdBindPipeline", "vkCmdDraw",
    "vkCmdDispatch", "vkCmdPushConstants", "vkCmdBeginRenderPass",
}  # fmt: skip


def test_functions_that_are_not_intercepted(real: World) -> None:
    """vkGetDeviceProcAddr returns the driver's pointer for commands that the layer does not intercept."""
    recipe = f"device control\nwhere {' '.join(INTERCEPTED | OTHERS)}\n"
    alone, under = (real.recipe(recipe, VK_INSTANCE_LAYERS=layers).stdout.split()[1:] for layers in (None, LAYER_NAME))
    assert len(alone) == len(under) == len(INTERCEPTED | OTHERS)
    assert {found.partition("=")[0] for found in {*alone} - {*under}} == INTERCEPTED


# ---- A policy class in a real process ------------------------------------------------------------


COUNT = 24
NO_PLAN = "policy gave no plan for the device"


@functools.cache
def seen_alone() -> dict[str, Any]:
    """Returns what the program sees without the layer, from one run for all tests."""
    with tempfile.TemporaryDirectory() as directory:
        return seen(quick_world(Path(directory)).demo("--count", COUNT, layers=None))


def run_unharmed(world: World, environment: dict[str, str], **more: str) -> Run:
    """Runs the demo and asserts that the program sees what it sees without the layer."""
    result = world.demo("--count", COUNT, **environment, **more)
    assert seen(result) == seen_alone()
    return result


def assert_next_run_hits(world: World, stored: int | None) -> None:
    """Asserts that a run without the class finds this many pipelines and compiles the rest, and that the next run finds
    all."""
    for hits in (stored, COUNT):
        world.demo("--count", COUNT)
        found = world.last()["hits"]
        assert hits in (None, found) and found + world.last()["compiled"] == COUNT


#: Calls that do not return: in Python, in C, and in C with the GIL.
STUCK = {
    "loops": "while True: pass",
    "blocks": "import time; time.sleep(1000)",
    "keeps the lock": "7 ** 7 ** 9",
}


def test_class_that_hangs(tmp_path: Path) -> None:
    """A method that does not return blocks the policy thread. The program goes on after vkDestroyDevice's deadline.

    All cases run at once, because the program waits for seconds before it goes on."""

    def run(way: str) -> tuple[World, Run]:
        (tmp_path / way).mkdir()
        world = quick_world(tmp_path / way)
        return world, run_unharmed(world, write_policy(world, keep_cell=STUCK[way]))

    seen_alone()
    with ThreadPoolExecutor(len(STUCK)) as pool:
        results = list(pool.map(run, STUCK))
    for world, result in results:
        (line,) = said(result.stderr, "warn")
        assert line == "pylayer: warn: policy did not finish writing before vkDestroyDevice went on"
        ((pipelines, ended),) = [(run["counters"]["pipelines"], run["ended"]) for run in world.runs()]
        assert pipelines == COUNT and ended > 0
        assert_next_run_hits(world, 0)


def test_queue_is_full_while_policy_is_stuck(scripted: ScriptedDriver) -> None:
    """While a hook blocks, compiled pipelines wait in the queue. Those that do not fit are dropped and counted."""
    body = (
        "import time; from pylayer.inhost import boundary\n"
        "        while boundary.counters(1)[0]['events_dropped'] == 0: time.sleep(0.01)\n        return True"
    )
    environment = write_policy(scripted.world, keep_cell=body)
    payload = 8 << 20
    result = scripted.demo("--count", 12, script=f"payload={payload}", **environment)
    assert (result["created"], result["results"]) == (12, [0])
    dropped, stored = scripted.world.last()["events_dropped"], scripted.world.runs()[-1]["stored_records"]
    assert dropped > 0 and dropped + stored == 12
    scripted.world.pylayer("trim")  # a process that ends within a compaction leaves cells in a journal and in a pack
    assert sum(path.stat().st_size for path in scripted.world.stored_files()) // payload == stored


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(1000)"])
def test_hook_that_hangs_at_exit(world: World, body: str) -> None:
    """At exit() with a device alive, its pipelines are stored and their journal is closed before the class is
    called."""
    alone = world.demo("--count", COUNT, "--no-destroy", layers=None)
    result = world.demo("--count", COUNT, "--no-destroy", **write_policy(world, device_destroyed=body))
    assert seen(result) == seen(alone)
    assert [path.suffix for path in world.stored_files()] == [".closed"]
    assert_next_run_hits(world, COUNT)


# ---- importing the class ---------------------------------------------------------------------------------


def test_import_that_blocks(world: World) -> None:
    """If an import blocks longer than vkCreateDevice waits, the program runs as without the layer."""
    result = run_unharmed(world, write_policy(world, top="import time; time.sleep(1000)"))
    assert NO_PLAN in result.stderr
    assert world.stored_files() == []
    assert_next_run_hits(world, 0)


@pytest.mark.parametrize("top", ["import os; os.fork()", "import os\nif os.fork() == 0: raise SystemExit(3)"])
def test_import_that_forks(world: World, top: str) -> None:
    """A child forked during the import ends there, and the program and its policy go on."""
    result = run_unharmed(world, write_policy(world, top=top))
    assert result.stdout.count('"created"') == 1
    assert world.runs()[-1]["policy"]["failures"] == 0
    assert_next_run_hits(world, COUNT)


# ---- what else code in the process can do -----------------------------------------------------------

#: Bodies of keep_cell, and how many pipelines are stored. None: some, in a store that is whole.
DEEDS: dict[str, tuple[str, int | None]] = {
    "changes what it can reach": (
        "settings.clear()\n"
        "        program.executable = '../../x'; program.application = None\n"
        "        import gc, os, sys\n"
        "        os.chdir('/'); gc.collect(); gc.disable(); os.fork()\n"
        "        sys.excepthook = sys.unraisablehook = sys.stdout = sys.stderr = None\n"
        "        print('x')\n"
        "        for name in list(sys.modules):\n"
        "            if name.startswith('pylayer'): del sys.modules[name]\n"
        "        return True",
        COUNT,
    ),
    "traces": ("import sys; sys.settrace(lambda *_: 1 // 0); return True", COUNT - 3),
    "prints without end": ("print('x' * 100000); print('line\\n' * 5000); return True", COUNT),
    "starts threads": (
        "import threading\n        def spin():\n            while True: pass\n"
        "        if threading.active_count() < 3: threading.Thread(target=spin).start()\n        return True",
        COUNT,
    ),
    "ruins builtins": (
        "import builtins; builtins.str = builtins.type = builtins.isinstance = builtins.len = None; return True", None
    ),
    "closes descriptors": ("import os; os.closerange(3, 4096); return True", None),
    "deletes the store": (
        "import os, shutil; shutil.rmtree(os.environ['PYLAYER_STORE'], ignore_errors=True); return True", None
    ),
    "forbids files": ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); return True", None),
    "forbids writing": ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); return True", None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "stored"), DEEDS.values(), ids=DEEDS)
def test_deeds(world: World, body: str, stored: int | None) -> None:
    """Whatever keep_cell changes in the process, and if it goes on tracing, printing or computing, the program sees
    what it sees without the layer. As long as keep_cell answers, every cell is stored. Damage to Python, to the process
    or to the store costs at most stored pipelines."""
    result = run_unharmed(world, write_policy(world, keep_cell=body), PYLAYER_LOG="info")
    off = [line for line in said(result.stderr, "warn") if "is switched off for this process: " in line]
    assert stored is None or len(off) == (stored < COUNT)
    assert len(result.stderr.splitlines()) < 1100
    assert_next_run_hits(world, stored)


KEEPS_DATA = """
        view = memoryview(cell.data)
        kept = [cell.data, cell.data[2:8], view, view[8:], view.cast("B")[::2]]
        self.kept = getattr(self, "kept", []) + [(data, bytes(data)) for data in kept]
        return True"""
COMPARES_DATA = 'print(len(self.kept), "kept,", sum(bytes(data) == copy for data, copy in self.kept), "unchanged")'


def test_data_that_is_kept(world: World) -> None:
    """Cell data that a class keeps, and slices and views of it, stay unchanged after the cells are gone."""
    environment = write_policy(world, keep_cell=KEEPS_DATA, device_destroyed=COMPARES_DATA)
    result = run_unharmed(world, environment, PYLAYER_LOG="info", MALLOC_PERTURB_="165")
    assert f"{5 * COUNT} kept, {5 * COUNT} unchanged" in result.stderr
    assert_next_run_hits(world, COUNT)


# ---- The class of docs/policy.md -----------------------------------------------------------------


PAGE = (ROOT / "docs" / "policy.md").read_text()
MODULE = re.findall(r"^```python\n# new_and_slow\.py\n(.*?)^```", PAGE, re.M | re.S)[0]


@pytest.fixture
def page_module(world: World) -> Path:
    """The page's page_module, for programs of any version, beside a policy file that names it."""
    world.environment |= world.policy("policy: new_and_slow:NewAndSlow\n")
    path = world.directory / "new_and_slow.py"
    path.write_text(changed("LEAST_VERSION = 2", "LEAST_VERSION = 1"))
    return path


def changed(text: str, new: str, source: str = MODULE) -> str:
    assert text in source
    return source.replace(text, new)


def test_old_version(world: World, page_module: Path) -> None:
    """An old version of the program stores nothing, and the log says why. The demo's version is 1."""
    page_module.write_text(MODULE)
    old = world.demo("--count", 8, PYLAYER_LOG="info")
    assert "version 1 is too old" in old.stderr
    assert world.runs() == [] and world.stored_files() == []


def test_slow_only(world: World, page_module: Path) -> None:
    """The store gets the pipelines that took at least as long as the class says. The next run finds these and compiles
    the others again."""
    page_module.write_text(changed("5_000_000", "400_000_000", page_module.read_text()))
    world.environment["PYLAYER_TEST_DRIVER"] = "pipeline=slow:400?compile@/4"
    for hits in (0, 3):
        world.demo("--count", 12)
        assert (world.last()["hits"], world.last()["compiled"]) == (hits, 12 - hits)
    assert world.runs()[0]["stored_records"] == 3
    facts = world.runs()[-1]["policy"]
    assert facts["failures"] == 0 and facts["switched_off"] == ""


def test_methods_are_listed() -> None:
    """The page lists each method of Policy with its arguments."""
    for name, method in inspect.getmembers(Policy, inspect.isfunction):
        if not name.startswith("_"):
            arguments = ", ".join(list(inspect.signature(method).parameters)[1:])
            assert f"| `{name}({arguments})` |" in PAGE
