"""For tests that check every page or source at once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def none(problems: Iterable[str]) -> None:
    """Fails the test if there are problems, with one line for each."""
    found = sorted(set(problems))
    if found:
        pytest.fail("\n".join([f"{len(found)} wrong:", *found]), pytrace=False)
