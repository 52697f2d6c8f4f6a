"""``pylayer doctor``: finds and names each thing that can be wrong, and says what to do about it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli.marks import ON_RADV
from cli.user import User
from world import PACKAGE

from pylayer.cli import children
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
    """On RADV everything is fine: a program's second run finds its pipeline. Identity and carrier are those of other
    programs."""
    checks, devices = doctor(user)
    # In a container without a lasting store, doctor warns: tests/cli/test_containers.py.
    assert {check["status"] for name, check in checks.items() if name != "container"} == {"ok"}
    (device,) = devices
    assert device["status"] == "ok" and device["driver"] == "radv"
    assert device["carrier"] == "cells" and "pipelineCreationCacheControl" in device["reason"]
    assert "its second run found it in the store" in device["tried"]
    user.demo(4)
    (run,) = read_all(str(user.store))
    assert (device["identity"], device["name"], device["carrier"]) == (run["identity"], run["device"], run["carrier"])


def test_lavapipe(lavapipe_user: User) -> None:
    """On Lavapipe the layer works but has nothing to store. doctor names the stub cache."""
    checks, devices = doctor(lavapipe_user)
    assert checks["layer"]["status"] == "ok" and checks["devices"]["status"] == "warning"
    (device,) = devices
    assert device["carrier"] == "off" and "Lavapipe" in device["reason"] and "stub" in device["reason"]
    assert device["status"] == "warning" and "nothing is stored" in device["tried"]
    text = lavapipe_user.pylayer("doctor").stdout
    assert text.endswith("nothing to do: no device has pipelines to store.\n") and "works" not in text


def test_text(user: User) -> None:
    """The report for people has a line for each check and each fact of the device, in 80 columns."""
    assert any("libVkLayer" in line and " it starts in " in line for line in user.pylayer("doctor").stdout.splitlines())
    status, text = user.terminal("doctor", TERM="dumb")
    assert status == 0
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("loader", "layer", "policy", "store", "installed", "environment"):
        assert any(line.split()[:2] == ["ok", name] for line in lines), name
    for name in ("driver", "identity", "carrier", "tried"):
        assert any(line.split()[:1] == [name] for line in lines), name
    assert lines[-2] == "The layer works here."
    assert lines[-1].startswith("Next: pylayer run -- APP") and "pylayer stats" in lines[-1]


def test_leaves_no_trace_in_statistics(user: User) -> None:
    """doctor starts the real layer, but its runs do not appear in the user's statistics."""
    doctor(user)
    assert list(read_all(str(user.store))) == []
    assert {path.name for path in user.store.iterdir()} == {"manifests"}


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


def test_library_removed(user: User, tmp_path: Path) -> None:
    """If the package lacks the layer's library, doctor says to install again."""
    package, environment = damaged_copy(user, tmp_path)
    (package / LIBRARY).unlink()
    checks, _ = doctor(user, 1, **environment)
    assert checks["layer"]["status"] == "problem" and "missing" in checks["layer"]["found"]
    assert "install vk-pylayer again" in checks["layer"]["found"] and checks["devices"]["status"] == "skipped"


def test_library_broken(user: User, tmp_path: Path) -> None:
    """If a library does not load, doctor shows the dynamic linker's error."""
    package, environment = damaged_copy(user, tmp_path)
    (package / LIBRARY).write_bytes(b"no library" * 1000)
    checks, _ = doctor(user, 1, **environment)
    assert checks["layer"]["status"] == "problem" and "ELF" in checks["layer"]["found"]


@pytest.mark.parametrize("name", [LIBRARY, "_private/lib"])
def test_built_for_a_newer_c_library(user: User, tmp_path: Path, name: str) -> None:
    """doctor recognizes a wheel that was built for a newer C library, and says what to do."""
    package, environment = damaged_copy(user, tmp_path)
    path = package / name
    if path.is_dir():
        (path,) = path.iterdir()
    data = path.read_bytes()
    assert b"GLIBC_2.34\0" in data
    path.write_bytes(data.replace(b"GLIBC_2.34\0", b"GLIBC_9.34\0"))
    checks, _ = doctor(user, 1, **environment)
    check = checks["layer"]
    assert check["status"] == "problem" and "built for glibc 9.34 or newer" in check["advice"]


def test_switched_off(user: User) -> None:
    """doctor names DISABLE_PYLAYER and checks everything else as if it were not set."""
    checks, _ = doctor(user, DISABLE_PYLAYER="1")
    assert checks["layer"]["status"] == "ok"
    assert checks["environment"]["status"] == "warning" and "DISABLE_PYLAYER" in checks["environment"]["found"]


