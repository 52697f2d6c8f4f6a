"""Prewarming: a game finds the pipelines that a replayer compiled."""

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
    """A store in which ``replayer`` compiled the pipelines that ``game``, another executable, will create."""

    def __init__(self, world: World) -> None:
        self.world = world
        for name in ("replayer", "game"):
            shutil.copy(BUILD / "demo" / "pipelines", world.directory / name)
        self.create("replayer", COUNT)

    def create(self, program: str, count: int, **environment: str) -> dict[str, int]:
        """Runs a program. Returns the counters of its run."""
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
    """By default a program loads only the pipelines that it compiled itself."""
    assert prewarmed.create("game", COUNT)["compiled"] == COUNT


def test_programs_that_share(prewarmed: Prewarmed, tmp_path: Path) -> None:
    """With `share: all` the game finds every pipeline that the other program compiled."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("share: all\n")
    counters = prewarmed.create("game", COUNT, PYLAYER_CONFIG=str(policy))
    assert (counters["hits"], counters["compiled"]) == (COUNT, 0)


def test_pipelines_given_to_the_game(prewarmed: Prewarmed) -> None:
    """With the default policy the game finds the other program's pipelines once they are exported and imported for the
    game. Pipelines that the game had compiled itself are not imported again."""
    assert prewarmed.create("game", 5)["compiled"] == 5
    prewarmed.pylayer("export", "replayed.pylayer", "--app", "replayer*")
    done = json.loads(prewarmed.pylayer("import", "replayed.pylayer", "--for", "game*", "--json"))
    assert (done["pipelines"], done["known_records"]) == (COUNT - 5, 5)
    for _ in range(2):  # from the imported pack, and from the pack that it was folded into
        counters = prewarmed.create("game", COUNT)
        assert (counters["hits"], counters["compiled"]) == (COUNT, 0)
        prewarmed.pylayer("trim")
