"""The environment of a program: builds one that switches the layer on or keeps it out, and tells what one does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import LAYER_NAME
from . import manifests

#: Keeps the layer out of a program and takes precedence over everything that switches it on. The loader checks it for
#: an implicit layer, the layer itself for an explicit one. Any value counts.
DISABLE = "DISABLE_PYLAYER"
#: Switches the layer on if its implicit manifest is installed.
ENABLE = "ENABLE_PYLAYER"
#: By kind of manifest, variables with directories and manifests: what the loader searches in place of its own
#: directories, and what it searches before them.
SEARCHED = {
    manifests.EXPLICIT: ("VK_LAYER_PATH", "VK_ADD_LAYER_PATH"),
    manifests.IMPLICIT: ("VK_IMPLICIT_LAYER_PATH", "VK_ADD_IMPLICIT_LAYER_PATH"),
}
#: Versions of loaders. Since the second, VK_INSTANCE_LAYERS may name an implicit layer.
Version = tuple[int, int, int]
ALLOW_SINCE, NAMES_IMPLICIT_SINCE, IMPLICIT_PATH_SINCE = (1, 3, 262), (1, 3, 262), (1, 3, 296)
NEWEST: Version = (9, 0, 0)
ELEVATED = "this process runs with another user's rights"
#: Values of PYLAYER_LOG.
LOG_LEVELS = ("error", "warn", "info", "debug")


#: Files whose presence tells which container this is.
MARKS = (("/.flatpak-info", "flatpak"), ("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
#: systemd's container interface. The first line of this file is the container manager's name.
MANAGER_FILE = "/run/host/container-manager"


def container(environment: Mapping[str, str], root: str = "") -> str:
    """Returns the name of the container manager whose container a process with this root directory and environment is
    in, or empty text outside of containers."""
    try:
        lines = Path(root + MANAGER_FILE).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = [""]
    found = lines[0].strip() or next((name for path, name in MARKS if os.path.exists(root + path)), "")
    # systemd's variable for the container manager is lower-case.
    return found or environment.get("container", "") or ("snap" if "SNAP" in environment else "")


def _without_layer(names: str, separator: str) -> list[str]:
    return [name for name in names.split(separator) if name and name != LAYER_NAME]


def with_layer(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` with the layer in front of the layers that it already switches on. Raises Failure if the
    installation is not complete.

    VK_ADD_LAYER_PATH adds to the loader's own directories. If VK_LAYER_PATH is set, even to nothing, the loader
    searches only there and ignores VK_ADD_LAYER_PATH, so the manifest's directory is added to VK_LAYER_PATH.

    Steam's containers show a package in /usr at another path. They rewrite the manifests that they find in the loader's
    own directories, and leave VK_ADD_LAYER_PATH as it is. Loaders since about 1.4.309 would use the manifest there,
    which leads to nothing. So such a package needs no directory.
    """
    result = dict(environment)
    variable = "VK_LAYER_PATH" if "VK_LAYER_PATH" in environment else "VK_ADD_LAYER_PATH"
    if variable == "VK_LAYER_PATH" or not manifests.is_installed_in_usr():
        own = manifests.manifest_directory()
        places = [place for place in environment.get(variable, "").split(":") if place and place != own]
        result[variable] = ":".join([own, *places])
    others = _without_layer(environment.get("VK_INSTANCE_LAYERS", ""), ":")
    result["VK_INSTANCE_LAYERS"] = ":".join([LAYER_NAME, *others])
    return result


