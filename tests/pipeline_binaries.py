"""Programs and VK_KHR_pipeline_binary: one that uses it, the file that it keeps, and the witness below the layer."""

from __future__ import annotations

import itertools
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from world import BUILD, FAULTS, LAYER_NAME, Run, World

BOTH = f"{LAYER_NAME}:{FAULTS}"
APPLICATION = str(BUILD / "tests" / "binaries")

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
    """The program's own file: tests/binaries/archive.c says what is in it."""

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


class Witness:
    """What the test layer wrote down about the driver's use."""

    def __init__(self, log: Path) -> None:
        self.lines = log.read_text().splitlines() if log.exists() else []

    def having(self, word: str) -> list[str]:
        return [line for line in self.lines if word in line]

    @property
    def violations(self) -> list[str]:
        return self.having("VIOLATION")

    @property
    def hazards(self) -> list[str]:
        """What is allowed, and what a driver is known to do wrong."""
        return self.having("HAZARD")

    @property
    def devices(self) -> list[str]:
        return self.having("vkCreateDevice cache_control=")

    @property
    def counts(self) -> dict[str, int]:
        """What was asked of VK_KHR_pipeline_binary, on all devices together."""
        counts: dict[str, int] = {}
        for line in self.having("faults: binaries "):
            for word in line.split()[2:]:
                name, _, value = word.partition("=")
                counts[name] = counts.get(name, 0) + int(value)
        return counts


class Driver:
    """A driver with faults in a world, and a witness; programs run on it with the layer above or without."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.directory = directory
        self.numbers = itertools.count()

    def settings(self, **settings: Any) -> None:
        """Policy settings from now on."""
        config = self.directory / "policy.yaml"
        config.write_text(json.dumps({"settings": settings}))
        self.world.environment["PYLAYER_CONFIG"] = str(config)

    def _environment(self, log: Path, faults: str, layered: bool) -> dict[str, str]:
        return {
            "VK_INSTANCE_LAYERS": BOTH if layered else FAULTS,
            "PYLAYER_TEST_FAULTS": faults,
            "PYLAYER_TEST_FAULTS_LOG": str(log),
            "PYLAYER_TEST_FAULTS_BINARIES": str(self.directory / "given-out"),
        }

    def demo(
        self, *arguments: str | int, layered: bool = True, faults: str = "", check: bool = True, **environment: Any
    ) -> Run:
        """The demo program, which knows nothing of binaries. No use of the driver may be forbidden."""
        log = self.directory / f"witness-{next(self.numbers)}"
        set_for_it = self._environment(log, faults, layered)
        layers = set_for_it.pop("VK_INSTANCE_LAYERS")
        result = self.world.demo(*arguments, layers=layers, check=check, **set_for_it, **environment)
        result["witness"] = witness = Witness(log)
        assert not witness.violations
        return result

    def application(
        self,
        *arguments: str | int,
        layered: bool = True,
        faults: str = "",
        check: bool = True,
        allow: str | None = None,
        **environment: Any,
    ) -> Run:
        """The program that uses the extension. No use of the driver may be forbidden, but what `allow` is part of."""
        log = self.directory / f"witness-{next(self.numbers)}"
        process = self.world.run(
            [APPLICATION, *map(str, arguments)],
            check=check,
            **self._environment(log, faults, layered),
            **environment,
        )
        lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
        result = Run(json.loads(lines[-1]) if lines else {})
        result.stdout, result.stderr, result.returncode = process.stdout, process.stderr, process.returncode
        result["witness"] = witness = Witness(log)
        assert not [line for line in witness.violations if allow is None or allow not in line]
        return result


def with_disk_cache(directory: Path) -> dict[str, str]:
    """Mesa's own cache on disk, here."""
    return {"MESA_SHADER_CACHE_DISABLE": "0", "MESA_SHADER_CACHE_DIR": str(directory)}


def bytes_on_disk(directory: Path) -> int:
    """What a driver wrote there for pipelines. Mesa makes its tables, called index, for a physical device already."""
    return sum(os.path.getsize(path) for path in directory.rglob("*") if path.is_file() and path.name != "index")
