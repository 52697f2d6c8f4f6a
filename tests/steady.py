"""Repeats tests beside other work and counts failures: `make steady`, or with options for less.

First the whole suite several times. Then, many times each, every test file that depends on what other processes or
threads do meanwhile: those whose text matches UNSTEADY. Exit status 1 if any run failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def fails(name: str, command: list[str]) -> bool:
    """Runs pytest, and prints what failed."""
    started = time.monotonic()
    command = [*command, "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not lines:
        lines = done.stdout.splitlines()[-5:]
    took = time.monotonic() - started
    print(f"{name} ({took:.0f} s): exit status {done.returncode}", *lines, sep="\n    ", flush=True)
    return bool(done.returncode)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="repeat these test files instead of those that match UNSTEADY")
    parser.add_argument("--times", type=int, default=30, help="how often each test of these files is run (30)")
    parser.add_argument("--whole", type=int, default=5, help="how often the whole suite is run (5)")
    parser.add_argument("--busy", type=int, default=2, help="processes that burn processor time meanwhile (2)")
    parser.add_argument("-n", default="2", dest="processes", help="files, or parts of the whole suite, at a time (2)")
    parser.add_argument("--list", action="store_true", help="print the files that would be repeated, and run nothing")
    options = parser.parse_args()
    files = options.files or unsteady_files()
    if options.list:
        print(*files, sep="\n")
        return 0
    failed = 0
    # -P: not the package in the checkout.
    whole = [sys.executable, "-P", "-m", "pytest", "-n", options.processes, "--dist", "worksteal"]
    repeating = [sys.executable, "-P", "-c", REPEATING, str(options.times)]
    busy = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(options.busy)]
    try:
        for _ in range(options.whole):
            failed += fails("the whole suite", whole)
        with ThreadPoolExecutor(int(options.processes)) as pool:
            failed += sum(pool.map(lambda file: fails(file, [*repeating, file]), files if options.times else []))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(f"failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
