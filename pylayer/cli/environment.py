"""Builds the environment that switches the layer on for a program, and the one that keeps it out."""

from __future__ import annotations

from collections.abc import Mapping

from .. import LAYER_NAME

#: Keeps the layer out of a program and takes precedence over everything that switches it on. The loader checks it for
#: an implicit layer, the layer itself for an explicit one. Any value counts.
DISABLE = "DISABLE_PYLAYER"
#: Switches the layer on if its implicit manifest is installed.
ENABLE = "ENABLE_PYLAYER"


def _without_layer(names: str, separator: str) -> list[str]:
    return [name for name in names.split(separator) if name and name != LAYER_NAME]


def with_layer(environment: Mapping[str, str], manifest_directory: str) -> dict[str, str]:
    """Returns ``environment`` with the layer in front of the layers that it already switches on.

    VK_ADD_LAYER_PATH adds to the loader's own directories. If VK_LAYER_PATH is set, even to nothing, the loader
    searches only there and ignores VK_ADD_LAYER_PATH, so the manifest's directory is added to VK_LAYER_PATH.
    """
    result = dict(environment)
    variable = "VK_LAYER_PATH" if "VK_LAYER_PATH" in environment else "VK_ADD_LAYER_PATH"
    places = [place for place in environment.get(variable, "").split(":") if place and place != manifest_directory]
    result[variable] = ":".join([manifest_directory, *places])
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
