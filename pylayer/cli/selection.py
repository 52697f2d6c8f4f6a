"""Selects the programs and identities of a command: --app, --identity, and the names that people know them by."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import click

from ..common.identity import Identity
from ..common.paths import store_root
from ..report import recorded
from ..report.recorded import Run, is_named, is_pattern
from ..report.words import printable
from ..store.store import Partition, Store
from .output import Failure, WrongUse

#: The least length of an identity's prefix. A shorter one is too likely to match another identity.
LEAST_PREFIX = 4

#: What every help text about a program's name says of it.
NAMES = "named as in pylayer ls (the part in parentheses may be omitted), or a pattern with * or ?"

identity_option = click.option(
    "--identity",
    metavar="PREFIX",
    help="Only the driver identity that begins with this (pylayer ls shows them).",
)


class Names:
    """Names of programs, from recorded runs and from the files of the store."""

    def __init__(self, root: str) -> None:
        runs = recorded.read(root)
        self._texts = {run.program_id: run.title for run in runs}
        self._devices = {run.identity: (run.texts["device"], run.driver) for run in runs}

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

    def named(self, programs: Iterable[int], name: str | None = None) -> dict[int, str]:
        """Returns those of these programs that a user means by ``name``, or all with None: names by number."""
        return {number: self.of(number) for number in sorted(programs) if name is None or self.matches(number, name)}

    def known(self, name: str) -> dict[int, str]:
        """Returns the programs that a user means by ``name``."""
        return self.named(self._texts, name)

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
        return device or "unknown device", driver or known or "unknown driver"

    def as_json(self, identity: Identity | None, name: str) -> dict[str, str]:
        """Returns the name of an identity, and its device and driver in words, for --json."""
        device, driver = self.device_and_driver(identity, name)
        return {"identity": name, "device": device, "driver": driver}

    def target(self, identity: Identity | None, name: str) -> str:
        """Returns device, driver and name of an identity in one line."""
        return f"{', '.join(self.device_and_driver(identity, name))}; identity {name}"


def require_store() -> Store:
    """Returns the store. Raises Failure if no variable tells where it is."""
    root = store_root()
    if root is None:
        raise Failure("neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set, so there is no store; set one of them")
    return Store(root)


def with_recordings(store: Store, names: Names, app: str | None) -> dict[int, str]:
    """Returns the programs that have recorded pipelines, of all or of those named so. Learns their names."""
    from ..store import state

    found = state.programs(store.root)
    for number, name in found.items():
        names.learn(number, name)
    return names.named(found, app)


class Selection:
    """What --app and --identity select."""

    def __init__(self, app: str | None = None, identity: str | None = None) -> None:
        self.app = app
        self.identity = identity.lower() if identity else None
        if self.identity and not all(c in "0123456789abcdef" for c in self.identity):
            raise WrongUse(f"--identity {identity} cannot begin an identity, which has only digits and a to f")

    def takes_identity(self, name: str) -> bool:
        """Returns whether an identity is selected."""
        return self.identity is None or name.startswith(self.identity)

    def takes(self, program: int, names: Names) -> bool:
        """Returns whether a program is selected."""
        return self.app is None or names.matches(program, self.app)

    def takes_run(self, run: Run) -> bool:
        """Returns whether a recorded run is selected."""
        return self.takes_identity(run.identity) and (self.app is None or run.matches(self.app))

    def partitions(self, store: Store, names: Names) -> list[Partition]:
        """Returns what the store holds under the selected identities. Learns the names of programs there."""
        return store.partitions(self.takes_identity, names.learn)

    def __str__(self) -> str:
        parts = [f"a program named {self.app}"] if self.app else []
        parts += [f"identity {self.identity}"] if self.identity else []
        return " under ".join(parts) or "anything"


def meant(name: str | None, identity: str | None, known: Collection[str]) -> Selection:
    """Returns what a name and an identity select. ``name`` may also be the beginning of an identity in ``known``, which
    then takes precedence."""
    beginning = name.lower() if name is not None and identity is None and len(name) >= LEAST_PREFIX else None
    if beginning and any(each.startswith(beginning) for each in known):
        return Selection(identity=beginning)
    return Selection(name, identity)


def require_one(name: str, found: dict[int, str], undone: str, patterns: bool = True) -> None:
    """Raises WrongUse if a name stands for several programs. A pattern may, if ``patterns`` is set. ``undone`` says
    what was not done."""
    if len(found) > 1 and not (patterns and is_pattern(name)):
        listed = ", ".join(f"{shown} ({number:016x})" for number, shown in found.items())
        raise WrongUse(f"{undone}: {name} names {len(found)} programs: {listed}; give one whole name or number")
