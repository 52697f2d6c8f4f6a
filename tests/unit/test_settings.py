"""Settings in force: patterns, rules and their order."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.things import facts, program

from pylayer.common.settings import DEFAULTS, glob_matches, settings_for


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("**", "anything", True),
        ("blender*", "Blender-4.1", True),
        ("blender", "blender-4.1", False),
        ("*.exe", "wine64 Game.EXE", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*a*b*c*", "xxaxxbxxcxx", True),
        ("*a*b*c*", "xxaxxcxxbxx", False),
        ("*ab", "aab", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a.c", "abc", False),
    ],
)
def test_glob(pattern: str, text: str, matches: bool) -> None:
    """A pattern matches the whole text, in any case. Only * and ? are special."""
    assert glob_matches(pattern, text) is matches


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="abAB*?", max_size=10))
def test_glob_equals_a_regular_expression(pattern: str, text: str) -> None:
    """The hand-written match agrees with the obvious regular expression."""
    expression = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    assert glob_matches(pattern, text) is bool(re.fullmatch(expression, text, re.I | re.S))


def test_rules_in_order() -> None:
    """Settings override defaults. Matching rules override settings key by key, and later rules override earlier
    ones."""
    document = {
        "settings": {"mode": "cells", "record_state": False},
        "rules": [
            {"match": {"vendor": 0x1002}, "set": {"mode": "observe", "driver_cache": "replace"}},
            {"match": {"executable": "other"}, "set": {"record_state": True}},
            {"match": {"executable": "stutter"}, "set": {"mode": "off"}},
        ],
    }
    in_force = settings_for(document, program(), facts())
    assert in_force == {**DEFAULTS, "mode": "off", "record_state": False, "driver_cache": "replace"}


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({"executable": "Stutter"}, True),
        ({"application": "stut*"}, True),
        ({"engine": "anvil"}, True),
        ({"device": "*RADV*"}, True),
        ({"driver": "radv"}, True),
        ({"vendor": 0x1002}, True),
        ({"vendor": 0x10DE}, False),
        ({"vendor": 0x1002, "engine": "other"}, False),
        ({"vendor": 0x1002, "engine": "*"}, True),
        ({"device": "RADV"}, False),
    ],
)
def test_conditions(match: dict[str, Any], holds: bool) -> None:
    """A rule matches if all its conditions do."""
    document = {"rules": [{"match": match, "set": {"mode": "off"}}]}
    assert (settings_for(document, program(), facts())["mode"] == "off") is holds
