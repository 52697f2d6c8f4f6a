"""``pylayer doctor``: finds and names each thing that can be wrong, and says what to do about it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.marks import ON_RADV
from cli.user import User
from unit.things import run_python
from world import PACKAGE

from pylayer.cli import devices
from pylayer.store.runs import read_all

LIBRARY = "libVkLayer_pylayer_pipeline_cache.so"

#: A driver that ends the process at the first call.
CRASHING_DRIVER = """
#include <stdlib.h>
__attribute__((visibility("default"))) int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) { abort(); }
"""


def doctor(user: User, status: int = 0, **environment: str) -> tuple[dict[str, dict[str, str]], list[dict[str, Any]]]:
    """Returns the checks by name, and the devices."""
    found = user.json("doctor", status=status, **environment)
    assert found["works"] is (status == 0)
    return {check["name"]: check for check in found["checks"]}, found["devices"]


def damaged_copy(user: User, directory: Path) -> tuple[Path, dict[str, str]]:
    """Copies the installed package. Returns the copy, and an environment in which ``pylayer`` runs from it."""
    package = directory / "copy" / "pylayer"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package, {"PYTHONPATH": str(package.parent)}


# ---- drivers ---------------------------------------------------------------------------------------


@ON_RADV
def test_radv(user: User) -> None:
    """On RADV everything is fine: a program's second run finds its pipeline. Identity and mode are those of other
    programs."""
    checks, devices = doctor(user)
    # In a container without a lasting store, doctor warns: tests/cli/test_containers.py.
    assert {check["status"] for name, check in checks.items() if name != "container"} == {"ok"}
    (device,) = devices
    assert device["status"] == "ok" and device["driver"] == "radv"
    assert device["mode"] == "cells" and "pipelineCreationCacheControl" in device["reason"]
    assert "its second run found it in the store" in device["tried"]
    user.demo(4)
    (run,) = read_all(str(user.store))
    assert (device["identity"], device["name"], device["mode"]) == (run["identity"], run["device"], run["mode"])


def test_lavapipe(lavapipe_user: User) -> None:
    """On Lavapipe the layer works but has nothing to store. doctor names the stub cache."""
    checks, devices = doctor(lavapipe_user)
    assert checks["layer"]["status"] == "ok" and checks["devices"]["status"] == "warning"
    (device,) = devices
    assert device["mode"] == "off" and "Lavapipe" in device["reason"] and "stub" in device["reason"]
    assert device["status"] == "warning" and "nothing is stored" in device["tried"]
    text = lavapipe_user.pylayer("doctor").stdout
    assert text.endswith("nothing to do: no device has pipelines to store.\n") and "works" not in text


def test_leaves_no_trace_in_statistics(user: User) -> None:
    """doctor starts the real layer, but its runs do not appear in the user's statistics."""
    doctor(user)
    assert list(read_all(str(user.store))) == []
    assert not user.store.exists() or not list(user.store.iterdir())


def test_no_driver(user: User) -> None:
    """Without a driver the layer cannot work. doctor shows the loader's answer and what to do."""
    environment = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
    checks, devices = doctor(user, 1, **environment)
    assert checks["devices"]["status"] == "problem" and "river" in checks["devices"]["found"]
    assert checks["layer"]["status"] == "skipped" and devices == []


