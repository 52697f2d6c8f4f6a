"""The compiled copy of a policy file, which the program's process reads instead of YAML.

Its name is the XXH3-128 of the YAML's bytes, this package's version and the schema's version, so a copy can be missing
but never old. Its first line is the XXH3-128 of the rest.
"""

from __future__ import annotations

import os

import xxhash

from .. import __version__
from . import file_kinds, flat
from .files import prune_oldest, replace_file
from .paths import MAX_POLICY_FILE_BYTES, make_private_below, open_in_store, read_own_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Increase this when a preset changes, or the meaning of a file that was valid before. A new key needs no increase.
SCHEMA_VERSION = 12

#: Beyond this many copies the oldest are deleted. Each version of a file and of pylayer makes one.
MAX_COPIES = 64


def copy_path(root: str, text: bytes) -> str:
    """Returns the path, below a store's root, of the compiled copy of a policy file with these bytes."""
    name = xxhash.xxh3_128_hexdigest(text + f"\0{__version__}\0{SCHEMA_VERSION}".encode())
    return os.path.join(root, "policy", name + file_kinds.FLAT)


def read_copy(path: str) -> dict[str, Any] | None:
    """Returns the document in a compiled copy, or None if the copy is missing, damaged or another user's."""
    try:
        with open(open_in_store(path), "rb") as file:
            digest, _, body = file.read(8 * MAX_POLICY_FILE_BYTES).partition(b"\n")
        if xxhash.xxh3_128_hexdigest(body).encode() != digest:
            return None
        return flat.loads(body.decode("utf-8"))
    except (OSError, ValueError):
        return None


def write_copy(path: str, document: dict[str, Any]) -> None:
    """Writes a compiled copy, whole or not at all.

    Raises OSError, or ValueError for text that UTF-8 cannot encode.
    """
    body = flat.dumps(document).encode("utf-8")
    make_private_below(os.path.dirname(os.path.dirname(path)), "policy")
    replace_file(path, xxhash.xxh3_128_hexdigest(body).encode() + b"\n" + body)


def prune(root: str) -> int:
    """Deletes the oldest compiled copies beyond ``MAX_COPIES``; returns how many. One in use is written again."""
    return prune_oldest(os.path.join(root, "policy"), file_kinds.FLAT, MAX_COPIES)


def load(config_path: str, root: str | None) -> dict[str, Any]:
    """Returns the document of a policy file, from its compiled copy if there is one.

    Raises ``config.PolicyFileError`` for a file that cannot be used. Raises OSError if the file cannot be read, or if
    somebody else could have written it.
    """
    text = read_own_file(config_path, MAX_POLICY_FILE_BYTES + 1)
    path = copy_path(root, text) if root else None
    document = read_copy(path) if path else None
    if document is None:
        from . import config  # imports PyYAML: 13 ms, once per change of the file

        document = config.parse_bytes(text, config_path)
        if path:
            try:
                write_copy(path, document)
            except (OSError, ValueError):
                pass  # the store cannot be written to: the next run parses the file again
    return document