def without_layer(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` with the layer removed from the lists that switch layers on, and with the layer
    disabled."""
    result = {**environment, DISABLE: "1"}
    result.pop(ENABLE, None)
    for variable, separator in (("VK_INSTANCE_LAYERS", ":"), ("VK_LOADER_LAYERS_ENABLE", ",")):
        if variable in result:
            result[variable] = separator.join(_without_layer(result[variable], separator))
    return result


def loader_version(number: int) -> Version:
    """Returns what vkEnumerateInstanceVersion says."""
    return number >> 22 & 0x7F, number >> 12 & 0x3FF, number & 0xFFF


def _fits(pattern: str) -> bool:
    """Returns whether a pattern of the loader's names the layer. Stars count only at its ends."""
    name, inner = LAYER_NAME.lower(), pattern.removeprefix("*").removesuffix("*")
    starts, ends = pattern.startswith("*"), pattern.endswith("*")
    if starts and ends:
        return inner in name
    return name.endswith(inner) if starts else name.startswith(inner) if ends else name == inner


def _names_layer(environment: Mapping[str, str], variable: str, *every: str) -> bool:
    """Returns whether one of the loader's lists of patterns names the layer, or has a word that stands for all."""
    patterns = environment.get(variable, "").lower().split(",")
    return any(pattern in every or _fits(pattern) for pattern in patterns)


def requests_layer(environment: Mapping[str, str]) -> bool:
    """Returns whether an environment asks the loader for the layer by its name."""
    named = LAYER_NAME in environment.get("VK_INSTANCE_LAYERS", "").split(":")
    return named or _names_layer(environment, "VK_LOADER_LAYERS_ENABLE", "~all~")


def _variables(kind: str, loader: Version) -> tuple[str, str]:
    """Returns the variables of ``SEARCHED`` that a loader knows; empty text for those that it does not know."""
    return SEARCHED[kind] if kind == manifests.EXPLICIT or loader >= IMPLICIT_PATH_SINCE else ("", "")


def _has_manifest(place: str) -> bool:
    return os.path.isfile(place if place.endswith(".json") else os.path.join(place, manifests.MANIFEST_NAME))


def _is_found(environment: Mapping[str, str], kind: str, loader: Version = NEWEST) -> bool:
    """Returns whether the loader finds a manifest of the layer: in directories that variables name, or in its own."""
    instead, added = _variables(kind, loader)
    named = environment.get(instead if instead in environment else added, "")
    if any(map(_has_manifest, filter(None, named.split(":")))):
        return True
    return instead not in environment and manifests.in_force(manifests.find(), kind) is not None


def _ways(environment: Mapping[str, str], loader: Version) -> list[str]:
    """Returns the kinds of manifests by which the loader loads the layer, if nothing forbids it."""
    named = LAYER_NAME in environment.get("VK_INSTANCE_LAYERS", "").split(":") and loader >= NAMES_IMPLICIT_SINCE
    implicit = environment.get(ENABLE) == "1" or named or _names_layer(environment, "VK_LOADER_LAYERS_ENABLE", "~all~")
    asked = {manifests.EXPLICIT: requests_layer(environment), manifests.IMPLICIT: implicit}
    return [kind for kind, wanted in asked.items() if wanted and _is_found(environment, kind, loader)]


def _is_disabled(environment: Mapping[str, str], kind: str, loader: Version) -> bool:
    """Returns whether VK_LOADER_LAYERS_DISABLE keeps the layer out. Two other lists take precedence over it."""
    allowed = loader >= ALLOW_SINCE and _names_layer(environment, "VK_LOADER_LAYERS_ALLOW")
    if allowed or _names_layer(environment, "VK_LOADER_LAYERS_ENABLE", "~all~"):
        return False
    return _names_layer(environment, "VK_LOADER_LAYERS_DISABLE", "~all~", f"~{kind}~")


def obstacles(environment: Mapping[str, str], loader: Version = NEWEST) -> Iterator[tuple[str, str]]:
    """Yields what in an environment keeps the layer from starting, each with what to do about it: the one list for
    ``run``, ``run --summary`` and ``doctor``. ``loader``: its version."""
    if os.geteuid() != os.getuid() or os.getegid() != os.getgid():
        yield ELEVATED, "The layer does nothing in such programs."
    if DISABLE in environment:
        yield f"{DISABLE} is set: the layer does nothing in programs that are started with it", f"Unset {DISABLE}."
    ways = _ways(environment, loader)
    kind = manifests.EXPLICIT if requests_layer(environment) or ENABLE not in environment else manifests.IMPLICIT
    if all(_is_disabled(environment, way, loader) for way in ways or [kind]):
        found = f"VK_LOADER_LAYERS_DISABLE={environment['VK_LOADER_LAYERS_DISABLE']} names the layer"
        yield found, "Loaders since 1.3.234 do not load it; remove it from that list."
    if ways:
        return
    value = environment.get(ENABLE, "1")
    if value != "1" and not requests_layer(environment):
        yield f"{ENABLE}={value} does not enable the layer", f"The loader accepts only {ENABLE}=1."
    variable, _ = _variables(kind, loader)
    asks = ENABLE in environment or requests_layer(environment)
    if asks and variable in environment and not _is_found(environment, kind, loader):
        instead = f"{variable}={environment[variable]} replaces the directories that the loader searches"
        found = f"{instead}, and no {kind} manifest of the layer is there"
        yield found, f"Unset {variable}, or use pylayer run."


def why_not(environment: Mapping[str, str], loader: Version = NEWEST) -> str:
    """Returns why the layer does not start in programs with this environment; empty text if it should."""
    for found, _ in obstacles(environment, loader):
        return found
    if _ways(environment, loader):
        return ""
    kind = manifests.EXPLICIT if requests_layer(environment) else manifests.IMPLICIT if ENABLE in environment else ""
    if not kind:
        return f"no variable enables it: neither {ENABLE}=1 nor VK_INSTANCE_LAYERS"
    return f"the loader finds no {kind} manifest: pylayer install --{kind} writes it"
