"""Fixtures of all tests."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# Their assertions say what they compared, as those of tests do.
pytest.register_assert_rewrite(
    "cli.stores", "cli.user", "disk", "fleet.fleets", "host_steps", "pipeline_binaries", "report.browser",
    "scripted_driver", "unit.things", "world",
)  # fmt: skip

from pipeline_binaries import APPLICATION  # noqa: E402
from scripted_driver import ScriptedDriver  # noqa: E402
from world import PACKAGE, ROOT, World, quick_world  # noqa: E402

# A shell has what it starts in the background ignore SIGINT, and nohup has it ignore SIGHUP. Programs inherit what is
# ignored, so no test could end them by these signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for ending in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(ending) is signal.SIG_IGN:
        signal.signal(ending, signal.SIG_DFL)


#: Modules with the mark ``foreign`` that import what only `make test-all` installs.
collect_ignore = [] if importlib.util.find_spec("playwright") else ["report/test_browser.py"]


#: Why a test may be skipped, all of it: what a machine, its drivers or its user lacks. Beginnings of reasons.
SKIPS = (
    "a sanitizer's runtime must be the first library",
    "got empty parameter set for (target)",  # no driver of Mesa but RADV and Lavapipe is here
    "no disk can be mounted here",
    "only root can run it",
    "the table is of libvulkan-dev ",
    "the validation layer of this system is ",
    "this driver cannot be had: ",
    "this driver has no VK_EXT_descriptor_heap",
    "this driver is new: ",
    "this machine gives this user no namespaces",
    "this machine gives this user no overlay mounts",
    "this system has no registry: ",
    "this system's glslang compiles shaders differently",
    "this system's LeakSanitizer hangs without the layer, too",
    "this system's RADV has no VK_KHR_pipeline_binary",
    "there is no ",  # library of DXVK or vkd3d-proton
    "this Wine runs no 32-bit programs ",
    "validation crashes in this program without the layer",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped for any other reason fails."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(SKIPS):
            report.outcome, report.longrepr = "failed", f"skipped, and SKIPS in tests/conftest.py has not why: {reason}"
    return report


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "root: only root can run it; .ci/run does, too")
    config.addinivalue_line(
        "markers",
        "foreign: needs a browser, a web server, groff, the validation layer, the newest registry, or a program "
        "that people use; `make test-all` runs it",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests with the mark ``root`` for everybody else."""
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="only root can run it"))


@pytest.fixture
def real(tmp_path: Path) -> World:
    """RADV null hardware."""
    return World(tmp_path)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """RADV null hardware, or in files with QUICK the driver of tests/driver."""
    world: World = request.getfixturevalue("quick" if getattr(request.module, "QUICK", False) else "real")
    return world


@pytest.fixture
def quick(tmp_path: Path) -> World:
    """The driver of tests/driver, which takes a tenth of RADV's time. It is for what does not depend on the driver, and
    for programs that use up, close or outlive what Mesa's stand-in for the kernel (tests/radv.py) itself needs:
    descriptors, bytes in files, its state at exit."""
    return quick_world(tmp_path)


@pytest.fixture
def open_world() -> Iterator[World]:
    """The driver of tests/driver, and files that every user may read."""
    with tempfile.TemporaryDirectory(prefix="pylayer-test-") as name:
        Path(name).chmod(0o755)
        yield quick_world(Path(name))


@pytest.fixture(scope="session")
def radv_has_binaries(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Returns whether RADV has VK_KHR_pipeline_binary: 24.0.5 has not."""
    alone = World(tmp_path_factory.mktemp("alone"))
    done = alone.run([*APPLICATION, "--count", "1"], check=False, VK_INSTANCE_LAYERS=None)
    return "has no VK_KHR" not in done.stderr


@pytest.fixture
def needs_binaries(request: pytest.FixtureRequest, radv_has_binaries: bool) -> None:
    """For tests of pipeline binaries. Those on RADV are skipped if it has none."""
    fixtures = request.fixturenames
    on_radv = "real" in fixtures or ("world" in fixtures and not getattr(request.module, "QUICK", False))
    if on_radv and not radv_has_binaries:
        pytest.skip("this system's RADV has no VK_KHR_pipeline_binary")


@pytest.fixture(autouse=True)
def mode_needs_binaries(request: pytest.FixtureRequest) -> None:
    """The same for each test that has the binaries mode as a parameter."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if {"binaries", "{mode: binaries}"} & {value for value in parameters.values() if isinstance(value, str)}:
        request.getfixturevalue("needs_binaries")


@pytest.fixture
def lavapipe(tmp_path: Path) -> World:
    """Lavapipe, which renders and whose pipeline cache is a stub."""
    return World(tmp_path, "lavapipe")


@pytest.fixture(autouse=True)
def installed_package() -> Iterator[None]:
    """Tests speak of what users get: the installed package, not the checkout."""
    assert PACKAGE.parent != ROOT, "the tests run against the installed package; use `make test`"
    yield


@pytest.fixture
def scripted(tmp_path: Path) -> ScriptedDriver:
    """The driver of tests/driver, whose faults a test scripts."""
    return ScriptedDriver(tmp_path)
