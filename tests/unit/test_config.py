"""Policy files: the default one documents and equals the built-in defaults, and errors have a place and a reason."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

import pylayer
from pylayer.common import config
from pylayer.common.settings import DEFAULTS, TOP_DEFAULTS

DEFAULT_FILE = Path(pylayer.__file__).parent / "data" / "config" / "default.yaml"
SCHEMA = config.schema()
SETTINGS_KEYS = ", ".join(sorted(SCHEMA["definitions"]["settings"]["properties"]))
TOP_KEYS = ", ".join(sorted(SCHEMA["properties"]))
CONDITIONS = "application, device, driver, engine, executable, vendor"


def why_no_date(year: int, month: int, day: int) -> str:
    """What this version of Python says about an impossible date."""
    with pytest.raises(ValueError) as caught:
        datetime.date(year, month, day)
    return str(caught.value)


def test_default_file_equals_the_defaults() -> None:
    """default.yaml is valid and equals the defaults."""
    document = config.read(str(DEFAULT_FILE))
    assert document.pop("settings") == DEFAULTS
    assert document.pop("rules") == []
    assert document.pop("skip") and TOP_DEFAULTS["skip"] == [], "the built-in rules are compiled into the layer"
    assert document == {key: value for key, value in TOP_DEFAULTS.items() if key != "skip"}


def test_examples_in_the_default_file_are_valid() -> None:
    """The rules that default.yaml shows as comments work when uncommented."""
    text = DEFAULT_FILE.read_text()
    head, _, examples = text.partition("rules: []\n")
    document = config.parse(head + "rules:\n" + re.sub(r"^#", "", examples, flags=re.M), "example")
    assert len(document["rules"]) == 2


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        # errors of the YAML itself
        ("a: [1", 1, "not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        ("share: all\nx: 'a", 2, "not YAML: while scanning a quoted scalar, found unexpected end of stream"),
        (
            "\n\ta: 1",
            2,
            "not YAML: while scanning for the next token, found character '\\t' that cannot start any token",
        ),
        ("share: all\n\n\0", 3, "not YAML: special characters are not allowed"),
        ("share: 2001-99-99", 0, f"not YAML: {why_no_date(2001, 99, 99)}"),
        ("? [a]\n: 1", 1, "not YAML: while constructing a mapping, found unhashable key"),
        (
            "share: all\n---\nshare: all",
            2,
            "not YAML: expected a single document in the stream, but found another document",
        ),
        (
            "share: !!python/name:os.system x",
            1,
            "not YAML: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("share: all\nsettings: {}\nshare: all", 3, "not YAML: the key 'share' appears twice"),
        ("settings:\n  mode: off\n  mode: off", 3, "not YAML: the key 'mode' appears twice"),
        # documents of another shape
        ("- a", 1, "the file is a list; allowed: a mapping"),
        ("text", 1, "the file is 'text'; allowed: a mapping"),
        ("settings:", 1, "settings is null; allowed: a mapping"),
        ("share: all\nsettings: [a]", 2, "settings is a list; allowed: a mapping"),
        ("rules: {}", 1, "rules is a mapping; allowed: a list"),
        ("rules:\n- a", 2, "rules.0 is 'a'; allowed: a mapping"),
        # unknown keys
        ("share: all\nshared: 1", 2, f"unknown key 'shared' in the file; did you mean share? allowed: {TOP_KEYS}"),
        ("1: a\nb: c", 1, f"unknown key 1 in the file; allowed: {TOP_KEYS}"),
        (
            "settings:\n  mode: auto\n  mde: off",
            3,
            f"unknown key 'mde' in settings; did you mean mode? allowed: {SETTINGS_KEYS}",
        ),
        (
            "rules:\n- match: {vendor: 1}\n  set:\n    nope: 1",
            4,
            f"unknown key 'nope' in rules.0.set; allowed: {SETTINGS_KEYS}",
        ),
        ("rules:\n- match: {gpu: x}\n  set: {}", 2, f"unknown key 'gpu' in rules.0.match; allowed: {CONDITIONS}"),
        ("rules:\n- match: {vendor: 1}\n  set: {}\n  why: x", 4, "unknown key 'why' in rules.0; allowed: match, set"),
        # values
        ("share: some", 1, "share is 'some'; allowed: program, all"),
        ("share: null", 1, "share is null; allowed: program, all"),
        (
            "settings:\n  mode: blobs",
            2,
            "settings.mode is 'blobs'; allowed: auto, cells, binaries, observe, off",
        ),
        (
            "settings: {mode: false}",
            1,
            "settings.mode is false; allowed: auto, cells, binaries, observe, off",
        ),
        ("settings: {driver_cache: off}", 1, "settings.driver_cache is 'off'; allowed: keep, replace"),
        ("settings: {driver_cache: true}", 1, "settings.driver_cache is true; allowed: keep, replace"),
        (
            "settings: {application_caches: x}",
            1,
            "settings.application_caches is 'x'; allowed: attest, strict, check, report, pass",
        ),
        ("settings: {record_state: yes}", 1, "settings.record_state is 'yes'; allowed: true or false"),
        ("state_mib: '64'", 1, "state_mib is '64'; allowed: a whole number"),
        ("state_mib: 1.5", 1, "state_mib is 1.5; allowed: a whole number"),
        ("state_mib: 0", 1, "state_mib is 0; allowed: at least 1"),
        ("state_mib: 1048577", 1, "state_mib is 1048577; allowed: at most 1048576"),
        ("state_mib: true", 1, "state_mib is true; allowed: a whole number"),
        ("state_mib: .inf", 1, "state_mib is inf; allowed: a whole number"),
        ("\nstate_mib: .nan", 2, "state_mib is nan; allowed: a whole number"),
        ("policy: MyPolicy", 1, "policy is 'MyPolicy'; allowed: module:Class"),
        ("policy: 5", 1, "policy is 5; allowed: text or null"),
        (f"policy: {'x' * 200}", 1, f"policy is '{'x' * 76}...; allowed: module:Class"),
        ('policy: "a\\nb"', 1, "policy is 'a\\nb'; allowed: module:Class"),
        # rules
        ("rules:\n- match: {vendor: 1}", 2, "rules.0 lacks set; allowed: match, set"),
        ("rules:\n- {}", 2, "rules.0 lacks match, set; allowed: match, set"),
        ("rules:\n- match: {}\n  set: {}", 2, "rules.0.match is a mapping; allowed: at least one condition"),
        (
            "rules:\n- match: {vendor: 1}\n  set: {}\n- match:\n    vendor: amd\n  set: {}",
            5,
            "rules.1.match.vendor is 'amd'; allowed: a whole number",
        ),
        (
            "rules:\n- match: {vendor: 4294967296}\n  set: {}",
            2,
            "rules.0.match.vendor is 4294967296; allowed: at most 4294967295",
        ),
        ("rules:\n- match: {vendor: -1}\n  set: {}", 2, "rules.0.match.vendor is -1; allowed: at least 0"),
        ("rules:\n- match: {executable: 7}\n  set: {}", 2, "rules.0.match.executable is 7; allowed: text"),
    ],
)
def test_errors(text: str, line: int, problem: str) -> None:
    """An error is one line: file, line, key, what was found and what is allowed."""
    with pytest.raises(config.PolicyFileError) as caught:
        config.parse(text, "policy")
    assert str(caught.value) == (f"policy, line {line}: {problem}" if line else f"policy: {problem}")


#: Files for which PyYAML raised undocumented errors or used endless memory; most were found by tests/fuzz.
HOSTILE = [
    *("[" * 1000, "{" * 1000, "a: &a [*a]", "settings: &a {mode: *a}", "? ? ? a"),
    *("share: !!timestamp x", "share: !!int ''", "share: !!float ''", "!!int '': 5", "share: !!bool x"),
    *("max_store_mib: 0x" + "f" * 4000, "max_store_mib: -0x" + "f" * 4000),
    *("!!" + "x" * 4000 + " a", "&" + "x" * 5000 + " *y", "'" + "k" * 5000 + "': 1"),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_yaml(text: str) -> None:
    """Endless nesting, structures that contain themselves and values without end are errors of the file, each in one
    line of readable length."""
    with pytest.raises(config.PolicyFileError) as caught:
        config.parse(text, "policy.yaml")
    assert str(caught.value).startswith("policy.yaml")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_merges() -> None:
    """A merge of YAML 1.1 is an unknown key, also if each line doubles the one before."""
    lines = ["x0: &x0 {a: 1, b: 2}"] + [f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}" for n in range(1, 40)]
    for text in ("\n".join(lines), "settings: &a {mode: cells}\nrules:\n- {match: {vendor: 1}, set: {<<: *a}}"):
        with pytest.raises(config.PolicyFileError, match="unknown key"):
            config.parse(text, "policy.yaml")


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("", {}),
        ("# nothing\n", {}),
        ("settings: {mode: off}", {"settings": {"mode": "off"}}),
        ("settings: {record_state: False}", {"settings": {"record_state": False}}),
        ("state_mib: 0x10", {"state_mib": 16}),
        ("policy: a:B", {"policy": "a:B"}),
        (
            "rules:\n- match: {vendor: 0x10de, device: 'RTX*'}\n  set: {mode: observe}",
            {"rules": [{"match": {"vendor": 0x10DE, "device": "RTX*"}, "set": {"mode": "observe"}}]},
        ),
    ],
)
def test_accepted(text: str, document: dict[str, Any]) -> None:
    """What people write is accepted: off without quotes, hexadecimal numbers, fractions, an empty file."""
    assert config.parse(text, "policy") == document


def combined(*documents: dict[str, Any]) -> dict[str, Any]:
    return config.merged(config.with_presets([config.Source("policy", json.dumps(one)) for one in documents]))


def test_system_and_user() -> None:
    """The user's document lies over the system's: mappings are combined, lists are joined with the system's first, and
    all else is the user's. The system's preset counts only if the user names none."""
    key = "pylayer-ed25519:" + "A" * 43 + "="
    system = {
        "preset": "players",
        "share": "program",
        "skip": [{"executable": "a"}],
        "fleet": {"url": "https://a.example/", "keys": [{"name": "a", "key": key}]},
        "settings": {"mode": "cells", "driver_cache": "replace"},
    }
    user = {
        "skip": [{"executable": "b"}],
        "fleet": {"keys": [{"name": "b", "key": key}]},
        "settings": {"mode": "observe"},
    }
    found = combined(system, user)
    assert found["skip"] == [{"executable": "a"}, {"executable": "b"}]
    keys = [{"name": "a", "key": key}, {"name": "b", "key": key}]
    assert found["fleet"] == {"url": "https://a.example/", "keys": keys}
    assert found["settings"]["mode"] == "observe" and found["settings"]["driver_cache"] == "replace"
    assert found["preset"] == "players" and found["share"] == "program" and "max_store_mib" in found
    assert "max_store_mib" not in combined(system, {"preset": None})
