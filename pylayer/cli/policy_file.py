"""Policy files and presets that a command names."""

from __future__ import annotations

from ..common import config
from .output import WrongUse


def sources(*files: str | None) -> list[config.Source]:
    """Returns what decides, the weaker first: these policy files, each after the preset that it names. Raises
    PolicyFileError."""
    return config.with_presets([config.Source(path, config.read_text(path)) for path in files if path])


def preset_file(name: str) -> str:
    """Returns the path of a preset. Raises WrongUse if there is no such preset."""
    names = config.preset_names()
    if name not in names:
        raise WrongUse(f"there is no preset {name}; the presets are {', '.join(names)}")
    return config.preset_path(name)
