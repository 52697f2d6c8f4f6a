"""The layer's tests with an instrumented layer and instrumented programs; fails where a sanitizer names the layer.

    .venv/bin/python tests/sanitize/run.py address [PYTEST ARGUMENTS]
    .venv/bin/python tests/sanitize/run.py thread [PYTEST ARGUMENTS]

Without arguments it runs all of tests/layer that EXCLUDED does not name. What the sanitizers found is in
build/sanitize/KIND/reports/; of that, this prints what has a frame of the layer. Drivers, the loader and Python are not
instrumented and not judged.

It is pytest's plugin, too, so that what a sanitizer writes is named after the test that ran the program.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: A sanitizer's runtime must be the first library of a process, has handlers, memory and stacks of its own, and refuses
#: RTLD_DEEPBIND, with which policy is opened where another Python is in the process. So these cannot run under one, nor
#: those that preload a library, which World.environment_with skips.
EXCLUDED = {
    "test_programs.py": "programs that are not built here: wgpu, ncnn, Qt, vkcube",
    "test_validation.py": "runs under the C library of the validation layer",
    "test_start.py::test_chroot_before_it_starts": "LeakSanitizer needs /proc, and hangs",
    "test_hosts.py::test_libraries_are_mapped_before_the_program_goes_on": "a library for LD_AUDIT",
    "test_library.py": "Python opens the layer by itself",
    "test_interpreter.py::test_program_is_python": "as it says; RTLD_DEEPBIND",
    "test_hosts.py::test_python_of_the_programs": "likewise",
    "test_recipes.py::test_validation": "under the validation layer's C library",
    "test_recipes.py::test_validation_of_recipes": "likewise",
    "test_differential.py::test_generated_programs_are_valid": "likewise",
    "test_hostile.py::test_what_failed_once": "has sanitizers of its own",
    "test_hostile.py::test_programs_at_random": "likewise",
    "test_skip_rules.py": "likewise",
    "test_hosts.py::test_sanitized_program": "likewise",
    "test_hosts.py::test_inside_of_dlopen[destructor]": "the driver alone fails there, too",
    "test_crash_marker.py::test_ends_in_hits": "AddressSanitizer gives no address twice",
    "test_elevated.py": "LeakSanitizer does not work there, and takes no options",
    "test_hosts.py::test_a_mebibyte_of_address_space_to_spare": "it is measured to what the layer needs",
    "test_hosts.py::test_stack": "likewise",
    "test_start.py::test_a_warm_program_has_no_thread_more": "ThreadSanitizer has a thread of its own",
    "test_start.py::test_no_thread_without_a_device": "likewise",
    "test_start.py::test_no_thread_with_mode_off": "likewise",
    "test_start.py::test_two_configurations_of_devices": "likewise",
    "test_hosts.py::test_goes_on[the layer changes no handler and no mask": "the runtime has handlers",
    "test_hosts.py::test_deeds_of_policy[nothing, and main ends": "ThreadSanitizer hangs in it without the layer, too",
    "test_hosts.py::test_ends_with_its_last_thread": "ThreadSanitizer has a thread that never ends",
    "test_hosts.py::test_named_as_policys_thread": "likewise",
    "test_own_caches.py::test_data_is_known_whenever_it_is_read[main thread ended": "likewise",
    "test_start.py::test_cancelled_thread_that_starts_it": "ThreadSanitizer ends the process, without the layer, too",
}

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
    "test_interpreter.py_test_deeds",
)

#: The program never completes an operation. The layer does not free what the driver may still use.
NEVER_FREED = "test_deferred.py_test_operation_that_is_never_joined"

#: Signals stay what they are: tests make drivers crash, and see it where the layer does. An allocation that is too
#: large fails and ends nothing.
COMMON = "halt_on_error=0:exitcode=0:handle_segv=0:handle_sigbus=0:handle_sigill=0:allocator_may_return_null=1"
OPTIONS = {
    # Short stacks: those of the interpreter are many, and what is found in them is named one by one. With the runtime's
    # record of the thread variables of opened libraries, LeakSanitizer reads where nothing is mapped and ends the
    # process with the status 0. Libraries that stay (keep.c) come before the runtime.
    "address": {
        "ASAN_OPTIONS": f"{COMMON}:detect_leaks=1:malloc_context_size=4:intercept_tls_get_addr=0"
        ":verify_asan_link_order=0",
        "LSAN_OPTIONS": f"exitcode=0:print_suppressions=0:suppressions={ROOT / 'tests' / 'sanitize' / 'leaks.supp'}",
    },
    # What is not instrumented orders what it does by atomics that ThreadSanitizer cannot see; the mutexes that it
    # locks count all the same.
    "thread": {"TSAN_OPTIONS": f"{COMMON}:ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4"},
}

#: A sanitizer that says this has looked at nothing, and the process has its status instead of its own.
FELL = "LeakSanitizer has encountered a fatal error"
START = re.compile(
    r"^(?:==\d+==ERROR: |WARNING: ThreadSanitizer|(?:Direct|Indirect) leak of|.*: runtime error: )", re.M
)
FRAME = re.compile(r"^ +#\d+ (.*)$", re.M)
OURS = re.compile(r"shim/layer/|libVkLayer_pylayer_pipeline_cache")
#: The runtimes' own functions, through which an allocation or access goes.
RUNTIME = re.compile(r"libsanitizer|lib[atu]+bsan|libasan|libtsan|__interceptor")


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


def reports(text: str) -> list[str]:
    """One log in its reports, without what stands before the first."""
    starts = [match.start() for match in START.finditer(text)]
    return [text[begin:end] for begin, end in itertools.pairwise([*starts, len(text)])]


def blames_layer(report: str) -> bool:
    """A leak is whose allocation it is; anything else is the layer's where a frame of it stands in what happened."""
    first = report.splitlines()[0]
    if OURS.search(first):
        return True
    happened = re.split(r"^ +(?:Thread T\d+ .*created by|As if synchronized)", report, maxsplit=1, flags=re.M)[0]
    frames = FRAME.findall(happened)
    if "leak of" in first:
        frames = [frame for frame in frames if not RUNTIME.search(frame)][:1]
    return any(OURS.search(frame) for frame in frames)


