"""The environment of a program: builds one that switches the layer on or keeps it out, and tells what one does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from .. import LAYER_NAME
from . import installed, layer_files

#: Keeps the layer out of a program and takes precedence over everything that switches it on. The loader checks it for
#: an implicit layer, the layer itself for an explicit one. Any value counts.
DISABLE = "DISABLE_PYLAYER"
#: Switches the layer on if its implicit manifest is installed.
ENABLE = "ENABLE_PYLAYER"
#: Values of PYLAYER_LOG.
LOG_LEVELS = ("error", "warn", "info", "debug")


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
    if variable == "VK_LAYER_PATH" or not installed.is_installed_in_usr():
        own = layer_files.manifest_directory()
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


def _matches(environment: Mapping[str, str], variable: str) -> bool:
    """Returns whether one of the loader's lists of patterns names the layer."""
    patterns = environment.get(variable, "").lower().split(",")
    return any(fnmatchcase(LAYER_NAME.lower(), pattern.strip()) for pattern in patterns)


def requests_layer(environment: Mapping[str, str]) -> bool:
    """Returns whether an environment asks the loader for the layer by its name."""
    names = environment.get("VK_INSTANCE_LAYERS", "").split(":")
    return LAYER_NAME in names or _matches(environment, "VK_LOADER_LAYERS_ENABLE")


def _is_disabled(environment: Mapping[str, str]) -> bool:
    """Returns whether VK_LOADER_LAYERS_DISABLE keeps the layer out. Two other lists take precedence over it."""
    if any(_matches(environment, f"VK_LOADER_LAYERS_{word}") for word in ("ENABLE", "ALLOW")):
        return False
    words = {word.strip() for word in environment.get("VK_LOADER_LAYERS_DISABLE", "").split(",")}
    is_implicit = ENABLE in environment and not requests_layer(environment)
    every = {"~all~", "~implicit~" if is_implicit else "~explicit~"}
    return bool(words & every) or _matches(environment, "VK_LOADER_LAYERS_DISABLE")


def obstacles(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields what in an environment keeps the layer from starting, each with what to do about it."""
    if DISABLE in environment:
        yield f"{DISABLE} is set: the layer does nothing in programs that are started with it", f"Unset {DISABLE}."
    if _is_disabled(environment):
        found = f"VK_LOADER_LAYERS_DISABLE={environment['VK_LOADER_LAYERS_DISABLE']} names the layer"
        yield found, "Loaders since 1.3.234 do not load it; remove it from that list."
    value = environment.get(ENABLE, "1")
    if value != "1" and not requests_layer(environment):
        yield f"{ENABLE}={value} does not enable the layer", f"The loader accepts only {ENABLE}=1."
