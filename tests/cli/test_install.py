"""``pylayer install`` and ``pylayer uninstall``, and packages for distributions."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import others
import pytest
from cli.user import DEMO, User
from others import public_copy
from world import PACKAGE, ROOT

from pylayer import LAYER_NAME
from pylayer.common import config
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
    return sorted(path for path in directory.rglob("*") if path.is_file() or path.is_symlink())


def other_build(directory: Path) -> dict[str, str]:
    """Copies the package, with another build id, and returns the variable with which commands use it."""
    shutil.copytree(PACKAGE, directory / "pylayer", ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "pylayer" / "_private" / "build_id").write_text("f" * 32)
    return {"PYTHONPATH": str(directory)}


# ---- for a user ------------------------------------------------------------------------------------


def test_install(user: User) -> None:
    """After install the loader lists the layer, and VK_INSTANCE_LAYERS alone loads it into a program."""
    assert not loader_lists_layer(user)
    said = user.says("install")
    assert files(user.home) == [manifest(user)]
    assert str(manifest(user)) in said and f"VK_INSTANCE_LAYERS={LAYER_NAME}" in said
    assert Path(json.loads(manifest(user).read_text())["layer"]["library_path"]).is_absolute()
    before = manifest(user).stat().st_mtime_ns
    assert f"Installed: {manifest(user)}\n" in user.pylayer("install").stdout
    assert manifest(user).stat().st_mtime_ns == before, "the second time nothing changes"
    assert loader_lists_layer(user)
    assert compiled(user) == compiled(user, ENABLE_PYLAYER="1") == []
    assert compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME) == [4]


def test_implicit(user: User) -> None:
    """The implicit layer is loaded into programs that set ENABLE_PYLAYER=1 or name it, and into no others."""
    said = user.says("install", "--implicit")
    assert str(manifest(user, "implicit")) in said and "ENABLE_PYLAYER=1 APP" in said
    assert compiled(user) == compiled(user, ENABLE_PYLAYER="0") == []
    assert compiled(user, ENABLE_PYLAYER="1") == [4]
    assert compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME) == [4, 0]
    assert len(compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME, ENABLE_PYLAYER="1")) == 3
    assert len(compiled(user, VK_LOADER_LAYERS_ENABLE="*pylayer*")) == 4


def test_two_installations(user: User, tmp_path: Path) -> None:
    """Of two builds, the one that installed last takes effect. doctor of the other one reports it."""
    other = other_build(tmp_path / "other")
    package = tmp_path / "other" / "pylayer"
    assert user.pylayer("install", "--implicit", **other).returncode == 0
    assert json.loads(manifest(user).read_text())["layer"]["library_path"] == str(package / LIBRARY)
    user.pylayer("install")
    assert json.loads(manifest(user).read_text())["layer"]["library_path"] == str(PACKAGE / LIBRARY)
    (check,) = [check for check in user.json("doctor", **other)["checks"] if check["name"] == "installed"]
    assert check["status"] == "warning" and "pylayer install" in check["advice"]
    mine = (PACKAGE / "_private" / "build_id").read_text()[:8]
    assert f"the layer of build {mine}, and this command is of build ffffffff" in check["found"]


def test_another_place(user: User) -> None:
    """install reports a manifest of the layer elsewhere in the loader's search path."""
    other = user.home / "data" / "vulkan" / "implicit_layer.d" / NAME
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps({"layer": {"name": LAYER_NAME, "library_path": "../../layer.so"}}))
    environment = {"XDG_DATA_DIRS": f"{user.home / 'data'}:/usr/share"}
    answer = user.pylayer("install", **environment)
    assert f"Another: {other} leads to " in answer.stdout and str(user.home / "data" / "layer.so") in answer.stdout
    assert f"Still there: {other}" in user.says("uninstall", **environment) and other.exists()


def test_uninstall(user: User) -> None:
    """uninstall removes what install wrote and nothing else. A second uninstall says that nothing is installed. Without
    an option, install writes what was installed before."""
    user.pylayer("install", "--implicit", "--rebuild-when-idle")
    assert "ENABLE_PYLAYER=1 APP" in user.pylayer("install").stdout
    assert {manifest(user), manifest(user, "implicit")} < {*files(user.home)}
    written = set(files(user.home))
    neighbour = manifest(user).with_name("VkLayer_other.json")
    neighbour.write_text("{}")
    user.demo(4)
    kept = set(files(user.home)) - written
    done = user.pylayer("uninstall").stdout
    assert f"Removed: {manifest(user)}\n" in done and "Still there" not in done
    assert set(files(user.home)) == kept and neighbour in kept
    assert not loader_lists_layer(user)
    assert "Nothing to remove" in user.says("uninstall")


