"""The system's store: pipelines that root ships for all users, beside each user's own store, never written to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_steps import END, HOST, lines
from others import STRANGER, give_away, pretend_to_be
from scripted_driver import ScriptedDriver
from world import World

from pylayer.store.runs import read_all

COUNT = 4
STEPS = ("instance", "device", "pipelines", str(COUNT), "threads", *END)


def fill(world: World, count: int = COUNT) -> Path:
    """Fills the system's store as an administrator does, with pipelines that another machine compiled. Returns its
    root."""
    builder, root = str(world.directory / "builder"), Path(world.environment["PYLAYER_SYSTEM_STORE"])
    world.run([str(HOST), "instance", "device", "pipelines", str(count), *END], PYLAYER_STORE=builder)
    exported = world.directory / "app.pylayer"
    world.pylayer("export", exported, "--app", "host", PYLAYER_STORE=builder)
    world.pylayer("import", exported, PYLAYER_STORE=str(root))
    return root


@pytest.fixture
def system(world: World) -> Path:
    return fill(world)


def tree(root: Path) -> dict[str, bytes]:
    """Returns what a directory has."""
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def packs(root: Path) -> list[Path]:
    return sorted(root.glob("store/*/*.pack"))


def test_first_program_of_a_user(world: World, system: Path) -> None:
    """A user with an empty store compiles nothing, in the first run with policy and in the second without an
    interpreter. The user's store gets no copies, and the system's store stays as it is."""
    before = tree(system)
    world.run([str(HOST), *STEPS])
    assert (world.last()["hits"], world.last()["compiled"]) == (COUNT, 0)
    done = world.run([str(HOST), *STEPS])
    assert (world.last()["hits"], world.last()["compiled"], world.last()["fetched"]) == (COUNT, 0, COUNT)
    assert "threads: 1" in done.stdout and lines(done) == []
    assert [run["stored_records"] for run in world.runs()] == [0, 0] and tree(system) == before


def test_new_driver(scripted: ScriptedDriver) -> None:
    """What a program found in the system's store is recorded, and rebuilt for another driver into the user's store."""
    world = scripted.world
    world.environment |= scripted.environment("build=1")
    fill(world)
    world.run([str(HOST), *STEPS])
    new = scripted.environment("build=2;uuid=7e58")
    assert world.pylayer("rebuild", **new).stdout.startswith(f"Rebuilt: {COUNT} of {COUNT} pipelines for host")
    world.run([str(HOST), *STEPS], **new)
    assert (world.last()["hits"], world.last()["compiled"]) == (COUNT, 0)


@pytest.fixture
def open_world() -> Iterator[World]:
    """A world where the loader finds the manifest whoever the user is, with the system's store filled."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        world = World(Path(name))
        fill(world)
        yield world


