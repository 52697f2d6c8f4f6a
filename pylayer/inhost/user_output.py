"""What a user's policy class prints and raises, as lines of the log."""

from __future__ import annotations

from ..values import LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: What a policy prints without an end of line is cut into lines of this many characters.
MAX_LINE = 4096
#: So many lines of what a policy prints are logged in a process.
MAX_PRINTED = 1000


class LogStream:
    """sys.stdout and sys.stderr: what a policy prints goes to the log, not to the program's terminal."""

    def __init__(self, level: int, log: Callable[[int, str], None]) -> None:
        self._level = level
        self._log = log
        self._rest = ""
        self._printed = 0

    def write(self, text: str) -> int:
        """Logs whole lines; the rest waits for its end."""
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
                    self._log(LOG_WARN, f"policy printed {MAX_PRINTED} lines; what it prints from now on is left out")
        return len(text)

    def flush(self) -> None:
        """Nothing waits but a line without its end."""


def describe(error: BaseException) -> str:
    """An exception in one line, with the place in a user's file where it happened."""
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file != describe.__code__.co_filename or not place:  # not sys.stdout, where a user's print ends up
            place = f" ({file.rpartition('/')[2]}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    try:
        text = " ".join(str(error).split())[:500]
    except BaseException as failure:  # a user's exception, a user's __str__
        text = f"(its text failed with {type(failure).__name__})"
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"
