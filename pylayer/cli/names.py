"""Names of the programs, devices and drivers in a store."""

from __future__ import annotations

from ..common.settings import glob_matches
from ..report.totals import read_runs
from ..report.words import printable


class Names:
    """Names of programs, from recorded runs and from the files of the store."""

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
        """Adds a name from a file of the store, which cuts it to 64 bytes. A name from a run is whole and takes
        precedence."""
        if not name:
            return
        self._texts.setdefault(program, printable(name))
        executable, _, application = name.partition(" (")
        self._words.setdefault(program, set()).update({name, executable, application.removesuffix(")")})

    def of(self, program: int) -> str:
        """Returns the program's name for people, or its number if no name is known."""
        return self._texts.get(program, f"{program:016x}")

    def matches(self, program: int, pattern: str) -> bool:
        """Returns whether a pattern matches the executable, the application, both together, or the program's number in
        the store."""
        words = {*self._words.get(program, ()), self.of(program), f"{program:016x}"}
        return any(word and glob_matches(pattern, word) for word in words)

    def known(self, pattern: str) -> list[int]:
        """Returns the programs with a name that a pattern matches."""
        return sorted(program for program in self._texts if self.matches(program, pattern))

    def device(self, identity: str) -> str:
        """Returns the device of an identity, or empty text if no run names it."""
        return self._devices.get(identity, ("", ""))[0]

    def driver(self, identity: str) -> str:
        """Returns the driver of an identity, or empty text if no run names it."""
        return self._devices.get(identity, ("", ""))[1]
