"""``pylayer doctor`` names what containers keep from the layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.user import User

from pylayer import LAYER_NAME
from pylayer.cli import doctor, manifests, run
from pylayer.cli.doctor import OK, WARNING
from pylayer.cli.environment import container


def named(user: User, name: str, **environment: str) -> list[dict[str, str]]:
    """Returns doctor's checks of one name."""
    answer = user.pylayer("doctor", "--json", **environment)
    assert answer.returncode == 0, answer.stdout
    return [check for check in user.json("doctor", **environment)["checks"] if check["name"] == name]


def test_inside_a_container(user: User) -> None:
    """In a container, doctor says which one it is and whether the store outlives it."""
    (check,) = named(user, "container", container="lilypond")
    lost = user.home.stat().st_dev == Path("/").stat().st_dev
    assert check["status"] == (WARNING if lost else OK)
    assert str(user.store) in check["found"] if lost else "not in the container's own" in check["found"]


@pytest.mark.parametrize(("place", "is_lost"), [("/no/such/store", True), ("/proc/self/store", False)])
def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, place: str, is_lost: bool) -> None:
    """A store in the container's own file system is a warning, even if it does not exist yet. One on a volume is
    not."""
    monkeypatch.setattr(doctor, "container", lambda environment: "docker")
    (check,) = doctor.check_container(place)
    assert check.status == (WARNING if is_lost else OK)
    assert not is_lost or (place in check.found and "PYLAYER_STORE" in check.advice)


@pytest.mark.parametrize(
    ("file", "text", "environment", "name"),
    [
        (".flatpak-info", "", {}, "flatpak"),
        ("run/host/container-manager", "pressure-vessel\n", {}, "pressure-vessel"),
        ("file", "", {"SNAP": "/snap/game/1"}, "snap"),
        ("file", "", {}, ""),
    ],
)
def test_which_container(tmp_path: Path, file: str, text: str, environment: dict[str, str], name: str) -> None:
    """A process's root directory and environment tell which container it is in."""
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert container(environment, str(tmp_path)) == name


def test_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of containers, doctor has no line about them."""
    monkeypatch.setattr(doctor, "container", lambda environment: "")
    assert doctor.check_container("/store") == []


def test_installed_in_usr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steam's containers show /usr at another path. If a manifest of the loader's own directories leads to a package
    there, pylayer run names no other one."""
    package = Path("/usr/lib/pylayer")
    manifest = manifests.manifest_path(tmp_path / "share", manifests.EXPLICIT)
    manifest.parent.mkdir(parents=True)
    layer = {"name": LAYER_NAME, "library_path": str(package / manifests.LIBRARY_NAME)}
    manifest.write_text(json.dumps({"layer": layer}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for variable in ("VK_LAYER_PATH", "VK_ADD_LAYER_PATH"):
        monkeypatch.delenv(variable, raising=False)
    there = run._environment(str(tmp_path / "store"))[0]
    assert "VK_ADD_LAYER_PATH" in there
    monkeypatch.setattr(manifests, "package_directory", lambda: package)
    environment, is_on = run._environment(str(tmp_path / "store"))
    assert is_on and environment["VK_INSTANCE_LAYERS"] == there["VK_INSTANCE_LAYERS"]
    assert "VK_ADD_LAYER_PATH" not in environment and "VK_LAYER_PATH" not in environment
