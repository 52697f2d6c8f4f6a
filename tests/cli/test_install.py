"""``pylayer install`` and ``pylayer uninstall``."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli.user import DEMO, User
from others import public_copy
from world import PACKAGE

from pylayer import LAYER_NAME
from pylayer.store.runs import read_all

NAME = "VkLayer_pylayer_pipeline_cache.json"
LIBRARY = "libVkLayer_pylayer_pipeline_cache.so"
LIST_LAYERS = """
import vulkan
print("\\n".join(layer.layerName for layer in vulkan.vkEnumerateInstanceLayerProperties()))
"""


def manifest(user: User, kind: str = "explicit") -> Path:
    return user.data / "vulkan" / f"{kind}_layer.d" / NAME


def loader_lists_layer(user: User) -> bool:
    command = [sys.executable, "-c", LIST_LAYERS]
    done = subprocess.run(command, env=user.environment, capture_output=True, text=True, check=True)
    return LAYER_NAME in done.stdout.split()


def compiled(user: User, **environment: str) -> list[int]:
    """Runs the demo without pylayer run. Returns how many pipelines each run so far compiled under the layer."""
    merged = {**user.environment, **environment}
    subprocess.run([DEMO, "--count", "4"], env=merged, check=True, capture_output=True)
    return [run["counters"]["compiled"] for run in read_all(str(user.store))]


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


# ---- for a user ------------------------------------------------------------------------------------


def test_install(user: User) -> None:
    """After install the loader lists the layer, and VK_INSTANCE_LAYERS alone loads it into a program."""
    assert not loader_lists_layer(user)
    done = user.pylayer("install")
    assert done.returncode == 0
    assert str(manifest(user)) in done.stdout and f"VK_INSTANCE_LAYERS={LAYER_NAME}" in done.stdout
    assert Path(json.loads(manifest(user).read_text())["layer"]["library_path"]).is_absolute()
    assert loader_lists_layer(user)
    assert compiled(user) == compiled(user, ENABLE_PYLAYER="1") == []
    assert compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME) == [4]


def test_implicit(user: User) -> None:
    """The implicit layer is loaded into programs that set ENABLE_PYLAYER=1 or name it, and into no others."""
    done = user.pylayer("install", "--implicit")
    assert done.returncode == 0
    assert str(manifest(user, "implicit")) in done.stdout and "ENABLE_PYLAYER=1 APP" in done.stdout
    assert compiled(user) == compiled(user, ENABLE_PYLAYER="0") == []
    assert compiled(user, ENABLE_PYLAYER="1") == [4]
    assert compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME) == [4, 0]
    assert len(compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME, ENABLE_PYLAYER="1")) == 3
    assert len(compiled(user, VK_LOADER_LAYERS_ENABLE="*pylayer*")) == 4


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_disable(user: User, value: str) -> None:
    """DISABLE_PYLAYER takes precedence over everything that switches the layer on, whatever its value, as in the
    loader."""
    user.pylayer("install", "--implicit")
    asked = {"VK_INSTANCE_LAYERS": LAYER_NAME, "ENABLE_PYLAYER": "1", "VK_LOADER_LAYERS_ENABLE": "*pylayer*"}
    assert compiled(user, DISABLE_PYLAYER=value, **asked) == []
    assert not user.store.exists()


def test_kinds(user: User) -> None:
    """--explicit removes the implicit layer. Without an option the kind does not change."""
    assert user.json("install", "--implicit")["kind"] == "implicit"
    assert user.json("install")["kind"] == "implicit"
    changed = user.json("install", "--explicit")
    assert changed["kind"] == "explicit" and changed["removed"] == [str(manifest(user, "implicit"))]
    assert files(user.home) == [manifest(user)]


def test_install_changes_nothing_else(user: User) -> None:
    """install writes one file for each kind and leaves no temporary file behind."""
    user.pylayer("install", "--implicit")
    assert files(user.home) == [manifest(user), manifest(user, "implicit")]


def test_install_twice(user: User) -> None:
    """A second install says that the layer is installed already, and changes nothing."""
    assert user.json("install")["changed"] is True
    before = manifest(user).stat()
    again = user.json("install")
    assert again["changed"] is False and again["manifests"] == [str(manifest(user))] and again["layer"] == LAYER_NAME
    assert manifest(user).stat().st_mtime_ns == before.st_mtime_ns
    assert "already" in user.pylayer("install").stdout


def test_two_installations(user: User, tmp_path: Path) -> None:
    """Of two installations, the one that installed last takes effect. It says what it replaced, and doctor of the other
    one reports it."""
    other = tmp_path / "other" / "pylayer"
    shutil.copytree(PACKAGE, other, ignore=shutil.ignore_patterns("__pycache__"))
    assert user.json("install", "--implicit", PYTHONPATH=str(other.parent))["library"] == str(other / LIBRARY)
    warned = user.pylayer("run", "--", "true")
    assert str(other) in warned.stderr and warned.stderr.count("\n") == 1 and warned.returncode == 0
    done = user.pylayer("install")
    assert f"led to {other / LIBRARY}" in done.stdout
    assert user.pylayer("run", "--", "true").stderr == ""
    (check,) = [
        check for check in user.json("doctor", PYTHONPATH=str(other.parent))["checks"] if check["name"] == "installed"
    ]
    assert check["status"] == "warning" and str(PACKAGE) in check["found"] and "pylayer install" in check["advice"]


def test_install_replaces_what_is_gone(user: User) -> None:
    """A manifest that leads nowhere, such as that of a deleted environment, is replaced."""
    manifest(user).parent.mkdir(parents=True)
    manifest(user).write_text(json.dumps({"layer": {"name": LAYER_NAME, "library_path": "/old/layer.so"}}))
    assert user.json("install")["replaced"] == ["/old/layer.so"]
    assert loader_lists_layer(user)


def test_another_place(user: User) -> None:
    """doctor reports a manifest of the layer elsewhere in the loader's search path, whatever its file name."""
    other = user.home / "data" / "vulkan" / "implicit_layer.d" / "10-other.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps({"layers": [{"name": LAYER_NAME, "library_path": "../../layer.so"}]}))
    environment = {"XDG_DATA_DIRS": f"{user.home / 'data'}:/usr/share"}
    answer = user.json("install", **environment)
    assert answer["others"] == [{"manifest": str(other), "library": str(user.home / "data" / "layer.so")}]
    left = user.pylayer("uninstall", **environment)
    assert f"Still there: {other}" in left.stdout and other.exists()


