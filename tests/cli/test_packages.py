"""Packages for distributions: packaging/."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import others
from cli.user import User
from world import ROOT

from pylayer.common import config

MANIFEST = "vulkan/{}_layer.d/VkLayer_pylayer_pipeline_cache.json"
SITE = f"/usr/lib/pylayer/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pylayer"
LIBRARY = f"{SITE}/libVkLayer_pylayer_pipeline_cache.so"
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
    found = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return {prefix + str(path.relative_to(directory)) for path in found}


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
    assert rest == installed | ONLY_PACKAGES and (root / LIBRARY[1:]).is_file()
    for kind in ("explicit", "implicit"):
        bases = (root / "usr/share", user.data)
        mine, theirs = (json.loads((base / MANIFEST.format(kind)).read_text()) for base in bases)
        assert mine["layer"].pop("library_path") == LIBRARY and theirs["layer"].pop("library_path")
        assert mine == theirs
    assert os.readlink(root / "usr/bin/pylayer") == "/usr/lib/pylayer/bin/pylayer"
    assert "ExecStart=/usr/bin/pylayer " in (root / "usr/lib/systemd/user/pylayer-pull.service").read_text()
    for path in (path for path in root.rglob("*") if not path.is_symlink()):
        assert path.stat().st_mode & 0o777 in (0o755, 0o644), path
        assert path.is_dir() or str(root).encode() not in path.read_bytes(), path
