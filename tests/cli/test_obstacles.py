"""What keeps the layer out of a program: ``pylayer doctor`` and the list of obstacles say what the Vulkan loader does.
A program whose run is recorded tells that, under this system's loader and a browser's newer one."""

from __future__ import annotations

import glob
import os
import subprocess
from pathlib import Path
from unittest import mock

import pytest
from cli.user import DEMO, User

from pylayer import LAYER_NAME
from pylayer.cli import environment, manifests, status
from pylayer.cli.devices import probe
from pylayer.store.runs import read_all

#: Directories of loaders, the first of them the system's. Browsers bring one that needs no newer C library.
BROWSERS = [*glob.glob("/usr/lib*/chromium*/libvulkan.so.1"), *glob.glob("/opt/*/chrom*/libvulkan.so.1")]
LOADERS = {"system": "", **({"browser": BROWSERS[0]} if BROWSERS else {})}

#: Which manifests are installed, and their directories of variables: {none}, {explicit} and {implicit}.
EXPLICIT, IMPLICIT, BOTH, NONE = "explicit", "implicit", "both", ""
ON, NAMED = {"ENABLE_PYLAYER": "1"}, {"VK_INSTANCE_LAYERS": LAYER_NAME}
DISABLED, ENABLED, ALLOWED = (f"VK_LOADER_LAYERS_{word}" for word in ("DISABLE", "ENABLE", "ALLOW"))
PATH, ADD_PATH, IMPLICIT_PATH, ADD_IMPLICIT_PATH = (
    "VK_LAYER_PATH",
    "VK_ADD_LAYER_PATH",
    "VK_IMPLICIT_LAYER_PATH",
    "VK_ADD_IMPLICIT_LAYER_PATH",
)

