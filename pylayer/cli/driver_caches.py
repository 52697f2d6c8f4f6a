"""Drivers' own disk caches: where a program's are, what fits in, and whether they have what ``pylayer warm`` gave.

That is kept so that the next ``warm`` sees without any driver that there is nothing to do. It holds as long as the same
would be given to the same drivers, and as their caches lost nothing. A driver's file that only grew still has what it
had. One that was replaced, cut, or begins otherwise may have lost something: Mesa changes the beginning of a file when
it evicts from it.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import xxhash

from ..common import file_kinds
from ..common.files import names_in, replace_file
from ..common.paths import system_store_root
from ..report.words import human_bytes
from ..store.store import Store
from . import manifests
from .output import Failure, failing, usual_mode
from .replaying import REPLAYER

#: How the names begin of what drivers find their caches by, and of what is part of the keys in them.
VARIABLES = (
    "HOME", "DRI_PRIME", "XDG_", "VK_", "MESA_", "RADV_", "ACO_", "AMD_", "NVK_", "NAK_", "NIR_", "ANV_", "INTEL_",
    "TU_", "HK_", "AGX_", "LP_", "GALLIVM_", "__GL_", "__NV_",
)  # fmt: skip
#: Where Steam's libraries are, below HOME.
STEAM = (".local/share/Steam", ".steam/steam", ".var/app/com.valvesoftware.Steam/.local/share/Steam")


def _beside_captures(place: str) -> dict[str, str]:
    """Returns the variables that Steam gives a game whose captures are in this directory. Proton with umu's fixes gives
    it the same."""
    return {
        "MESA_SHADER_CACHE_DIR": place,
        "MESA_GLSL_CACHE_DIR": place,
        "MESA_DISK_CACHE_SINGLE_FILE": "1",
        "__GL_SHADER_DISK_CACHE": "1",
        "__GL_SHADER_DISK_CACHE_PATH": f"{place}/nvidiav1",
        "__GL_SHADER_DISK_CACHE_APP_NAME": "steamapp_shader_cache",
        "__GL_SHADER_DISK_CACHE_SKIP_CLEANUP": "1",
    }


#: Mesa's default (src/util/disk_cache_os.c).
MESA_BYTES = 1 << 30
#: So much stays free on the disk. Mesa deletes all of a cache's file when it cannot write the end of it.
SPARE_BYTES = 16 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def known(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that drivers read."""
    return {name: value for name, value in environment.items() if name.startswith(VARIABLES)}


