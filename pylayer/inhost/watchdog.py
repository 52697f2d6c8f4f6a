"""The watchdog for the user's policy class. It times, limits and counts the class's calls, and condemns a class that
keeps failing; the host then switches it off for the rest of the process.

Everything here runs on the policy thread. C breaks off a call that does not return (shim/policy/watchdog.c).
"""

from __future__ import annotations

import posix
import time

from ..policy import PolicyTimeout
from ..values import VERDICT_PASS_KEPT, Plan, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from ..policy import Policy

MS = 1_000_000
#: Event methods may take this long in total before their budget applies.
FREE_NS = 1_000_000_000
#: Event methods: no request waits for their answer.
EVENTS = ("keep_cell", "device_created", "device_destroyed")


def _copied(argument: Any) -> Any:
    """Returns a copy of an argument, so that a class that changes it changes neither what is stored nor the identity. A
    view of C's memory becomes bytes, because a class may keep it for longer than that memory is valid."""
    if isinstance(argument, Value):
        values = argument.as_dict().items()
        return type(argument)(**{key: bytes(one) if isinstance(one, memoryview) else one for key, one in values})
    return dict(argument) if isinstance(argument, dict) else argument


def _of_type(wanted: type[Value]) -> Callable[[str, Any], Any]:
    def check(method: str, answer: Any) -> Any:
        if not isinstance(answer, wanted):
            raise TypeError(f"{method} returned {type(answer).__name__}, not a {wanted.__name__}")
        # Make a plain value: an object of the user's subclass could run the user's code later, outside the call.
        return wanted(**{name: getattr(answer, name) for name in wanted.__slots__})

    return check


def _verdict(method: str, answer: Any) -> tuple[int, str]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"{method} returned {type(answer).__name__}, not a tuple of verdict and outcome")
    verdict, outcome = answer
    if not 0 <= verdict <= VERDICT_PASS_KEPT:
        raise ValueError(f"{method} returned the verdict {verdict}")
    return int(verdict), str(outcome)


#: Checks by method. A check turns an answer into plain values, or raises if it is invalid. Other methods have none.
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "plan_device": _of_type(Plan),
    "admit_cache": _verdict,
    "keep_cell": lambda _, answer: bool(answer),
}


def _failures(count: int) -> str:
    return "1 failure" if count == 1 else f"{count} failures"


class Watchdog:
    """Watches one policy class. ``facts`` is what the statistics of a run say about the class; the watchdog updates it
    in place. ``limits`` come from the key ``watchdog`` of policy files.

    ``condemned``: why the class must be switched off; empty while it may go on.
    """

    def __init__(
        self,
        commands: ModuleType,
        describe: Callable[[BaseException], str],
        name: str,
        limits: dict[str, Any],
        facts: dict[str, Any],
    ) -> None:
        self._commands = commands
        self._describe = describe
        self.name = name
        self.limits = limits
        self.condemned = ""
        self.facts = facts
        facts |= {"class": name, "failures": 0, "late": 0, "broken_off": 0, "events": 0, "over_budget": 0}
        facts |= {"event_ns": 0, "event_cpu_ns": 0, "switched_off": "", "switched_off_at": 0.0}
        self._call_ns = int(limits["call_ms"] * MS)
        self._import_ns = int(limits["import_ms"] * MS)
        self._process = posix.getpid()
        self._started = time.monotonic_ns()
        self._in_a_row = self._in_a_row_before = 0
        #: Duration of the last call in nanoseconds.
        self._lasted = 0

    # ---- calls -----------------------------------------------------------------------------------

    def load(self, module: str, function: Callable[[], Any]) -> Any:
        """Imports the class by calling ``function``. Raises what that raises."""
        return self.run(f"the import of {module}", self._import_ns, function)

    def run(self, name: str, limit_ns: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs the user's code. After about ``limit_ns`` PolicyTimeout is raised in it, at the next Python bytecode: a
        blocking call in C ends first."""
        began = time.monotonic_ns()
        try:
            try:
                self._commands.call_begins(name, limit_ns)
                return function(*arguments)
            finally:
                self._commands.call_ended()
        except BaseException:
            self._commands.call_ended()  # PolicyTimeout may come while the call ends
            raise
        finally:
            self._lasted = time.monotonic_ns() - began
            # If the class forked, this may be the child: a copy of the program that has only this thread. End it.
            if posix.getpid() != self._process:
                posix._exit(0)

    def ask(self, policy: Policy, method: str, *arguments: Any) -> Any:
        """Calls a method of the class, and counts failures and time. Returns a checked answer. Raises what the method
        or the check raises."""
        processor = time.thread_time_ns()
        try:
            answer = self.run(method, self._call_ns, self._answer, policy, method, *map(_copied, arguments))
        except PolicyTimeout as error:
            self.facts["broken_off"] += 1
            self._failed(method, error)
            self._condemn(f"{method} did not return within {self.limits['call_ms']:g} ms, {self._describe(error)}")
            raise
        except BaseException as error:
            self._failed(method, error)
            raise
        finally:
            if method in EVENTS:
                self._event(time.thread_time_ns() - processor)
            if self._lasted > self._call_ns:
                self._condemn(f"{method} took {self._lasted // MS} ms, more than watchdog.call_ms")
        self._in_a_row_before, self._in_a_row = self._in_a_row, 0
        return answer

    @staticmethod
    def _answer(policy: Policy, method: str, *arguments: Any) -> Any:
        answer = getattr(policy, method)(*arguments)
        check = CHECKS.get(method)
        return answer if check is None else check(method, answer)

    # ---- counting --------------------------------------------------------------------------------

    def late(self, method: str, sent_ns: int) -> None:
        """Notes that the program no longer waited for the last answer. This is a failure of the class if its method
        took at least half of the time since the message was sent."""
        if self._lasted * 2 < time.monotonic_ns() - sent_ns:
            return
        self.facts["late"] += 1
        self._in_a_row = self._in_a_row_before
        self._count(f"{method} answered too late")

    def unusable(self, method: str, error: BaseException) -> None:
        """Counts a failure because the layer could not use the last answer."""
        self._in_a_row = self._in_a_row_before
        self._failed(method, error)

    def _failed(self, method: str, error: BaseException) -> None:
        self.facts["failures"] += 1
        self._count(f"{method}: {self._describe(error)}")

    def _count(self, what: str) -> None:
        self._in_a_row += 1
        total = self.facts["failures"] + self.facts["late"]
        if self._in_a_row >= self.limits["failures"]:
            self._condemn(f"{_failures(self._in_a_row)} in a row; the last: {what}")
        elif total >= self.limits["total_failures"]:
            self._condemn(f"{_failures(total)}; the last: {what}")

    def _event(self, cpu_ns: int) -> None:
        facts, limits = self.facts, self.limits
        facts["events"] += 1
        facts["event_ns"] += self._lasted
        facts["event_cpu_ns"] += cpu_ns
        facts["over_budget"] += self._lasted > limits["event_ms"] * MS
        spent = facts["event_ns"] - FREE_NS
        if spent <= 0 or spent <= (facts["events"] * limits["event_ms"] * MS):
            return
        percent = 100 * spent / max(time.monotonic_ns() - self._started, 1)
        if percent > limits["event_percent"]:
            mean = facts["event_ns"] / facts["events"] / MS
            self._condemn(f"events took {mean:.1f} ms each and {percent:.0f} % of the program's time")

    def _condemn(self, reason: str) -> None:
        if not self.condemned:
            self.condemned = reason
            self.facts["switched_off"] = reason
            self.facts["switched_off_at"] = time.time()
