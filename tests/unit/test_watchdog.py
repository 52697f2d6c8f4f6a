"""The watchdog for a policy class: what counts, when the class is switched off, and what it cannot reach."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from unit.fake_layer import FakeBoundary, FakeMessage, Send, device, message, policy_of, stored
from unit.things import facts

from pylayer.common.identity import Identity
from pylayer.common.settings import TOP_DEFAULTS, top_setting
from pylayer.inhost import watchdog
from pylayer.inhost.user_output import LogStream, describe
from pylayer.policy import Policy, PolicyTimeout
from pylayer.store import runs
from pylayer.values import LOG_INFO, LOG_WARN, VERDICT_PASS, Plan

LIMITS = TOP_DEFAULTS["watchdog"]
MS = 1_000_000
SECOND = 1000 * MS


class Clock:
    """A fake clock for the watchdog. It advances only when a policy says so."""

    def __init__(self) -> None:
        self.now = 50 * SECOND
        self.processor = 0

    def monotonic_ns(self) -> int:
        return self.now

    def thread_time_ns(self) -> int:
        return self.processor

    time = staticmethod(time.time)

    def takes(self, ms: float, processor_ms: float = 0) -> None:
        self.now += int(ms * MS)
        self.processor += int(processor_ms * MS)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(watchdog, "time", result)
    return result


def warning(boundary: FakeBoundary) -> str:
    """Returns the one line that says that the class is off."""
    (line,) = boundary.lines(LOG_WARN)
    assert line.startswith("policy class unit.fake_layer:Mine is switched off for this process: ")
    assert line.endswith(
        "; the built-in one is in force. Correct the class, or raise its limits ('watchdog' in the policy file)"
    )
    return line.partition("this process: ")[2]


def cells(count: int) -> list[FakeMessage | None]:
    messages: list[FakeMessage | None] = []
    for number in range(count):
        messages += [message("CELL", data=b"%d" % number), None]
    return messages


# ---- failures ----------------------------------------------------------------------------------------


def test_failures_in_all(send: Send, host: Any, boundary: FakeBoundary, root: str) -> None:
    """A class that fails every other time is switched off when the total limit is reached. Storing continues."""
    calls = []

    def keep_cell(self: Policy, *_: Any) -> bool:
        calls.append(1)
        if len(calls) % 2:
            raise ValueError("odd")
        return True

    host.document = {"watchdog": {"total_failures": 5}}
    host.policy = policy_of(keep_cell=keep_cell)
    send(*device(), *cells(12))
    assert warning(boundary).startswith("5 failures; the last: keep_cell: ValueError: odd (test_watchdog.py, line ")
    assert len(calls) == 9
    assert len(stored(root)) == 7


def test_limits_of_the_policy_file() -> None:
    """Limits that the policy file does not set have their defaults."""
    assert top_setting({}, "watchdog") == LIMITS
    assert top_setting({"watchdog": None}, "watchdog") == LIMITS
    assert top_setting({"watchdog": {"failures": 2}}, "watchdog") == {**LIMITS, "failures": 2}


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


def test_plan_that_does_not_fit(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """A plan with a number that the layer cannot hold counts as the class's failure."""

    class Message(FakeMessage):
        def answer_plan(self, plan: Plan, record_now: bool = False) -> bool:
            raise OverflowError("integer 300 does not fit 'uint8_t'")

    host.policy = policy_of()
    send(*(Message("PLAN_DEVICE") for _ in range(LIMITS["failures"])))
    assert "the last: plan_device: OverflowError: integer 300 does not fit" in warning(boundary)


# ---- time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("took_ms", [300, 90])
def test_late_answers(send: Send, host: Any, boundary: FakeBoundary, clock: Clock, took_ms: int) -> None:
    """Answers that come after the program has gone on count as failures, even if nothing was raised. Those that are
    late because the policy thread was busy with something else do not."""

    def admit_cache(self: Policy, *arguments: Any) -> Any:
        clock.takes(took_ms)
        return VERDICT_PASS, "accepted"

    host.policy = policy_of(admit_cache=admit_cache)
    send(*device())
    is_its_fault = took_ms > 100
    for _ in range(LIMITS["failures"] * (1 if is_its_fault else 2)):
        send(message("ADMIT_CACHE", late=True, sent_ns=clock.now - 100 * MS))
    assert (host.policy_facts["late"], host.policy_facts["failures"]) == (8 if is_its_fault else 0, 0)
    if is_its_fault:
        assert warning(boundary).startswith("8 failures in a row; the last: admit_cache answered too late; ")
    else:
        assert boundary.lines(LOG_WARN) == []


def test_call_that_takes_too_long(send: Send, host: Any, boundary: FakeBoundary, clock: Clock) -> None:
    """One call beyond call_ms is enough."""
    host.policy = policy_of(device_created=lambda self, *_: clock.takes(501))
    send(*device())
    assert warning(boundary).startswith("device_created took 501 ms, more than watchdog.call_ms; ")
    assert host.policy_facts["switched_off"] == "device_created took 501 ms, more than watchdog.call_ms"


