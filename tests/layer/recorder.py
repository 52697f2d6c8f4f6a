"""A policy class that writes down what crosses the boundary, one JSON object a line; ``record`` sets a world up for it.

The class runs on the policy thread of the program under test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from disk import FailingDisk
from world import World

SOURCE = """
import json

from pylayer.inhost import boundary


def write(what, **values):
    with open(OUTPUT, "a") as file:
        file.write(json.dumps(dict(values, what=what)) + chr(10))


class Mine(Policy):
    def keep_cell(self, cell, program, settings):
        write("cell", fingerprint=cell.fingerprint, kind=cell.kind)
        return True

    def device_destroyed(self, program, facts, counters):
        seen = boundary.fingerprints(1)
        write("destroyed", seen=memoryview(seen).cast("Q").tolist(), counters=counters)
"""


class Record:
    """What a program's policy thread wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self) -> list[dict[str, Any]]:
        """Everything since the last time, in order."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.path.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]


def record(world: World, settings: str = "{}") -> Record:
    """Makes the recorder the world's policy."""
    output = world.directory / "record.json"
    world.environment |= world.policy_class(f"OUTPUT = {str(output)!r}\n{SOURCE}", f"settings: {settings}\n")
    return Record(output)


def days_ago(world: World, days: int) -> dict[str, str | None]:
    """Returns the environment of a run whose clock is so far behind. Later runs then tell of what it stored when they
    use it: of younger records nobody need be told."""
    return FailingDisk(world, f"clock:BACK={days * 86400}").environment if days else {}


def only(records: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [one for one in records if one["what"] == what]
