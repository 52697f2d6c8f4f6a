"""Users of the command line, one for each driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.user import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user with RADV null hardware."""
    return User(tmp_path)


@pytest.fixture
def lavapipe_user(tmp_path: Path) -> User:
    """A user with Lavapipe, whose pipeline cache is a stub."""
    return User(tmp_path, "lavapipe")
