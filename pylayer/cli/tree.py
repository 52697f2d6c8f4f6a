"""The installed tree: what ``pylayer install`` copies, so that neither the layer nor the command needs the environment
that it came from.

The place is ``~/.local/share/pylayer``, or for all users ``/usr/local/lib/pylayer``. In it:

``BUILD-DIGEST/``
    a tree: a virtual environment without pip. It has its name only when it is whole and on the disk; from then on
    nobody writes to it. BUILD is the build id, DIGEST is that of what else the tree is made of.
``current``
    a link to the tree in force. Manifests and the command lead through it, so one rename switches all of them. A
    program's process resolves it once, when it loads the layer.
``new-*``
    a tree that is being copied, or was when its process died. The next install or uninstall deletes it.

Only install and uninstall write here. Each holds a lock on the directory.
"""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.files import names_in
from . import layer_files
from .layer_files import CURRENT, PACKAGE, TREE
from .output import Failure, reason

UNFINISHED = "new-"
#: Modes of everything in a tree, whatever the umask: it holds no secret, and nobody but its owner may change it.
DIRECTORY_MODE, FILE_MODE, PROGRAM_MODE = 0o755, 0o644, 0o755
#: The extras of vk-pylayer that the command uses if they are installed.
EXTRAS = ("report", "fleet")
DISTRIBUTION = "vk-pylayer"

#: Starts the command. The interpreter is the one that the environment was made from, which a system upgrade may remove.
START = """#!/bin/sh
[ -x {python} ] || {{
    echo "pylayer: the command needs {interpreter}, which is gone; the layer needs no other Python, and still works;" \\
        "build pylayer with the Python that is there now, and run pylayer install again" >&2
    exit 1
}}
exec {python} -IB -m pylayer "$@"
"""


@dataclass(frozen=True)
class CopiedFile:
    """A file to copy, and its path in the tree."""

    path: Path
    target: str
    bytes: int


# ---- what a tree is made of --------------------------------------------------------------------------


def interpreter() -> Path:
    """Returns the Python that the environment of this command was made from."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))


def _site() -> str:
    return f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def distributions() -> list[importlib.metadata.Distribution]:
    """Returns vk-pylayer and all distributions that it requires, with those of its extras that are installed.

    Raises Failure if one is missing.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = [(DISTRIBUTION, True)]
    while wanted:
        name, is_needed = wanted.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        distribution = _distribution(name)
        if distribution is None:
            if is_needed:
                raise Failure(f"the package {name} is missing, so nothing was installed; install vk-pylayer again")
            continue
        found[key] = distribution
        for requirement in distribution.requires or ():
            words, _, marker = requirement.partition(";")
            extra = re.search(r"extra == ['\"]([^'\"]+)", marker)
            if extra and (name != DISTRIBUTION or extra[1] not in EXTRAS):
                continue
            needed = re.match(r"[A-Za-z0-9._-]+", words.strip())
            if needed:
                # A marker may be about another system or another Python: what it names is then not installed.
                wanted.append((needed[0], not marker))
    return [found[key] for key in sorted(found)]


def _with_bytecode(path: Path, target: str) -> Iterator[CopiedFile]:
    yield CopiedFile(path, target, path.stat().st_size)
    if path.suffix == ".py":
        compiled = Path(importlib.util.cache_from_source(str(path)))
        if compiled.is_file():
            yield CopiedFile(compiled, importlib.util.cache_from_source(target), compiled.stat().st_size)


def _sources(found: list[importlib.metadata.Distribution]) -> Iterator[CopiedFile]:
    """Yields every file of the tree that is copied. Raises Failure and OSError."""
    package = layer_files.package_directory()
    for top, directories, names in os.walk(package):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in names:
            path = Path(top, name)
            yield from _with_bytecode(path, f"{_site()}/pylayer/{path.relative_to(package)}")
    for distribution in found:
        files = distribution.files
        if files is None:
            raise Failure(f"the files of the package {distribution.name} are not known, so nothing was installed")
        for file in files:
            target = os.path.normpath(f"{_site()}/{file}")
            path = Path(str(file.locate()))
            # pylayer itself was copied from where it runs. Programs have the environment's Python written into them.
            if target.startswith(("../", "bin/", f"{_site()}/pylayer/")) or file.suffix == ".pyc" or not path.is_file():
                continue
            yield from _with_bytecode(path, target)


class Tree:
    """The tree that this command's installation makes."""

    def __init__(self) -> None:
        """Raises Failure if the installation is not complete."""
        found = distributions()
        build = layer_files.build_id()
        if not build or not layer_files.library_path().is_file():
            raise Failure(f"{layer_files.package_directory()} is not complete; install vk-pylayer again")
        try:
            self.sources = list(_sources(found))
        except OSError as error:
            raise Failure(f"{reason(error)}; nothing was installed; install vk-pylayer again") from error
        beside = sorted(
            f"{source.target} {source.bytes}" for source in self.sources if "_pylayer.libs" in source.target
        )
        parts = [str(interpreter()), *(f"{each.name} {each.version}" for each in found), *beside]
        self.name = f"{build}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"

    def is_whole(self, directory: Path) -> bool:
        """Returns whether the tree has all files in their full sizes."""
        try:
            return (directory / "bin" / "pylayer").is_file() and all(
                (directory / source.target).stat().st_size == source.bytes
                for source in self.sources
                if "__pycache__" not in source.target
            )
        except OSError:
            return False

    def write(self, directory: Path, final: Path) -> None:
        """Writes the tree. ``final``: the path that it will have. Raises OSError."""
        for source in self.sources:
            target = directory / source.target
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path, target)
            status = source.path.stat()
            # Bytecode is valid for the time of its source.
            os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
            target.chmod(FILE_MODE)
        python = interpreter()
        programs = directory / "bin"
        programs.mkdir()
        (programs / "python").symlink_to(python)
        (directory / PACKAGE).symlink_to(f"{_site()}/pylayer")
        (directory / "pyvenv.cfg").write_text(
            f"home = {python.parent}\ninclude-system-site-packages = false\n"
            f"version = {'.'.join(map(str, sys.version_info[:3]))}\n",
            encoding="utf-8",
        )
        start = START.format(python=shlex.quote(str(final / "bin" / "python")), interpreter=python)
        (programs / "pylayer").write_text(start, encoding="utf-8")
        site = str(directory / _site())
        skip = re.compile(re.escape(f"{site}/pylayer/_private/"))
        # What is in no bytecode yet. Whoever may not write here would compile it again at each start.
        compileall.compile_dir(site, quiet=2, rx=skip, stripdir=str(directory), prependdir=str(final))
        for top, _, names in os.walk(directory):
            Path(top).chmod(DIRECTORY_MODE)
            for name in names:
                path = Path(top, name)
                if not path.is_symlink():
                    path.chmod(PROGRAM_MODE if path.parent == programs else FILE_MODE)


