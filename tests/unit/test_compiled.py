"""The compiled copy of a policy file: used without YAML, never outdated, never trusted if damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.things import run_python

from pylayer.common import compiled, config, paths

TEXT = "share: all\nsettings: {mode: off, record_state: false}\nrules:\n- {match: {vendor: 1}, set: {}}\n"
DOCUMENT: dict[str, Any] = {
    "share": "all",
    "settings": {"mode": "off", "record_state": False},
    "rules": [{"match": {"vendor": 1}, "set": {}}],
}

LOAD = """
import sys
from pylayer.common import compiled
document, problems = compiled.load(None, *sys.argv[1:])
print(document["share"], document["settings"]["mode"], "yaml" in sys.modules, "re" in sys.modules)
"""


def load(policy_file: Path, root: str | None, system: Path | None = None) -> dict[str, Any]:
    """Returns the document in force. Raises what keeps a file from being used."""
    document, problems = compiled.load(str(system) if system else None, str(policy_file), root)
    for problem in problems:
        raise problem.error
    return document


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def copies(root: str) -> list[Path]:
    return sorted(Path(root, "policy").iterdir())


def test_copy_is_used_without_yaml(policy_file: Path, root: str) -> None:
    """The first process parses YAML and writes a copy. The next uses it and imports neither PyYAML nor re."""
    assert run_python(LOAD, str(policy_file), root).split() == ["all", "off", "True", "True"]
    assert run_python(LOAD, str(policy_file), root).split() == ["all", "off", "False", "False"]


def test_document_is_the_same(policy_file: Path, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy holds what YAML said, including types and empty mappings."""
    assert load(policy_file, root) == DOCUMENT
    monkeypatch.setattr(config, "Source", None)
    assert load(policy_file, root) == DOCUMENT


def test_changed_file(policy_file: Path, root: str) -> None:
    """A changed file is compiled again. The old copy is still used for the old text."""
    load(policy_file, root)
    policy_file.write_text("share: program\n")
    assert load(policy_file, root) == {"share": "program"}
    assert len(copies(root)) == 2
    policy_file.write_text(TEXT)
    assert load(policy_file, root) == DOCUMENT
    assert len(copies(root)) == 2


#: XXH3-128 of the presets, in the order of their names. If only a comment changed, SCHEMA_VERSION stays.
PRESETS = (17, "fcbc4626713c4394f799ba49be692211")


def test_presets_are_part_of_the_version() -> None:
    """A copy includes its preset's content but is named by the policy file's bytes alone. If a preset changes, raise
    SCHEMA_VERSION by one and put what this test finds into PRESETS."""
    text = "".join(config.read_preset(name) for name in sorted(config.preset_names()))
    assert (compiled.SCHEMA_VERSION, xxhash.xxh3_128_hexdigest(text.encode())) == PRESETS


def test_every_damage_is_noticed(policy_file: Path, root: str) -> None:
    """A copy with any byte changed, cut anywhere, or empty is ignored, and the file is parsed again."""
    load(policy_file, root)
    (copy,) = copies(root)
    whole = copy.read_bytes()
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    damaged += [whole[:at] for at in range(len(whole))]
    for data in damaged:
        copy.write_bytes(data)
        assert compiled.read_copy(str(copy)) is None
    assert load(policy_file, root) == DOCUMENT
    assert copy.read_bytes() == whole


def test_text_that_utf8_cannot_hold(policy_file: Path, root: str) -> None:
    """A lone surrogate in a pattern prevents the copy, but the policy file is accepted."""
    policy_file.write_text('rules:\n- {match: {engine: "\\ud800"}, set: {}}\n')
    assert load(policy_file, root)["rules"][0]["match"] == {"engine": "\ud800"}


def test_bad_file(policy_file: Path, root: str) -> None:
    """A file that cannot be used raises the error that names it, every time, and leaves no copy."""
    for content in (b"share: some", b"\xff", b"#" * (paths.MAX_POLICY_FILE_BYTES + 1)):
        policy_file.write_bytes(content)
        for _ in range(2):
            with pytest.raises(config.PolicyFileError, match=str(policy_file)):
                load(policy_file, root)
    assert not os.path.exists(root)
    with pytest.raises(OSError):
        load(Path(f"{policy_file}.none"), root)
