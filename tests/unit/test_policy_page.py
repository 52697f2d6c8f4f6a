"""docs/policy.md and docs/policy-reference.md: the reference matches the schema, and the examples are valid."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import lints
import pytest
from world import ROOT

from pylayer.common import config


@pytest.fixture
def generator() -> ModuleType:
    """docs/policy_reference.py"""
    spec = importlib.util.spec_from_file_location("policy_reference", ROOT / "docs" / "policy_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_not_stale(generator: ModuleType) -> None:
    """The page and config/default.yaml describe each key as the schema does; `make docs` writes them."""
    assert generator.PAGE.read_text() == generator.page(), "docs/policy-reference.md is stale: run make docs"
    found = generator.DEFAULT_FILE.read_text()
    assert found == generator.default_file(), "config/default.yaml is stale: run make docs"


def test_every_key_has_a_row(generator: ModuleType) -> None:
    """The tables have each key of a policy file, and each key of `settings` with its default, unit and values."""
    found = dict(re.findall(r"^\| `([^`]+)` \| (.*)$", generator.reference(), re.M))
    schema = config.schema()
    keys = set(schema["properties"]) - {"settings"}
    problems = [key for key in keys if not any(re.match(rf"{key}\b", name) for name in found)]
    for key, definition in schema["definitions"]["settings"]["properties"].items():
        text = found.get(key, "")
        words = [f"`{generator.yaml_text(definition['default'])}`", definition.get("unit", "")]
        words += [f"`{generator.yaml_text(value)}`: " for value in definition.get("enum", [])]
        problems += [f"{key} lacks {word}" for word in words if word not in text]
        if key.endswith(("_ms", "_mib")) and "unit" not in definition:
            problems.append(f"{key} has no unit")
    lints.none(problems)


def test_examples_are_valid(generator: ModuleType) -> None:
    """Each YAML block of docs/policy.md, each key in its tables, and each example of the schema, is a policy file that
    pylayer accepts."""
    page = (ROOT / "docs" / "policy.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    cells = [text for row in re.findall(r"^\|.*$", page, re.M) for text in re.findall(r"`(\w+: [^`]+)`", row)]
    assert len(blocks) >= 2 and len(cells) >= 5
    for block in [*blocks, *cells]:
        config.parse(block, "docs/policy.md")
    for key, definition in config.schema()["definitions"]["settings"]["properties"].items():
        example = f"{key}: {generator.yaml_text(definition['examples'][0])}"
        config.parse(f"settings:\n  {example}\n", example)
