"""A pytest plugin of tests/sanitize/run.py: what a sanitizer writes is named after the test that ran the program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The directory of the reports, and the variables of the sanitizers.
DIRECTORY, VARIABLES = "PYLAYER_TEST_REPORTS", ("ASAN_OPTIONS", "TSAN_OPTIONS")

#: Where programs end without descriptors, files, system calls or threads that LeakSanitizer needs: it hangs or falls.
WITHOUT_LEAKS = (
    "test_hosts.py_test_all_descriptors_used",
    "test_hosts.py_test_chroot",
    "test_hosts.py_test_descriptors_are_closed",
    "test_hosts.py_test_no_threads",
    "test_hosts.py_test_sandbox",
    "test_start.py_test_a_thread_that_cannot_start",
    "test_interpreter.py_test_damage_in_an_event",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Before fixtures, which copy the environment."""
    name = re.sub(r"[^\w.-]+", "_", item.nodeid.removeprefix("tests/layer/"))[:150]
    path = Path(os.environ[DIRECTORY], name)
    before = {variable: os.environ[variable] for variable in VARIABLES if variable in os.environ}
    more = ":detect_leaks=0" if name.startswith(WITHOUT_LEAKS) else ""
    os.environ |= {variable: f"{value}:log_path={path}{more}" for variable, value in before.items()}
    try:
        return (yield)
    finally:
        os.environ |= before
