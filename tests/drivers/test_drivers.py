"""This machine's own drivers: what they say of themselves is in facts.json, and the layer does its main job on those
for which no other test runs. ``make drivers`` does the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drivers import facts
from drivers.facts import LAVAPIPE, TARGETS, Target
from drivers.search import WAYS, Bench, Report, Result, search

HERE = [target for target in [*TARGETS, LAVAPIPE] if not target.missing()]
#: One chip of each driver that the fixtures of tests/conftest.py do not have.
OTHERS = {target.driver: target for target in reversed(HERE) if target.driver not in ("RADV", "Lavapipe")}
(MIXED,) = (way for way in WAYS if way.name == "mixed")


@pytest.mark.parametrize("target", HERE, ids=str)
def test_facts(target: Target) -> None:
    """The driver says what facts.json says. A version that is not in it is for ``make drivers``."""
    row = asked(target)
    if row["version"] != facts.before(row, facts.read()).get("version"):
        pytest.skip(f"this driver is new: {facts.about(row)}; `make drivers` adds it to facts.json")
    assert facts.differences(row) == []


@pytest.mark.parametrize("target", OTHERS.values(), ids=str)
def test_main_job(tmp_path: Path, target: Target) -> None:
    """Over an empty and over a warm cache of the driver's own, the second run finds everything."""
    results = Bench(target, tmp_path, asked(target)).way(MIXED)
    assert [result.wrong for result in results] == [[], []]


def test_layer_that_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in which the layer did nothing is a wrong row, and ends neither the search nor the other drivers'."""
    run = Bench.run
    monkeypatch.setattr(Bench, "run", lambda *given, **_: run(*given, layered=False))
    (target, *_) = HERE
    results = Bench(target, tmp_path, asked(target)).way(MIXED)
    assert [result.wrong for result in results] == [["run 1: the layer recorded no run"]] * 2


def test_search_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised for one driver is its row. The other drivers' rows and facts are kept."""

    def fail(*_: object) -> list[Result]:
        raise ValueError("no such row")

    monkeypatch.setattr(Bench, "all", fail)
    report = search(HERE[0])
    assert isinstance(report, Report)
    assert report.wrong[0].wrong[-1] == "ValueError: no such row" and report.facts["driver"] == HERE[0].driver


def asked(target: Target) -> dict[str, Any]:
    """Skips a test of a driver that does not know the chip."""
    row = facts.ask(target)
    if isinstance(row, str):
        pytest.skip(f"this driver cannot be had: {row}")
    return row
