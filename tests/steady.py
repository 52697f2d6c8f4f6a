"""Repeats tests beside other work and counts failures: `make steady`, or with options for less.

First the whole suite several times. Then, many times each, every test file that depends on what other processes or
threads do meanwhile: those whose text matches UNSTEADY. Exit status 1 if any run failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
#: A test file that folds, kills, injects faults, forks or waits has one of these in it.
UNSTEADY = re.compile(
    r"FailingDisk|\bscripted\b|Popen|\bfork|signal\.SIG|\.wait\(|sleep\(|Thread\(|\bfold(s|ed|ing|_everything)?\b"
)
BUSY = "while True: pass"


def unsteady_files() -> list[str]:
    """Paths of the files that are repeated, below the repository's root."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in found if UNSTEADY.search(path.read_text())]


#: Runs pytest once, and every test in it argv[1] times. Starting pytest takes as long as many a file's tests.
REPEATING = """
import sys
import pytest

class Repeat:
    def pytest_generate_tests(self, metafunc):
        metafunc.fixturenames.append("turn")
        metafunc.parametrize("turn", range(int(sys.argv[1])))

    @pytest.fixture
    def turn(self, request):
        return request.param

sys.exit(pytest.main(sys.argv[2:], [Repeat()]))
"""


def failures_of(command: list[str]) -> list[tuple[str, str]]:
    """Runs pytest and returns its failed tests, each with the first line of the reason."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [*command, "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report.name}"]
        command += ["-o", "tmp_path_retention_policy=failed"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text = Path(report.name).read_text()
    failed = []
    for case in ElementTree.fromstring(text).iter("testcase") if text else ():
        for what in (*case.findall("failure"), *case.findall("error")):
            reason = what.get("message", "").partition("\n")[0]
            failed.append((f"{case.get('classname')}::{case.get('name')}", reason))
    if done.returncode and not failed:
        last = done.stdout.strip().splitlines()[-1:]
        failed = [("pytest itself", f"exit status {done.returncode}: {' '.join(last)}")]
    return failed


def row(name: str, times: int, failed: list[tuple[str, str]], started: float) -> dict[str, Any]:
    """Prints what came of repeating tests, and returns it."""
    print(f"{name}: {times} times, {len(failed)} failures ({time.monotonic() - started:.0f} s)", flush=True)
    for test, reason in failed:
        print(f"    {test}\n        {reason}", flush=True)
    tests = [{"test": test, "reason": reason} for test, reason in failed]
    return {"name": name, "times": times, "failures": len(failed), "tests": tests}


def repeat_whole(times: int, processes: str) -> list[dict[str, Any]]:
    """Runs the whole suite so many times."""
    rows = []
    for _ in range(times):
        started = time.monotonic()
        # -P: not the package in the checkout.
        command = [sys.executable, "-P", "-m", "pytest", "-n", processes, "--dist", "worksteal"]
        rows.append(row("the whole suite", 1, failures_of(command), started))
    return rows


def repeat_file(file: str, times: int) -> dict[str, Any]:
    """Runs every test of a file so many times, in one process."""
    started = time.monotonic()
    return row(file, times, failures_of([sys.executable, "-P", "-c", REPEATING, str(times), file]), started)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="repeat these test files instead of those that match UNSTEADY")
    parser.add_argument("--times", type=int, default=30, help="how often each test of these files is run (30)")
    parser.add_argument("--whole", type=int, default=5, help="how often the whole suite is run (5)")
    parser.add_argument("--busy", type=int, default=2, help="processes that burn processor time meanwhile (2)")
    parser.add_argument("-n", default="2", dest="processes", help="files, or parts of the whole suite, at a time (2)")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="also write the counts to this file, as JSON")
    parser.add_argument("--list", action="store_true", help="print the files that would be repeated, and run nothing")
    options = parser.parse_args()
    files = options.files or unsteady_files()
    if options.list:
        print(*files, sep="\n")
        return 0
    rows = []
    busy = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(options.busy)]
    try:
        rows += repeat_whole(options.whole, options.processes)
        with ThreadPoolExecutor(int(options.processes)) as pool:
            rows += pool.map(partial(repeat_file, times=options.times), files if options.times else [])
    finally:
        for process in busy:
            process.kill()
            process.wait()
        if options.summary:
            options.summary.write_text(json.dumps(rows, indent=2) + "\n")
    failures = sum(each["failures"] for each in rows)
    print(f"{failures} failures in {len(rows)} rows")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
