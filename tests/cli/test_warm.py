"""``pylayer warm``: what a program stored under the layer is given to RADV's own disk cache, and the program finds it
there without the layer. ``pylayer prewarm`` stores what Fossilize replays."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import radv
from cli.user import DEMO, ON_RADV, User
from namespaces import unshared
from recipes.identifiers import recipe
from world import BUILD, repeated

from pylayer.cli import driver_caches, prewarm

COUNT = 24
DOCS = Path(__file__).resolve().parents[2] / "docs"


def found(user: User, **environment: str) -> int:
    """Returns how many pipelines a run without the layer creates if the driver may compile none."""
    command = [str(DEMO), "--count", str(COUNT), "--fail-on-compile-required"]
    done = subprocess.run(command, env=user.environment | environment, capture_output=True, text=True, check=False)
    match = re.search(r": (\d+) of \d+ pipelines", done.stdout)
    assert match, done.stdout + done.stderr
    return int(match[1])


def warm(user: User, *arguments: object, status: int = 0, **environment: str) -> dict[str, object]:
    """Runs ``pylayer warm``; returns what it says of the only program."""
    (work,) = user.json("warm", *arguments, status=status, **environment)["warmed"]
    return {key: work[key] for key in ("pipelines", "looked_up", "found_before", "found")}


@pytest.fixture
def player(user: User) -> User:
    """A user with a program that ran once under the layer, and an empty driver cache."""
    user.demo(COUNT)
    user.environment["MESA_SHADER_CACHE_DISABLE"] = "false"
    return user


ALL = {"pipelines": COUNT, "looked_up": COUNT, "found_before": 0, "found": COUNT}


@ON_RADV
def test_program_without_the_layer(player: User) -> None:
    """The program compiles nothing afterwards. The second time there is nothing to do, and the store is as before."""
    before = player.json("ls")["identities"]
    assert found(player) == 0
    assert warm(player) == ALL
    assert found(player) == COUNT
    assert warm(player) == ALL | {"found_before": COUNT}
    said = player.says("warm")
    assert said.startswith(f"Nothing to do for pipelines, {COUNT} pipelines: the driver found {COUNT} of {COUNT}")
    assert player.json("ls")["identities"] == before


def run_others(user: User, *options: str) -> str:
    """Creates 10 pipelines of another kind without the layer. Returns what the program says."""
    command = [str(DEMO), "--count", "10", "--seed", "9", *options]
    return subprocess.run(command, env=user.environment, capture_output=True, text=True, check=False).stdout


#: What happens after `pylayer warm`, to the user and to a file of the driver's cache; whether all is given again.
CHANGES: dict[str, tuple[Callable[[User, Path], object], bool]] = {
    "the driver's cache grows": (lambda user, path: run_others(user), False),
    "the driver's cache is deleted": (lambda user, path: shutil.rmtree(path.parents[2]), True),
    "a file of it is deleted": (lambda user, path: path.unlink(), True),
    "a file of it is cut": (lambda user, path: os.truncate(path, path.stat().st_size - 1), True),
    "a file of it is replaced": (lambda user, path: (path.rename(f"{path}2"), shutil.copy(f"{path}2", path)), True),
    "other pipelines are stored": (lambda user, path: user.demo(4, "--seed", 3, MESA_SHADER_CACHE_DISABLE="1"), True),
}


@ON_RADV
@pytest.mark.parametrize(("change", "again"), CHANGES.values(), ids=CHANGES)
def test_second_time(player: User, change: Callable[[User, Path], object], again: bool) -> None:
    """The second time no driver is asked, unless there may be something to do."""
    player.environment["MESA_SHADER_CACHE_DIR"] = str(player.home / "mesa")
    warm(player)
    # One database, or a file for each entry and an index, as the system builds Mesa.
    files = [path for path in player.home.glob("mesa/**/*") if path.is_file() and path.name != "index"]
    path = max(files, key=lambda it: it.stat().st_size)
    size = path.stat().st_size
    change(player, path)
    # Mesa never again writes the file of an entry that is there, and the command says what that costs.
    lost = path.suffix != ".db" and path.exists() and path.stat().st_size < size
    said = player.pylayer("warm")
    assert said.returncode == lost, said.stdout + said.stderr
    assert ("and nothing has changed since" not in said.stdout) == again
    assert (found(player) == COUNT) != lost
    assert ("and nothing has changed since" in player.pylayer("warm").stdout) != lost


def real(text: str, home: Path) -> str:
    """Returns a text of a place with something for the words in capitals."""
    text = text.replace("NUMBER", "570").replace("ID", "org.x").replace("~", str(home))
    return re.sub(r"^[A-Z]+(?=/|$)", f"{home}/theirs", text)


#: The rows of docs/warm.md that RADV's cache follows, but for a running program's: variables and options.
PLACES = {
    cells[0]: (dict(re.findall(r"`([A-Z_]+)=([^`]*)`", cells[1])), re.findall(r"`(--[^`]*)`", cells[2]))
    for line in (DOCS / "warm.md").read_text().splitlines()
    if line.startswith("| ") and re.search("MESA_SHADER_CACHE_DIR=|XDG_CACHE_HOME=", line)
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


@ON_RADV
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_places(player: User, place: tuple[dict[str, str], list[str]]) -> None:
    """Another cache than the user's own is filled, and the user's own is not."""
    theirs = {name: real(value, player.home) for name, value in place[0].items()}
    option = [real(word, player.home) for text in place[1] for word in text.split()]
    if option:
        player.fails("warm", *option)
    for value in theirs.values():
        if value.startswith("/"):
            Path(value).mkdir(parents=True, exist_ok=True)
    assert warm(player, *option, **({} if option else theirs)) == ALL
    assert [found(player, **theirs), found(player)] == [COUNT, 0]


@ON_RADV
def test_like_a_process(player: User) -> None:
    """The cache of a running program is found by that program's variables, and the command's own do not count."""
    theirs = {"MESA_SHADER_CACHE_DIR": str(player.home / "theirs")}
    with subprocess.Popen(["sleep", "60"], env=player.environment | theirs) as process:
        assert warm(player, "--like", process.pid, MESA_SHADER_CACHE_MAX_SIZE="1K") == ALL
        process.kill()
    assert [found(player, **theirs), found(player)] == [COUNT, 0]


@ON_RADV
def test_database(player: User) -> None:
    """A read-only database serves programs that have the printed variables, and nothing else is written."""
    path = player.home / "base.foz"
    said = player.json("warm", "--database", path)
    variables = dict(line.split("=", 1) for line in said["variables"])
    assert sorted(it.name for it in player.home.glob("*.foz")) == ["base.foz", "base_idx.foz"]
    assert [found(player), found(player, **variables)] == [0, COUNT]
    assert f"Written: {path}. Mesa reads it in programs that have" in player.says("warm", "--database", path)


#: What is wrong; a sentence about it.
REFUSED = {
    "no disk cache": ({"MESA_SHADER_CACHE_DISABLE": "1"}, "MESA_SHADER_CACHE_DISABLE is set"),
    "no disk cache of NVIDIA's": ({"__GL_SHADER_DISK_CACHE": "0"}, "NVIDIA's driver keeps nothing"),
    "layer kept out": ({"DISABLE_PYLAYER": "1"}, "DISABLE_PYLAYER is set"),
    "no device": ({"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none"}, "nothing was warmed: the drivers"),
}


@ON_RADV
@pytest.mark.parametrize(("variables", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused(player: User, variables: dict[str, str], sentence: str) -> None:
    """Where nothing can be warmed, one line says why."""
    assert sentence in player.fails("warm", **variables)


@ON_RADV
def test_driver_cache_that_keeps_nothing(player: User) -> None:
    """If the driver keeps nothing, the command says so by what it looked up, and fails."""
    unwritable = player.home / "file"
    unwritable.write_text("")
    said = warm(player, status=1, MESA_SHADER_CACHE_DIR=str(unwritable / "below"))
    assert said == ALL | {"found": 0}


@ON_RADV
def test_damaged_store(player: User) -> None:
    """Of a damaged record nothing reaches the driver; what others have does."""

    def is_stored() -> bool:  # on a busy machine the program ends before policy has written all
        player.demo(COUNT, "--seed", 2, MESA_SHADER_CACHE_DISABLE="1")
        return player.json("stats", "--last")["programs"][0]["compiled"] == 0

    repeated(is_stored)
    assert found(player) == 0
    (path,) = player.store.glob("store/*/*.pack")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    said = warm(player)
    assert said["pipelines"] == said["found"] and said["pipelines"] in range(1, 2 * COUNT)


@ON_RADV
def test_small_limit(player: User) -> None:
    """What the driver would drop again is not given, and that is said before."""
    done = player.pylayer("warm", MESA_SHADER_CACHE_MAX_SIZE="4K")
    assert "of which 4.0 KiB fit (MESA_SHADER_CACHE_MAX_SIZE=4K)" in done.stdout
    assert done.returncode == 1


# ---- bad moments -------------------------------------------------------------------------------------


def cache_of(user: User) -> Path:
    return Path(user.environment["MESA_SHADER_CACHE_DIR"])


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.suffix != ".tmp" and path.is_file())


def killed(user: User, grown: int, replayer: bool) -> str:
    """Kills warm, or the replayer below it, once the driver's cache grew by so many bytes. Returns what it said."""
    size = size_of(cache_of(user))
    process = subprocess.Popen(**user.process(("warm",)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while process.poll() is None and size_of(cache_of(user)) <= size + grown:
        pass
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for pid in children.read_text().split() if replayer and process.poll() is None else [process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return process.communicate(timeout=60)[0]


def two_at_once(user: User, beside: list[str]) -> str:
    """Runs warm beside another process."""
    with subprocess.Popen(beside, env=user.environment, cwd=user.directory, stdout=subprocess.DEVNULL) as process:
        said = user.pylayer("warm").stdout
        assert process.wait(timeout=60) == 0
    return said


#: Runs warm with the driver's cache on another disk, which has 16 KiB left. What that holds then is the cache.
ON_DISK = """
mount -t tmpfs -o size=4m none "$DISK" && cp -a "$CACHE/." "$DISK" || exit 77
dd if=/dev/zero of="$DISK/filler" bs=4k 2>/dev/null
truncate -s -16K "$DISK/filler" && mount -o "remount,$OPTIONS" "$DISK" || exit 77
MESA_SHADER_CACHE_DIR="$DISK" "$@"
rm -rf "$CACHE" && cp -a "$DISK" "$CACHE"
"""


def unshared_warm(user: User, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs warm by a script of a shell that may mount."""
    started = user.process(("warm",), **variables)
    started["args"] = [*unshared("--mount"), "sh", "-c", script, "sh", *started["args"]]
    return subprocess.run(**started, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)


def on_disk(user: User, options: str) -> str:
    disk = user.home / "disk"
    disk.mkdir()
    done = unshared_warm(user, ON_DISK, OPTIONS=options, DISK=str(disk), CACHE=str(cache_of(user)))
    if done.returncode == 77:
        pytest.skip("no disk can be mounted here")
    return done.stdout


def read_only_home(user: User) -> str:
    """Runs warm where nothing can be written to the home."""
    home = f'"{user.home}"'
    return unshared_warm(user, f'mount --bind {home} {home} && mount -o remount,ro,bind {home} && exec "$@"').stdout


def damaged(user: User, change: Callable[[bytes], bytes]) -> str:
    for path in cache_of(user).rglob("mesa_cache.*"):
        path.write_bytes(change(path.read_bytes()))
    return user.pylayer("warm").stdout


WARMED = f"Warmed: {COUNT} pipelines of pipelines"
#: What happens, and how the one line begins that says what came of it; a killed command says nothing.
MOMENTS: dict[str, tuple[Callable[[User], str], str]] = {
    **{f"killed after {size} bytes": (partial(killed, grown=size, replayer=False), "") for size in (0, 20000, 50000)},
    **{f"replayer killed after {size}": (partial(killed, grown=size, replayer=True), WARMED) for size in (0, 20000)},
    "another warm": (partial(two_at_once, beside=[sys.executable, "-m", "pylayer", "warm"]), ""),
    "the program runs": (partial(two_at_once, beside=[str(DEMO), "--count", str(COUNT)]), ""),
    "the disk is full": (partial(on_disk, options="rw"), f"Not warmed: {COUNT} pipelines of pipelines, 0 B"),
    "the cache is read-only": (partial(on_disk, options="ro"), f"Not warmed: {COUNT} pipelines of pipelines"),
    "the home is read-only": (read_only_home, "pylayer: "),
    "the cache has zeros": (partial(damaged, change=lambda data: bytes(len(data))), WARMED),
    "the cache has other bytes": (partial(damaged, change=lambda data: data[:20] + data[:19:-1]), WARMED),
    "the cache is cut": (partial(damaged, change=lambda data: data[: len(data) // 2]), WARMED),
}  # fmt: skip


@ON_RADV
@pytest.mark.parametrize(("moment", "line"), MOMENTS.values(), ids=MOMENTS)
def test_bad_moment(player: User, moment: Callable[[User], str], line: str) -> None:
    """A line says what came of it. The store loses nothing. The driver's cache has what it had, but what was damaged
    before, and the next warm completes it."""
    player.environment["MESA_SHADER_CACHE_DIR"] = str(player.home / "mesa")
    run_others(player)
    stored = player.json("ls")["identities"]
    said = moment(player)
    others_than = ("  ", "pipelines has ")
    lines = [one[: len(line)] for one in said.splitlines() if not one.startswith(others_than)]
    assert lines == [line] * bool(said), said
    if getattr(moment, "func", None) is not damaged:
        assert ": 10 of 10 pipelines" in run_others(player, "--fail-on-compile-required"), said
    assert warm(player)["found"] == COUNT, said
    assert found(player) == COUNT
    assert player.json("ls")["identities"] == stored
    assert not list(player.store.glob("*scratch*"))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("create-cache=crash?guilty", "stored data was left out: the driver crashed (SIGSEGV)"),
        ("create-device=error:initialization-failed", "a device of the program cannot be created: vkCreateDevice"),
        ("pipeline=crash", "a pipeline was left out: the driver crashed (SIGSEGV)"),
    ],
)
def test_driver_that_crashes(user: User, fault: str, says: str) -> None:
    """A driver that dies of stored data dies in a process of its own. The rest is given, and a line says so."""
    script = "payload=2048;guilty=3"
    user.demo(6, PYLAYER_TEST_DRIVER=script)
    assert says in user.says("warm", PYLAYER_TEST_DRIVER=f"{script};{fault}", status=1)


def test_driver_without_a_database(user: User) -> None:
    """A database is Mesa's."""
    user.demo(6)
    done = user.pylayer("warm", "--database", "x.foz")
    assert done.returncode == 1 and "only Mesa's drivers read such a file" in done.stderr


def test_another_library_of_steam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game may be in any of Steam's libraries."""
    monkeypatch.setenv("HOME", str(tmp_path))
    listed = tmp_path / driver_caches.STEAM[0] / "steamapps" / "libraryfolders.vdf"
    game = tmp_path / "games" / "steamapps" / "shadercache" / "570"
    for path in (listed.parent, game):
        path.mkdir(parents=True)
    listed.write_text(f'\t\t"path"\t\t"{tmp_path}/games"\n')
    assert any(value.startswith(str(game)) for value in driver_caches.of_steam(570).values())


def test_blocked_data(user: User) -> None:
    """What the layer does not give to the driver, because the program died over it, warm does not either, also if no
    run has found the death yet."""
    script = "payload=2048;guilty=3"
    user.demo(6, PYLAYER_TEST_DRIVER=script)
    died = user.pylayer("run", "--", DEMO, "--count", 6, PYLAYER_TEST_DRIVER=f"{script};pipeline=crash?hit@2")
    assert died.returncode == -signal.SIGSEGV
    (work,) = user.json("warm", status=1, PYLAYER_TEST_DRIVER=script)["warmed"]
    assert work["pipelines"] == 5


@ON_RADV
def test_store_without_recordings(user: User) -> None:
    """What has no recording, such as what was pulled, is given to the driver all the same. It cannot be looked up."""
    user.policy_file.write_text("settings: {record_state: false}\n")
    user.demo(COUNT)
    user.environment["MESA_SHADER_CACHE_DISABLE"] = "false"
    assert found(user) == 0
    said = user.says("warm")
    assert f"  {COUNT} pipelines without a recording, given and not looked up: Mesa's drivers keep that" in said
    assert found(user) == COUNT
    assert user.pylayer("warm").stdout.startswith("Nothing to do for pipelines, 0 pipelines: ")
    assert found(user) == COUNT


@ON_RADV
def test_room_that_comes_later(user: User) -> None:
    """What did not fit is given once there is room, although nothing of it can be looked up."""
    user.policy_file.write_text("settings: {record_state: false}\n")
    for seed in (1, 2):
        user.demo(COUNT, "--seed", seed)
    user.environment["MESA_SHADER_CACHE_DISABLE"] = "false"
    given = [user.json("warm", MESA_SHADER_CACHE_MAX_SIZE=size)["warmed"][0]["given_bytes"] for size in ("120K", "1G")]
    assert 0 < given[0] < given[1]


@pytest.mark.parametrize(
    ("own_place", "has_nvidia", "fits"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_full_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_place: bool, has_nvidia: bool, fits: bool
) -> None:
    """A disk that is full takes nothing, if a driver's cache is there or would be made there."""
    home = tmp_path / "home"
    (home / ".nv" / "GLCache" if has_nvidia else home).mkdir(parents=True)
    monkeypatch.setattr(driver_caches, "_free_bytes", lambda place: 0 if str(home) in place else 1 << 40)
    environment = {"HOME": str(home)} | ({"MESA_SHADER_CACHE_DIR": "/elsewhere"} if own_place else {})
    assert driver_caches.most_bytes(environment)[0] == (driver_caches.MESA_BYTES if fits else 0)
    assert driver_caches.most_bytes(environment | {"__GL_SHADER_DISK_CACHE_SIZE": "5"})[0] == (5 if fits else 0)


def test_empty_store(user: User) -> None:
    """Where nothing is stored, nothing is made."""
    assert user.says("warm") == "Nothing to warm: nothing is stored for the drivers that are here.\n"
    assert not user.store.exists()


# ---- prewarm -------------------------------------------------------------------------------------


REPLAYED = 20
RECIPES = BUILD / "tests" / "recipes"
STAND_IN = f"""#!/bin/sh
[ "$1" = --progress ] && [ -f "$2" ] || exit 3
echo "${{PYLAYER_SHADER_IDENTIFIERS:-used}}" >"$HOME/identifiers"
echo "Fossilize INFO:    Overall 0 / {REPLAYED}" >&2
program=$0.d/${{NAME:-${{0##*/}}}}
mkdir -p "$0.d" && cp {DEMO} "$program"
[ "$STATUS" = 9 ] || "$program" --count ${{COUNT:-{REPLAYED}}} >&2 || exit 4
echo "Fossilize INFO:    Overall {REPLAYED} / {REPLAYED}" >&2
echo "Fossilize INFO:    Clean crashes 0" >&2
echo "Fossilize INFO:    Dirty crashes ${{CRASHES:-0}}" >&2
[ "$STATUS" = 2 ] && kill -INT $PPID && exec sleep 60
[ "$STATUS" = 0 ] || echo "Fossilize ERROR: Something is wrong." >&2
exit $STATUS
"""


@pytest.fixture
def newcomer(user: User) -> User:
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
def gamer(newcomer: User) -> User:
    """The same, and the game ran once."""
    play(newcomer, 4)
    return newcomer


def play(user: User, count: int) -> tuple[int, int]:
    """Runs the game. Returns how many pipelines were found and how many compiled."""
    assert user.pylayer("run", "--", "./game", "--count", count).returncode == 0
    (program,) = user.json("stats", "game", "--last")["programs"]
    return program["hits"], program["compiled"]


def test_the_game_compiles_nothing(gamer: User) -> None:
    """What is replayed is stored for the game, except what it had. The game then compiles nothing. Nothing else is left
    in the store, and no other program in its lists."""
    before = sorted(path.name for path in gamer.store.iterdir())
    said = gamer.says("prewarm", "game.foz", "--for", "game")
    stored = f"Stored: {REPLAYED - 4} pipelines for game (pipelines), 4 records already in the store\n"
    assert said.startswith(stored)
    assert play(gamer, REPLAYED) == (REPLAYED, 0)
    assert [one["executable"] for one in gamer.json("stats")["programs"]] == ["game"]
    assert sorted(path.name for path in gamer.store.iterdir()) == before
    assert gamer.says("prewarm", "game.foz", "--for", "game").startswith(
        f"Stored: 0 pipelines for game (pipelines), {REPLAYED} records already in the store\n"
    )


def test_what_is_replayed_is_recorded(gamer: User) -> None:
    """`pylayer rebuild` knows what was replayed, also if the game itself never created it."""
    assert gamer.pylayer("prewarm", "game.foz", "--for", "game").returncode == 0
    done = gamer.pylayer("export", "game.recorded", "--app", "game", "--recordings")
    assert done.stdout.startswith(f"Exported: the recordings of {REPLAYED} pipelines of game (pipelines)\n")
    assert gamer.pylayer("rm", "game", "--pipelines", "--yes").returncode == 0
    assert f"Rebuilt: {REPLAYED} of {REPLAYED} pipelines for game" in gamer.pylayer("rebuild", "game").stdout


def capture(newcomer: User, fossilize: str) -> None:
    """Has Fossilize's own layer record the game, and puts its fossilize-replay into PATH."""
    (newcomer.directory / "game.foz").unlink()
    newcomer.environment["PATH"] = f"{fossilize}/cli:{os.environ['PATH']}"
    layer = {"VK_LAYER_PATH": f"{fossilize}/layer", "VK_INSTANCE_LAYERS": "VK_LAYER_fossilize"}
    environment = newcomer.environment | layer | {"FOSSILIZE_DUMP_PATH": str(newcomer.directory / "recorded")}
    subprocess.run(["./game", "--count", str(COUNT)], env=environment, cwd=newcomer.directory, check=True)
    (recorded,) = newcomer.directory.glob("recorded.*.foz")
    recorded.rename(newcomer.directory / "game.foz")


@ON_RADV
@pytest.mark.parametrize("fossilize", sorted({"", os.environ.get("FOSSILIZE", "")}))
def test_game_that_never_has_the_layer(newcomer: User, fossilize: str) -> None:
    """A capture fills the driver's cache. It is recorded under the game's name: for the next driver `rebuild --warm` is
    enough, without a file of Fossilize's. The game then compiles nothing there, and has no layer."""
    if fossilize:
        capture(newcomer, fossilize)
    newcomer.environment |= {"MESA_SHADER_CACHE_DISABLE": "false", "COUNT": str(COUNT)}
    assert found(newcomer) == 0
    said = newcomer.says("prewarm", "game.foz", "--as", "game", "--warm")
    assert said.startswith(f"Stored: {COUNT} pipelines for game (pipelines)\n")
    assert f"the driver finds {COUNT} of {COUNT} that were looked up" in said
    assert found(newcomer) == COUNT
    (newcomer.directory / "game.foz").unlink()
    newcomer.environment["PATH"] = "/usr/bin:/bin"
    for family in ("navi31", "vega10"):
        card = radv.gpu(family)
        assert newcomer.pylayer("rebuild", **card, MESA_SHADER_CACHE_DISABLE="1").returncode == 0
        assert found(newcomer, **card) == 0
        done = newcomer.pylayer("rebuild", "--warm", **card)
        assert (done.returncode, done.stderr) == (0, "")
        assert found(newcomer, **card) == COUNT
    assert play(newcomer, COUNT) == (COUNT, 0)


def test_replay_by_another_program(newcomer: User) -> None:
    """What a script of the name fossilize-replay starts has no game's name, and nothing is stored under its own."""
    said = newcomer.fails("prewarm", "game.foz", "--as", "game", NAME="replay-0.1")
    assert "fossilize-replay starts another program, replay-0.1 (pipelines), which does not get the name" in said
    assert not newcomer.json("ls")["identities"]


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


@pytest.mark.parametrize(
    ("variables", "says", "stored"),
    [
        ({"PATH": "/usr/bin:/bin"}, "https://github.com/ValveSoftware/Fossilize", False),
        ({"STATUS": "9"}, "nothing was stored: fossilize-replay ended with status 9", False),
        ({"STATUS": "7"}, "ended with status 7 (Fossilize ERROR: Something is wrong.)", True),
        ({"CRASHES": "3"}, "without 3 pipelines on which the driver crashed", True),
        ({"PYLAYER_CONFIG": "off.yaml"}, "the recordings hold no pipeline for this device", False),
    ],
)
def test_replay_that_fails(gamer: User, variables: dict[str, str], says: str, stored: bool) -> None:
    """If there is no fossilize-replay, if it fails, or if the driver crashes or nothing is kept, one line says so. What
    was compiled before is stored."""
    (gamer.directory / "off.yaml").write_text("settings: {mode: 'off'}\n")
    done = gamer.pylayer("prewarm", "game.foz", "--for", "game", **variables)
    assert done.returncode == 1 and says in done.stderr + done.stdout and done.stderr.count("\n") <= 1
    assert play(gamer, REPLAYED) == ((REPLAYED, 0) if stored else (4, REPLAYED - 4))


def test_interrupted(gamer: User) -> None:
    """After Ctrl-C, what was compiled until then is stored, and the command ends by the signal."""
    process = gamer.process(("prewarm", "game.foz", "--for", "game"), STATUS="2")
    done = subprocess.run(**process, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGINT and "Stored: " in done.stdout and "Traceback" not in done.stderr
    assert play(gamer, REPLAYED) == (REPLAYED, 0)
    assert not list(gamer.store.glob("scratch.*"))
