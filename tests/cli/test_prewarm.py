"""``pylayer prewarm``, with a program in the place of fossilize-replay: it creates the demo's pipelines under its own
name, and says what fossilize-replay says of its progress. With FOSSILIZE, the directory in which Fossilize was built,
its own layer and fossilize-replay are tried, too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest
from cli.marks import ON_RADV
from cli.test_warm import COUNT as LOOKED_UP
from cli.test_warm import found
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
program=$0.d/${{NAME:-${{0##*/}}}}
mkdir -p "$0.d" && cp {DEMO} "$program"
[ "$STATUS" = 9 ] || "$program" --count ${{COUNT:-{COUNT}}} >&2 || exit 4
echo "Fossilize INFO:    Overall {COUNT} / {COUNT}" >&2
echo "Fossilize INFO:    Clean crashes 0" >&2
echo "Fossilize INFO:    Dirty crashes ${{CRASHES:-0}}" >&2
[ "$STATUS" = 2 ] && kill -INT $PPID && exec sleep 60
[ "$STATUS" = 0 ] || echo "Fossilize ERROR: Something is wrong." >&2
exit $STATUS
"""


@pytest.fixture
def player(user: User) -> User:
    """A user with a game that never ran, a recording, and the stand-in in PATH."""
    shutil.copy(DEMO, user.directory / "game")
    tools = user.home / "bin"
    tools.mkdir()
    (tools / "fossilize-replay").write_text(STAND_IN)
    (tools / "fossilize-replay").chmod(0o755)
    (user.directory / "game.foz").write_bytes(prewarm.MAGIC + bytes(100))
    user.environment |= {"PATH": f"{tools}:{os.environ['PATH']}", "STATUS": "0"}
    return user


@pytest.fixture
def gamer(player: User) -> User:
    """The same, and the game ran once."""
    play(player, 4)
    return player


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


def capture(player: User, fossilize: str) -> None:
    """Has Fossilize's own layer record the game, and puts its fossilize-replay into PATH."""
    (player.directory / "game.foz").unlink()
    player.environment["PATH"] = f"{fossilize}/cli:{os.environ['PATH']}"
    layer = {"VK_LAYER_PATH": f"{fossilize}/layer", "VK_INSTANCE_LAYERS": "VK_LAYER_fossilize"}
    environment = player.environment | layer | {"FOSSILIZE_DUMP_PATH": str(player.directory / "recorded")}
    subprocess.run(["./game", "--count", str(LOOKED_UP)], env=environment, cwd=player.directory, check=True)
    (recorded,) = player.directory.glob("recorded.*.foz")
    recorded.rename(player.directory / "game.foz")


@ON_RADV
@pytest.mark.parametrize("fossilize", sorted({"", os.environ.get("FOSSILIZE", "")}))
def test_game_that_never_has_the_layer(player: User, fossilize: str) -> None:
    """A capture fills the driver's cache. It is recorded under the game's name: for the next driver `rebuild --warm` is
    enough, without a file of Fossilize's. The game then compiles nothing there, and has no layer."""
    if fossilize:
        capture(player, fossilize)
    player.environment |= {"MESA_SHADER_CACHE_DISABLE": "false", "COUNT": str(LOOKED_UP)}
    assert found(player) == 0
    done = player.pylayer("prewarm", "game.foz", "--as", "game", "--warm")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Stored: {LOOKED_UP} pipelines for game (pipelines)\n")
    assert f"the driver finds {LOOKED_UP} of {LOOKED_UP} that were looked up" in done.stdout
    assert found(player) == LOOKED_UP
    (player.directory / "game.foz").unlink()
    player.environment["PATH"] = "/usr/bin:/bin"
    for family in ("navi31", "vega10"):
        card = {"RADV_FORCE_FAMILY": family}
        assert player.pylayer("rebuild", **card, MESA_SHADER_CACHE_DISABLE="1").returncode == 0
        assert found(player, **card) == 0
        done = player.pylayer("rebuild", "--warm", **card)
        assert (done.returncode, done.stderr) == (0, "")
        assert found(player, **card) == LOOKED_UP
    assert play(player, LOOKED_UP) == (LOOKED_UP, 0)


def test_replay_by_another_program(player: User) -> None:
    """What a script of the name fossilize-replay starts has no game's name, and nothing is stored under its own."""
    done = player.pylayer("prewarm", "game.foz", "--as", "game", NAME="replay-0.1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "fossilize-replay starts another program, replay-0.1 (pipelines), which does not get the name" in done.stderr
    assert not player.json("ls")["identities"]


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
        ("game.foz", "give either --for or --as"),
        ("game.foz --for game --as game", "give either --for or --as"),
        ("game.foz --as ../game", "--as ../game is no name of a file"),
        ("game.foz --as ..", "--as .. is no name of a file"),
        ("game.foz --as game*", "--as game* is no name of a file"),
    ],
)
def test_nothing_is_replayed(gamer: User, words: str, says: str) -> None:
    """What cannot work is said in one line before anything is started."""
    done = gamer.pylayer("prewarm", *words.split())
    assert done.returncode == (2 if "--" in says else 1) and done.stderr.count("\n") == 1
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
