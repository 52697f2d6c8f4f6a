"""A builder and an empty machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.user import User
from fleet.fleets import Builder, Machine


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user with RADV null hardware."""
    return User(tmp_path)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


@pytest.fixture
def machine(tmp_path: Path, builder: Builder) -> Machine:
    """Trusts the builder's key."""
    return Machine(tmp_path / "machine", builder.keys)