def test_each_call_is_told_to_the_layer(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """The layer is told when the policy thread calls the user's class, under which name and for how long."""
    inside = []

    def plan_device(self: Policy, *arguments: Any) -> Plan:
        inside.extend(boundary.in_calls)
        return Policy.plan_device(self, *arguments)

    host.document = {"watchdog": {"call_ms": 20}}
    host.policy = policy_of(plan_device=plan_device)
    send(*device(), message("FLUSH_DEVICE"))
    assert inside == ["plan_device"]
    assert boundary.in_calls == []
    names = ("plan_device", "device_created", "device_destroyed")
    assert boundary.calls == [(name, 20 * MS) for name in names]


def test_timeout_while_the_call_ends(send: Send, host: Any, boundary: FakeBoundary, monkeypatch: Any) -> None:
    """PolicyTimeout that is raised when the method has returned counts like any other, and the call is over."""
    ended: list[int] = []

    def call_ended() -> None:
        ended.append(1)
        if len(ended) == 1:
            raise PolicyTimeout
        boundary.in_calls.clear()

    monkeypatch.setattr(boundary, "call_ended", call_ended)
    host.policy = policy_of()
    send(message("PLAN_DEVICE"))
    assert (len(ended), boundary.in_calls, host.policy_facts["broken_off"]) == (2, [], 1)


def test_built_in_policy_is_not_timed(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """Without a user's class nothing is counted, and the statistics have no entry for it."""
    send(*device(), *cells(2), message("FLUSH_DEVICE"))
    assert (boundary.calls, host.policy_facts, host.watchdog) == ([], {}, None)


# ---- budget of events --------------------------------------------------------------------------------


def slow_cells(clock: Clock, ms: float) -> Policy:
    def keep_cell(self: Policy, *_: Any) -> bool:
        clock.takes(ms, ms / 2)
        return True

    return policy_of(keep_cell=keep_cell)


def test_events_over_budget(send: Send, host: Any, boundary: FakeBoundary, clock: Clock, root: str) -> None:
    """Events that take 50 ms each, all of the time, switch the class off. The cells are still stored."""
    host.policy = slow_cells(clock, 50)
    send(*device(), *cells(30))
    assert warning(boundary).startswith("events took 47.9 ms each and 13 % of the program's time; ")
    facts_ = host.policy_facts
    # After the free first second, 150 ms are 13 % of the time.
    assert (facts_["over_budget"], facts_["event_ns"], facts_["event_cpu_ns"]) == (23, 1150 * MS, 575 * MS)
    assert len(stored(root)) == 30


def test_first_second_is_free(send: Send, host: Any, boundary: FakeBoundary, clock: Clock) -> None:
    """A class may read what it needs when a device is created."""
    host.policy = slow_cells(clock, 100)
    send(*device(), *cells(10))
    assert boundary.lines(LOG_WARN) == []


def test_many_quick_events(send: Send, host: Any, boundary: FakeBoundary, clock: Clock) -> None:
    """If each event is quick, a program that compiles all the time does not get the class switched off."""
    host.policy = slow_cells(clock, 0.9)
    send(*device(), *cells(3000))
    assert boundary.lines(LOG_WARN) == []
    assert host.policy_facts["event_ns"] == 2700 * MS


def test_slow_events_that_are_rare(send: Send, host: Any, boundary: FakeBoundary, clock: Clock) -> None:
    """Events that take 50 ms each are allowed if there is one a second."""
    host.policy = slow_cells(clock, 50)
    send(*device())
    for number in range(200):
        clock.takes(1000)
        send(message("CELL", data=b"%d" % number))
    assert boundary.lines(LOG_WARN) == []
    assert host.policy_facts["event_ns"] == 10 * SECOND


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


def test_class_whose_end_runs_code(send: Send, host: Any, boundary: FakeBoundary) -> None:
    """A class that is switched off is not released: its __del__ would run on the policy thread without a watchdog."""
    ends: list[int] = []

    def fail(self: Policy, *_: Any) -> Any:
        raise ValueError

    host.policy = policy_of(plan_device=fail, __del__=lambda self: ends.append(1))
    send(*(message("PLAN_DEVICE") for _ in range(LIMITS["failures"])))
    assert type(host.policy) is Policy
    assert ends == []


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
    assert " (test_watchdog.py, line " in describe(raised.value)


# ---- statistics --------------------------------------------------------------------------------------


def test_statistics_of_a_run(send: Send, host: Any, root: str) -> None:
    """The run's file names the class, the time that it took, and why it was switched off."""

    def keep_cell(self: Policy, *_: Any) -> bool:
        raise ValueError("no")

    host.policy = policy_of(keep_cell=keep_cell)
    send(*device(), *cells(10), message("FLUSH_DEVICE"))
    (run,) = runs.read_all(root)
    policy = run["policy"]
    assert policy["class"] == "unit.fake_layer:Mine"
    assert policy["failures"] == 8
    assert policy["switched_off"].startswith("8 failures in a row; the last: keep_cell: ValueError: no")
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
