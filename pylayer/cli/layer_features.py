"""Builds ``features`` of the layer's manifest: its settings and presets, as vkconfig and other tools show them. They
are made from the policy schema, so a setting that is added to the schema appears here too.

vkconfig writes every setting of a layer to its file, changed or not. common/layer_settings.py therefore treats a
setting that has its default there as not set.
"""

from __future__ import annotations

import json
from typing import Any

from .. import LAYER_NAME
from ..common.layer_settings import definitions, schema
from ..common.settings import DEFAULTS
from .layer_files import package_directory

#: The prefix of a setting's environment variable: the layer's name without VK_LAYER_. The setting's name follows.
VARIABLE_PREFIX = LAYER_NAME.replace("VK_LAYER_", "VK_").upper() + "_"
#: Units by the suffix of a key, used if the schema names no unit.
UNITS = {"_mib": "MiB", "_ms": "ms", "_percent": "%"}
#: Settings for ordinary users. Tools show all other settings as advanced.
STANDARD = ("carrier", "application_caches", "log_level")


def _label(key: str) -> str:
    for suffix in UNITS:
        key = key.removesuffix(suffix)
    return key.replace("_", " ").capitalize()


def _unit(key: str, definition: dict[str, Any]) -> str | None:
    found = next((unit for suffix, unit in UNITS.items() if key.endswith(suffix)), None)
    return definition.get("unit", found)


def _flags(definition: dict[str, Any]) -> list[dict[str, str]]:
    meanings = definition.get("enumDescriptions") or definition["enum"]
    return [
        {"key": word, "label": word, "description": meaning}
        for word, meaning in zip(definition["enum"], meanings, strict=True)
    ]


def _setting(key: str, definition: dict[str, Any]) -> dict[str, Any]:
    default = definition.get("default", DEFAULTS.get(key))
    result: dict[str, Any] = {
        "key": key,
        "env": VARIABLE_PREFIX + key.upper(),
        "label": _label(key),
        "description": definition.get("description", _label(key)),
        "view": "STANDARD" if key in STANDARD else "ADVANCED",
    }
    types = definition.get("type")
    if "enum" in definition:
        return {**result, "type": "ENUM", "default": default, "flags": _flags(definition)}
    if types == "boolean":
        return {**result, "type": "BOOL", "default": default}
    if types in ("integer", "number"):
        result["range"] = {"min": definition["minimum"], "max": definition["maximum"]}
        unit = _unit(key, definition)
        if unit:
            result["unit"] = unit
        return {**result, "type": "INT" if types == "integer" else "FLOAT", "default": default}
    # This setting has several types. The manifest format has no type for either a number or a word.
    return {**result, "type": "STRING", "default": "null" if default is None else str(default)}


def _value(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float)) else "null" if value is None else str(value)


def preset(name: str, text: str, known: dict[str, Any]) -> dict[str, Any] | None:
    """Converts a preset of config/ to a preset of the manifest, with those of its keys that are layer settings. Returns
    None if there are none. The description is the preset's first comment."""
    from ..common.config import parse

    document = parse(text, name)
    settings = document.get("settings") or {}
    beside = sorted(key for key in document if key != "settings")
    comment = text.split("\n", 1)[0].lstrip("# ").removeprefix(f"{name}:").strip()
    if not settings:
        return None
    if beside:
        comment += (
            f" This omits keys that only a policy file can set: {', '.join(beside)}; 'preset: {name}' there sets all."
        )
    values: list[dict[str, Any]] = []
    for key, value in settings.items():
        kind = _setting(key, known[key])["type"]
        values.append({"key": key, "value": str(_value(value)) if kind == "STRING" else _value(value)})
    return {
        "label": name.replace("-", " ").capitalize(),
        "description": comment,
        "platforms": ["LINUX"],
        "settings": values,
    }


def features() -> dict[str, Any]:
    """Returns ``layer.features`` of a manifest."""
    known = definitions(schema())
    presets = []
    for file in sorted((package_directory() / "data" / "config").iterdir()):
        name, _, suffix = file.name.rpartition(".")
        if suffix == "yaml" and name != "default":
            presets.append(preset(name, file.read_text(encoding="utf-8"), known))
    limits = sorted(key for key in known if key.endswith(tuple(UNITS)))
    others = sorted((key for key in known if key not in limits), key=lambda key: (key not in STANDARD, key))
    group = {
        "key": "limits",
        "label": "Limits",
        "description": "How long a program waits for the layer, and how much the layer keeps in memory.",
        "type": "GROUP",
        "view": "ADVANCED",
        "expanded": False,
        "settings": [_setting(key, known[key]) for key in limits],
    }
    return {
        "presets": [found for found in presets if found],
        "settings": [*(_setting(key, known[key]) for key in others), group],
    }


def with_features(manifest: str) -> str:
    """Returns a manifest's text with ``features`` added."""
    document = json.loads(manifest)
    document["layer"] |= {"platforms": ["LINUX"], "status": "ALPHA", "features": features()}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
