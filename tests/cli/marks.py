"""Marks of tests."""

import pytest

#: For tests whose ``user`` needs RADV null hardware.
ON_RADV = pytest.mark.parametrize("user", ["radv"], indirect=True)
