"""Reading a policy file exactly as strictly as the layer does."""

from __future__ import annotations

from typing import Any

from ..common import config
from ..common.config import PolicyFileError, Problem
from ..common.paths import require_own
from ..common.settings import top_setting
from .output import WrongUse


def _need_policy_path(document: dict[str, Any], name: str, line: int = 0, column: int = 0) -> None:
    """The class is taken from a directory that nobody else can write to, and from nowhere else."""
    if not top_setting(document, "policy"):
        return
    directory = top_setting(document, "policy_path")
    if not directory:
        problem = "policy needs policy_path, the directory that holds the module"
        raise PolicyFileError(name, [Problem(problem, line, column)])
    try:
        require_own(directory)
    except OSError as error:
        text = str(error) if error.strerror is None else f"policy_path: {directory}: {error.strerror}"
        raise PolicyFileError(name, [Problem(text, line, column)]) from error


def read_trusted(path: str) -> dict[str, Any]:
    """The document of a policy file that the layer will use, laid over its preset.

    Raises OSError and ValueError, each with what is wrong.
    """
    document = config.read(path)
    if top_setting(document, "policy_path"):
        _need_policy_path(document, path)
    return document


class Source:
    """A policy file, or a preset, by itself: its document, and where each key of it stands.

    ``name`` is what people call it. Raises PolicyFileError with everything that is wrong.
    """

    def __init__(self, path: str, name: str, text: str) -> None:
        self.path = path
        self.name = name
        self.document, self._node = config.parse_alone(text, name, MOST_PROBLEMS)
        line, column, _ = config.place(self._node, ["policy"], of_key=True)
        _need_policy_path(config.with_preset(self.document), name, line, column)

    def line(self, *path: Any) -> int:
        """The line on which a key, or a rule, stands."""
        return config.place(self._node, list(path), of_key=True)[0]


#: Of one file; the rest is most likely of the same kind.
MOST_PROBLEMS = 20


def read_text(path: str) -> str:
    """The text of a policy file. Raises PolicyFileError."""
    return config.decode(config.read_bytes(path), path)


def sources(path: str | None) -> list[Source]:
    """What decides, the weaker first: the preset of the file at ``path``, and that file. Raises PolicyFileError."""
    if path is None:
        return []
    file = Source(path, path, read_text(path))
    name = file.document.get("preset")
    if not name:
        return [file]
    return [Source(config.preset_path(name), f"preset {name}", config.read_preset(name)), file]


def preset_file(name: str) -> str:
    """The path of a preset. Raises WrongUse for another name."""
    names = config.preset_names()
    if name not in names:
        raise WrongUse(f"there is no preset {name}; there are {', '.join(names)}")
    return config.preset_path(name)
