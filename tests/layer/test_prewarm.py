"""Pipelines that one program compiled are there for another: what a replayer prepares, the game finds."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from world import BUILD, World

COUNT = 30


class Prewarmed:
    """A store in which ``replayer`` compiled what ``game``, another executable, is going to create."""

    def __init__(self, world: World) -> None:
        self.world = world
        for name in ("replayer", "game"):
            shutil.copy(BUILD / "demo" / "pipelines", world.directory / name)
        self.create("replayer", COUNT)

    def create(self, program: str, count: int, **environment: str) -> dict[str, int]:
        """Runs a program; the counters of its run."""
        command = [str(self.world.directory / program), "--json", "--count", str(count)]
        done = self.world.run(command, **environment)
        assert json.loads(done.stdout.splitlines()[-1])["created"] == count
        run = self.world.runs()[-1]
        assert run["executable"] == program
        counters: dict[str, int] = run["counters"]
        return counters

    def pylayer(self, *arguments: Any) -> str:
        return self.world.run([sys.executable, "-m", "pylayer", *map(str, arguments)], VK_INSTANCE_LAYERS=None).stdout


@pytest.fixture
def prewarmed(world: World) -> Prewarmed:
    return Prewarmed(world)


def test_programs_are_apart(prewarmed: Prewarmed) -> None:
    """By default a program loads what it compiled itself, and nothing of another one."""
    assert prewarmed.create("game", COUNT)["compiled"] == COUNT


def test_programs_that_share(prewarmed: Prewarmed, tmp_path: Path) -> None:
    """With `share: all` the game finds all that the other program compiled."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("share: all\n")
    counters = prewarmed.create("game", COUNT, PYLAYER_CONFIG=str(policy))
    assert (counters["hits"], counters["compiled"]) == (COUNT, 0)


def test_pipelines_given_to_the_game(prewarmed: Prewarmed) -> None:
    """An export of the other program, imported for the game, is found by the game, with the default policy; what the
    game had compiled itself is not imported again."""
    assert prewarmed.create("game", 5)["compiled"] == 5
    prewarmed.pylayer("export", "replayed.pylayer", "--app", "replayer*")
    done = json.loads(prewarmed.pylayer("import", "replayed.pylayer", "--for", "game*", "--json"))
    assert (done["pipelines"], done["known_records"]) == (COUNT - 5, 5)
    for _ in range(2):  # of the pack that was imported, and of one that it was folded into
        counters = prewarmed.create("game", COUNT)
        assert (counters["hits"], counters["compiled"]) == (COUNT, 0)
        prewarmed.pylayer("trim")