#: What is installed, the variables, and what doctor says if the layer is not loaded.
COMBINATIONS = [
    (IMPLICIT, {}, "no variable enables it"),
    (IMPLICIT, ON, ""),
    (IMPLICIT, {"ENABLE_PYLAYER": "true"}, "ENABLE_PYLAYER=true"),
    (IMPLICIT, ON | {"DISABLE_PYLAYER": ""}, "DISABLE_PYLAYER"),
    (EXPLICIT, NAMED | {"DISABLE_PYLAYER": "1"}, "DISABLE_PYLAYER"),
    (EXPLICIT, NAMED, ""),
    (EXPLICIT, ON, "no implicit manifest"),
    (IMPLICIT, NAMED, "no explicit manifest"),
    (IMPLICIT, {"VK_INSTANCE_LAYERS": f"VK_LAYER_x:{LAYER_NAME}"}, "no explicit manifest"),
    (EXPLICIT, {"VK_INSTANCE_LAYERS": LAYER_NAME.lower()}, "no variable enables it"),
    (BOTH, NAMED, ""),
    (NONE, ON, "no implicit manifest"),
    (NONE, NAMED, "no explicit manifest"),
    (EXPLICIT, {ENABLED: "*pylayer*"}, ""),
    (IMPLICIT, {ENABLED: "*pylayer*"}, ""),
    (EXPLICIT, {ENABLED: "~explicit~"}, "no variable enables it"),
    (IMPLICIT, {ENABLED: "~implicit~"}, "no variable enables it"),
    (IMPLICIT, {ENABLED: "~all~"}, ""),
    (IMPLICIT, ON | {DISABLED: "~implicit~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "~explicit~"}, ""),
    (EXPLICIT, NAMED | {DISABLED: "~explicit~"}, DISABLED),
    (EXPLICIT, NAMED | {DISABLED: "~implicit~"}, ""),
    (BOTH, NAMED | {DISABLED: "~implicit~"}, ""),
    (BOTH, NAMED | {DISABLED: "~explicit~"}, DISABLED),
    (IMPLICIT, NAMED | {DISABLED: "~explicit~"}, ""),
    (IMPLICIT, ON | {DISABLED: "~ALL~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: " ~all~"}, ""),
    (IMPLICIT, ON | {DISABLED: "VK_LAYER_x,~implicit~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "*py*"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "VK_LAYER_PYLAYER*"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "*pipeline_CACHE"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "*"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "VK_*_cache"}, ""),
    (IMPLICIT, ON | {DISABLED: LAYER_NAME[:-1] + "?"}, ""),
    (IMPLICIT, ON | {DISABLED: "~all~", ALLOWED: "*pylayer*"}, DISABLED),
    (EXPLICIT, NAMED | {DISABLED: LAYER_NAME, ALLOWED: LAYER_NAME}, DISABLED),
    (EXPLICIT, NAMED | {DISABLED: "~all~", ENABLED: "*pylayer*"}, ""),
    (EXPLICIT, NAMED | {DISABLED: "~all~", ENABLED: "~all~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "~implicit~", ENABLED: "~implicit~"}, DISABLED),
    (IMPLICIT, ON | {IMPLICIT_PATH: "{none}"}, IMPLICIT_PATH),
    (IMPLICIT, ON | {IMPLICIT_PATH: ""}, IMPLICIT_PATH),
    (NONE, ON | {IMPLICIT_PATH: "{none}:{implicit}"}, "no implicit manifest"),
    (NONE, ON | {IMPLICIT_PATH: "{implicit}/" + manifests.MANIFEST_NAME}, "no implicit manifest"),
    (NONE, ON | {ADD_IMPLICIT_PATH: "{implicit}"}, "no implicit manifest"),
    (NONE, ON | {ADD_IMPLICIT_PATH: "{implicit}", IMPLICIT_PATH: "{none}"}, "no implicit manifest"),
    (BOTH, NAMED | {IMPLICIT_PATH: "{none}"}, ""),
    (BOTH, NAMED | {PATH: "{none}"}, PATH),
    (EXPLICIT, NAMED | {PATH: "{none}"}, PATH),
    (EXPLICIT, NAMED | {PATH: ""}, PATH),
    (NONE, NAMED | {PATH: "{explicit}"}, ""),
    (NONE, NAMED | {PATH: "{explicit}/" + manifests.MANIFEST_NAME}, ""),
    (NONE, NAMED | {ADD_PATH: "{explicit}"}, ""),
    (NONE, NAMED | {ADD_PATH: "{explicit}", PATH: "{none}"}, PATH),
    (IMPLICIT, ON | {PATH: "{none}"}, ""),
    (NONE, ON | {PATH: "{implicit}"}, "no implicit manifest"),
    (IMPLICIT, NAMED | {ADD_PATH: "{explicit}", DISABLED: "~implicit~"}, ""),
]


def write_manifest(directory: Path, kind: str) -> None:
    directory.mkdir(parents=True)
    (directory / manifests.MANIFEST_NAME).write_text(manifests.manifest_text(kind))


@pytest.fixture
def places(user: User, tmp_path: Path) -> dict[str, str]:
    """The directories that variables name. No other manifest of the layer is on this machine."""
    user.environment |= {"XDG_DATA_DIRS": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    found = {name: str(tmp_path / f"own-{name}") for name in ("none", EXPLICIT, IMPLICIT)}
    for kind in (EXPLICIT, IMPLICIT):
        write_manifest(Path(found[kind]), kind)
    return found


@pytest.mark.parametrize("loader", LOADERS)
def test_what_the_loader_does(user: User, places: dict[str, str], tmp_path: Path, loader: str) -> None:
    """For each combination the layer is on where a program has a recorded run, and otherwise doctor says why. The list
    of obstacles knows it without asking the loader."""
    if LOADERS[loader]:
        (tmp_path / "loader").mkdir()
        (tmp_path / "loader" / "libvulkan.so.1").symlink_to(LOADERS[loader])
        user.environment["LD_LIBRARY_PATH"] = str(tmp_path / "loader")
    with mock.patch.dict(os.environ, user.environment, clear=True):
        version = environment.loader_version(probe("instance", environment=os.environ).found["version"])
    wrong = []
    for number, (kinds, variables, says) in enumerate(COMBINATIONS):
        data, store = tmp_path / f"data-{kinds}", tmp_path / f"store-{number}"
        for kind in (EXPLICIT, IMPLICIT):
            if kinds in (kind, BOTH) and not (data / "vulkan" / f"{kind}_layer.d").exists():
                write_manifest(data / "vulkan" / f"{kind}_layer.d", kind)
        given = {name: value.format(**places) for name, value in variables.items()}
        variables = user.environment | given | {"XDG_DATA_HOME": str(data), "PYLAYER_STORE": str(store)}
        subprocess.run([DEMO, "--count", "1"], env=variables, capture_output=True, check=True)
        is_on = bool(list(read_all(str(store))))
        with mock.patch.dict(os.environ, variables, clear=True):
            said, listed = status.of_environment(), environment.why_not(os.environ, version)
        if not (is_on == said.on == (not listed)) or (not is_on and says not in said.answer):
            wrong.append((kinds, given, is_on, said.answer, listed))
    assert not wrong, "\n".join(map(str, wrong))
