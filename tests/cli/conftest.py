"""Users of the command line, one for each driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.stores import Store, filled
from cli.user import User


@pytest.fixture
def user(tmp_path: Path, request: pytest.FixtureRequest) -> User:
    """A user with the driver of tests/driver, which takes a tenth of RADV's time, or with ON_RADV RADV, or another."""
    return User(tmp_path, getattr(request, "param", "test"))


@pytest.fixture
def store(user: User) -> Store:
    """The user's store, with some of everything."""
    return filled(user.store)


@pytest.fixture
def elsewhere(tmp_path: Path) -> User:
    """Another user, with an empty store."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return User(directory)
