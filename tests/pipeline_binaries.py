"""VK_KHR_pipeline_binary: the program that uses it, and the file that it keeps."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from world import BUILD

#: The demo program, as one that uses the extension. Later options outweigh these.
APPLICATION = (str(BUILD / "demo" / "pipelines"), "--json", "--api", "1.3", "--count", "12", "--source", "internal")

KEY = struct.Struct("<I32s")


@dataclass
class Binary:
    """One VkPipelineBinaryKHR as the program keeps it."""

    key: bytes
    data: bytes


@dataclass
class Entry:
    """All binaries of a pipeline under its key."""

    key: bytes
    binaries: list[Binary]


@dataclass
class Archive:
    """The program's own file: tests/demo/binaries.c says what is in it."""

    global_key: bytes
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Archive:
        data = path.read_bytes()
        place = 4
        assert data[:4] == b"BINS"

        def take(form: struct.Struct) -> tuple[Any, ...]:
            nonlocal place
            values = form.unpack_from(data, place)
            place += form.size
            return values

        def key() -> bytes:
            size, room = take(KEY)
            return bytes(room[:size])

        number, size = struct.Struct("<I"), struct.Struct("<Q")
        archive = cls(key())
        for _ in range(take(number)[0]):
            entry = Entry(key(), [])
            for _ in range(take(number)[0]):
                of_binary, length = key(), take(size)[0]
                entry.binaries.append(Binary(of_binary, data[place : place + length]))
                place += length
            archive.entries.append(entry)
        assert place == len(data)
        return archive

    def write(self, path: Path) -> None:
        parts = [b"BINS", KEY.pack(len(self.global_key), self.global_key), struct.pack("<I", len(self.entries))]
        for entry in self.entries:
            parts += [KEY.pack(len(entry.key), entry.key), struct.pack("<I", len(entry.binaries))]
            for binary in entry.binaries:
                parts += [KEY.pack(len(binary.key), binary.key), struct.pack("<Q", len(binary.data)), binary.data]
        path.write_bytes(b"".join(parts))

    @property
    def binaries(self) -> list[Binary]:
        return [binary for entry in self.entries for binary in entry.binaries]

    def contents_of_keys(self) -> dict[bytes, set[bytes]]:
        """The contents of each key: some drivers give several binaries the same one."""
        contents: dict[bytes, set[bytes]] = {}
        for binary in self.binaries:
            contents.setdefault(binary.key, set()).add(binary.data)
        return contents


def flipped(data: bytes) -> bytes:
    """One bit of the last byte is another: machine code in RADV's binaries, which it does not look at."""
    return data[:-1] + bytes([data[-1] ^ 1])


def with_disk_cache(directory: Path) -> dict[str, str]:
    """Mesa's own cache on disk, here."""
    return {"MESA_SHADER_CACHE_DISABLE": "0", "MESA_SHADER_CACHE_DIR": str(directory)}


def bytes_on_disk(directory: Path) -> int:
    """What a driver wrote there for pipelines. Mesa makes its tables, called index, for a physical device already."""
    return sum(os.path.getsize(path) for path in directory.rglob("*") if path.is_file() and path.name != "index")
