"""Which programs and identities a command means: --app, --identity, and the names that people know them by."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..identity import program_id
from ..paths import store_root
from ..settings import glob_matches
from .complete import identities, programs
from .output import Failure, WrongUse, printable

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Shorter beginnings of an identity are too easily another's.
LEAST_PREFIX = 4

app_option = click.option(
    "--app",
    metavar="GLOB",
    shell_complete=programs,
    help="Only programs whose name matches, with * and ?, in any case.",
)
identity_option = click.option(
    "--identity",
    metavar="PREFIX",
    shell_complete=identities,
    help="Only the driver identity that begins with this (pylayer ls shows them).",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def require_root() -> str:
    """The store's root; Failure where there can be none."""
    root = store_root()
    if root is None:
        raise Failure("neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set, so there is no store to read; set one")
    return root


class Names:
    """What programs are called, from recorded runs and from the files themselves."""

    def __init__(self, root: str) -> None:
        from .totals import read_runs

        self._texts: dict[int, str] = {}
        self._words: dict[int, set[str]] = {}
        self._devices: dict[str, tuple[str, str]] = {}
        for run in read_runs(root):
            program = program_id(run.executable, run.application)
            self._texts[program] = printable(run.texts["program"] or run.executable)
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


class Selection:
    """What --app and --identity choose."""

    def __init__(self, app: str | None = None, identity: str | None = None) -> None:
        self.app = app
        self.identity = identity.lower() if identity else None
        if self.identity and not all(c in "0123456789abcdef" for c in self.identity):
            raise WrongUse(f"--identity {identity} is no beginning of an identity, which has digits and a to f only")

    def takes_identity(self, name: str) -> bool:
        """Whether an identity's folder is meant."""
        return self.identity is None or name.startswith(self.identity)

    def takes(self, program: int, names: Names) -> bool:
        """Whether a program is meant."""
        return self.app is None or names.matches(program, self.app)

    def __str__(self) -> str:
        parts = [f"a program named {self.app}"] if self.app else []
        parts += [f"identity {self.identity}"] if self.identity else []
        return " under ".join(parts) or "anything"


def one_identity(root: str, prefix: str) -> str:
    """The single identity that begins so; Failure for none and WrongUse for several."""
    from ..store.folder import identity_names

    selection = Selection(identity=prefix)
    found = [name for name in identity_names(root) if selection.takes_identity(name)]
    if not found:
        raise Failure(f"no identity in {root} begins with {prefix}; pylayer ls lists them")
    if len(found) > 1:
        listed = ", ".join(name[:12] for name in found)
        raise WrongUse(f"{prefix} is the beginning of {len(found)} identities ({listed}); give more of it")
    return found[0]


def confirm(question: str, yes: bool) -> None:
    """Goes on only with the user's consent: --yes, or their answer on a terminal."""
    if yes:
        return
    if not os.isatty(0):
        raise WrongUse("nothing was deleted: there is no terminal to ask on; add --yes, or --dry-run to see what goes")
    if not click.confirm(question, err=True):
        raise Failure("nothing was deleted")