def test_uninstall(user: User) -> None:
    """uninstall removes the manifest and nothing else. A second uninstall says that nothing is installed."""
    user.pylayer("install")
    neighbour = manifest(user).with_name("VkLayer_other.json")
    neighbour.write_text("{}")
    user.demo(4)
    kept = {path for path in user.home.rglob("*") if path.is_file()} - {manifest(user)}
    assert user.json("uninstall") == {"removed": [str(manifest(user))], "left": []}
    assert {path for path in user.home.rglob("*") if path.is_file()} == kept
    assert not loader_lists_layer(user)
    assert user.json("uninstall")["removed"] == []
    again = user.pylayer("uninstall")
    assert again.returncode == 0 and "Nothing to remove" in again.stdout


@pytest.mark.parametrize("kind", ["--explicit", "--implicit"])
def test_uninstall_leaves_nothing(user: User, kind: str) -> None:
    """After install and uninstall, a home directory is as empty as before."""
    user.pylayer("install", kind)
    assert list(user.home.iterdir())
    user.pylayer("uninstall")
    assert list(user.home.iterdir()) == []


def test_uninstall_keeps_directories_of_others(user: User) -> None:
    """uninstall keeps XDG_DATA_HOME itself, even if it is empty, and every directory that is not empty."""
    data = user.directory / "data"
    data.mkdir()
    user.pylayer("install", "--implicit", XDG_DATA_HOME=str(data))
    (data / "vulkan" / "explicit_layer.d" / "VkLayer_other.json").write_text("{}")
    user.pylayer("uninstall", XDG_DATA_HOME=str(data))
    assert [path.name for path in data.rglob("*")] == ["vulkan", "explicit_layer.d", "VkLayer_other.json"]


