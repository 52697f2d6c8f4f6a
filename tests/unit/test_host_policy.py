"""The policy in the host: its file, its class, and failures, each of which affects only one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.fake_layer import FakeBoundary, FakeMessage, Send, device, message, policy_of

import pylayer.common
from pylayer.inhost.user_class import FAILURES
from pylayer.policy import Policy
from pylayer.values import CARRIER_OBSERVE, CARRIER_OFF, LOG_INFO, LOG_WARN, Plan

# ---- failures of a policy ----------------------------------------------------------------------------


class Broken(Policy):
    """Raises ``error`` in every function."""

    error: Any = RuntimeError("broken on\npurpose")

    def fail(self, *_: Any) -> Any:
        raise self.error

    plan_device = admit_cache = keep_cell = device_created = device_destroyed = fail


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("in __str__")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RuntimeError("x"), Unspeakable(), MemoryError()])
def test_failing_policy(send: Send, host: Any, boundary: FakeBoundary, error: BaseException) -> None:
    """An exception of any kind, including SystemExit, is logged in one line and ends neither loop nor process."""
    host.policy = Broken()
    host.policy.error = error
    request = message("PLAN_DEVICE")
    send(request, message("ADMIT_CACHE"), message("FLUSH_DEVICE"), message("CREATE_INSTANCE", device=0))
    assert request.plan is None
    failures = [line for line in boundary.lines(LOG_INFO) if line.startswith("policy failed")]
    assert failures
    assert all(type(error).__name__ in line and "test_host_policy.py, line" in line for line in failures)


@pytest.mark.parametrize("answer", [None, 5, object()])
def test_plan_of_another_type(send: Send, host: Any, boundary: FakeBoundary, answer: Any) -> None:
    """A plan_device that returns no Plan counts as a failure, which is logged. The device runs without the layer."""
    host.policy = policy_of(plan_device=lambda self, *_: answer)
    request = message("PLAN_DEVICE")
    send(request)
    assert (request.plan, host.sessions, host.policy_facts["failures"]) == (None, {}, 1)
    assert f"plan_device returned {type(answer).__name__}, not a Plan" in boundary.lines(LOG_INFO)[0]


def test_policy_that_fails_too_often(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """After FAILURES failures in a row, the built-in policy replaces the class, whatever else succeeds in between. The
    next device is planned again."""
    host.policy = Broken()
    last = message("PLAN_DEVICE")
    requests: list[FakeMessage | None] = []
    for _ in range(FAILURES):
        requests += [message("PLAN_DEVICE"), message("CREATE_INSTANCE", device=0), None]
    send(*requests, last)
    assert type(host.policy) is Policy
    assert last.plan is not None
    (line,) = boundary.lines(LOG_WARN)
    assert line.startswith(
        f"policy class {__name__}:Broken is switched off for this process: 3 failures in a row; the "
        "last: plan_device: RuntimeError: broken on purpose (test_host_policy.py, line "
    )
    assert "; the built-in one is in force. " in line


def test_policy_that_fails_sometimes(send: Send, host: Any) -> None:
    """Failures with successes in between do not replace the user's policy class."""

    class Moody(Policy):
        calls = 0

        def keep_cell(self, *_: Any) -> bool:
            self.calls += 1
            if self.calls % FAILURES:
                raise ValueError
            return True

    host.policy = Moody()
    count = 3 * FAILURES
    send(*device(), *(message("CELL", data=b"%d" % number) for number in range(count)))
    assert isinstance(host.policy, Moody)
    assert host.policy.calls == count


# ---- policy file and policy class --------------------------------------------------------------------


def configured(host_module: Any, directory: Path, text: str | bytes) -> Any:
    path = directory / "policy.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    host = host_module.Host()
    host.configure()
    return host


def test_policy_file(host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path) -> None:
    """The policy file's settings reach the plan."""
    host = configured(host_module, tmp_path, "settings: {carrier: off}")
    request = message("PLAN_DEVICE")
    boundary.queue = [request, None]
    host.loop()
    assert request.plan is not None
    assert request.plan.carrier == CARRIER_OFF
    assert any("switched off by the policy file" in line for line in boundary.lines(LOG_INFO))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("settings: {carrier: some}", "carrier is 'some'"),
        ("1: x\na: y", "unknown key 1"),
        (b"\xff\xfe", "not UTF-8"),
        ("[" * 1000, "not YAML"),
        ("policy: m:C", "No such file or directory"),
    ],
)
def test_policy_file_that_cannot_be_used(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, text: str | bytes, words: str
) -> None:
    """A file that cannot be used causes one warning, and the defaults are in force."""
    host = configured(host_module, tmp_path, text)
    (line,) = boundary.lines(LOG_WARN)
    assert words in line
    assert line.endswith("in force")
    assert type(host.policy) is Policy


