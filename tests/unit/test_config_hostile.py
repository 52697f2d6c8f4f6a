"""Policy files for which PyYAML raised undocumented errors or used endless memory; found by tests/fuzz."""

from __future__ import annotations

import pytest

from pylayer.common import config


@pytest.mark.parametrize(
    "text",
    [
        "share: !!timestamp x",
        "share: !!int ''",
        "share: !!float ''",
        "!!int '': 5",
        "share: !!bool x",
        "max_store_mib: 0x" + "f" * 4000,
        "max_store_mib: -0x" + "f" * 4000,
        "!!" + "x" * 4000 + " a",
        "&" + "x" * 5000 + " *y",
        "'" + "k" * 5000 + "': 1",
    ],
)
def test_every_error_is_a_policy_file_error(text: str) -> None:
    """Every error is reported in one line of readable length."""
    with pytest.raises(config.PolicyFileError) as caught:
        config.parse(text, "policy.yaml")
    assert str(caught.value).startswith("policy.yaml")
    assert len(str(caught.value)) < 1000


def test_merges_that_double() -> None:
    """Forty lines of merges that each double the previous one are an error and do not use a terabyte. Since 6.0.4
    PyYAML itself merges each key once, and the error is the unknown key."""
    lines = ["x0: &x0 {a: 1, b: 2}"] + [f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}" for n in range(1, 40)]
    with pytest.raises(config.PolicyFileError, match=r"merge|unknown key"):
        config.parse("\n".join(lines), "policy.yaml")


def test_a_merge() -> None:
    """Merging one rule's settings into another's still works, also in a chain."""
    text = """
    rules:
    - match: {executable: a}
      set: &a {carrier: cells, adopt_driver_cache: false}
    - match: {executable: b}
      set: &b {<<: *a, load_wait_ms: 5}
    - match: {executable: c}
      set: {<<: [*b, {carrier: auto}], carrier: snapshot}
    """
    rules = config.parse(text, "policy.yaml")["rules"]
    assert rules[2]["set"] == {"carrier": "snapshot", "adopt_driver_cache": False, "load_wait_ms": 5}
