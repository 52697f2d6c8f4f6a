"""docs/policy.md: its reference matches the schema, and its examples are valid."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import lints
import pytest
from world import ROOT

from pylayer.common import config

PAGES = [ROOT / "docs" / "policy.md", ROOT / "docs" / "policy-class.md"]


@pytest.fixture
def generator() -> ModuleType:
    """docs/policy_reference.py"""
    spec = importlib.util.spec_from_file_location("policy_reference", ROOT / "docs" / "policy_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_not_stale(generator: ModuleType) -> None:
    """The page describes each key as the schema does; `make docs` writes it."""
    assert generator.PAGE.read_text() == generator.page(), "docs/policy.md is stale: run make docs"


def test_every_key_has_a_section(generator: ModuleType) -> None:
    """Each key of a policy file has a heading with its type, and its default if there is one."""
    sections = re.split(r"^#{3,5} `(.+)`$", generator.reference(), flags=re.M)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    schema = config.schema()
    expected = [*schema["properties"], *(f"settings.{key}" for key in schema["definitions"]["settings"]["properties"])]
    problems = [f"{key} has no section with its type" for key in expected if "Type: " not in found.get(key, "")]
    for key, definition in schema["definitions"]["settings"]["properties"].items():
        text = found.get(f"settings.{key}", "")
        problems += [f"settings.{key} has no {word}" for word in ("default", "Example") if f"{word}: " not in text]
        if ("unit: " in text) != ("unit" in definition) or (key.endswith(("_ms", "_mib")) and "unit" not in definition):
            problems.append(f"settings.{key} has no unit, or one that the schema does not have")
    lints.none(problems)


def test_examples_are_valid(generator: ModuleType) -> None:
    """Each YAML block of the page, and each key's example, is a policy file that pylayer accepts."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", generator.PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 3
    for block in blocks:
        config.parse(block, "docs/policy.md")
    settings = re.findall(r"^#### `settings\.\w+`$.*?Example: `(.+?)`$", generator.reference(), re.M | re.S)
    assert len(settings) == len(config.schema()["definitions"]["settings"]["properties"])
    for example in settings:
        config.parse(f"settings:\n  {example}\n", example)
