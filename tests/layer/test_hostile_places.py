"""Code comes only from the installed package and from beside the policy file, whatever files are in the working
directory or the store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from host_steps import END, HOST
from world import PACKAGE, World

MODULES = (
    "_policy", "abc", "codecs", "encodings", "flat", "importlib", "io", "json", "os", "posix",
    "pylayer", "re", "session", "site", "sitecustomize", "string", "struct", "time", "typing", "usercustomize",
    "xxhash", "yaml", "_cffi_backend",
)  # fmt: skip

LIBRARY = r"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { close(open(MARK, O_CREAT | O_WRONLY, 0600)); }
"""


#: Nothing here depends on the driver.
QUICK = True


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library that creates the file ``mark`` in its directory when it is loaded."""
    directory = tmp_path_factory.mktemp("library")
    (directory / "x.c").write_text(LIBRARY)
    mark = f'-DMARK="{directory / "mark"}"'
    subprocess.run(["cc", "-shared", "-fPIC", mark, "-o", directory / "x.so", directory / "x.c"], check=True)
    return directory / "x.so"


def plant(directory: Path, library: Path) -> None:
    """Puts everything into the directory that a careless program would load code from."""
    directory.mkdir(parents=True, exist_ok=True)
    ran = f"open({str(library.parent / 'mark')!r}, 'w').close()\n"
    for name in MODULES:
        (directory / f"{name}.py").write_text(ran)
        (directory / name).mkdir(exist_ok=True)
        (directory / name / "__init__.py").write_text(ran)
        (directory / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}").write_bytes(library.read_bytes())
    (directory / "evil.pth").write_text(f"import os; {ran}")
    (directory / "pyvenv.cfg").write_text(f"home = {directory}\n")
    (directory / "python311.zip").write_bytes(b"")
    names = [path.name for path in PACKAGE.rglob("*.so*")]
    names += [sysconfig.get_config_var("INSTSONAME") or "libpython3.so", "libvulkan.so.1", "libffi.so.8"]
    for name in names:
        (directory / name).write_bytes(library.read_bytes())


def test_the_library_tells(library: Path) -> None:
    """Planted code that runs leaves the mark: the tests below can fail."""
    mark = library.parent / "mark"
    subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", library], check=True)
    assert mark.exists()
    mark.unlink()
    plant(library.parent / "planted", library)
    subprocess.run([sys.executable, "-c", "import yaml"], cwd=library.parent / "planted", check=False)
    assert mark.exists()
    mark.unlink()


def test_no_code_from_working_directory_or_store(world: World, library: Path) -> None:
    """Modules, packages, extension modules and libraries are beside the program, in its home and all over the store,
    and PYTHON* variables name them. None of them runs, and pipelines are stored as usual."""
    config = world.directory / "config" / "policy.yaml"
    world.demo("--count", 2)
    identity = world.stored_files()[0].parent
    home = world.directory / "home"
    user_site = home / ".local" / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    places = [world.directory, world.store, world.store / "policy", world.store / "runs", identity, home, user_site]
    for place in (*places, config.parent):
        plant(place, library)
    config.write_text("settings: {record_state: false}\n")  # a new policy file, so PyYAML is imported
    planted = str(world.directory)
    world.demo(
        "--count",
        4,
        PYLAYER_CONFIG=str(config),
        PYTHONPATH=os.pathsep.join(map(str, places)),
        PYTHONHOME=planted,
        PYTHONSTARTUP=f"{planted}/json.py",
        PYTHONUSERBASE=str(home / ".local"),
        PYTHONPYCACHEPREFIX=planted,
        PYTHONINSPECT="1",
        PYTHONPLATLIBDIR=planted,
    )
    assert not (library.parent / "mark").exists()
    assert world.last()["compiled"] == 2 and world.last()["hits"] == 2
    assert list(world.store.glob("policy/*.flat"))


def test_layer_by_a_relative_path(world: World, library: Path) -> None:
    """A layer loaded by a relative path takes the rest of its code from its own directory, even if the program changes
    to a directory in which that path leads to other files."""
    shutil.copytree(PACKAGE, world.directory / "site" / "pylayer")
    manifest = world.directory / "layers" / "layer.json"
    manifest.parent.mkdir()
    template = (PACKAGE / "data" / "manifests" / "VkLayer_pylayer_pipeline_cache.json").read_text()
    manifest.write_text(template.replace("../../lib", "../site/pylayer/lib"))
    evil = world.directory / "evil"
    (evil / "layers").mkdir(parents=True)
    ran = f"open({str(library.parent / 'mark')!r}, 'w').close()\n"
    for path in PACKAGE.rglob("*"):
        copy = evil / "site" / "pylayer" / path.relative_to(PACKAGE)
        if path.suffix == ".py" or ".so" in path.name:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(ran.encode() if path.suffix == ".py" else library.read_bytes())
    program = [str(HOST), "instance", "chdir", str(evil), "device", "pipelines", "1", *END]
    world.run(program, VK_ADD_LAYER_PATH="layers")
    assert not (library.parent / "mark").exists()
    assert world.last()["compiled"] == 1 and world.stored_files()


def test_the_command_line_takes_none_either(world: World, library: Path) -> None:
    """The installed command runs no planted code in its working directory."""
    plant(world.directory, library)
    command = Path(sys.executable).parent / "pylayer"
    for arguments in (["ls"], ["stats", "--json"], ["doctor"], ["run", "--", "true"]):
        world.run([str(command), *arguments], check=False, PYTHONPATH=None)
    assert not (library.parent / "mark").exists()
