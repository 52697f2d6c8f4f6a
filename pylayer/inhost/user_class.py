"""Calls the user's policy class: gives it copies, checks what it answers, and counts its failures."""

from __future__ import annotations

import posix

from ..common.user_policy import describe
from ..values import VERDICT_EMPTY, Plan, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..policy import Policy

#: After so many failures in a row the host switches the class off.
FAILURES = 3


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
    if not 0 <= verdict <= VERDICT_EMPTY:
        raise ValueError(f"{method} returned the verdict {verdict}")
    return int(verdict), str(outcome)


#: Checks by method. A check turns an answer into plain values, or raises if it is invalid. Other methods have none.
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "plan_device": _of_type(Plan),
    "admit_cache": _verdict,
    "keep_cell": lambda _, answer: bool(answer),
}


class UserClass:
    """One policy class. ``facts`` is what the statistics of a run say about it, updated in place."""

    def __init__(self, name: str, facts: dict[str, Any]) -> None:
        self.facts = facts
        facts |= {"class": name, "failures": 0, "switched_off": ""}
        self._process = posix.getpid()
        self._in_a_row = 0

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs the user's code."""
        try:
            return function(*arguments)
        finally:
            # If the class forked, this may be the child: a copy of the program that has only this thread. End it.
            if posix.getpid() != self._process:
                posix._exit(0)

    def ask(self, policy: Policy, method: str, *arguments: Any) -> Any:
        """Calls a method of the class. Returns a checked answer. Raises what the method or the check raises."""
        try:
            answer = self.run(self._answer, policy, method, *map(_copied, arguments))
        except BaseException as error:
            self._in_a_row += 1
            self.facts["failures"] += 1
            if self._in_a_row == FAILURES:
                self.switch_off(f"{FAILURES} failures in a row; the last: {method}: {describe(error)}")
            raise
        self._in_a_row = 0
        return answer

    @staticmethod
    def _answer(policy: Policy, method: str, *arguments: Any) -> Any:
        answer = getattr(policy, method)(*arguments)
        check = CHECKS.get(method)
        return answer if check is None else check(method, answer)

    def switch_off(self, reason: str) -> None:
        """Notes in the statistics why the built-in policy takes the place of the class."""
        self.facts["switched_off"] = reason
