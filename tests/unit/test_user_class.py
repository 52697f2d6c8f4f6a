"""The user's policy class: what counts as a failure, when it is switched off, and what it cannot reach."""

from __future__ import annotations

import os
from typing import Any

import pytest
from unit.fake_layer import FakeBoundary, FakeMessage, Send, device, message, policy_of, stored
from unit.things import facts

from pylayer.common.identity import Identity
from pylayer.inhost.user_output import LogStream, describe
from pylayer.policy import Policy
from pylayer.store import runs
from pylayer.values import LOG_INFO, LOG_WARN, Plan


def cells(count: int) -> list[FakeMessage | None]:
    messages: list[FakeMessage | None] = []
    for number in range(count):
        messages += [message("CELL", data=b"%d" % number), None]
    return messages


# ---- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, (1,), (1, "a", 2), (9, "a"), (-1, "a"), ("x", "a"), [1, "a"]])
def test_verdict_that_is_none(send: Send, host: Any, answer: Any) -> None:
    """A verdict that the layer does not know is a failure, and the data passes unchanged."""
    host.policy = policy_of(admit_cache=lambda self, *_: answer)
    request = message("ADMIT_CACHE")
    send(*device(), request)
    assert request.verdict is None
    assert host.policy_facts["failures"] == 1


def test_answer_whose_truth_fails(send: Send, host: Any, root: str) -> None:
    """keep_cell's answer is converted to bool inside the call, so a failure counts as the class's."""

    class Undecided:
        def __bool__(self) -> bool:
            raise ValueError("neither")

    host.policy = policy_of(keep_cell=lambda self, *_: Undecided())
    send(*device(), *cells(2))
    assert host.policy_facts["failures"] == 2
    assert stored(root) == []


# ---- what a class cannot reach ------------------------------------------------------------------------


def test_arguments_are_copies(send: Send, host: Any, root: str) -> None:
    """A class that changes its program, device, settings or cell changes neither the identity nor what is stored."""

    def ruin(*arguments: Any) -> bool:
        for argument in arguments:
            for name in getattr(argument, "__slots__", ()):
                setattr(argument, name, "ruined")
            if isinstance(argument, dict):
                argument.clear()
        return True

    def plan_device(self: Policy, *arguments: Any) -> Plan:
        plan = Policy.plan_device(self, *arguments)
        ruin(*arguments)
        return plan

    def event(self: Policy, *arguments: Any) -> bool:
        return ruin(*arguments)

    host.policy = policy_of(plan_device=plan_device, device_created=event, keep_cell=event, device_destroyed=event)
    send(*device(), *cells(3), message("FLUSH_DEVICE"))
    assert host.policy_facts["failures"] == 0
    assert stored(root) == [b"0", b"1", b"2"]
    (run,) = runs.read_all(root)
    assert run["identity"] == Identity.of(facts()).name
    assert run["program"] == "stutter"


def test_plan_of_a_derived_class(send: Send, host: Any) -> None:
    """If reading a plan runs the user's code, the plan is read inside the call, and only there."""

    class Lazy(Plan):
        def as_dict(self) -> dict[str, Any]:
            raise SystemExit(3)

    host.policy = policy_of(plan_device=lambda self, *arguments: Lazy(**Policy.plan_device(self, *arguments).as_dict()))
    request = message("PLAN_DEVICE")
    send(request)
    assert type(request.plan) is Plan
    assert host.policy_facts["failures"] == 0


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_class_that_forks(send: Send, host: Any, how: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The child of a fork in a policy ends when the call does, so that it does not run on as a second program."""
    children: list[int] = []

    def device_created(self: Policy, *_: Any) -> None:
        child = os.fork()
        if child:
            children.append(child)
        elif how == "raises":
            raise SystemExit(7)

    host.policy = policy_of(device_created=device_created)
    send(*device())
    (child,) = children
    assert os.waitpid(child, 0) == (child, 0)


# ---- what a class prints -----------------------------------------------------------------------------


def test_flood_of_lines(boundary: FakeBoundary) -> None:
    """A policy may log 1000 lines of output. One more line says that the limit is reached."""
    stream = LogStream(LOG_INFO, boundary.log)
    for number in range(5000):
        print("line", number, file=stream)
    assert boundary.lines(LOG_INFO) == [f"line {number}" for number in range(1000)]
    assert boundary.lines(LOG_WARN) == ["policy printed 1000 lines; its further output is dropped"]


def test_place_of_what_cannot_be_printed() -> None:
    """An error in what replaces sys.stdout is told with the line of the class that prints."""
    with pytest.raises(TypeError) as raised:
        LogStream(LOG_INFO, lambda *_: None).write(5)  # type: ignore[arg-type]
    assert " (test_user_class.py, line " in describe(raised.value)


# ---- statistics --------------------------------------------------------------------------------------


def test_statistics_of_a_run(send: Send, host: Any, root: str) -> None:
    """The run's file names the class, its failures, and why it was switched off."""

    def keep_cell(self: Policy, *_: Any) -> bool:
        raise ValueError("no")

    host.policy = policy_of(keep_cell=keep_cell)
    send(*device(), *cells(10), message("FLUSH_DEVICE"))
    (run,) = runs.read_all(root)
    policy = run["policy"]
    assert policy["class"] == "unit.fake_layer:Mine"
    assert policy["failures"] == 3
    assert policy["switched_off"].startswith("3 failures in a row; the last: keep_cell: ValueError: no")
    assert policy["switched_off_at"] > 1.7e9


def test_statistics_of_the_last_call(send: Send, host: Any, root: str) -> None:
    """The statistics of a run include a failure in its device_destroyed."""
    host.policy = policy_of(device_destroyed=lambda self, *_: 1 // 0)
    send(*device(), message("FLUSH_DEVICE"))
    (run,) = runs.read_all(root)
    assert run["policy"]["failures"] == 1


@pytest.mark.parametrize("late", [False, True])
def test_statistics_of_a_device_without_plan(send: Send, host: Any, root: str, late: bool) -> None:
    """If a class gave no plan for a device, or gave it too late, the run says so."""

    def plan_device(self: Policy, *arguments: Any) -> Plan:
        if late:
            return Policy.plan_device(self, *arguments)
        raise ValueError("no")

    host.policy = policy_of(plan_device=plan_device)
    send(message("PLAN_DEVICE", late=late))
    (run,) = runs.read_all(root)
    assert (run["program"], run["carrier"]) == ("stutter", "off")
    assert run["reason"] == ("the plan came too late" if late else "plan_device failed")
    assert run["policy"]["failures"] == (0 if late else 1)
