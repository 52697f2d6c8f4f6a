"""How much of C and Python the tests run: `make coverage`.

Copies the tree to build/coverage/tree, builds the layer, the policy library and the replayer there with gcov's
counters, and runs the tests there, or those that the arguments name. Prints the covered lines of shim/ and pylayer/ by
folder. Tests that fail do not matter here: gcov adds calls and messages of its own to each program.

    .venv/bin/python tests/coverage/run.py [PYTEST ARGUMENTS]
    .venv/bin/python tests/coverage/run.py --files    # afterwards: the figures of each file
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "coverage"
TREE = PLACE / "tree"
LINES = PLACE / "lines"
CONFIG = f"""
[run]
source_pkgs = pylayer
parallel = true
data_file = {PLACE}/data/python
patch = _exit, execv, fork
concurrency = thread
disable_warnings = no-data-collected, module-not-measured, module-not-imported, already-imported
"""
#: In the policy thread. The interpreter there is isolated, and the process may end at any moment.
IN_HOST = f"""

def _measured() -> None:
    import posix

    seen, saved = set(), set()

    def line(frame, event, _):
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame, event, _):
        name = frame.f_code.co_filename  # of a frozen module: pylayer.inhost.host.py
        return line if "/pylayer/" in name or name.startswith("pylayer.") else None

    def save(handle):
        def saving(*arguments):
            try:
                return handle(*arguments)
            finally:
                new = seen - saved
                if new:
                    saved.update(new)
                    with open(f"{LINES}/{{posix.getpid()}}", "a") as out:
                        out.writelines(f"{{name}}:{{number}}\\n" for name, number in new)
        return saving

    for name in ("handle", "records", "_idle"):
        setattr(Host, name, save(getattr(Host, name)))
    sys.settrace(call)


_prepare = prepare


def prepare():
    _measured()
    return _prepare()
"""


def build() -> None:
    """A tree with counters in it, built and with all that its tests need."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, TREE / name, follow_symlinks=False)
    with (TREE / "pylayer" / "inhost" / "host.py").open("a") as host:
        host.write(IN_HOST)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    counted = plain | {"CC": "gcc --coverage -fprofile-update=atomic"}
    subprocess.run(["make", "-s", "setup"], cwd=TREE, check=True, env=counted)
    subprocess.run(["make", "-s", "programs", ".venv/extra-test"], cwd=TREE, check=True, env=plain)
    subprocess.run([".venv/bin/python", "-m", "pip", "install", "--quiet", "coverage>=7.10"], cwd=TREE, check=True)
    (PLACE / "coveragerc").write_text(CONFIG)
    (packages,) = (TREE / ".venv" / "lib").glob("python*/site-packages")
    start = f"import os; os.environ['COVERAGE_PROCESS_START'] = '{PLACE}/coveragerc'; import coverage"
    (packages / "measured.pth").write_text(f"{start}; coverage.process_startup()\n")


def run(arguments: list[str]) -> None:
    """Runs the tests."""
    for name in (LINES, PLACE / "data"):
        shutil.rmtree(name, ignore_errors=True)
        name.mkdir(mode=0o777, parents=True)
        name.chmod(0o777)
    command = [".venv/bin/pytest", "-q", "-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal", *arguments]
    subprocess.run(command, cwd=TREE, check=False)


def lines_of_c() -> dict[str, dict[int, bool]]:
    """Returns of each file whether a line with code was run."""
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    for path in TREE.rglob("*.gcda"):
        done = subprocess.run(["gcov", "--json-format", "--stdout", str(path)], cwd=path.parent, capture_output=True)
        data = gzip.decompress(done.stdout) if done.stdout[:2] == b"\x1f\x8b" else done.stdout
        for document in data.splitlines():
            for file in json.loads(document)["files"]:
                if "shim/" in file["file"]:
                    name = "shim/" + file["file"].rpartition("shim/")[2]
                    for line in file["lines"]:
                        number = line["line_number"]
                        found[name][number] = found[name].get(number, False) or line["count"] > 0
    return found


def lines_of_python() -> dict[str, dict[int, bool]]:
    """Returns the same of Python. coverage.py counted what ran in commands and tests; IN_HOST what ran in programs."""
    in_host: dict[str, set[int]] = defaultdict(set)
    for path in LINES.iterdir():
        *whole, _ = path.read_text().split("\n")  # the process may have been killed in the last line
        for line in whole:
            name, _, number = line.rpartition(":")
            frozen = name.removesuffix(".py").replace(".", "/") + ".py" if "/" not in name else name
            in_host[frozen.rpartition("/pylayer/")[2].removeprefix("pylayer/")].add(int(number))
    script = f"""
import coverage, json
from pathlib import Path
cov = coverage.Coverage(config_file={str(PLACE / "coveragerc")!r})
if Path({str(PLACE / "data" / "python")!r}).exists():
    cov.load()  # combined before
else:
    cov.combine([{str(PLACE / "data")!r}])
(package,) = Path(".venv/lib").resolve().glob("python*/site-packages/pylayer")  # tests make copies of it, too
out = {{}}
for path in sorted(path for path in package.rglob("*.py") if "_private" not in path.parts):
    _, code, _, missing, _ = cov.analysis2(str(path))
    out[str(path)] = [code, missing]
print(json.dumps(out))
"""
    done = subprocess.run([".venv/bin/python", "-c", script], cwd=TREE, check=True, capture_output=True, text=True)
    found = {}
    for path, (code, missing) in json.loads(done.stdout.splitlines()[-1]).items():
        name = "pylayer/" + path.rpartition("/pylayer/")[2]
        last = len((ROOT / name).read_text().splitlines()) if (ROOT / name).exists() else 1 << 30  # before IN_HOST
        ran = in_host[name.removeprefix("pylayer/")]
        found[name] = {line: line not in missing or line in ran for line in code if line <= last}
    return found


def show(files: bool) -> None:
    """Prints the figures."""
    for language, lines in (("C", lines_of_c()), ("Python", lines_of_python())):
        folders: dict[str, list[bool]] = defaultdict(list)
        for name, own in sorted(lines.items()):
            folders[name if files else str(Path(name).parent)] += own.values()
        for name, run_or_not in folders.items():
            if run_or_not:
                share = sum(run_or_not) / len(run_or_not)
                print(f"  {name:40} {sum(run_or_not):6} of {len(run_or_not):6}  {share:7.2%}")
        every = [run_or_not for own in lines.values() for run_or_not in own.values()]
        print(f"{language:42} {sum(every):6} of {len(every):6}  {sum(every) / len(every):7.2%}")


if __name__ == "__main__":
    if "--files" not in sys.argv:
        build()
        run(sys.argv[1:])
    show("--files" in sys.argv)
