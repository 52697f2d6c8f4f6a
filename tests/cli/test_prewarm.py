"""``pylayer prewarm``, with a program in the place of fossilize-replay: it creates the demo's pipelines under another
name, and says what fossilize-replay says of its progress."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest
from cli.marks import ON_RADV
from cli.user import DEMO, User
from recipes.identifiers import recipe
from world import BUILD

from pylayer.cli import prewarm

COUNT = 20
RECIPES = BUILD / "tests" / "recipes"
STAND_IN = f"""#!/bin/sh
[ "$1" = --progress ] && [ -f "$2" ] || exit 3
echo "${{PYLAYER_SHADER_IDENTIFIERS:-used}}" >"$HOME/identifiers"
echo "Fossilize INFO:    Overall 0 / {COUNT}" >&2
[ "$STATUS" = 9 ] || {DEMO} --count {COUNT} >&2 || exit 4
echo "Fossilize INFO:    Overall {COUNT} / {COUNT}" >&2
echo "Fossilize INFO:    Clean crashes 0" >&2
echo "Fossilize INFO:    Dirty crashes ${{CRASHES:-0}}" >&2
[ "$STATUS" = 2 ] && kill -INT $PPID && exec sleep 60
[ "$STATUS" = 0 ] || echo "Fossilize ERROR: Something is wrong." >&2
exit $STATUS
"""


@pytest.fixture
def gamer(user: User) -> User:
    """A user with a game that ran once, a recording, and the stand-in in PATH."""
    shutil.copy(DEMO, user.directory / "game")
    tools = user.home / "bin"
    tools.mkdir()
    (tools / "fossilize-replay").write_text(STAND_IN)
    (tools / "fossilize-replay").chmod(0o755)
    (user.directory / "game.foz").write_bytes(prewarm.MAGIC + bytes(100))
    user.environment |= {"PATH": f"{tools}:{os.environ['PATH']}", "STATUS": "0"}
    play(user, 4)
    return user


def play(user: User, count: int) -> tuple[int, int]:
    """Runs the game. Returns how many pipelines were found and how many compiled."""
    assert user.pylayer("run", "--", "./game", "--count", count).returncode == 0
    (program,) = user.json("stats", "game", "--last")["programs"]
    return program["hits"], program["compiled"]


def test_the_game_compiles_nothing(gamer: User) -> None:
    """What is replayed is stored for the game, except what it had. The game then compiles nothing. Nothing else is left
    in the store, and no other program in its lists."""
    before = sorted(path.name for path in gamer.store.iterdir())
    done = gamer.pylayer("prewarm", "game.foz", "--for", "game")
    assert done.returncode == 0 and done.stderr == ""
    stored = f"Stored: {COUNT - 4} pipelines for game (pipelines), 4 records already in the store\n"
    assert done.stdout.startswith(stored)
    assert play(gamer, COUNT) == (COUNT, 0)
    assert [one["executable"] for one in gamer.json("stats")["programs"]] == ["game"]
    assert sorted(path.name for path in gamer.store.iterdir()) == before
    again = gamer.pylayer("prewarm", "game.foz", "--for", "game")
    assert again.stdout.startswith(f"Stored: 0 pipelines for game (pipelines), {COUNT} records already in the store\n")


def test_what_is_replayed_is_recorded(gamer: User) -> None:
    """`pylayer rebuild` knows what was replayed, also if the game itself never created it."""
    assert gamer.pylayer("prewarm", "game.foz", "--for", "game").returncode == 0
    done = gamer.pylayer("export", "game.recorded", "--app", "game", "--recordings")
    assert done.stdout.startswith(f"Exported: the recordings of {COUNT} pipelines of game (pipelines)\n")
    assert gamer.pylayer("rm", "game", "--pipelines", "--yes").returncode == 0
    assert f"Rebuilt: {COUNT} of {COUNT} pipelines for game" in gamer.pylayer("rebuild", "game").stdout


@ON_RADV
def test_identifiers_as_the_program_has_them(gamer: User) -> None:
    """The replay knows shaders as the program does: by their code, or by their identifiers if the program enables
    VK_EXT_shader_module_identifier."""
    recorded = gamer.directory / "record.recipe"
    recorded.write_text(recipe("record", gamer.directory / "identifiers"))
    assert gamer.pylayer("run", "--", RECIPES, recorded).returncode == 0
    for name, told in (("game", "ignore"), ("recipes", "used")):
        assert gamer.pylayer("prewarm", "game.foz", "--for", name).returncode == 0
        assert (gamer.home / "identifiers").read_text().strip() == told


def test_without_fossilize_replay(gamer: User) -> None:
    """If there is no fossilize-replay, one line says where to get it."""
    done = gamer.pylayer("prewarm", "game.foz", "--for", "game", PATH="/usr/bin:/bin")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "https://github.com/ValveSoftware/Fossilize" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nothing.foz --for game", "nothing.foz cannot be read: No such file or directory"),
        ("game --for game", "game is no recording by Fossilize"),
        ("game.foz --for nobody", "this store knows no program named nobody"),
    ],
)
def test_nothing_is_replayed(gamer: User, words: str, says: str) -> None:
    """What cannot work is said in one line before anything is started."""
    done = gamer.pylayer("prewarm", *words.split())
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("pylayer: nothing was replayed: ") and says in done.stderr


def test_replay_that_fails(gamer: User) -> None:
    """If fossilize-replay fails, what it compiled before is stored, and one line has its status and its error."""
    done = gamer.pylayer("prewarm", "game.foz", "--for", "game", STATUS="9")
    assert done.returncode == 1 and "nothing was stored: fossilize-replay ended with status 9" in done.stderr
    done = gamer.pylayer("prewarm", "game.foz", "--for", "game", STATUS="7")
    assert done.returncode == 1 and "ended with status 7 (Fossilize ERROR: Something is wrong.)" in done.stderr
    assert done.stderr.count("\n") == 1 and play(gamer, COUNT) == (COUNT, 0)


def test_driver_that_crashes(gamer: User) -> None:
    """Pipelines on which the driver crashed are counted, and the status is 1."""
    done = gamer.pylayer("prewarm", "game.foz", "--for", "game", CRASHES="3")
    assert done.returncode == 1 and "without 3 pipelines on which the driver crashed" in done.stdout


def test_interrupted(gamer: User) -> None:
    """After Ctrl-C, what was compiled until then is stored, and the command ends by the signal."""
    process = gamer.process(("prewarm", "game.foz", "--for", "game"), STATUS="2")
    done = subprocess.run(**process, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGINT and "Stored: " in done.stdout and "Traceback" not in done.stderr
    assert play(gamer, COUNT) == (COUNT, 0)
    assert not list(gamer.store.glob("scratch.*"))
