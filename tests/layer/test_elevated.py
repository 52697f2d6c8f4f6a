"""Elevated processes: the loader activates installed layers in them too, but this layer does nothing there."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_steps import END, HOST
from namespaces import unshared
from others import public_copy
from world import BUILD, LAYER_NAME, PACKAGE, World

NOBODY = 65534
LAYER = "libVkLayer_pylayer_pipeline_cache.so"
STEPS = ("instance", "device", "pipelines", "1", "mapped", "_policy.", *END)

#: What makes a process elevated. Only root can make the first three. With "told", getauxval says so to the layer,
#: although secure_getenv returns every variable.
KINDS = ["setuid", "setgid", "capability"]

IN_ACCESS, IN_MODIFY, IN_OPEN, IN_CREATE = 1, 2, 0x20, 0x100
CAP_NET_BIND_SERVICE = 10


class Watch:
    """Watches some directories for names that are opened, read, written or created."""

    def __init__(self, *directories: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0
        self._directories: dict[int, Path] = {}
        for directory in directories:
            mask = IN_ACCESS | IN_MODIFY | IN_OPEN | IN_CREATE
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), mask)
            assert number >= 0
            self._directories[number] = directory

    def seen(self) -> set[str]:
        """Returns the paths, including a directory's own if it was opened."""
        found = set()
        try:
            while data := os.read(self._fd, 1 << 16):
                at = 0
                while at < len(data):
                    number, _, _, size = struct.unpack_from("iIII", data, at)
                    name = data[at + 16 : at + 16 + size].rstrip(b"\0").decode()
                    found.add(str(self._directories[number] / name))
                    at += 16 + size
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    """A directory that every user may read, with the package in it."""
    directory = Path(tempfile.mkdtemp(prefix="elevated-"))
    directory.chmod(0o755)
    public_copy(PACKAGE, directory / "site" / "pylayer")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def world(public: Path) -> World:
    """A world that every user may read, so that missing permissions cannot be the reason that a file is not opened."""
    directory = Path(tempfile.mkdtemp(dir=public))
    directory.chmod(0o755)
    world = World(directory)
    world.install_manifest(public / "site" / "pylayer")
    (directory / "own").mkdir()
    (directory / "own" / "policy.yaml").write_text("settings: {mode: cells}\n")
    return world


def elevated_program(directory: Path, kind: str) -> Path:
    program = directory / kind
    shutil.copy(HOST, program)
    if kind == "setgid":
        os.chown(program, 0, 0)
    program.chmod({"setuid": 0o4755, "setgid": 0o2755}.get(kind, 0o755))
    if kind == "capability":  # VFS_CAP_REVISION_2, effective
        os.setxattr(program, "security.capability", struct.pack("<5I", 0x02000001, 1 << CAP_NET_BIND_SERVICE, 0, 0, 0))
    return program


def start(public: Path, world: World, kind: str, **environment: str | None) -> str:
    """Runs a program with the store, policy file and log file where the layer would find them. The loader looks for the
    layer of an elevated one in the system's directories alone. Returns what it wrote to standard error."""
    own = world.directory / "own"
    command = [str(elevated_program(public, kind)), "layer", LAYER_NAME, *STEPS]
    if kind in KINDS:
        user = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
        line = f'mount --bind {world.manifests} /usr/share/vulkan/explicit_layer.d && exec "$@"'
        command = [*unshared("--mount"), "sh", "-c", line, "sh", *user, *command]
    environment |= {"VK_INSTANCE_LAYERS": None, "PYLAYER_CONFIG": str(own / "policy.yaml"), "PYLAYER_LOG": "debug"}
    done = world.run(command, PYLAYER_LOG_FILE=str(own / "log"), **environment)
    assert done.stdout.startswith("instance 0\ndevice 0\npipelines 0\n")
    return done.stderr


def test_the_same_program_not_elevated(public: Path, world: World) -> None:
    """Without elevated rights the same program loads policy, reads its file, stores and logs: the test below can
    fail."""
    assert "_policy. is mapped" in start(public, world, "plain")
    assert world.runs() and world.stored_files()
    assert (world.directory / "own" / "log").exists() and list((world.store / "policy").glob("*.flat"))


@pytest.mark.parametrize("kind", [*(pytest.param(kind, marks=pytest.mark.root) for kind in KINDS), "told"])
def test_nothing_is_loaded_read_or_written(public: Path, world: World, kind: str) -> None:
    """A program with more rights than its caller gets no interpreter, and the layer opens and creates no file. Its
    pipelines are created, and neither PYLAYER_LOG nor PYLAYER_LOG_FILE has any effect."""
    start(public, world, "plain")  # a store, with a kept plan
    log = world.directory / "own" / "log"
    log.unlink()
    before = sorted(world.store.rglob("*"))
    if kind in KINDS:  # the user who starts the program may read and write all of it
        for path in [world.store, *before]:
            path.chmod(0o777 if path.is_dir() else 0o666)
        log.parent.chmod(0o777)
    package = public / "site" / "pylayer"
    private = [path for path in (package / "_private").rglob("*") if path.is_dir()]
    told = {"LD_PRELOAD": str(BUILD / "tests" / "libpreloaded.so"), "TEST_ELEVATED": "1"} if kind == "told" else {}
    watch = Watch(world.store, *(path for path in before if path.is_dir()), log.parent, package, *private)
    errors = start(public, world, kind, **told)
    opened = watch.seen()
    watch.close()
    assert "_policy. is not mapped" in errors and "pylayer" not in errors
    assert opened == {str(package / LAYER)}
    assert sorted(world.store.rglob("*")) == before
