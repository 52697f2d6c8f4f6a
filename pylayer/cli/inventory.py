"""Counts what the store holds, to the byte, by identity and program."""

from __future__ import annotations

import os
from typing import Any

from ..common.identity import Identity
from ..store import format
from ..store.bounds import files_of
from ..store.folder import identity_names, read_identity
from ..store.reader import Reader
from ..values import KIND_NAMES
from .selection import Names, Selection

#: Suffixes of the files that belong to one program.
OWN = (".pack", ".journal", ".closed", ".snapshot", ".attest", ".binaries", ".blob")


class Holding:
    """What a program has stored under one identity."""

    def __init__(self, program: int) -> None:
        self.program = program
        self.bytes = 0
        #: Digests of the pipelines. A pipeline that two processes both stored counts once.
        self.digests: set[bytes] = set()
        #: Number of pipelines that are stored as pipeline binaries. The others are cells.
        self.binaries = 0
        #: Number of pipelines by kind.
        self.kinds: dict[str, int] = {}
        #: Time that compiling them took, as far as it is known, and the size of their data unpacked.
        self.compile_ns = 0
        self.data_bytes = 0
        #: Number of files by suffix.
        self.files: dict[str, int] = {}
        self.last_used = 0

    def add(self, suffix: str, size: int) -> None:
        """Counts a file."""
        self.bytes += size
        self.files[suffix] = self.files.get(suffix, 0) + 1

    @property
    def pipelines(self) -> int:
        """Returns the number of pipelines."""
        return len(self.digests)

    def add_pipeline(self, magic: bytes, kind: int, flags: int, digest: bytes, size: int, create_ns: int) -> None:
        """Counts the record of one pipeline."""
        if digest in self.digests:
            return
        self.digests.add(digest)
        self.binaries += magic == format.BINARIES
        name = KIND_NAMES[kind] if kind < len(KIND_NAMES) else f"kind {kind}"
        self.kinds[name] = self.kinds.get(name, 0) + 1
        self.compile_ns += 0 if flags & format.ADOPTED else create_ns  # the driver did not compile an adopted pipeline
        self.data_bytes += size

    def counts(self) -> dict[str, int]:
        """Returns the number of files, by what they are."""
        return {
            "journals": self.files.get(".journal", 0) + self.files.get(".closed", 0),
            "packs": self.files.get(".pack", 0),
            "snapshots": self.files.get(".snapshot", 0),
            "blobs": self.files.get(".blob", 0),
            "attestation_files": self.files.get(".attest", 0) + self.files.get(".binaries", 0),
        }


class Shelf:
    """One identity's folder. ``other_bytes`` counts the files that belong to no program."""

    def __init__(self, root: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(root, "store", name)
        self.identity: Identity | None = read_identity(root, name)
        #: Holdings by program.
        self.holdings: dict[int, Holding] = {}
        self.bytes = 0
        self.other_bytes = 0
        #: Names of files that cannot be used as they are, and why, as far as this is known without reading all of a
        #: file.
        self.unusable: dict[str, str] = {}

    @property
    def programs(self) -> list[int]:
        """Returns all programs that have something stored."""
        return sorted(self.holdings)

    def files(self, suffix: str) -> int:
        """Returns how many files of a kind there are."""
        return sum(holding.files.get(suffix, 0) for holding in self.holdings.values())


class Inventory:
    """All identities that a selection takes, and the bytes of the store that belong to no identity."""

    def __init__(self, root: str, selection: Selection, names: Names) -> None:
        self.root = root
        self.names = names
        self.shelves: list[Shelf] = []
        for name in identity_names(root):
            if selection.takes_identity(name):
                shelf = Shelf(root, name)
                _survey(shelf, names)
                self.shelves.append(shelf)
        self.store_bytes = tree_bytes(os.path.join(root, "store"))[0]
        #: Bytes in the store's folder that belong to no identity.
        listed = sum(tree_bytes(os.path.join(root, "store", name))[0] for name in identity_names(root))
        self.stray_bytes = self.store_bytes - listed


def tree_bytes(path: str) -> tuple[int, int]:
    """Returns the size of all files below a directory in bytes, and their number."""
    size = count = 0
    for directory, _, files in os.walk(path):
        for file in files:
            try:
                size += os.lstat(os.path.join(directory, file)).st_size
                count += 1
            except OSError:
                continue  # replaced or folded meanwhile
    return size, count


def _survey(shelf: Shelf, names: Names) -> None:
    found = files_of(os.path.dirname(os.path.dirname(shelf.path)), shelf.name)
    shelf.bytes = tree_bytes(shelf.path)[0]
    for file in found:
        name = os.path.basename(file.path)
        suffix = os.path.splitext(name)[1]
        if suffix not in OWN or file.program is None:
            continue
        holding = shelf.holdings.setdefault(file.program, Holding(file.program))
        holding.add(suffix, file.size)
        if suffix != ".pack":
            holding.last_used = max(holding.last_used, int(file.mtime))
        try:
            _survey_file(shelf, holding, file.path, suffix, names)
        except OSError as error:
            shelf.unusable[name] = f"unreadable: {error.strerror or error}"
    # The rest is the identity file, temporary files, and whatever else somebody put here.
    shelf.other_bytes = shelf.bytes - sum(h.bytes for h in shelf.holdings.values())


def _survey_file(shelf: Shelf, holding: Holding, path: str, suffix: str, names: Names) -> None:
    reader = Reader(path)
    header, outcome = reader.header(bytes.fromhex(shelf.name))
    if header is None:
        shelf.unusable[os.path.basename(path)] = outcome
        return
    names.learn(header.program, header.application)
    if suffix in (".pack", ".journal", ".closed"):
        for part in reader.content(header, []):
            for magic, kind, flags, _, size, create_ns, digest, _, last_used in part.records:
                if magic in format.PIPELINES:
                    holding.add_pipeline(magic, kind, flags, digest, size, create_ns)
                holding.last_used = max(holding.last_used, last_used)


def describe(identity: Identity | None, name: str, names: Names) -> tuple[str, str]:
    """Returns device and driver of an identity, in words."""
    from .output import printable

    fields: dict[str, Any] = identity.fields if identity is not None else {}
    device = names.device(name)
    if not device and fields:
        device = f"device {fields.get('device_id', 0):#06x} of vendor {fields.get('vendor_id', 0):#06x}"
    driver = ", ".join(printable(str(fields[key])) for key in ("driver_name", "driver_info") if fields.get(key))
    extra = []
    abi = str(fields.get("abi", ""))
    if abi.startswith("32"):
        extra.append("32-bit")
    if fields.get("global_key"):
        extra.append("pipeline binaries")
    if extra:
        driver = f"{driver} ({', '.join(extra)})"
    return device or "unknown device", driver or names.driver(name) or "unknown driver"