def test_rebuild_when_idle(user: User) -> None:
    """The timer is where systemd looks for it, is enabled, and its service runs this command."""
    assert user.pylayer("install", "--rebuild-when-idle").returncode == 0
    units = user.data / "systemd" / "user"
    enabled = units / "timers.target.wants" / "pylayer-rebuild.timer"
    assert enabled.resolve() == units / "pylayer-rebuild.timer"
    (command,) = re.findall("^ExecStart=(.+)$", (units / "pylayer-rebuild.service").read_text(), re.M)
    done = subprocess.run(shlex.split(command), env=user.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# ---- for all users ---------------------------------------------------------------------------------


@pytest.fixture
def system(user: User, tmp_path: Path) -> Iterator[User]:
    """A user whose --system is below a directory of root's instead of /usr/local."""
    public = Path("/var/tmp") / f"pylayer-test-{os.getpid()}"
    public.mkdir()
    public.chmod(0o755)
    code = f"from pathlib import Path; from pylayer.cli import manifests; manifests.SYSTEM_PREFIX = Path('{public}')"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(code)
    user.environment |= {"PYTHONPATH": str(tmp_path / "site"), "XDG_DATA_DIRS": f"{public}/share:/usr/share"}
    yield user
    shutil.rmtree(public)


def test_system(system: User) -> None:
    """A layer for all users must be one that only root can replace and everybody can read. Loaders of users who
    installed nothing find its manifests, which are readable whatever the umask, and are removed completely."""
    public = Path(system.environment["XDG_DATA_DIRS"].partition("/share")[0])
    site = system.environment["PYTHONPATH"]
    open_to = public / "open"
    open_to.mkdir()
    public_copy(PACKAGE, open_to / "pylayer")
    open_to.chmod(0o777)
    said = system.fails("install", "--system", PYTHONPATH=f"{open_to}:{site}")
    assert "users other than root can change" in said
    assert not (public / "share").exists()
    if os.geteuid() != 0:
        return
    public_copy(PACKAGE, public / "pylayer")
    with others.umask(0o077):
        system.says("install", "--system", "--implicit", PYTHONPATH=f"{public}:{site}")
    for path in (public / "share").rglob("*"):
        assert stat.S_IMODE(path.lstat().st_mode) == (0o755 if path.is_dir() else 0o644), path
    assert files(system.home) == [] and compiled(system, ENABLE_PYLAYER="1") == [4]
    system.says("uninstall", "--system")
    assert files(public / "share") == []


# ---- Packages for distributions ------------------------------------------------------------------


MANIFEST = "vulkan/{}_layer.d/VkLayer_pylayer_pipeline_cache.json"
SITE = f"/usr/lib/pylayer/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pylayer"
INSTALLED_LIBRARY = f"{SITE}/libVkLayer_pylayer_pipeline_cache.so"
#: What packages have beside the environment and what `pylayer install --system` writes.
ONLY_PACKAGES = {
    "usr/bin/pylayer",
    "usr/share/man/man1/pylayer.1",
    "etc/pylayer/policy.yaml",
    "usr/lib/systemd/user/pylayer-pull.service",
    "usr/lib/systemd/user/pylayer-pull.timer",
    "usr/share/bash-completion/completions/pylayer",
    "usr/share/fish/vendor_completions.d/pylayer.fish",
    "usr/share/zsh/site-functions/_pylayer",
}


def names(directory: Path, prefix: str = "") -> set[str]:
    """Returns the paths of the files and links below a directory."""
    return {prefix + str(path.relative_to(directory)) for path in files(directory)}


def test_versions() -> None:
    """The packages have the version of pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    debian = re.match(r"vk-pylayer \((\S+)\)", (ROOT / "packaging/debian/changelog").read_text())
    arch = re.search(r"^pkgver=(\S+)$", (ROOT / "packaging/arch/PKGBUILD").read_text(), re.M)
    assert debian and arch and debian[1] == arch[1] == version


def test_policy_for_all_users() -> None:
    """The policy file of the packages sets nothing, and each key in its comments may be set."""
    text = (ROOT / "packaging" / "policy.yaml").read_text()
    assert config.parse(text, "policy.yaml") == config.parse("", "policy.yaml")
    keys = "".join(f"{line}\n" for line in re.findall(r"^# ((?:\w+:|  -) .*)", text, re.M))
    assert {"preset", "max_store_mib", "trusted_keys"} <= set(config.Source("policy.yaml", keys).document)


def test_stage(user: User, tmp_path: Path) -> None:
    """A package has an environment with the wheel, the manifests that `pylayer install` writes, what only packages
    have, and no path of the machine that built it. Everything leads to /usr, whatever the umask."""
    root = tmp_path / "root"
    wheel = next((ROOT / "build/package/wheel").glob("*.whl"))
    with others.umask(0o077):
        subprocess.run([sys.executable, "-P", ROOT / "packaging/stage.py", root, wheel], check=True)
    assert user.pylayer("install", "--implicit").returncode == 0
    installed = names(user.data / "vulkan", "usr/share/vulkan/")
    rest = {name for name in names(root) if not name.startswith("usr/lib/pylayer/")}
    assert rest == installed | ONLY_PACKAGES and (root / INSTALLED_LIBRARY[1:]).is_file()
    for kind in ("explicit", "implicit"):
        bases = (root / "usr/share", user.data)
        mine, theirs = (json.loads((base / MANIFEST.format(kind)).read_text()) for base in bases)
        assert mine["layer"].pop("library_path") == INSTALLED_LIBRARY and theirs["layer"].pop("library_path")
        assert mine == theirs
    assert os.readlink(root / "usr/bin/pylayer") == "/usr/lib/pylayer/bin/pylayer"
    assert "ExecStart=/usr/bin/pylayer " in (root / "usr/lib/systemd/user/pylayer-pull.service").read_text()
    for path in (path for path in root.rglob("*") if not path.is_symlink()):
        assert path.stat().st_mode & 0o777 in (0o755, 0o644), path
        assert path.is_dir() or str(root).encode() not in path.read_bytes(), path
