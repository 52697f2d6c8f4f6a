"""Whatever happens to the layer's Python, the program goes on, and one line says why the layer does nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from world import BUILD, PACKAGE, World, python_hosts

HOST = Path(__file__).parent / "python_host.py"


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def assert_unharmed(world: World, reason: str, seconds: float = 10, **environment: str) -> None:
    """Asserts that the demo runs as without the layer, and that a log line has the reason."""
    result = world.demo("--count", 8, PYLAYER_LOG="info", **environment)
    assert result["created"] == 8 and result["results"] == ["VK_SUCCESS"]
    lines = [line for line in result.stderr.splitlines() if line.startswith("pylayer:")]
    assert any(reason in line for line in lines), lines
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
    for _ in range(20):  # a busy machine may need longer than vkCreateDevice waits
        world.demo("--count", 8)
        if world.runs():
            break
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
    """If a part of the package is missing or damaged, the program runs unharmed, and a line has the reason if the user
    wants lines."""
    for path in broken.glob(what):
        damage(path)
    assert_unharmed(world, reason)
    assert_silent(world)


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


def write_policy(world: World, plan: str = "", top: str = "", **methods: str) -> dict[str, str]:
    """Writes a policy class whose methods have these bodies. Returns the environment that enables it."""
    bodies = {"plan_device": ("program, facts, settings", plan)} if plan else {}
    signatures = {"keep_cell": "cell, program, settings", "admit_cache": "data, facts, settings"}
    signatures |= {"device_created": "program, facts, state", "device_destroyed": "program, facts, counters"}
    bodies |= {name: (signatures[name], body) for name, body in methods.items()}
    text = f"{top}\nclass Mine(Policy):\n    pass\n"
    for name, (parameters, body) in bodies.items():
        text += f"    def {name}(self, {parameters}):\n        {body}\n"
    return world.policy_class(text)


def test_policy_that_fails_to_plan(world: World) -> None:
    """If plan_device fails, in whatever way, the program runs as without the layer."""
    # One body for each device, in turn, and a plan in between, so that the class is not switched off.
    functions = [f"def plan{n}(self, program, facts, settings):\n    {body}" for n, body in enumerate(BODIES.values())]
    names = ", ".join(f"plan{n}, Policy.plan_device" for n in range(len(BODIES)))
    top = "\n".join([*functions, f"PLANS = iter([{names}])"])
    environment = write_policy(world, "return next(PLANS)(self, program, facts, settings)", top)
    result = world.demo("--count", 8, "--repeat-instances", 2 * len(BODIES) - 1, PYLAYER_LOG="info", **environment)
    assert result["created"] == 8 and result["results"] == ["VK_SUCCESS"]
    assert result.stderr.count("policy failed") == len(BODIES)
    assert_silent(world, **environment)


def test_policy_that_imports_in_a_method(world: World) -> None:
    """A method can import a module of the standard library. No file beside the class hides it."""
    environment = write_policy(world, keep_cell="import colorsys; return bool(colorsys.rgb_to_hsv)")
    (world.directory / "colorsys.py").write_text("")
    result = world.demo("--count", 8, PYLAYER_LOG="info", **environment)
    assert "policy failed" not in result.stderr
    assert world.runs()[-1]["stored_records"] == 8


def test_policy_prints_nowhere(world: World) -> None:
    """What a policy class prints goes to the log, not to the program's output."""
    environment = write_policy(world, device_created="print('hello from policy')")
    result = world.demo("--count", 8, PYLAYER_LOG="info", **environment)
    assert "hello from policy" not in result.stdout
    assert "pylayer: info: hello from policy" in result.stderr


# ---- programs that are Python -------------------------------------------------------------------


#: The layer's own version in every way, two others in the most demanding one. test_hosts_python.py has every version.
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
    command = [str(BUILD / "tests" / "commands"), "1", "--", *INTERCEPTED, *OTHERS]
    alone = real.run(command, VK_INSTANCE_LAYERS=None).stdout.splitlines()
    under = real.run(command).stdout.splitlines()
    assert len(alone) == len(under) == len(INTERCEPTED | OTHERS)
    assert {line.split()[0] for line in {*alone} - {*under}} == INTERCEPTED
