"""Reads a policy file: YAML (``policy_yaml``), checked against one JSON schema. What is wrong with it,
``policy_errors`` says.

The command line imports this module. A program's process imports it only if the policy file has no compiled copy
(``compiled``).
"""

from __future__ import annotations

import os

from .paths import MAX_POLICY_FILE_BYTES, UntrustedDirectory, read_own_file
from .policy_errors import PolicyFileError as PolicyFileError
from .policy_errors import Problem, problems
from .policy_errors import schema as schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from yaml import Node


def parse_without_preset(text: str, name: str, most_problems: int = 1) -> tuple[dict[str, Any], Node | None]:
    """Returns the document in ``text``, without the preset that it names, and its root node. ``name`` is the file's
    name in messages.

    Raises PolicyFileError with at most ``most_problems``.
    """
    from .policy_yaml import compose  # needs PyYAML, whose import takes longer than most commands

    document, node = compose(text, name)
    if document is None:
        return {}, node
    found = problems(document, node, most_problems)
    if found:
        raise PolicyFileError(name, found)
    return document, node


def parse(text: str, name: str) -> dict[str, Any]:
    """Returns the policy document in ``text``, laid over the preset that it names.

    Raises PolicyFileError.
    """
    document, _ = parse_without_preset(text, name)
    return with_preset(document)


def decode(data: bytes, name: str) -> str:
    """Returns the text of a policy file. Raises PolicyFileError if it is too long or not UTF-8."""
    if len(data) > MAX_POLICY_FILE_BYTES:
        raise PolicyFileError(name, [Problem(f"longer than {MAX_POLICY_FILE_BYTES} bytes")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyFileError(name, [Problem("not UTF-8", line, 1)]) from error


def parse_bytes(data: bytes, name: str) -> dict[str, Any]:
    """Returns the policy document in a file's bytes, without the preset that it names. Raises PolicyFileError."""
    return parse_without_preset(decode(data, name), name)[0]


def read_bytes(path: str) -> bytes:
    """Returns the bytes of the policy file ``path``. Raises PolicyFileError if the file cannot be read or trusted."""
    try:
        return read_own_file(path, MAX_POLICY_FILE_BYTES + 1)
    except UntrustedDirectory as error:
        raise PolicyFileError("", [Problem(str(error))]) from error  # the error's text names the file
    except OSError as error:
        raise PolicyFileError(path, [Problem(f"cannot be read: {error.strerror or error}")]) from error


def read(path: str) -> dict[str, Any]:
    """Returns the policy document in the file ``path``.

    Raises PolicyFileError, also if the file cannot be read.
    """
    return with_preset(parse_bytes(read_bytes(path), path))


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


def over(above: Any, below: Any) -> Any:
    """Returns a value laid over another one. Mappings are combined key by key. Lists are appended to the lists below,
    so that the rules above win. Any other value replaces the one below."""
    if isinstance(above, dict) and isinstance(below, dict):
        return {**below, **{key: over(value, below.get(key)) for key, value in above.items()}}
    if isinstance(above, list) and isinstance(below, list):
        return below + above
    return above


def with_preset(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document laid over the preset that it names. Raises PolicyFileError."""
    name = document.get("preset")
    if not name:
        return document
    result: dict[str, Any] = over(document, parse_without_preset(read_preset(name), preset_path(name))[0])
    return result


def combined(system: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """Returns the user's document laid over the system's, each with the preset that it names. The user's choice of a
    preset, or of none with null, replaces the system's. Raises PolicyFileError."""
    if "preset" in user:
        system = {key: value for key, value in system.items() if key != "preset"}
    result: dict[str, Any] = over(with_preset(user), with_preset(system))
    return result
