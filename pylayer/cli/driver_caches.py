"""Where drivers keep their own disk caches for a program: the environment that a program gets, and what fits in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..common.files import names_in, replace_file
from .output import Failure, human_bytes, usual_mode

#: What drivers find their caches by, and what is part of the keys in them. Names that end in _ begin others.
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


class Place(NamedTuple):
    """What decides where the driver's cache is for a program: who starts it, and the variables that it gets then. Words
    in capitals stand for what differs. Without an ``option``, these variables are set for ``pylayer warm``, too.
    ``evidence``: whether somebody tried that, or where it was read."""

    program: str
    option: str
    variables: dict[str, str]
    evidence: str


#: The table of docs/warm.md, which `make docs` writes, and what tests/cli/test_warm.py tries.
PLACES = (
    Place("any program that runs now", "--like PID", {}, "tried"),
    Place("another user's, a container's", "--cache-dir DIRECTORY", {"XDG_CACHE_HOME": "DIRECTORY"}, "tried"),
    Place(
        "Steam",
        "--steam NUMBER",
        _beside_captures("~/.local/share/Steam/steamapps/shadercache/NUMBER"),
        "variables read ([Proton#8926](https://github.com/ValveSoftware/Proton/issues/8926)); tried without Steam",
    ),
    Place(
        "Flatpak, if the runtime's driver is the system's",
        "--cache-dir ~/.var/app/ID/cache",
        {"XDG_CACHE_HOME": "~/.var/app/ID/cache"},
        "read (its documentation, XDG base directories); tried without Flatpak",
    ),
    Place("Heroic 2.22.1", "", {}, "read (src/backend/launcher.ts sets none)"),
    Place(
        "Lutris 0.5.23",
        "",
        {"__GL_SHADER_DISK_CACHE": "1", "__GL_SHADER_DISK_CACHE_PATH": "GAME"},
        "read (lutris/runners/runner.py): GAME is the game's folder, else ~/.cache/lutris/shaders/RUNNER",
    ),
    Place(
        "Bottles 66.7, with DXVK and without umu",
        "",
        {
            "MESA_SHADER_CACHE_DIR": "BOTTLE/cache/mesa_shader",
            "__GL_SHADER_DISK_CACHE": "1",
            "__GL_SHADER_DISK_CACHE_PATH": "BOTTLE/cache/gl_shader",
        },
        "read (backend/wine/winecommand.py); tried without Bottles. It is a Flatpak, with the runtime's driver",
    ),
    Place(
        "Proton with umu's fixes and a local shader cache",
        "",
        _beside_captures("PREFIX/shadercache"),
        "read (umu-protonfixes, umu_run.py of umu-launcher); tried without Proton",
    ),
)
#: Mesa's default (src/util/disk_cache_os.c).
MESA_BYTES = 1 << 30
#: So much stays free on the disk. Mesa deletes all of a cache's file when it cannot write the end of it.
SPARE_BYTES = 16 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _is_known(name: str) -> bool:
    return any(name == each or (each.endswith("_") and name.startswith(each)) for each in VARIABLES)


def known(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that drivers read."""
    return {name: value for name, value in environment.items() if _is_known(name)}


def places(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields where drivers may keep their caches with this environment. Not all of these are there."""
    for name in ("MESA_SHADER_CACHE_DIR", "MESA_GLSL_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH"):
        if environment.get(name):
            yield environment[name]
    home = environment.get("HOME", "")
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    yield from (os.path.join(cache, name) for name in names_in(cache) if name.startswith("mesa_shader_cache"))
    yield os.path.join(cache, "nvidia", "GLCache")
    yield os.path.join(home, ".nv", "GLCache")


def of_process(pid: int) -> dict[str, str]:
    """Returns this process's environment with a running program's variables in place of its own, as far as drivers read
    them. Raises Failure."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = os.fsdecode(file.read())
    except OSError as error:
        raise Failure(f"the variables of process {pid} cannot be read: {error.strerror or error}") from error
    theirs = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
    ours = {name: value for name, value in os.environ.items() if not _is_known(name)}
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


def of_database(scratch: str) -> dict[str, str]:
    """Returns the environment with which Mesa writes one file below a directory."""
    return os.environ | {"MESA_SHADER_CACHE_DIR": scratch, "MESA_DISK_CACHE_SINGLE_FILE": "1"}


def take_database(scratch: str, path: str) -> list[str]:
    """Moves what Mesa wrote below ``scratch`` to ``path`` and to its index beside it. Returns the variables with which
    Mesa reads it. Raises Failure."""
    found = [os.path.join(where, "foz_cache") for where, _, files in os.walk(scratch) if "foz_cache.foz" in files]
    if len(found) != 1:
        several = "there are several devices, and a database is of one; name its driver with VK_DRIVER_FILES"
        why = several if found else "the driver wrote nothing; only Mesa's drivers read such a file"
        raise Failure(f"{path} was not written: {why}")
    name = os.path.abspath(path).removesuffix(".foz")
    try:
        for end in (".foz", "_idx.foz"):
            with open(f"{found[0]}{end}", "rb") as file:
                replace_file(f"{name}{end}", file.read(), anywhere=True, mode=usual_mode())
    except OSError as error:
        raise Failure(f"{path} was not written: {error.strerror or error}") from error
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
    free, place = min((_free_bytes(place), place) for place in places(environment))
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