def test_library_truncated(user: User, tmp_path: Path) -> None:
    """A library that was cut off by an interrupted installation crashes the probe but not doctor."""
    package, environment = damaged_copy(user, tmp_path)
    data = (package / LIBRARY).read_bytes()
    (package / LIBRARY).write_bytes(data[: len(data) // 20])
    checks, _ = doctor(user, 1, **environment)
    assert checks["layer"]["status"] == "problem" and "does not load" in checks["layer"]["found"]


def test_another_library(user: User, tmp_path: Path) -> None:
    """doctor recognizes a library that loads but is not a layer."""
    package, environment = damaged_copy(user, tmp_path)
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", package / LIBRARY, source], check=True)
    checks, _ = doctor(user, 1, **environment)
    assert "not a Vulkan layer" in checks["layer"]["found"]


def test_interpreter_missing(user: User, tmp_path: Path) -> None:
    """doctor finds a missing private Python. Without this the layer would silently do nothing."""
    package, environment = damaged_copy(user, tmp_path)
    shutil.rmtree(package / "_private" / "lib")
    checks, _ = doctor(user, 1, **environment)
    assert checks["layer"]["status"] == "problem"


def test_policy_library_missing(user: User, tmp_path: Path) -> None:
    """If all libraries load but policy does not start, doctor shows the layer's own reason."""
    package, environment = damaged_copy(user, tmp_path)
    for library in package.glob("_policy*.so"):
        library.unlink()
    checks, _ = doctor(user, 1, **environment)
    assert checks["layer"]["status"] == "problem" and "_policy" in checks["layer"]["found"]


def test_python_module_missing(user: User, tmp_path: Path) -> None:
    """doctor names a missing Python module that policy needs in the program's process."""
    package, environment = damaged_copy(user, tmp_path)
    shutil.rmtree(package / "_private" / "site")
    checks, _ = doctor(user, 1, **environment)
    assert checks["layer"]["status"] == "problem", checks["layer"]


# ---- the user's things -----------------------------------------------------------------------------


def test_policy_file_broken(user: User) -> None:
    """A policy file that cannot be used is a warning with its place: the defaults are in force then."""
    policy = user.home / ".config" / "pylayer" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("settings:\n  carrier: cell\n")
    checks, _ = doctor(user)
    assert checks["policy"]["status"] == "warning"
    assert f"{policy}, line 2" in checks["policy"]["found"] and "defaults" in checks["policy"]["found"]


@ON_RADV
def test_policy_file_decides(user: User) -> None:
    """The user's policy file decides the carrier that doctor shows for the device."""
    policy = user.home / ".config" / "pylayer" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text('rules: [{match: {vendor: 0x1002}, set: {carrier: "off"}}]\n')
    checks, (device,) = doctor(user)
    assert str(policy) in checks["policy"]["found"]
    assert device["carrier"] == "off" and "policy file" in device["reason"]


def test_policy_file_missing(user: User) -> None:
    """PYLAYER_CONFIG with a file that does not exist is a warning."""
    checks, _ = doctor(user, PYLAYER_CONFIG="/nonexistent.yaml")
    assert checks["policy"]["status"] == "warning" and "PYLAYER_CONFIG" in checks["policy"]["advice"]


def test_policy_class_broken(user: User, tmp_path: Path) -> None:
    """doctor finds a policy class that cannot be loaded, by starting the layer."""
    policy = tmp_path / "policies" / "policy.yaml"
    policy.parent.mkdir(mode=0o700)
    policy.write_text(f"policy: nowhere:Nothing\npolicy_path: {policy.parent}\n")
    checks, _ = doctor(user, PYLAYER_CONFIG=str(policy))
    assert checks["layer"]["status"] == "warning" and "nowhere" in checks["layer"]["found"]


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


def test_layer_disabled(user: User) -> None:
    """VK_LOADER_LAYERS_DISABLE keeps the layer out. The loader does not list the layer, and doctor names the
    variable."""
    checks, _ = doctor(user, 1, VK_LOADER_LAYERS_DISABLE="*PYLAYER*")
    assert checks["layer"]["status"] == "problem"
    assert checks["environment"]["status"] == "warning" and "VK_LOADER_LAYERS_DISABLE" in checks["environment"]["found"]


def test_wrong_enable(user: User) -> None:
    """doctor names a value of ENABLE_PYLAYER that the loader does not accept."""
    checks, _ = doctor(user, ENABLE_PYLAYER="true")
    assert checks["environment"]["status"] == "warning" and "ENABLE_PYLAYER=true" in checks["environment"]["found"]
    assert doctor(user, ENABLE_PYLAYER="1")[0]["environment"]["status"] == "ok"


def test_layer_switched_on_already(user: User) -> None:
    """An environment that already switches the layer on changes nothing: doctor asks drivers without it."""
    user.pylayer("install", "--in-place")
    checks, (device,) = doctor(user, VK_INSTANCE_LAYERS="VK_LAYER_PYLAYER_pipeline_cache")
    assert checks["installed"]["found"].startswith("build ") and device["status"] == "ok"
    assert list(read_all(str(user.store))) == []


def test_log_level_unknown(user: User) -> None:
    """doctor names a PYLAYER_LOG that is not a level: the layer then logs nothing."""
    checks, _ = doctor(user, PYLAYER_LOG="loud")
    assert checks["environment"]["status"] == "warning" and "loud" in checks["environment"]["found"]


def test_installed_manifest_stale(user: User) -> None:
    """An installed manifest is a warning if its library is gone."""
    user.pylayer("install", "--in-place")
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
    monkeypatch.setattr(children, "TIMEOUT_SECONDS", 1)
    assert children.probe("open", str(library)).failure == "did not end within 1 s"


def test_policy_class_that_fails(user: User) -> None:
    """A policy class that raises is a warning, which says what it raised."""
    (user.home / "mine.py").write_text("this is no Python\n")
    config = user.home / "policy.yaml"
    config.write_text(f"policy: mine:Mine\npolicy_path: {user.home}\n")
    checks, _ = doctor(user, PYLAYER_CONFIG=str(config))
    assert checks["policy"]["status"] == "warning" and "SyntaxError" in checks["policy"]["found"]