def test_install_with_umask_002(user: User) -> None:
    """Directories that a group may write to, as Ubuntu's umask makes them, do not keep install from writing a
    manifest: a manifest is no file of the store."""
    before = os.umask(0o002)
    try:
        done = subprocess.run(**user.process(("install", "--implicit")), capture_output=True, check=False)
    finally:
        os.umask(before)
    assert (done.returncode, done.stderr) == (0, "")
    assert manifest(user).parent.stat().st_mode & 0o777 == 0o775
    assert loader_lists_layer(user)


def test_install_through_a_link(user: User) -> None:
    """The loader's directory may be a link, for example into a repository of settings. uninstall keeps it."""
    elsewhere = user.directory / "settings"
    elsewhere.mkdir()
    manifest(user).parent.parent.mkdir(parents=True)
    manifest(user).parent.symlink_to(elsewhere)
    assert user.pylayer("install").returncode == 0
    assert files(elsewhere) == [elsewhere / NAME] and loader_lists_layer(user)
    assert user.pylayer("uninstall").returncode == 0
    assert files(elsewhere) == [] and manifest(user).parent.is_symlink()


def test_install_where_nothing_can_be_written(user: User) -> None:
    """If the data directory cannot be created, install ends with status 1 and one line."""
    (user.home / "file").write_text("")
    done = user.pylayer("install", XDG_DATA_HOME=str(user.home / "file"))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "nothing was installed" in done.stderr


# ---- for all users ---------------------------------------------------------------------------------


def test_prefix_needs_system(user: User) -> None:
    """--prefix without --system is wrong use."""
    assert user.pylayer("install", "--prefix", "/nonexistent").returncode == 2


def test_system_wants_a_place_of_roots(user: User, tmp_path: Path) -> None:
    """A layer that others than root could replace, or that some users could not read, is not installed for all
    users."""
    package = tmp_path / "open" / "pylayer"
    public_copy(PACKAGE, package)
    package.parent.chmod(0o777)
    prefix = tmp_path / "prefix"
    done = user.pylayer("install", "--system", "--prefix", prefix, PYTHONPATH=str(package.parent))
    assert done.returncode == 1 and "not safe for all users" in done.stderr and done.stderr.count("\n") == 1
    assert not prefix.exists()


def test_system(user: User) -> None:
    """A system-wide installation is readable by everybody, is found by loaders of users who installed nothing, and is
    removed completely. A layer that belongs to a user other than root is not installed for all users."""
    public = Path("/var/tmp") / f"pylayer-test-{os.getpid()}"
    package = public / "lib" / "pylayer"
    try:
        public.mkdir()
        public.chmod(0o755)
        public_copy(PACKAGE, package)
        environment = {"PYTHONPATH": str(package.parent)}
        options = ("--system", "--prefix", str(public))
        done = user.pylayer("install", "--implicit", *options, **environment)
        if os.geteuid() != 0:
            assert done.returncode == 1 and "users other than root can change" in done.stderr
            return
        assert done.returncode == 0, done.stderr
        for kind in ("explicit", "implicit"):
            path = public / "share" / "vulkan" / f"{kind}_layer.d" / NAME
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
            assert stat.S_IMODE(path.parent.stat().st_mode) & 0o777 == 0o755
        assert files(user.home) == []
        user.environment["XDG_DATA_DIRS"] = f"{public}/share:/usr/share"
        assert compiled(user, ENABLE_PYLAYER="1") == [4]
        user.pylayer("uninstall", *options, **environment)
        assert sorted(path.name for path in public.iterdir()) == ["lib"]
    finally:
        shutil.rmtree(public, ignore_errors=True)
