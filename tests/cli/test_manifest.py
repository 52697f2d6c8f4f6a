"""The manifest that `pylayer install` writes: what vkconfig and other tools show of the layer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cli.user import User
from world import LAYER_NAME, PACKAGE

from pylayer.cli import layer_features
from pylayer.common.config import read
from pylayer.common.layer_settings import definitions, parse, schema
from pylayer.common.settings import DEFAULTS

#: What vkconfig accepts for a setting: the keys of every setting, the further keys of each type, and the type of its
#: values.
COMMON = {"key", "label", "description", "view", "type"}
KEYS = {
    "BOOL": {"env", "default"},
    "ENUM": {"env", "default", "flags"},
    "FLOAT": {"env", "default", "range", "unit"},
    "INT": {"env", "default", "range", "unit"},
    "STRING": {"env", "default"},
    "GROUP": {"expanded", "settings"},
}
VALUES = {"BOOL": bool, "ENUM": str, "FLOAT": (int, float), "INT": int, "STRING": str}
PRESETS = sorted(path for path in (PACKAGE / "data" / "config").glob("*.yaml") if path.name != "default.yaml")


@pytest.fixture
def manifest(user: User) -> dict[str, Any]:
    """The manifest, as installed."""
    assert user.pylayer("install", "--in-place").returncode == 0
    (path,) = user.home.rglob("*.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def flat(settings: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the settings by key, including those in groups."""
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        found |= flat(setting["settings"]) if setting["type"] == "GROUP" else {setting["key"]: setting}
    return found


def broken(settings: list[dict[str, Any]]) -> Iterator[str]:
    """Yields what vkconfig would refuse: unknown keys, missing keys, values of another type."""
    for setting in settings:
        kind = setting["type"]
        if set(setting) | {"unit"} != COMMON | KEYS[kind] | {"unit"} or setting["view"] not in ("STANDARD", "ADVANCED"):
            yield f"{setting['key']}: keys of {kind}"
        if kind == "GROUP":
            yield from broken(setting["settings"])
        elif not isinstance(setting["default"], VALUES[kind]):
            yield f"{setting['key']}: default {setting['default']!r}"
        if any(set(flag) != {"key", "label", "description"} for flag in setting.get("flags", [])):
            yield f"{setting['key']}: flags"


def test_rules(manifest: dict[str, Any]) -> None:
    """The manifest has every key that vkconfig requires, and none that it does not know. Real loaders read it in
    tests/layer/test_switch.py."""
    layer = manifest["layer"]
    assert (manifest["file_format_version"], layer["library_arch"]) == ("1.2.1", "64") and layer["name"] == LAYER_NAME
    assert all(isinstance(layer[key], str) for key in ("api_version", "implementation_version", "description"))
    assert layer["instance_extensions"] == [{"name": "VK_EXT_layer_settings", "spec_version": "2"}]
    assert (layer["platforms"], layer["status"]) == (["LINUX"], "ALPHA")
    assert list(broken(layer["features"]["settings"])) == []
    types = {key: VALUES[setting["type"]] for key, setting in flat(layer["features"]["settings"]).items()}
    for preset in layer["features"]["presets"]:
        assert set(preset) == {"label", "description", "platforms", "settings"}
        assert all(isinstance(value["value"], types[value["key"]]) for value in preset["settings"])


def test_settings(manifest: dict[str, Any]) -> None:
    """Each setting of a policy file, and the log's level, is in the manifest with its possible values."""
    found = flat(manifest["layer"]["features"]["settings"])
    known = definitions(schema())
    assert set(found) == set(known) == {*DEFAULTS, "log_level"}
    for key, setting in found.items():
        assert setting["env"] == f"VK_PYLAYER_PIPELINE_CACHE_{key.upper()}"
        if setting["type"] == "ENUM":
            assert [flag["key"] for flag in setting["flags"]] == known[key]["enum"]
            assert setting["default"] in known[key]["enum"]
        if setting["type"] in ("INT", "FLOAT"):
            assert setting["range"] == {"min": known[key]["minimum"], "max": known[key]["maximum"]}
            assert setting["unit"]


def written(value: Any) -> str:
    """Returns a value as vkconfig writes it into vk_layer_settings.txt."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_what_vkconfig_writes(manifest: dict[str, Any]) -> None:
    """The layer accepts every default and every choice that a tool can write. Defaults override nothing."""
    found = flat(manifest["layer"]["features"]["settings"])
    defaults = parse("".join(f"file {key}={written(setting['default'])}\n" for key, setting in found.items()))
    assert defaults.problems == [] and defaults.by_user == {}
    for key, setting in found.items():
        choices = [flag["key"] for flag in setting.get("flags", [])] or list(setting.get("range", {}).values())
        for choice in choices or [True, False] * (setting["type"] == "BOOL"):
            assert parse(f"environment {key}={written(choice)}\n").problems == [], (key, choice)


def test_presets(manifest: dict[str, Any]) -> None:
    """Each preset of config/ that sets layer settings is in the manifest, with the same values."""
    expected = {path.stem.replace("-", " ").capitalize(): read(str(path)).get("settings") for path in PRESETS}
    presets = {preset["label"]: preset for preset in manifest["layer"]["features"]["presets"]}
    assert set(presets) == {label for label, settings in expected.items() if settings}
    for label, preset in presets.items():
        text = "".join(f"environment {value['key']}={written(value['value'])}\n" for value in preset["settings"])
        assert parse(text).problems == [] and parse(text).by_user == expected[label]
        assert len(preset["description"]) > 20


def test_preset_of_any_kind() -> None:
    """A preset's values have the settings' types. Its description names the keys that the manifest cannot set."""
    text = (
        "# night: for those who work late.\nshare: all\nmax_store_mib: 7\n"
        "settings: {carrier: observe, seed_application_caches: false, queue_mib: 2, fsync_interval_ms: null}\n"
    )
    preset = layer_features.preset("night", text, definitions(schema()))
    assert preset is not None
    assert {value["key"]: value["value"] for value in preset["settings"]} == {
        "carrier": "observe",
        "seed_application_caches": False,
        "queue_mib": 2,
        "fsync_interval_ms": "null",
    }
    assert preset["description"].startswith("for those who work late. This omits")
    assert "max_store_mib, share" in preset["description"]
    assert layer_features.preset("dawn", "# dawn: nothing\nshare: all\n", definitions(schema())) is None
