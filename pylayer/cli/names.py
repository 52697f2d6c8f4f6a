"""What programs, devices and drivers in a store are called."""

from __future__ import annotations

from ..common.settings import glob_matches
from ..report.totals import read_runs
from ..report.words import printable


class Names:
    """What programs are called, from recorded runs and from the files themselves."""

    def __init__(self, root: str) -> None:
        self._texts: dict[int, str] = {}
        self._words: dict[int, set[str]] = {}
        self._devices: dict[str, tuple[str, str]] = {}
        for run in read_runs(root):
            program = run.program_id
            self._texts[program] = run.title
            self._words.setdefault(program, set()).update({run.executable, run.application, run.texts["program"]})
            driver = ", ".join(text for text in (run.texts["driver"], run.texts["driver_info"]) if text)
            self._devices[run.identity] = printable(run.texts["device"]), printable(driver)

    def learn(self, program: int, name: str) -> None:
        """A name that a file of the store gives, cut to 64 bytes there; one that a run gave is whole."""
        if not name:
            return
        self._texts.setdefault(program, printable(name))
        executable, _, application = name.partition(" (")
        self._words.setdefault(program, set()).update({name, executable, application.removesuffix(")")})

    def of(self, program: int) -> str:
        """The program's name for people: its number where nothing else is known."""
        return self._texts.get(program, f"{program:016x}")

    def matches(self, program: int, pattern: str) -> bool:
        """Whether a pattern names the executable, the application, both together, or the number in the store."""
        words = {*self._words.get(program, ()), self.of(program), f"{program:016x}"}
        return any(word and glob_matches(pattern, word) for word in words)

    def known(self, pattern: str) -> list[int]:
        """The programs with a name that a pattern names."""
        return sorted(program for program in self._texts if self.matches(program, pattern))

    def device(self, identity: str) -> str:
        """The device of an identity; empty where no run tells."""
        return self._devices.get(identity, ("", ""))[0]

    def driver(self, identity: str) -> str:
        """The driver of an identity; empty where no run tells."""
        return self._devices.get(identity, ("", ""))[1]