def test_yaml_that_cannot_be_imported(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an installation without PyYAML, only the policy file is not used. The layer works."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "pylayer.common.policy_yaml", raising=False)
    monkeypatch.delattr(pylayer.common, "policy_yaml", raising=False)
    configured(host_module, tmp_path, "share: all")
    assert "the defaults are in force" in boundary.lines(LOG_WARN)[0]


def test_policy_file_of_others(host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path) -> None:
    """A policy file that others may write to is named and not used."""
    path = tmp_path / "policy.yaml"
    path.touch()
    os.chmod(path, 0o666)
    host = configured(host_module, tmp_path, "settings: {carrier: off}")
    assert host.document == {}
    assert f"{path} can be written by others" in boundary.lines(LOG_WARN)[0]


def test_no_home(host_module: Any, boundary: FakeBoundary) -> None:
    """Without a home directory and without PYLAYER_STORE, the log says that nothing is stored."""
    boundary.variables.clear()
    host = host_module.Host()
    host.configure()
    assert host.root is None
    assert len(boundary.lines(LOG_WARN)) == 1


USER_POLICY = """
from pylayer.policy import Policy
class Good(Policy):
    pass
class NoPolicy:
    pass
class Failing(Policy):
    def __init__(self):
        raise SystemExit(4)
number = 5
"""


@pytest.fixture
def policy_directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path
    (directory / "unit_user_policy.py").write_text(USER_POLICY)
    (directory / "unit_user_broken.py").write_text("def x(:\n")
    (directory / "unit_user_exits.py").write_text("raise SystemExit('bye')\n")
    before = list(sys.path)
    yield directory
    assert sys.path == before


def test_user_policy(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, policy_directory: Path
) -> None:
    """The user's policy class is loaded from beside the policy file."""
    host = configured(host_module, tmp_path, "policy: unit_user_policy:Good")
    assert type(host.policy).__name__ == "Good"
    assert boundary.lines(LOG_WARN) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("unit_user_policy:Absent", "AttributeError"),
        ("unit_user_policy:NoPolicy", "TypeError: NoPolicy is not a subclass of pylayer.policy.Policy"),
        ("unit_user_policy:number", "TypeError"),
        ("unit_user_policy:Failing", "SystemExit: 4 (unit_user_policy.py, line 9)"),
        ("unit_user_absent:Good", "No such file or directory"),
        ("unit_user_broken:Good", "SyntaxError"),
        ("unit_user_exits:Good", "SystemExit: bye (unit_user_exits.py, line 1)"),
    ],
)
def test_user_policy_that_cannot_be_used(
    host_module: Any,
    boundary: FakeBoundary,
    root: str,
    tmp_path: Path,
    policy_directory: Path,
    wanted: str,
    words: str,
) -> None:
    """If the class is missing, is not a policy class, or fails in import or construction, the built-in policy stays in
    force."""
    host = configured(host_module, tmp_path, f"policy: {wanted}")
    (line,) = boundary.lines(LOG_WARN)
    assert line.startswith(f"policy {wanted} cannot be used: ")
    assert line.endswith("; the built-in one is in force")
    assert words in line
    assert type(host.policy) is Policy


def test_policy_directory_of_others(
    host_module: Any, boundary: FakeBoundary, root: str, tmp_path: Path, policy_directory: Path
) -> None:
    """Code is not imported from a directory that others may write to, sticky or not."""
    os.chmod(policy_directory, 0o1777)
    host = configured(host_module, tmp_path, "policy: unit_user_policy:Good")
    assert type(host.policy) is Policy
    assert "can be written by others" in boundary.lines(LOG_WARN)[0]


def test_reason_names_the_policy_class(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """If a policy class chose the carrier, the log does not give the built-in policy's reason."""

    class Chooses(Policy):
        def plan_device(self, *arguments: Any) -> Plan:
            plan = super().plan_device(*arguments)
            plan.carrier = CARRIER_OBSERVE
            return plan

    host.policy = Chooses()
    send(message("PLAN_DEVICE"), message("DEVICE_CREATED", carrier=CARRIER_OBSERVE))
    assert any("carrier observe" in line and "policy class" in line for line in boundary.lines(LOG_INFO))


# ---- prepare -----------------------------------------------------------------------------------------


def test_prepare(host_module: Any, boundary: FakeBoundary, root: str) -> None:
    """What a policy prints goes to the log, even while it is imported. The function returns the loop."""

    def speak() -> str:
        print("hello", "world")
        print("no end of line", end="")
        print("x" * 10_000, end="", file=sys.stderr)
        return root

    boundary.queue = []
    del boundary.variables["PYLAYER_CONFIG"]
    host_module.store_root = speak
    host_module.prepare()()
    assert boundary.lines(LOG_INFO) == ["hello world"]
    assert boundary.lines(LOG_WARN) == ["x" * 10_000]
