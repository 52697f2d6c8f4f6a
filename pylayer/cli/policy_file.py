"""Reads policy files and presets with the place of each key."""

from __future__ import annotations

from typing import Any

from ..common import config
from ..common.policy_errors import position
from .output import WrongUse


class PolicySource:
    """A policy file or a preset alone: its document, and the position of each key in it.

    ``name`` is the name for people. Raises PolicyFileError with everything that is wrong.
    """

    def __init__(self, path: str, name: str, text: str) -> None:
        self.path = path
        self.name = name
        self.document, self._node = config.parse_without_preset(text, name, MOST_PROBLEMS)

    def line(self, *path: Any) -> int:
        """Returns the line of a key or a rule."""
        return position(self._node, list(path), of_key=True)[0]


#: The most problems to report for one file. Further ones are most likely of the same kind.
MOST_PROBLEMS = 20


def read_text(path: str) -> str:
    """Returns the text of a policy file. Raises PolicyFileError."""
    return config.decode(config.read_bytes(path), path)


def sources(system: str | None, user: str | None) -> list[PolicySource]:
    """Returns what decides, the weaker first: the system's policy file and the user's, each after the preset that it
    names. Raises PolicyFileError."""
    files = [PolicySource(path, path, read_text(path)) for path in (system, user) if path]
    found = []
    for file in files:
        name = file.document.get("preset")
        if name and (file is files[-1] or "preset" not in files[-1].document):
            found.append(PolicySource(config.preset_path(name), f"preset {name}", config.read_preset(name)))
        found.append(file)
    return found


def preset_file(name: str) -> str:
    """Returns the path of a preset. Raises WrongUse if there is no such preset."""
    names = config.preset_names()
    if name not in names:
        raise WrongUse(f"there is no preset {name}; the presets are {', '.join(names)}")
    return config.preset_path(name)
