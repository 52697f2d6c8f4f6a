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
from collections import Counter
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


def run_once(paths: list[str], processes: str) -> list[tuple[str, str]]:
    """One run of pytest: its failed tests, each with the first line of the reason."""
    # -P: not the package in the checkout.
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-n", processes]
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command += ["--dist", "worksteal", f"--junitxml={report.name}", *paths]
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


def repeat(name: str, paths: list[str], times: int, processes: str) -> dict[str, Any]:
    """Runs the same tests so many times and prints what came of it: a letter after each run, and then the counts."""
    started = time.monotonic()
    outcomes = []
    for _ in range(times):
        outcomes.append(run_once(paths, processes))
        print("F" if outcomes[-1] else ".", end="", flush=True)
        for test, reason in outcomes[-1]:
            print(f" {test}: {reason}", flush=True)
    print(" ", end="")
    failures = Counter(test for failed in outcomes for test, _ in failed)
    reasons = {test: reason for failed in outcomes for test, reason in failed}
    bad = sum(bool(failed) for failed in outcomes)
    print(f"{name}: {bad} of {times} runs failed ({time.monotonic() - started:.0f} s)", flush=True)
    for test, count in failures.most_common():
        print(f"    {count} times {test}\n        {reasons[test]}", flush=True)
    tests = [{"test": test, "failures": count, "reason": reasons[test]} for test, count in failures.most_common()]
    return {"name": name, "runs": times, "failed_runs": bad, "tests": tests}


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="repeat these test files instead of those that match UNSTEADY")
    parser.add_argument("--times", type=int, default=30, help="how often each file is run (30)")
    parser.add_argument("--whole", type=int, default=5, help="how often the whole suite is run (5)")
    parser.add_argument("--busy", type=int, default=2, help="processes that burn processor time meanwhile (2)")
    parser.add_argument("-n", default="2", dest="processes", help="pytest processes, as for pytest-xdist (2)")
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
        if options.whole:
            rows.append(repeat("the whole suite", [], options.whole, options.processes))
        for file in files if options.times else []:
            rows.append(repeat(file, [file], options.times, options.processes))
    finally:
        for process in busy:
            process.kill()
            process.wait()
        if options.summary:
            options.summary.write_text(json.dumps(rows, indent=2) + "\n")
    bad = sum(row["failed_runs"] for row in rows)
    print(f"{bad} of {sum(row['runs'] for row in rows)} runs failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