def places(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields where drivers may keep their caches with this environment: where it says, or by default. Not all of these
    are there."""
    home = environment.get("HOME", "")
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    mesa = [environment[name] for name in ("MESA_SHADER_CACHE_DIR", "MESA_GLSL_CACHE_DIR") if environment.get(name)]
    yield from mesa or (os.path.join(cache, name) for name in names_in(cache) if name.startswith("mesa_shader_cache"))
    nvidia = environment.get("__GL_SHADER_DISK_CACHE_PATH")
    yield from [nvidia] if nvidia else (os.path.join(cache, "nvidia", "GLCache"), os.path.join(home, ".nv", "GLCache"))


def of_process(pid: int) -> dict[str, str]:
    """Returns this process's environment with a running program's variables in place of its own, as far as drivers read
    them. Raises Failure."""
    with failing(f"the variables of process {pid} cannot be read"), open(f"/proc/{pid}/environ", "rb") as file:
        text = os.fsdecode(file.read())
    theirs = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    return ours | known(theirs)


def of_directory(path: str) -> dict[str, str]:
    """Returns the environment of programs whose XDG_CACHE_HOME is ``path``. Raises Failure."""
    if not os.path.isdir(path):
        raise Failure(f"{path} is no directory; give what the program has as XDG_CACHE_HOME")
    own = ("MESA_SHADER_CACHE_DIR", "MESA_GLSL_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH")
    return {name: value for name, value in os.environ.items() if name not in own} | {
        "XDG_CACHE_HOME": os.path.abspath(path)
    }


def of_steam(game: int) -> dict[str, str]:
    """Returns the environment that Steam gives a game, by the number in its address in the shop. Raises Failure."""
    for path in _steam_places():
        place = os.path.join(path, "steamapps", "shadercache", str(game))
        if os.path.isdir(place):
            return os.environ | _beside_captures(place)
    raise Failure(f"Steam has no steamapps/shadercache/{game}; start the game once, or use --like with its process")


def _steam_places() -> Iterator[str]:
    """Yields the directories of Steam's libraries."""
    for below in STEAM:
        root = os.path.join(os.path.expanduser("~"), below)
        yield root
        try:
            with open(os.path.join(root, "steamapps", "libraryfolders.vdf"), errors="replace") as file:
                lines = [line.split('"') for line in file if '"path"' in line]
        except OSError:
            continue
        yield from (parts[3] for parts in lines if len(parts) > 4)


def take_database(scratch: str, path: str) -> list[str]:
    """Moves the one file that Mesa wrote below ``scratch`` to ``path``, and its index beside it. Returns the variables
    with which Mesa reads it. Raises Failure."""
    found = [os.path.join(where, "foz_cache") for where, _, files in os.walk(scratch) if "foz_cache.foz" in files]
    if len(found) != 1:
        several = "there are several devices, and a database is of one; name its driver with VK_DRIVER_FILES"
        why = several if found else "the driver wrote nothing; only Mesa's drivers read such a file"
        raise Failure(f"{path} was not written: {why}")
    name = os.path.abspath(path).removesuffix(".foz")
    for end in (".foz", "_idx.foz"):
        with failing(f"{path} was not written"), open(f"{found[0]}{end}", "rb") as file:
            replace_file(f"{name}{end}", file.read(), anywhere=True, mode=usual_mode())
    # Mesa looks below its cache's directory. That is nowhere so deep that so many steps do not lead to the root.
    return [
        "MESA_DISK_CACHE_COMBINE_RW_WITH_RO_FOZ=1",
        f"MESA_DISK_CACHE_READ_ONLY_FOZ_DBS={'../' * 16}{name.lstrip('/')}",
    ]


def problem(environment: Mapping[str, str]) -> str:
    """Returns why drivers keep nothing with this environment; empty text if nothing of it says so."""
    for name in ("MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE"):
        if environment.get(name, "").lower() in ("1", "true", "yes", "y"):
            return f"{name} is set, so Mesa's drivers keep nothing"
    if environment.get("__GL_SHADER_DISK_CACHE", "") == "0":
        return "__GL_SHADER_DISK_CACHE is 0, so NVIDIA's driver keeps nothing"
    return ""


def most_bytes(environment: Mapping[str, str]) -> tuple[int, str]:
    """Returns how much a driver's cache may have, or get, and what says so."""
    named, found = set(environment.values()), list(places(environment))
    used = [place for place in found if place in named or os.path.isdir(place)]
    free, place = min((_free_bytes(place), place) for place in used or found)
    limits = [(max(free - SPARE_BYTES, 0), f"the disk of {place} has {human_bytes(free)} left")]
    for name in ("MESA_SHADER_CACHE_MAX_SIZE", "MESA_GLSL_CACHE_MAX_SIZE"):
        value = environment.get(name, "")
        number, unit = (value[:-1], value[-1]) if value[-1:].isalpha() else (value, "G")
        if number.isdecimal() and int(number) and unit.upper() in UNITS:
            return min((int(number) * UNITS[unit.upper()], f"{name}={value}"), *limits)
    value = environment.get("__GL_SHADER_DISK_CACHE_SIZE", "")
    if value.isdecimal() and int(value):
        return min((int(value), f"__GL_SHADER_DISK_CACHE_SIZE={value}"), *limits)
    return min((MESA_BYTES, f"drivers keep {human_bytes(MESA_BYTES)}"), *limits)


def _free_bytes(place: str) -> int:
    """Returns how much fits on the disk on which a directory is, or would be made; much if that is unknown."""
    while place and not os.path.isdir(place):
        place = os.path.dirname(place)
    try:
        found = os.statvfs(place or "/")
    except OSError:
        return 1 << 62
    return found.f_bavail * found.f_frsize


Files = dict[str, list[Any]]
#: So much of a file's beginning is compared. Mesa has a number there that it changes when it evicts, and behind it
#: times of uses.
HEAD_BYTES = 20
#: Of a cache with more files nothing is kept, because comparing them would take as long as asking the driver.
MOST_FILES = 4096
#: With a new driver, its manifest is new in one of these.
MANIFESTS = tuple(f"{base}/vulkan/icd.d" for base in ("/etc", "/usr/share", "/usr/local/share"))
BOOT = "/proc/sys/kernel/random/boot_id"


# ---- what pylayer warm gave them -----------------------------------------------------------------------------


class Warmed:
    """What was done for these programs with this environment."""

    def __init__(self, store: Store, programs: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._environment = environment
        #: As they were before anything was given: what is stored meanwhile is for the next one.
        self._inputs = _inputs((store.root, system_store_root()))
        digest = _digest([sorted(programs), sorted(known(environment).items())])
        self._path = os.path.join(store.root, file_kinds.WARMED.place, f"{digest}{file_kinds.WARMED}")
        self._kept = self._read()
        #: Whether the drivers' caches no longer have all that they had then. A sample of pipelines may not show it.
        self.cache_lost_files = bool(self._kept) and not self._has_all()

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, "rb") as file:
                kept = json.load(file)
            return kept if kept.keys() >= {"inputs", "drivers", "identities", "files", "works"} else {}
        except (OSError, ValueError, AttributeError):
            return {}

    def works(self) -> list[dict[str, Any]]:
        """Returns what was done, or nothing if something may have to be done."""
        is_same = self._kept.get("inputs") == self._inputs and not self.cache_lost_files
        drivers = self._kept.get("drivers", {})
        return list(self._kept["works"]) if is_same and drivers == _statuses(drivers) else []

    def keep(
        self, works: list[dict[str, Any]], drivers: Iterable[str], identities: Collection[str], seen: Collection[str]
    ) -> None:
        """Keeps what was done for drivers with these libraries and identities, if it is known where their caches are:
        at those of ``seen``, now or in an earlier time, files changed as the driver got data."""
        where = {*seen, *self._kept.get("identities", ())}
        files = cache_files(self._environment)
        if not works or not files or not where.issuperset(identities):
            return
        kept = {"inputs": self._inputs, "drivers": _statuses(drivers), "files": files, "works": works}
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            replace_file(self._path, json.dumps(kept | {"identities": sorted(identities)}).encode())
        except OSError:
            return  # the next one asks the driver

    def _has_all(self) -> bool:
        """Whether the drivers' caches still have what they had."""
        for path, (number, size, head) in self._kept["files"].items():
            now = _cache_file(path)
            if not now or (now[0], now[2]) != (number, head) or now[1] < size:
                return False
        return True


def _inputs(roots: tuple[str, ...]) -> str:
    """Returns a digest of what decides what is given, and to which devices."""
    paths = [os.path.join(manifests.package_directory(), REPLAYER), *MANIFESTS]
    paths += [path for root in roots for path in _stored(root)]
    devices = sorted([*glob.glob("/dev/dri/*"), *glob.glob("/dev/nvidia*")])
    with open(BOOT, encoding="ascii") as file:
        return _digest([_statuses(paths), devices, file.read()])


def _digest(value: Any) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(value).encode())


def _statuses(paths: Iterable[str]) -> dict[str, list[int]]:
    """Returns what changes when another file is at a path; nothing for one that is not there."""
    found = {}
    for path in paths:
        try:
            status = os.stat(path)
            found[path] = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        except OSError:
            found[path] = []
    return found


def _stored(root: str) -> Iterator[str]:
    """Yields the files of a store that hold pipelines, recordings and blocks."""
    kinds = (*file_kinds.COMPACTED, file_kinds.VERDICT)
    for folder in (os.path.join(root, "state"), *sorted(glob.glob(os.path.join(glob.escape(root), "store", "*")))):
        yield from (os.path.join(folder, name) for name in sorted(names_in(folder)) if name.endswith(kinds))


def cache_files(environment: Mapping[str, str]) -> Files:
    """Returns the files of the drivers' caches: their number, size and beginning. Nothing if there are too many."""
    found: Files = {}
    for place in places(environment):
        for folder, _, names in os.walk(place):
            for name in {*names} - {"index"}:  # if Mesa has a file for each entry, this begins with their sum
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
