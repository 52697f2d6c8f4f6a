"""Windows programs under a real Wine: ``make wine``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from wine.wine import Wine, serving
from world import World


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    with serving(tmp_path_factory.mktemp("wine")) as served:
        yield served


def test_second_run_compiles_nothing(wine: Wine, real: World) -> None:
    """A Windows program finds in its second run what the first compiled."""
    for _ in range(2):
        wine.run(real, 20)
    first, second = real.runs()
    assert first["counters"]["compiled"] == 20 and second["counters"]["hits"] == 20, second["counters"]
