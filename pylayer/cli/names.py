"""Names of the programs, devices and drivers in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..report import recorded
from ..report.recorded import is_named
from ..report.words import printable

if TYPE_CHECKING:
    from ..common.identity import Identity


class Names:
    """Names of programs, from recorded runs and from the files of the store."""

    def __init__(self, root: str) -> None:
        self._texts: dict[int, str] = {}
        self._devices: dict[str, tuple[str, str]] = {}
        for run in recorded.read(root):
            self._texts[run.program_id] = run.title
            self._devices[run.identity] = run.texts["device"], run.driver

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

    def recorded(self, identity: str) -> tuple[str, str]:
        """Returns device and driver of an identity, each empty if no run names it."""
        return self._devices.get(identity, ("", ""))

    def device_and_driver(self, identity: Identity | None, name: str) -> tuple[str, str]:
        """Returns device and driver of an identity, in words. ``identity``: None if its file cannot be read."""
        fields: dict[str, Any] = identity.fields if identity is not None else {}
        device, known = self.recorded(name)
        if not device and fields:
            vendor, number = (int(fields.get(key, 0)) for key in ("vendor_id", "device_id"))
            device = f"vendor {vendor:#06x} device {number:#06x}"
        driver = ", ".join(printable(str(fields[key])) for key in ("driver_name", "driver_info") if fields.get(key))
        if str(fields.get("abi", "")).startswith("32"):
            driver += " (32-bit)"
        return device or "unknown device", driver or known or "unknown driver"

    def as_json(self, identity: Identity | None, name: str) -> dict[str, str]:
        """Returns the name of an identity, and its device and driver in words, for --json."""
        device, driver = self.device_and_driver(identity, name)
        return {"identity": name, "device": device, "driver": driver}

    def target(self, identity: Identity | None, name: str) -> str:
        """Returns device, driver and name of an identity in one line."""
        return f"{', '.join(self.device_and_driver(identity, name))}; identity {name}"
