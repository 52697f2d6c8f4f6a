"""The environment that switches the layer on for a program, and the one that keeps it out."""

from __future__ import annotations

from collections.abc import Mapping

from .. import LAYER_NAME

#: Keeps the layer out of a program, whatever else asks for it. The loader looks at it for an implicit layer, the layer
#: itself for an explicit one; to be set is enough.
DISABLE = "DISABLE_PYLAYER"
#: Asks for the layer where its implicit manifest is installed.
ENABLE = "ENABLE_PYLAYER"


def _without_layer(names: str, separator: str) -> list[str]:
    return [name for name in names.split(separator) if name and name != LAYER_NAME]


def with_layer(environment: Mapping[str, str], manifest_directory: str) -> dict[str, str]:
    """``environment`` with the layer in front of those already asked for.

    VK_ADD_LAYER_PATH adds to the loader's own places. Where VK_LAYER_PATH is set, even to nothing, the loader
    looks only there and ignores VK_ADD_LAYER_PATH, so the directory goes there.
    """
    result = dict(environment)
    variable = "VK_LAYER_PATH" if "VK_LAYER_PATH" in environment else "VK_ADD_LAYER_PATH"
    places = [place for place in environment.get(variable, "").split(":") if place and place != manifest_directory]
    result[variable] = ":".join([manifest_directory, *places])
    others = _without_layer(environment.get("VK_INSTANCE_LAYERS", ""), ":")
    result["VK_INSTANCE_LAYERS"] = ":".join([LAYER_NAME, *others])
    return result


def without_layer(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with the layer taken out of the lists that switch layers on, and kept out."""
    result = {**environment, DISABLE: "1"}
    result.pop(ENABLE, None)
    for variable, separator in (("VK_INSTANCE_LAYERS", ":"), ("VK_LOADER_LAYERS_ENABLE", ",")):
        if variable in result:
            result[variable] = separator.join(_without_layer(result[variable], separator))
    return result
