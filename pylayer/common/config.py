"""Reads policy files and presets, and lays one over the other. ``policy_yaml`` reads and checks their YAML.

The command line imports this module. A program's process imports it only if the policy file has no compiled copy
(``compiled``).
"""

from __future__ import annotations

import os

from .paths import MAX_POLICY_FILE_BYTES, UntrustedDirectory, read_own_file
from .policy_errors import PolicyFileError as PolicyFileError
from .policy_errors import Problem
from .policy_errors import schema as schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Source:
    """A policy file or a preset alone: its document, and the YAML node that knows the place of each key. ``name`` is
    the name for people. Raises PolicyFileError with everything that is wrong."""

    def __init__(self, name: str, text: str) -> None:
        from .policy_yaml import parse  # needs PyYAML, whose import takes longer than most commands

        self.name = name
        self.document, self.node = parse(text, name)

    def line(self, *path: Any) -> int:
        """Returns the line of a key or a rule."""
        from .policy_yaml import line_of

        return line_of(self.node, path)


def decode(data: bytes, name: str) -> str:
    """Returns the text of a policy file. Raises PolicyFileError if it is too long or not UTF-8."""
    if len(data) > MAX_POLICY_FILE_BYTES:
        raise PolicyFileError(name, [Problem(f"longer than {MAX_POLICY_FILE_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyFileError(name, [Problem("not UTF-8", line, 1)]) from error


def read_text(path: str) -> str:
    """Returns the text of the policy file ``path``. Raises PolicyFileError if the file cannot be read or trusted."""
    try:
        return decode(read_own_file(path, MAX_POLICY_FILE_BYTES + 1), path)
    except UntrustedDirectory as error:
        raise PolicyFileError("", [Problem(str(error))]) from error  # the error's text names the file
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def parse(text: str, name: str) -> dict[str, Any]:
    """Returns the policy in ``text``, laid over the preset that it names. Raises PolicyFileError."""
    return merged(with_presets([Source(name, text)]))


def read(path: str) -> dict[str, Any]:
    """Returns the policy in the file ``path``, laid over the preset that it names. Raises PolicyFileError."""
    return parse(read_text(path), path)


# ---- presets -------------------------------------------------------------------------------------


def preset_path(name: str) -> str:
    """Returns the path of the preset ``name``, which must be in the schema's list."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "config", f"{name}.yaml")


def preset_names() -> list[str]:
    """Returns the names of the presets that come with pylayer."""
    return [name for name in schema()["properties"]["preset"]["enum"] if name]


def read_preset(name: str) -> str:
    """Returns the text of a preset. Raises PolicyFileError."""
    path = preset_path(name)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def with_presets(files: list[Source]) -> list[Source]:
    """Returns policy files, the weaker first, each after the preset that it names. The last file's choice of a preset,
    or of none with null, replaces that of the files before it. Raises PolicyFileError."""
    found = []
    for file in files:
        name = file.document.get("preset")
        if name and (file is files[-1] or "preset" not in files[-1].document):
            found.append(Source(f"preset {name}", read_preset(name)))
        found.append(file)
    return found


def sources(*paths: str | None) -> list[Source]:
    """Returns what decides, the weaker first: these policy files, each after its preset. Raises PolicyFileError."""
    return with_presets([Source(path, read_text(path)) for path in paths if path])


def _over(above: Any, below: Any) -> Any:
    """Returns a value laid over another one. Mappings are combined key by key. Lists are appended to the lists below,
    so that the rules above win. Any other value replaces the one below."""
    if isinstance(above, dict) and isinstance(below, dict):
        return {**below, **{key: _over(value, below.get(key)) for key, value in above.items()}}
    if isinstance(above, list) and isinstance(below, list):
        return below + above
    return above


def merged(sources: list[Source]) -> dict[str, Any]:
    """Returns the policy in force: the keys of each source override those before it."""
    document: dict[str, Any] = {}
    for source in sources:
        document = _over(source.document, document)
    return document
