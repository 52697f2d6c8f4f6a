"""``pylayer doctor`` names what containers keep from the layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.user import User

from pylayer import LAYER_NAME
from pylayer.cli import containers, installed, layer_files, run
from pylayer.cli.checks import OK, WARNING


def named(user: User, name: str, **environment: str) -> list[dict[str, str]]:
    """Returns doctor's checks of one name."""
    answer = user.pylayer("doctor", "--json", **environment)
    assert answer.returncode == 0, answer.stdout
    return [check for check in user.json("doctor", **environment)["checks"] if check["name"] == name]


def test_inside_a_container(user: User) -> None:
    """In a container, doctor says which one it is and whether the store outlives it."""
    (check,) = named(user, "container", container="lilypond")
    place, kind = containers.file_system(str(user.store))
    lost = place == "/" or kind in (*containers.OF_THE_CONTAINER, *containers.IN_MEMORY)
    assert check["status"] == (WARNING if lost else OK)
    assert str(user.store) in check["found"] if lost else "not in the container's own" in check["found"]


@pytest.mark.parametrize(
    ("place", "kind", "told"),
    [
        ("/", "overlay", "own file system"),
        ("/", "ext4", "own file system"),
        ("/store", "tmpfs", "memory"),
        ("/store", "ext4", ""),
    ],
)
def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, place: str, kind: str, told: str) -> None:
    """A store that is lost with the container is a warning. One on a volume is not."""
    monkeypatch.setattr(containers, "container", lambda: "docker")
    monkeypatch.setattr(containers, "file_system", lambda path: (place, kind))
    (check,) = containers.check_container("/store")
    assert check.status == (WARNING if told else OK)
    assert not told or (told in check.found and "PYLAYER_STORE" in check.advice)


def test_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of containers, doctor has no line about them."""
    monkeypatch.setattr(containers, "container", lambda: "")
    assert containers.check_container("/store") == []


def test_file_system() -> None:
    """The file system of a path is the mount that it is in, even if the path does not exist yet."""
    assert containers.file_system("/proc/self/nothing") == ("/proc", "proc")
    assert containers.file_system("/no/such/place") == containers.file_system("/")


def test_steam(user: User) -> None:
    """If Steam is installed, doctor says that its games see the layer, and how to switch it on."""
    assert named(user, "steam") == []
    (user.home / ".steam").mkdir()
    (check,) = named(user, "steam")
    assert check["status"] in (OK, WARNING) and "its games" in check["found"]


@pytest.mark.parametrize(
    ("package", "store", "status", "told"),
    [
        ("/home/me/.venv/lib/pylayer", "/home/me/.cache/pylayer", OK, "pylayer run -- %command%"),
        ("/usr/lib/python3/dist-packages/pylayer", "/home/me/.cache/pylayer", WARNING, "pylayer install --system"),
        ("/data/venv/lib/pylayer", "/home/me/.cache/pylayer", WARNING, "PRESSURE_VESSEL_FILESYSTEMS_RO=/data"),
        ("/opt/pylayer/lib/pylayer", "/data/store", WARNING, "below your home"),
    ],
)
def test_what_steam_shares(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, store: str, status: str, told: str
) -> None:
    """A part of the host that Steam's containers do not show is a warning that says what to do."""
    (tmp_path / ".steam").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(layer_files, "package_directory", lambda: Path(package))
    (check,) = containers.check_steam(store)
    assert check.status == status and told in check.found + check.advice


def test_installed_in_usr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steam's containers show /usr at another path. If a manifest of the loader's own directories leads to a package
    there, pylayer run names no other one, and doctor says that games see the layer."""
    package = Path("/usr/lib/pylayer")
    manifest = installed.manifest_path(tmp_path / "share", installed.EXPLICIT)
    manifest.parent.mkdir(parents=True)
    layer = {"name": LAYER_NAME, "library_path": str(package / layer_files.LIBRARY_NAME)}
    manifest.write_text(json.dumps({"layer": layer}))
    (tmp_path / ".steam").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for variable in ("VK_LAYER_PATH", "VK_ADD_LAYER_PATH"):
        monkeypatch.delenv(variable, raising=False)
    there = run._environment(str(tmp_path / "store"))[0]
    assert "VK_ADD_LAYER_PATH" in there
    monkeypatch.setattr(layer_files, "package_directory", lambda: package)
    environment, is_on = run._environment(str(tmp_path / "store"))
    assert is_on and environment["VK_INSTANCE_LAYERS"] == there["VK_INSTANCE_LAYERS"]
    assert "VK_ADD_LAYER_PATH" not in environment and "VK_LAYER_PATH" not in environment
    (check,) = containers.check_steam(str(tmp_path / "store"))
    assert check.status == OK


def test_flatpak(user: User) -> None:
    """If Flatpak programs are installed, doctor says that they do not see this installation."""
    assert named(user, "flatpak") == []
    (user.home / ".var" / "app" / "org.example.Game").mkdir(parents=True)
    (check,) = named(user, "flatpak")
    assert "do not see" in check["found"] and "org.example.Game" in check["advice"]


@pytest.mark.parametrize("build", [None, "f" * 32])
def test_flatpak_extension(user: User, build: str | None) -> None:
    """With the layer's extension, doctor says for which runtimes it is and how to enable it. It warns if the extension
    is of another build."""
    (user.home / ".var" / "app" / "org.example.Game").mkdir(parents=True)
    runtime = user.home / ".local" / "share" / "flatpak" / "runtime" / containers.FLATPAK_EXTENSION / "x86_64" / "24.08"
    commit, private = runtime / "0123", runtime / "0123" / "files" / "lib" / "pylayer" / "_private"
    private.mkdir(parents=True)
    (private / "build_id").write_text(build or layer_files.build_id())
    (runtime / "active").symlink_to(commit.name)
    (check,) = named(user, "flatpak")
    assert check["status"] == (WARNING if build else OK) and "24.08" in check["found"]
    assert ("again" if build else "ENABLE_PYLAYER=1 org.example.Game") in check["advice"]
