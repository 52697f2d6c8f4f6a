"""A pytest plugin of tests/sanitize/run.py: what a sanitizer writes is named after the test that ran the program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The directory of the reports, and the variables of the sanitizers.
DIRECTORY, VARIABLES = "PYLAYER_TEST_REPORTS", ("ASAN_OPTIONS", "TSAN_OPTIONS")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Before fixtures, which copy the environment."""
    name = re.sub(r"[^\w.-]+", "_", item.nodeid.removeprefix("tests/layer/"))[:150]
    path = Path(os.environ[DIRECTORY], name)
    before = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    os.environ |= {name: f"{value}:log_path={path}" for name, value in before.items()}
    try:
        return (yield)
    finally:
        os.environ |= before