def test_crashing_driver(user: User, tmp_path: Path) -> None:
    """A driver that crashes is reported in a line."""
    source, library, icd = tmp_path / "crash.c", tmp_path / "libcrash.so", tmp_path / "crash.json"
    source.write_text(CRASHING_DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    icd.write_text(
        f'{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}", "api_version": "1.3.0"}}}}'
    )
    checks, _ = doctor(user, 1, VK_DRIVER_FILES=str(icd), VK_ICD_FILENAMES=str(icd))
    assert "SIGABRT" in checks["devices"]["found"]


# ---- the installation ------------------------------------------------------------------------------


def remove(name: str) -> Callable[[Path], object]:
    def change(package: Path) -> None:
        for path in package.glob(name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def changed(package: Path) -> None:
        (path,) = package.glob(name)
        data = path.read_bytes()
        path.write_bytes(change(data))
        assert path.read_bytes() != data

    return changed


def replace_by_another(package: Path) -> None:
    source = package.parent / "empty.c"
    source.write_text("int nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", package / LIBRARY, source], check=True)


def for_newer_c_library(data: bytes) -> bytes:
    return data.replace(b"GLIBC_2.34\0", b"GLIBC_9.34\0")


#: What is wrong with the package, and what doctor says of the layer.
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "library removed": (remove(LIBRARY), "missing"),
    "library broken": (rewrite(LIBRARY, lambda data: b"no library" * 1000), "ELF"),
    # As an installation that was interrupted leaves it: the probe crashes, and doctor does not.
    "library cut off": (rewrite(LIBRARY, lambda data: data[: len(data) // 20]), "does not load"),
    "another library": (replace_by_another, "not a Vulkan layer"),
    "library for a newer C library": (rewrite(LIBRARY, for_newer_c_library), "GLIBC_9.34"),
    "Python for a newer C library": (rewrite("_private/lib/*", for_newer_c_library), "GLIBC_9.34"),
    # Without these the layer would silently do nothing.
    "interpreter removed": (remove("_private/lib"), ""),
    "policy library removed": (remove("_policy*.so"), "_policy"),
    "modules removed": (remove("_private/site"), ""),
}


@pytest.mark.parametrize(("change", "says"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_package(user: User, tmp_path: Path, change: Callable[[Path], object], says: str) -> None:
    """A package that is damaged or was built for another system is a problem of the layer, with the reason."""
    package, environment = damaged_copy(user, tmp_path)
    change(package)
    checks, _ = doctor(user, 1, **environment)
    layer = checks["layer"]
    assert layer["status"] == "problem" and says in layer["found"] + layer.get("advice", "")
    if says == "missing":
        assert "install vk-pylayer again" in layer["found"] and checks["devices"]["status"] == "skipped"


# ---- the user's things -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "variables", "check", "says"),
    [
        ("settings:\n  mode: cell\n", {}, "policy", ("policy.yaml, line 2", "defaults")),
        ("", {"PYLAYER_CONFIG": "/nonexistent.yaml"}, "policy", ("PYLAYER_CONFIG",)),
        ("policy: nowhere:Nothing\n", {}, "layer", ("nowhere",)),
        ("policy: mine:Mine\n", {}, "policy", ("SyntaxError",)),
        ("", {"DISABLE_PYLAYER": "1"}, "environment", ("DISABLE_PYLAYER",)),
        ("", {"ENABLE_PYLAYER": "true"}, "environment", ("ENABLE_PYLAYER=true",)),
        ("", {"PYLAYER_LOG": "loud"}, "environment", ("loud",)),
    ],
)
def test_warnings(user: User, text: str, variables: dict[str, str], check: str, says: tuple[str, ...]) -> None:
    """A policy file or class that cannot be used, and a variable that keeps the layer from working or has no meaning,
    are warnings that name them. Everything else is checked as without them."""
    user.policy_file.write_text(text)
    (user.policy_file.parent / "mine.py").write_text("this is no Python\n")
    checks, (device,) = doctor(user, **variables)
    told = checks[check]
    assert told["status"] == "warning" and all(word in told["found"] + told.get("advice", "") for word in says)
    assert checks["layer"]["status"] == ("ok" if check == "environment" else "warning")
    assert device["status"] == "ok"


def test_layer_disabled(user: User) -> None:
    """VK_LOADER_LAYERS_DISABLE keeps the layer out. The loader does not list the layer, and doctor names the
    variable."""
    checks, _ = doctor(user, 1, VK_LOADER_LAYERS_DISABLE="*PYLAYER*")
    assert checks["layer"]["status"] == "problem"
    assert checks["environment"]["status"] == "warning" and "VK_LOADER_LAYERS_DISABLE" in checks["environment"]["found"]


@ON_RADV
def test_policy_file_decides(user: User) -> None:
    """The user's policy file decides the mode that doctor shows for the device."""
    policy = user.policy_file
    policy.write_text('rules: [{match: {vendor: 0x1002}, set: {mode: "off"}}]\n')
    checks, (device,) = doctor(user)
    assert str(policy) in checks["policy"]["found"]
    assert device["mode"] == "off" and "policy file" in device["reason"]


def test_store_unusable(user: User) -> None:
    """A store that cannot be written to is a problem, but doctor still checks everything else."""
    (user.home / "file").write_text("")
    checks, devices = doctor(user, 1, PYLAYER_STORE=str(user.home / "file" / "store"))
    assert checks["store"]["status"] == "problem"
    assert checks["layer"]["status"] == "ok" and len(devices) == 1


def test_store_writable_by_others(user: User) -> None:
    """A store that others may write to is a problem, because the layer refuses it."""
    user.store.mkdir(parents=True)
    user.store.chmod(0o777)
    checks, _ = doctor(user, 1)
    assert checks["store"]["status"] == "problem" and "chmod go-w" in checks["store"]["found"]


def test_installed_manifest_stale(user: User) -> None:
    """An installed manifest is a warning if its library is gone."""
    user.pylayer("install")
    manifest = user.data / "vulkan" / "explicit_layer.d" / "VkLayer_pylayer_pipeline_cache.json"
    manifest.write_text(manifest.read_text().replace(str(PACKAGE), "/nonexistent"))
    checks, _ = doctor(user)
    assert checks["installed"]["status"] == "warning" and "/nonexistent" in checks["installed"]["found"]


def test_no_loader(user: User, tmp_path: Path) -> None:
    """If the vulkan package cannot open a loader, doctor says what to install and skips the checks that need a
    loader."""
    fake = tmp_path / "fake" / "vulkan"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text('raise OSError("Cannot find Vulkan SDK version")\n')
    checks, devices = doctor(user, 1, PYTHONPATH=str(fake.parent))
    assert checks["loader"]["status"] == "problem" and "libvulkan1" in checks["loader"]["advice"]
    assert checks["devices"]["status"] == "skipped" and devices == []


def test_probe_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that never returns costs its time limit and becomes a sentence."""
    source, library = tmp_path / "hang.c", tmp_path / "libhang.so"
    source.write_text("#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { pause(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(devices, "TIMEOUT_SECONDS", 1)
    assert devices.probe("open", str(library)).failure == "did not end within 1 s"


#: Looks for policy's thread while other threads begin and end, as those of drivers do.
LOOKS_FOR_POLICY = """
import os, threading, time
from pylayer.cli import probe

def begin_and_end():
    while True:
        thread = threading.Thread(target=time.time)
        thread.start()
        thread.join()

for _ in range(3):
    threading.Thread(target=begin_and_end, daemon=True).start()
end = time.monotonic() + 1
while time.monotonic() < end:
    assert not probe.has_policy()
os._exit(0)
"""


def test_threads_that_end() -> None:
    """A thread that ends while the probe looks for policy's is no failure."""
    run_python(LOOKS_FOR_POLICY)
