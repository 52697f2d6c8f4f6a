"""Fixtures for tests of the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.things import IDENTITY

from pylayer.store.folder import Folder


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The place of a store that does not exist yet."""
    return str(tmp_path / "root")


@pytest.fixture
def folder(root: str) -> Folder:
    """The folder of one driver in a store."""
    result = Folder(root, IDENTITY)
    result.prepare()
    return result
