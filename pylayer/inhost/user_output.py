"""Logs what a user's policy class prints and raises."""

from __future__ import annotations

from ..values import LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Printed text without an end of line is logged once it is longer than this many characters.
MAX_LINE = 4096
#: At most this many printed lines are logged for each of sys.stdout and sys.stderr.
MAX_PRINTED = 1000


class LogStream:
    """Replaces sys.stdout and sys.stderr: what a policy prints goes to the log, not to the program's terminal."""

    def __init__(self, level: int, log: Callable[[int, str], None]) -> None:
        self._level = level
        self._log = log
        self._rest = ""
        self._printed = 0

    def write(self, text: str) -> int:
        """Logs whole lines, and holds an unfinished line until its end comes. Returns the length of ``text``."""
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = ""
        for line in lines:
            if line.strip():
                self._printed += 1
                if self._printed <= MAX_PRINTED:
                    self._log(self._level, line)
                elif self._printed == MAX_PRINTED + 1:
                    self._log(LOG_WARN, f"policy printed {MAX_PRINTED} lines; its further output is dropped")
        return len(text)

    def flush(self) -> None:
        """Does nothing: only an unfinished line is held back."""
