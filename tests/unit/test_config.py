"""Policy files: the default one documents and equals the built-in defaults, and errors have a place and a reason. The
settings in force, their compiled copy, and what policy decides of a device."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st
from unit.things import cache_data, facts, program, program_id

import pylayer
from pylayer.common import compiled, config, flat, paths
from pylayer.common.identity import Identity
from pylayer.common.outcomes import judge
from pylayer.common.settings import DEFAULTS, TOP_DEFAULTS, glob_matches, settings_for
from pylayer.policy import Policy, choose_mode
from pylayer.values import MODE_BINARIES, MODE_CELLS, MODE_OFF, VERDICT_EMPTY, VERDICT_PASS, CacheData

DEFAULT_FILE = Path(pylayer.__file__).parent / "data" / "config" / "default.yaml"
SCHEMA = config.schema()
SETTINGS_KEYS = ", ".join(sorted(SCHEMA["definitions"]["settings"]["properties"]))
TOP_KEYS = ", ".join(sorted(SCHEMA["properties"]))
PRESET_NAMES, TOP_LEVEL = ", ".join(sorted(config.preset_names())), "it is a top-level key"
CONDITIONS = "application, device, driver, engine, executable, vendor"


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
            "preset: gamers",
            1,
            f"preset is 'gamers'; did you mean players? allowed: null, {PRESET_NAMES}",
        ),
        ("mode: off", 1, f"unknown key 'mode' in the file; it belongs in settings; allowed: {TOP_KEYS}"),
        (
            "settings: {share: all}",
            1,
            f"unknown key 'share' in settings; {TOP_LEVEL}; allowed: {SETTINGS_KEYS}",
        ),
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
        ("settings:\n  mode: off\n  mode: off", 3, "not YAML: the key 'mode' appears twice"),
        # documents of another shape
        ("- a", 1, "the file is a list; allowed: a mapping"),
        ("settings:", 1, "settings is null; allowed: a mapping"),
        ("share: all\nsettings: [a]", 2, "settings is a list; allowed: a mapping"),
        ("rules:\n- a", 2, "rules.0 is 'a'; allowed: a mapping"),
        # unknown keys
        ("share: all\nshared: 1", 2, f"unknown key 'shared' in the file; did you mean share? allowed: {TOP_KEYS}"),
        ("1: a\nb: c", 1, f"unknown key 1 in the file; allowed: {TOP_KEYS}"),
        (
            "settings:\n  mode: auto\n  mde: off",
            3,
            f"unknown key 'mde' in settings; did you mean mode? allowed: {SETTINGS_KEYS}",
        ),
        ("rules:\n- match: {gpu: x}\n  set: {}", 2, f"unknown key 'gpu' in rules.0.match; allowed: {CONDITIONS}"),
        # values
        ("share: some", 1, "share is 'some'; allowed: program, all"),
        (
            "settings: {mode: false}",
            1,
            "settings.mode is false; allowed: auto, cells, binaries, observe, off",
        ),
        ("settings: {driver_cache: off}", 1, "settings.driver_cache is 'off'; allowed: keep, replace"),
        ("settings: {record_state: yes}", 1, "settings.record_state is 'yes'; allowed: true or false"),
        ("state_mib: '64'", 1, "state_mib is '64'; allowed: a whole number"),
        ("state_mib: 0", 1, "state_mib is 0; allowed: at least 1"),
        ("state_mib: 1048577", 1, "state_mib is 1048577; allowed: at most 1048576"),
        ("state_mib: true", 1, "state_mib is true; allowed: a whole number"),
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
    ],
)
def test_errors(text: str, line: int, problem: str) -> None:
    """An error is one line: file, line, key, what was found and what is allowed."""
    with pytest.raises(config.PolicyFileError) as caught:
        config.parse(text, "policy")
    assert str(caught.value) == f"policy, line {line}: {problem}"


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


# ---- Settings in force ---------------------------------------------------------------------------


@settings(max_examples=300)
@given(st.text(alphabet="ab*?[.", max_size=8), st.text(alphabet="abAB*?[.", max_size=10))
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


# ---- The compiled copy ---------------------------------------------------------------------------


TEXT = "share: all\nsettings: {mode: off, record_state: false}\nrules:\n- {match: {vendor: 1}, set: {}}\n"
DOCUMENT: dict[str, Any] = {
    "share": "all",
    "settings": {"mode": "off", "record_state": False},
    "rules": [{"match": {"vendor": 1}, "set": {}}],
}


def load(policy_file: Path, root: str) -> dict[str, Any]:
    """Returns the document in force. Raises what keeps a file from being used."""
    document, problems = compiled.load(None, str(policy_file), root)
    for problem in problems:
        raise problem.error
    return document


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(TEXT)
    return path


def copies(root: str) -> list[Path]:
    return sorted(Path(root, "policy").iterdir())


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


# ---- The settings text ---------------------------------------------------------------------------


ANY_TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
#: Characters with a meaning in the format are tried more often than chance would.
MARKED = st.text(alphabet="%=.[\n\r:#a0", max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT | MARKED
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT | MARKED, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.dictionaries(ANY_TEXT | MARKED, VALUES, max_size=4))
@example({"[0": {"[1": "a.b=[%\r\n"}, "": {}, "l": [[], {}, [None]]})
def test_round_trip(document: dict[str, Any]) -> None:
    """Any nested mapping of text, numbers, booleans and null is read back equal, types included."""
    text = flat.dumps(document)
    assert "\r" not in text  # a reader in text mode takes it for a line end
    again = flat.loads(text)
    assert again == document
    assert repr(again) == repr(document)


def test_format() -> None:
    """The text has one line for each leaf, so that people can read it."""
    document: dict[str, Any] = {"a": {"b": 1, "c.d": "x\ny"}, "e": [True, None, 0.5, {}, []], "f": {"[": ""}}
    assert flat.dumps(document) == (
        "a.b=i:1\na.c%2Ed=s:x%0Ay\ne.[0=b:1\ne.[1=n:\ne.[2=f:0.5\ne.[3=d:\ne.[4=l:\nf.%5B=s:\n"
    )


# ---- What is decided of a device -----------------------------------------------------------------


def header(length: int = 32, version: int = 1, vendor: int = 0x1002) -> bytes:
    return struct.pack("<IIII16s", length, version, vendor, 0x73BF, bytes(range(16)))


GOOD = header()
#: Headers, and what is wrong with them; tests/layer/test_driver_identity.py has the others.
CASES = [
    ("accepted", cache_data(GOOD, data_size=1 << 40)),
    ("accepted", cache_data(header(version=1000629000, vendor=0), data_size=100)),
    ("zero-length", cache_data()),
    ("null", cache_data(data_size=100)),
    ("truncated", cache_data(GOOD[:20], data_size=100)),
    ("wrong-length", cache_data(header(length=101), data_size=100)),
]


@pytest.mark.parametrize(("outcome", "data"), CASES)
def test_judge(outcome: str, data: CacheData) -> None:
    """Each error of a header has its outcome. Only accepted data passes."""
    assert judge(data, facts()) == outcome
    verdict, named = Policy().admit_cache(data, facts(), {**DEFAULTS, "application_caches": "check"})
    assert (verdict, named) == (VERDICT_PASS if outcome == "accepted" else VERDICT_EMPTY, outcome)


@pytest.mark.parametrize(
    ("history", "data", "verdict", "outcome"),
    [
        ("unknown", GOOD, VERDICT_PASS, "unknown"),
        ("stale", header(vendor=0x10DE), VERDICT_EMPTY, "stale"),
        ("unknown", header(vendor=0x10DE), VERDICT_EMPTY, "wrong-vendor"),
        ("altered", header(vendor=0x10DE), VERDICT_EMPTY, "wrong-vendor"),
    ],
)
def test_history_decides(history: str, data: bytes, verdict: int, outcome: str) -> None:
    """If the header is right, the history of the data from earlier runs decides."""
    judged = cache_data(data, data_size=100, history=history)
    assert Policy().admit_cache(judged, facts(), DEFAULTS) == (verdict, outcome)


# ---- identity ----------------------------------------------------------------------------------------


def test_identity_is_pinned() -> None:
    """A device's fields must keep this name. With another name, every existing store would be left unread."""
    assert Identity.of(facts()).name == "b806ea7b6b14ce02629cbeefe96fe1d7"
    assert program_id("stutter", "Stutter") == 0xE4685CB3B99C6FF1