# ---- the place of trees --------------------------------------------------------------------------------


def names(place: Path) -> list[str]:
    """Returns the names of the trees in a place."""
    return [name for name in names_in(str(place)) if TREE.fullmatch(name)]


def current(place: Path) -> str:
    """Returns the name of the tree in force; empty text if there is none."""
    try:
        return os.readlink(place / CURRENT)
    except OSError:
        return ""


def make_directory(path: Path, system: bool) -> None:
    """Creates a directory and its parents. With ``system``, everybody can read them. Raises OSError."""
    if path.is_dir():
        return
    make_directory(path.parent, system)
    path.mkdir(exist_ok=True)
    if system:
        path.chmod(DIRECTORY_MODE)


@contextlib.contextmanager
def locked(place: Path, system: bool) -> Iterator[None]:
    """Creates a place and holds its lock. Raises OSError."""
    while True:
        make_directory(place, system)
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # On NFS a directory cannot be locked. Two installs at once would then copy twice, and one would fail.
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX)
            # An uninstall may have removed the directory meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(place)):
                    yield
                    return
        finally:
            os.close(fd)


def _maps(tree: Path, pid: str) -> bool:
    """Returns whether a process has a file of the tree mapped. In a container the file may have another path, but it
    has the same number. Raises OSError."""
    inside = f"/{tree.name}/"
    for line in os.fsdecode(Path("/proc", pid, "maps").read_bytes()).split("\n"):
        _, found, file = line.partition(inside)
        if found and (f"{tree}/" in line or (tree / file).stat().st_ino == int(line.split()[4])):
            return True
    return False


def users(tree: Path) -> list[int]:
    """Returns the processes that use a tree, other than this one: that have a file of it mapped, or run its command."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            command = Path("/proc", pid, "cmdline").read_bytes()
            if int(pid) != os.getpid() and (os.fsencode(f"{tree}/") in command or _maps(tree, pid)):
                found.append(int(pid))
        except (OSError, ValueError):
            continue  # it ended, or is another user's
    return found


def _flush(directory: Path) -> None:
    """Waits until everything on the file system is on the disk: after a power cut, a tree with its name is whole."""
    from cffi import FFI

    # To flush each of some 2,000 files takes minutes on a hard disk; os.sync waits for other file systems too.
    ffi = FFI()
    ffi.cdef("int syncfs(int fd);")
    library: Any = ffi.dlopen(None)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if library.syncfs(fd):
            raise OSError(ffi.errno, os.strerror(ffi.errno), str(directory))
    finally:
        os.close(fd)


def remove_unfinished(place: Path) -> None:
    """Deletes what an install that died has left. Hold the lock. Raises OSError."""
    for name in os.listdir(place):
        if name.startswith(UNFINISHED):
            path = place / name
            path.unlink() if path.is_symlink() else shutil.rmtree(path)


def add(place: Path, tree: Tree) -> bool:
    """Copies a tree into a place, unless it is there. Returns whether it was copied. Hold the lock. Raises OSError; the
    place is then as it was."""
    final = place / tree.name
    if tree.is_whole(final):
        return False
    new = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place))
    try:
        tree.write(new, final)
        _flush(new)
        if final.exists():  # somebody deleted files of it
            final.rename(new.with_name(f"{new.name}-damaged"))
        new.rename(final)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return True


def unfinished_link(path: Path) -> Path:
    """Returns the name under which ``replace_link`` makes a link first."""
    return path.with_name(f"{UNFINISHED}{path.name}")


def replace_link(path: Path, target: str) -> None:
    """Makes ``path`` a link to ``target``, in one step if it is a link already. Hold the lock. Raises OSError."""
    new = unfinished_link(path)
    new.unlink(missing_ok=True)  # of an install that died
    try:
        new.symlink_to(target)
        new.rename(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def switch(place: Path, name: str) -> bool:
    """Puts a tree in force. Returns whether another one was, or none. Hold the lock. Raises OSError."""
    if current(place) == name:
        return False
    replace_link(place / CURRENT, name)
    return True


def remove_unused(place: Path, keep: set[str]) -> list[str]:
    """Deletes the trees that no process uses. Returns the names of the others that are not in ``keep``. Hold the lock.
    Raises OSError."""
    used = []
    for name in names(place):
        if name in keep:
            continue
        if users(place / name):
            used.append(name)
            continue
        # Without its name first: a tree that has its name is whole.
        dying = place / f"{UNFINISHED}{name}"
        (place / name).rename(dying)
        shutil.rmtree(dying)
    return used
