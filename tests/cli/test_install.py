"""``pylayer install`` and ``pylayer uninstall``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cli.user import DEMO, User

from pylayer import LAYER_NAME
from pylayer.store.runs import read_all

LIST_LAYERS = """
import vulkan
print("\\n".join(layer.layerName for layer in vulkan.vkEnumerateInstanceLayerProperties()))
"""


def manifest(user: User) -> Path:
    return user.data / "vulkan" / "explicit_layer.d" / "VkLayer_pylayer_pipeline_cache.json"


def loader_lists_layer(user: User) -> bool:
    command = [sys.executable, "-c", LIST_LAYERS]
    done = subprocess.run(command, env=user.environment, capture_output=True, text=True, check=True)
    return LAYER_NAME in done.stdout.split()


def test_install(user: User) -> None:
    """After install the loader lists the layer, and a program gets it by VK_INSTANCE_LAYERS alone."""
    assert not loader_lists_layer(user)
    done = user.pylayer("install")
    assert done.returncode == 0
    assert str(manifest(user)) in done.stdout and f"VK_INSTANCE_LAYERS={LAYER_NAME}" in done.stdout
    assert Path(json.loads(manifest(user).read_text())["layer"]["library_path"]).is_absolute()
    assert loader_lists_layer(user)
    environment = {**user.environment, "VK_INSTANCE_LAYERS": LAYER_NAME}
    subprocess.run([DEMO, "--count", "4"], env=environment, check=True, capture_output=True)
    assert [run["counters"]["compiled"] for run in read_all(str(user.store))] == [4]


def test_install_changes_nothing_else(user: User) -> None:
    """install writes one file, and leaves no temporary one behind."""
    user.pylayer("install")
    assert [path for path in user.home.rglob("*") if path.is_file()] == [manifest(user)]


def test_install_twice(user: User) -> None:
    """A second install says that it is done and touches nothing."""
    assert user.json("install")["changed"] is True
    before = manifest(user).stat()
    again = user.json("install")
    assert again["changed"] is False and again["manifest"] == str(manifest(user)) and again["layer"] == LAYER_NAME
    assert manifest(user).stat().st_mtime_ns == before.st_mtime_ns
    assert "already" in user.pylayer("install").stdout


def test_install_replaces_another_installation(user: User) -> None:
    """A manifest that leads elsewhere, such as an older installation's, is replaced."""
    manifest(user).parent.mkdir(parents=True)
    manifest(user).write_text(json.dumps({"layer": {"library_path": "/old/layer.so"}}))
    assert user.json("install")["changed"] is True
    assert loader_lists_layer(user)


def test_uninstall(user: User) -> None:
    """uninstall removes the manifest and nothing else; a second one says that nothing is there."""
    user.pylayer("install")
    neighbour = manifest(user).with_name("VkLayer_other.json")
    neighbour.write_text("{}")
    user.demo(4)
    kept = {path for path in user.home.rglob("*") if path.is_file()} - {manifest(user)}
    assert user.json("uninstall") == {"manifest": str(manifest(user)), "removed": True}
    assert {path for path in user.home.rglob("*") if path.is_file()} == kept
    assert not loader_lists_layer(user)
    assert user.json("uninstall")["removed"] is False
    again = user.pylayer("uninstall")
    assert again.returncode == 0 and "Nothing to remove" in again.stdout


def test_install_where_nothing_can_be_written(user: User) -> None:
    """Where the data directory cannot be made, install ends with status 1 and one line."""
    (user.home / "file").write_text("")
    done = user.pylayer("install", XDG_DATA_HOME=str(user.home / "file"))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "nothing was installed" in done.stderr
