"""The compiled copy of the policy files, which the program's process reads instead of YAML.

Its name is the XXH3-128 of the digest of each file's bytes, this package's version and the schema's version, so a copy
can be missing but never old. It begins with the XXH3-128 of the rest. Then come a line with the skip rules, for
shim/layer/instance/skip.c, and the document.
"""

from __future__ import annotations

import os

import xxhash

from .. import __version__
from ..values import Value
from . import file_kinds, flat
from .files import read_small, replace_file
from .paths import MAX_POLICY_FILE_BYTES, make_private_below, read_own_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Increase this when a preset changes, the copy's format, or the meaning of a file that was valid before. A new key
#: needs no increase.
SCHEMA_VERSION = 17


def copy_path(root: str, system: bytes | None, user: bytes | None) -> str:
    """Returns the path, below a store's root, of the compiled copy of policy files with these bytes, None without a
    file. shim/layer/instance/skip.c makes the same name."""
    digests = [bytes(16) if text is None else xxhash.xxh3_128_digest(text) for text in (system, user)]
    name = xxhash.xxh3_128_hexdigest(b"".join(digests) + f"\0{__version__}\0{SCHEMA_VERSION}".encode())
    return os.path.join(root, "policy", name + file_kinds.FLAT)


def skip_line(document: dict[str, Any]) -> str:
    """Returns the skip rules in one line: for each the first letter of its list, and its three patterns, each with a
    zero behind it. With any other letter C leaves the decision to policy."""
    line = ""
    for key in ("skip", "never_skip"):
        for rule in document.get(key) or []:
            patterns = [rule.get(name, "*") for name in ("executable", "application", "engine")]
            if any("\0" in pattern or "\n" in pattern for pattern in patterns):
                return "?"
            line += key[0] + "".join(pattern + "\0" for pattern in patterns)
    return line


def read_copy(path: str) -> dict[str, Any] | None:
    """Returns the document in a compiled copy, or None if the copy is missing, damaged or another user's."""
    try:
        copy = read_small(path, 8 * MAX_POLICY_FILE_BYTES)
        digest, body = copy[:16], copy[16:]
        if xxhash.xxh3_128_digest(body) != digest:
            return None
        return flat.loads(body.partition(b"\n")[2].decode("utf-8"))
    except (OSError, ValueError):
        return None


def write_copy(path: str, document: dict[str, Any]) -> None:
    """Writes a compiled copy, whole or not at all.

    Raises OSError, or ValueError for text that UTF-8 cannot encode.
    """
    body = f"{skip_line(document)}\n{flat.dumps(document)}".encode()
    make_private_below(os.path.dirname(os.path.dirname(path)), "policy")
    replace_file(path, xxhash.xxh3_128_digest(body) + body)


class UnusableFile(Value):
    """A policy file that cannot be used as a whole, and why."""

    path: str
    error: Exception

    def __str__(self) -> str:
        strerror = getattr(self.error, "strerror", None)
        if strerror:
            return f"{self.path} cannot be read: {strerror}"
        if isinstance(self.error, (OSError, ValueError)):
            return str(self.error)
        return f"{self.path} cannot be used: {type(self.error).__name__}: {self.error}"


def instead(problem: UnusableFile, system: str | None, problems: list[UnusableFile]) -> str:
    """Returns what is in force instead of a file."""
    if problem.path == system:
        return "this file is not used"
    return f"only {system} is in force" if system and len(problems) == 1 else "the defaults are in force"


def load(system: str | None, user: str | None, root: str | None) -> tuple[dict[str, Any], list[UnusableFile]]:
    """Returns the policy in force: the user's file laid over the system's, from their compiled copy if there is one. A
    file that cannot be used is left out, and is among the problems."""
    problems: list[UnusableFile] = []
    texts: list[bytes | None] = []
    for file in (system, user):
        try:
            texts.append(read_own_file(file, MAX_POLICY_FILE_BYTES + 1) if file else None)
        except OSError as error:
            texts.append(None)
            problems.append(UnusableFile(str(file), error))
    path = copy_path(root, *texts) if root else None
    document = read_copy(path) if path else None
    if document is not None:
        return document, problems
    from . import config  # with PyYAML 13 ms, once per change of a file

    sources: list[config.Source] = []
    unreadable = len(problems)
    for file, text in zip((system, user), texts, strict=True):
        try:
            sources += [] if text is None else [config.Source(str(file), config.decode(text, str(file)))]
        except Exception as error:
            problems.append(UnusableFile(str(file), error))
    document = config.merged(config.with_presets(sources))
    if path and len(problems) == unreadable:
        try:
            write_copy(path, document)
        except (OSError, ValueError):
            pass  # the store cannot be written to: the next run parses the files again
    return document, problems