def summary(report: str) -> str:
    """What makes two reports the same: the kind and the layer's first frame."""
    first = re.sub(r"==\d+==|0x[0-9a-f]+|pid=\d+", "", report.splitlines()[0]).strip()
    frames = [re.sub(r"0x[0-9a-f]+ ", "", frame) for frame in FRAME.findall(report) if OURS.search(frame)]
    return f"{first} | {frames[0] if frames else ''}"


def judge(directory: Path) -> int:
    """How many different reports blame the layer; prints one of each."""
    found: dict[str, str] = {}
    tests: dict[str, list[str]] = defaultdict(list)
    others = 0
    for log in sorted(directory.iterdir()):
        text = log.read_text(errors="replace")
        named = [(FELL, text)] if FELL in text else []
        for report in reports(text):
            is_meant = "leak of" in report.splitlines()[0] and log.name.startswith(NEVER_FREED)
            if is_meant or not blames_layer(report):
                others += 1
            else:
                named.append((summary(report), report))
        for name, report in named:
            tests[name].append(log.stem)
            found.setdefault(name, report)
    for name, report in found.items():
        print(f"---- {len(tests[name])} times: {name}\nin {', '.join(sorted(set(tests[name]))[:10])}\n{report[:6000]}")
    count = sum(map(len, tests.values()))
    print(f"{count} reports about the layer, {len(found)} different; {others} about others, not judged")
    return len(found)


def main() -> int:
    """The exit status."""
    kind, arguments = sys.argv[1], sys.argv[2:]
    place = ROOT / "build" / "sanitize" / kind
    logs = place / "reports"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    if not arguments:
        layer = ROOT / "tests" / "layer"
        arguments = [str(path) for path in sorted(layer.glob("test_*.py")) if path.name not in EXCLUDED]
        arguments += [f"--deselect=tests/layer/{name}" for name in EXCLUDED if "::" in name]
    environment = {**os.environ, "PYLAYER_TEST_BUILD": str(place / "tree" / "build")}
    environment["PYLAYER_TEST_PACKAGE"] = str(place / "pylayer")
    environment |= OPTIONS[kind] | {DIRECTORY: str(logs), "PYTHONPATH": str(ROOT / "tests")}
    environment["LD_PRELOAD"] = str(place / "libkeep.so")
    start = time.monotonic()
    # ThreadSanitizer has each program sleep for a second at its end.
    workers = (os.cpu_count() or 1) * (2 if kind == "thread" else 1)
    command = [str(ROOT / ".venv" / "bin" / "pytest"), "-q", "-n", str(workers), "-p", "sanitize.run", "--timeout=1200"]
    tests = subprocess.run([*command, *arguments], env=environment, cwd=ROOT)
    print(f"{kind}: pytest exit {tests.returncode}, {time.monotonic() - start:.0f} s")
    return 1 if judge(logs) else tests.returncode


if __name__ == "__main__":
    sys.exit(main())
