"""What ``pylayer warm`` did, kept so that the next one sees without any driver that there is nothing to do.

That holds as long as the same would be given to the same drivers, and as their caches lost nothing. A driver's file
that only grew still has what it had. One that was replaced, cut, or begins otherwise may have lost something: Mesa
changes the beginning of a file when it evicts from it.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import xxhash

from ..common import file_kinds
from ..common.files import names_in, replace_file
from ..common.paths import system_store_root
from . import driver_caches, layer_files
from .replaying import REPLAYER

if TYPE_CHECKING:
    from ..store.store import Store

Files = dict[str, list[Any]]
#: So much of a file's beginning is compared. Mesa has a number there that it changes when it evicts, and behind it
#: times of uses.
HEAD_BYTES = 20
#: Of a cache with more files nothing is kept, because comparing them would take as long as asking the driver.
MOST_FILES = 4096
LIBRARY = re.compile(rb'"library_path"\s*:\s*"([^"]+)"')
LINKER_CACHE = "/etc/ld.so.cache"
BOOT = "/proc/sys/kernel/random/boot_id"


class Warmed:
    """What was done for these programs with this environment."""

    def __init__(self, store: Store, programs: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._environment = environment
        #: As they were before anything was given: what is stored meanwhile is for the next one.
        self._inputs = _inputs((store.root, system_store_root()), environment)
        digest = _digest([sorted(programs), sorted(driver_caches.known(environment).items())])
        self._path = os.path.join(store.root, file_kinds.WARMED.place, f"{digest}{file_kinds.WARMED}")
        self._kept = self._read()
        #: Whether the drivers' caches no longer have all that they had then. A sample of pipelines may not show it.
        self.cache_lost_files = bool(self._kept) and not self._has_all()

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, "rb") as file:
                kept = json.load(file)
            return kept if kept.keys() >= {"inputs", "identities", "files", "works"} else {}
        except (OSError, ValueError, AttributeError):
            return {}

    def works(self) -> list[dict[str, Any]]:
        """Returns what was done, or nothing if something may have to be done."""
        is_same = self._kept.get("inputs") == self._inputs and not self.cache_lost_files
        return list(self._kept["works"]) if is_same else []

    def keep(self, works: list[dict[str, Any]], identities: Collection[str], seen: Collection[str]) -> None:
        """Keeps what was done for drivers with these identities, if it is known where their caches are: at those of
        ``seen``, now or in an earlier time, files changed as the driver got data."""
        where = {*seen, *self._kept.get("identities", ())}
        files = cache_files(self._environment)
        if not works or not files or not where.issuperset(identities):
            return
        kept = {"inputs": self._inputs, "identities": sorted(identities), "files": files, "works": works}
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            replace_file(self._path, json.dumps(kept).encode())
        except OSError:
            return  # the next one asks the driver

    def _has_all(self) -> bool:
        """Whether the drivers' caches still have what they had."""
        for path, (number, size, head) in self._kept["files"].items():
            now = _cache_file(path)
            if not now or (now[0], now[2]) != (number, head) or now[1] < size:
                return False
        return True


def _inputs(roots: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Returns a digest of what decides what is given, and to which driver."""
    paths = [os.path.join(layer_files.package_directory(), REPLAYER), LINKER_CACHE]
    paths += [path for root in roots for path in _stored(root)]
    paths += _driver_files(environment)
    devices = sorted([*glob.glob("/dev/dri/*"), *glob.glob("/dev/nvidia*")])
    return _digest([{path: _status(path) for path in paths}, devices, _content(BOOT).hex()])


def _digest(value: Any) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(value).encode())


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _status(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _stored(root: str) -> Iterator[str]:
    """Yields the files of a store that hold pipelines, recordings and blocks."""
    kinds = (*file_kinds.COMPACTED, file_kinds.VERDICT)
    for folder in (os.path.join(root, "state"), *sorted(glob.glob(os.path.join(glob.escape(root), "store", "*")))):
        yield from (os.path.join(folder, name) for name in sorted(names_in(folder)) if name.endswith(kinds))


def _manifests(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields the drivers' manifests that the Vulkan loader may read."""
    home = environment.get("HOME", "")
    usual = {
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_CONFIG_DIRS": "/etc/xdg",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_DATA_DIRS": "/usr/local/share:/usr/share",
    }
    bases = ":".join(environment.get(name) or usual[name] for name in usual).split(":")
    places = [os.path.join(base, "vulkan", "icd.d") for base in ("/etc", *bases)]
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"):
        places += filter(None, environment.get(name, "").split(":"))
    for place in places:
        yield from [os.path.join(place, name) for name in names_in(place) if name.endswith(".json")] or [place]


def _driver_files(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields the drivers' manifests, and the libraries that they name."""
    linked = _content(LINKER_CACHE)
    for path in _manifests(environment):
        yield path
        for name in LIBRARY.findall(_content(path)):
            if b"/" in name:
                yield os.path.join(os.path.dirname(path), os.fsdecode(name))
            else:
                yield from map(os.fsdecode, re.findall(rb"/[^\0]*/" + re.escape(name) + rb"(?=\0)", linked))


def cache_files(environment: Mapping[str, str]) -> Files:
    """Returns the files of the drivers' caches: their number, size and beginning. Nothing if there are too many."""
    found: Files = {}
    for place in driver_caches.places(environment):
        for folder, _, names in os.walk(place):
            for name in names:
                path = os.path.join(folder, name)
                if about := _cache_file(path):
                    found[path] = about
                if len(found) > MOST_FILES:
                    return {}
    return found


def _cache_file(path: str) -> list[Any]:
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            return [found.st_ino, found.st_size, file.read(HEAD_BYTES).hex()]
    except OSError:
        return []
