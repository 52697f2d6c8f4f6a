"""Names of the programs, devices and drivers in a store."""

from __future__ import annotations

from ..report.totals import is_named, read_runs
from ..report.words import printable


class Names:
    """Names of programs, from recorded runs and from the files of the store."""

    def __init__(self, root: str) -> None:
        self._texts: dict[int, str] = {}
        self._devices: dict[str, tuple[str, str]] = {}
        for run in read_runs(root):
            self._texts[run.program_id] = run.title
            driver = ", ".join(text for text in (run.texts["driver"], run.texts["driver_info"]) if text)
            self._devices[run.identity] = printable(run.texts["device"]), printable(driver)

    def learn(self, program: int, name: str) -> None:
        """Adds a name from a file of the store, which cuts it to 64 bytes. A name from a run is whole and takes
        precedence."""
        if name:
            self._texts.setdefault(program, printable(name))

    def of(self, program: int) -> str:
        """Returns the program's name for people, or its number if no name is known."""
        return self._texts.get(program, f"{program:016x}")

    def matches(self, program: int, name: str) -> bool:
        """Returns whether a user means this program by ``name``."""
        return is_named(name, self.of(program), program)

    def known(self, name: str) -> list[int]:
        """Returns the programs that a user means by ``name``."""
        return sorted(program for program in self._texts if self.matches(program, name))

    def device(self, identity: str) -> str:
        """Returns the device of an identity, or empty text if no run names it."""
        return self._devices.get(identity, ("", ""))[0]

    def driver(self, identity: str) -> str:
        """Returns the driver of an identity, or empty text if no run names it."""
        return self._devices.get(identity, ("", ""))[1]
