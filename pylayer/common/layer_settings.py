"""Layer settings of the Vulkan ecosystem: parses what the layer collected (layer_settings.c), and checks it against the
schema of policy files.

A program's process imports this module only if there are any. docs/policy.md has the order of precedence.
"""

from __future__ import annotations

import math
import os

from .settings import DEFAULTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Words for each source in messages, the weakest first.
SOURCES = {
    "application": "the application (VK_EXT_layer_settings)",
    "working-directory": "vk_layer_settings.txt in the working directory",
    "file": "vk_layer_settings.txt",
    "environment": "an environment variable",
}

#: Settings that are not accepted from the working directory. They keep data from the driver, and whoever controls the
#: working directory may also control that data.
NOT_FROM_WORKING_DIRECTORY = ("application_binaries", "application_caches")

#: The one layer setting that is no key of ``settings`` in a policy file. C obeys it, because the layer writes the log
#: before policy runs.
LOG_LEVEL = {
    "description": "What the layer writes to standard error, or to PYLAYER_LOG_FILE. PYLAYER_LOG takes precedence",
    "enum": ["off", "error", "warn", "info", "debug"],
    "enumDescriptions": [
        "nothing",
        "errors",
        "also warnings",
        "also each device and how its pipelines are stored",
        "all",
    ],
    "default": "off",
}


class LayerSettings:
    """The layer settings of an instance, parsed."""

    def __init__(self) -> None:
        #: Settings from the application. The policy file overrides them.
        self.by_application: dict[str, Any] = {}
        #: Settings from the user. They override the policy file.
        self.by_user: dict[str, Any] = {}
        #: A sentence for each setting that is not used.
        self.problems: list[str] = []

    @property
    def summary(self) -> str:
        """The settings in use, in one line."""
        parts = [f"{key} is {yaml_word(value)}" for key, value in self.by_user.items()]
        weaker = self.by_application.items()
        parts += [f"{key} is {yaml_word(value)} unless the policy file sets it" for key, value in weaker]
        return ", ".join(parts)


def yaml_word(value: Any) -> str:
    """Returns a value as a policy file writes it."""
    return {None: "null", True: "true", False: "false"}[value] if value is None or type(value) is bool else str(value)


def schema() -> dict[str, Any]:
    """Returns the JSON schema of policy files."""
    import json  # 7 ms, which config needs only for a file that is wrong

    with open(os.path.join(os.path.dirname(__file__), "policy.schema.json"), encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the name of each layer setting with its part of the schema."""
    return {**schema["definitions"]["settings"]["properties"], "log_level": LOG_LEVEL}


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    base = 16 if digits[:2] in ("0x", "0X") else 10
    if not digits.isalnum() or not digits.isascii():
        return None
    try:
        return int(text, base)
    except ValueError:  # letters, or more digits than Python converts (4300)
        return None


def _number(text: str) -> float | None:
    integer = _integer(text)
    if integer is not None:
        return integer
    try:
        number = float(text.removesuffix("f"))
    except ValueError:
        return None
    return number if math.isfinite(number) and text.isascii() and "_" not in text else None


def _boolean(text: str) -> bool | None:
    integer = _integer(text)
    if integer is not None:
        return integer != 0
    return {"true": True, "on": True, "false": False, "off": False}.get(text.lower())


def _read(definition: dict[str, Any], text: str) -> tuple[Any] | None:
    """Returns the value of a setting's text, in a tuple because it may be None. Returns None if it is invalid."""
    if "enum" in definition:
        return (text.lower(),) if text.lower() in definition["enum"] else None
    types = definition.get("type", ())
    types = [types] if isinstance(types, str) else types
    if "null" in types and text.lower() == "null":
        return (None,)
    value: bool | float | None = None
    if "boolean" in types:
        value = _boolean(text)
    elif "number" in types:
        value = _number(text)
    elif "integer" in types:
        value = _integer(text)
    if value is None or not definition.get("minimum", value) <= value <= definition.get("maximum", value):
        return None
    return (value,)


def _allowed(definition: dict[str, Any]) -> str:
    if "enum" in definition:
        return ", ".join(definition["enum"])
    types = definition["type"]
    if types == "boolean":
        return "true, false"
    words = "a whole number" if types == "integer" else "a number"
    bounds = f"{words} from {definition['minimum']} to {definition['maximum']}"
    return f"{bounds}, or null" if "null" in types else bounds


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def parse(text: str) -> LayerSettings:
    """Parses layer settings as the layer sends them: ``<source> <key>=<value>``, one a line."""
    result = LayerSettings()
    document = schema()
    known = definitions(document)
    for line in text.rstrip("\n").split("\n"):
        source, _, rest = line.partition(" ")
        key, _, value = rest.partition("=")
        found = _read(known[key], value) if key in known else None
        problem = None
        if key not in known:
            problem = "can be set only in the policy file" if key in document["properties"] else "does not exist"
        elif source == "working-directory" and key in NOT_FROM_WORKING_DIRECTORY:
            problem = "cannot be set there; use VK_LAYER_SETTINGS_PATH or the policy file"
        elif found is None:
            problem = f"is {_shown(value)}; allowed: {_allowed(known[key])}"
        if problem is not None:
            result.problems.append(f"layer setting {key} from {SOURCES.get(source, source)} {problem}; it is not used")
        elif key != "log_level" and found is not None:
            if source == "application":
                result.by_application.setdefault(key, found[0])
            # vkconfig writes all settings of a layer. Those that still have defaults must not override the policy file.
            elif source == "environment" or found[0] != DEFAULTS[key]:
                result.by_user[key] = found[0]
    return result