# ---- plan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "device", "mode"),
    [
        ("auto", {}, MODE_CELLS),
        ("auto", {"cache_control_supported": False}, MODE_OFF),
        ("auto", {"cache_control_supported": False, "cache_control_requested": True}, MODE_CELLS),
        ("auto", {"driver_id": 13}, MODE_OFF),
        ("cells", {"driver_id": 13}, MODE_CELLS),
        ("cells", {"cache_control_supported": False}, MODE_OFF),
        ("off", {}, MODE_OFF),
        ("auto", {"binaries_supported": True}, MODE_CELLS),
        ("binaries", {"binaries_supported": True}, MODE_BINARIES),
        ("binaries", {"binaries_requested": True}, MODE_BINARIES),
        ("binaries", {"binaries_supported": True, "driver_id": 13}, MODE_BINARIES),
        ("binaries", {}, MODE_CELLS),
        ("binaries", {"binaries_supported": True, "cache_control_supported": False}, MODE_OFF),
        *(
            (wanted, {"binaries_supported": True, "internal_cache_disabled": True}, MODE_OFF)
            for wanted in ("auto", "cells", "binaries", "off")
        ),
    ],
)
def test_choose_mode(wanted: str, device: dict[str, Any], mode: int) -> None:
    """The mode follows the policy file if the device supports it, and has a reason in words."""
    chosen, reason = choose_mode({**DEFAULTS, "mode": wanted}, facts(**device))
    assert chosen == mode
    assert reason