@pytest.mark.root
def test_user_who_is_not_root(open_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's store is trusted by other users, by policy and by the layer. This one may read every file, as those of an
    installed package."""
    own = open_world.directory / "own"
    own.mkdir()
    give_away(own)
    words = ("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
    user = ("setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups", *words)
    for _ in range(2):
        done = open_world.run([*user, str(HOST), *STEPS], PYLAYER_STORE=str(own / "store"))
        assert lines(done) == []
    assert (own / "store").stat().st_uid == STRANGER and "threads: 1" in done.stdout
    pretend_to_be(monkeypatch, STRANGER)
    counters = [run["counters"] for run in read_all(str(own / "store"))]
    assert [(one["hits"], one["compiled"], one["fetched"]) for one in counters] == [(COUNT, 0, COUNT)] * 2


def test_own_pipelines_are_stored_beside(world: World, system: Path) -> None:
    """What the system's store lacks is compiled once and stored in the user's store. Later runs use both."""
    for number in range(3):
        world.run([str(HOST), "instance", "device", "pipelines", str(2 * COUNT), *END])
        assert world.last()["compiled"] == (0 if number else COUNT)
    assert world.last()["fetched"] == 2 * COUNT
    world.run([str(HOST), *STEPS], PYLAYER_SYSTEM_STORE=str(world.directory / "none"))
    assert world.last()["compiled"] == COUNT


def test_other_programs(world: World, system: Path) -> None:
    """A program uses its own pipelines of the system's store. With share: all it uses those of all programs."""
    other = world.directory / "other"
    shutil.copy(HOST, other)
    for _ in range(2):
        world.run([str(other), *STEPS], PYLAYER_STORE=str(world.directory / "alone"))
    first, second = (run["counters"] for run in read_all(str(world.directory / "alone")))
    assert first["compiled"] == second["fetched"] == COUNT
    config = world.policy("share: all\n")
    for _ in range(2):
        world.run([str(other), *STEPS], **config)
        assert world.last()["compiled"] == 0
    assert world.last()["fetched"] == COUNT


@pytest.mark.parametrize("what", ["root", "store", "folder", "pack"])
def test_store_of_somebody_else(world: World, system: Path, what: str) -> None:
    """What others than root could have written in the system's store is not used, by policy and by the layer. Programs
    compile, and use what they stored."""
    (pack,) = packs(system)
    path = {"root": system, "store": system / "store", "folder": pack.parent, "pack": pack}[what]
    give_away(path)
    for compiled in (COUNT, 0):
        done = world.run([str(HOST), *STEPS])
        assert world.last()["compiled"] == compiled
        assert compiled == 0 or any(str(path) in line for line in lines(done)), done.stderr
    assert world.last()["fetched"] == COUNT and "threads: 1" in done.stdout


@pytest.mark.parametrize("how", ["empty", "cut off", "overwritten", "another identity", "link"])
def test_damaged_pack(world: World, system: Path, how: str) -> None:
    """Damage in the system's store costs the damaged pipelines alone: they are compiled and stored once. No run after
    it starts the interpreter, and the pack stays as it is."""
    (pack,) = packs(system)
    data = pack.read_bytes()
    if how == "link":
        pack.rename(system / "pack")
        pack.symlink_to(system / "pack")
    elif how == "another identity":
        pack.write_bytes(data[:64] + bytes(64) + data[128:])
    else:
        middle = len(data) // 2
        cut = data[:middle]
        pack.write_bytes({"empty": b"", "cut off": cut}.get(how, cut + bytes(range(256)) + data[middle + 256 :]))
    before = tree(system)
    done = world.run([str(HOST), *STEPS])
    assert any(str(pack) in line for line in lines(done)), done.stderr
    assert world.last()["compiled"] > 0 and world.last()["hits"] + world.last()["compiled"] == COUNT
    for _ in range(2):
        done = world.run([str(HOST), *STEPS])
    assert world.last()["compiled"] == 0 and "threads: 1" in done.stdout and lines(done) == []
    assert tree(system) == before


def test_pack_that_goes_during_a_run(world: World, system: Path) -> None:
    """If a pack of the system's store goes while a program runs, as in an upgrade of its package, the program compiles
    its pipelines, and they are stored."""
    (pack,) = packs(system)
    world.run([str(HOST), *STEPS])
    steps = ("instance", "device", "spawn", f"rm {pack}", "pipelines", str(COUNT), *END)
    world.run([str(HOST), *steps])
    assert (world.last()["hits"], world.last()["compiled"]) == (0, COUNT)
    world.run([str(HOST), *STEPS])
    assert (world.last()["hits"], world.last()["compiled"]) == (COUNT, 0)


def test_commands_write_nothing(world: World, system: Path) -> None:
    """Maintenance, trim and clear of the user's store leave the system's alone."""
    before = tree(system)
    world.run([str(HOST), "instance", "device", "pipelines", str(2 * COUNT), *END])
    for words in (("trim", "--max-size", "1K"), ("ls", "--verify"), ("rm", "--pipelines", "--all", "--yes")):
        world.pylayer(*words)
    assert tree(system) == before
    world.run([str(HOST), *STEPS])
    assert world.last()["compiled"] == 0


@pytest.mark.parametrize("script", ["create-cache=crash?guilty", "pipeline=crash?guilty"])
@pytest.mark.parametrize("first", ["policy reads", "the layer reads"])
def test_pipeline_that_crashes_the_driver(scripted: ScriptedDriver, script: str, first: str) -> None:
    """A driver that crashes over a pipeline of the system's store does so once for each user. The block is in the
    user's store, and what it forbids is compiled once."""
    world, builder = scripted.world, scripted.world.directory / "builder"
    scripted.demo("--count", 8, script="guilty=3")
    world.store.rename(builder)
    exported, system = world.directory / "app.pylayer", Path(world.environment["PYLAYER_SYSTEM_STORE"])
    world.pylayer("export", exported, "--app", "pipelines", PYLAYER_STORE=str(builder))
    world.pylayer("import", exported, PYLAYER_STORE=str(system))
    before = tree(system)
    if first == "the layer reads":
        scripted.demo("--count", 8)
    assert scripted.demo("--count", 8, script=script, check=False).returncode < 0
    scripted.demo("--count", 8, script=script)
    for _ in range(2):
        scripted.demo("--count", 8, script=script)
        assert scripted.counts["compiles"] == 0
    assert tree(system) == before
