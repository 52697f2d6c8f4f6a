"""What root gives all users: pipelines in the system's store, beside each user's own and never written to, and
defaults in the system's policy file, below the user's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from host_steps import END, HOST
from namespaces import unshared
from others import STRANGER, give_away, pretend_to_be
from scripted_driver import ScriptedDriver
from world import World, said

from pylayer.store.runs import read_all

#: Nothing here depends on the driver.
QUICK = True
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
    assert "threads: 1" in done.stdout and said(done.stderr, "warn") == []
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


@pytest.mark.root
def test_user_who_is_not_root(open_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's store is trusted by other users, by policy and by the layer. This one may read every file, as those of an
    installed package."""
    fill(open_world)
    own = open_world.directory / "own"
    own.mkdir()
    give_away(own)
    words = ("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
    user = ("setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups", *words)
    for _ in range(2):
        done = open_world.run([*user, str(HOST), *STEPS], PYLAYER_STORE=str(own / "store"))
        assert said(done.stderr, "warn") == []
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
        assert compiled == 0 or any(str(path) in line for line in said(done.stderr, "warn")), done.stderr
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
    assert any(str(pack) in line for line in said(done.stderr, "warn")), done.stderr
    assert world.last()["compiled"] > 0 and world.last()["hits"] + world.last()["compiled"] == COUNT
    for _ in range(2):
        done = world.run([str(HOST), *STEPS])
    assert world.last()["compiled"] == 0 and "threads: 1" in done.stdout and said(done.stderr, "warn") == []
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
        world.pylayer(*words, check=False)  # so small a store cannot become smaller
    assert tree(system) == before
    world.run([str(HOST), *STEPS])
    assert world.last()["compiled"] == 0


@pytest.mark.parametrize("script", ["create-cache=crash?guilty", "pipeline=crash?guilty"])
def test_pipeline_that_crashes_the_driver(scripted: ScriptedDriver, script: str) -> None:
    """A driver that crashes over a pipeline of the system's store does so once for each user. The block is in the
    user's store, and what it forbids is compiled once."""
    world, builder = scripted.world, scripted.world.directory / "builder"
    scripted.demo("--count", 8, script="guilty=3")
    world.store.rename(builder)
    exported, system = world.directory / "app.pylayer", Path(world.environment["PYLAYER_SYSTEM_STORE"])
    world.pylayer("export", exported, "--app", "pipelines", PYLAYER_STORE=str(builder))
    world.pylayer("import", exported, PYLAYER_STORE=str(system))
    before = tree(system)
    assert scripted.demo("--count", 8, script=script, check=False).returncode < 0
    scripted.demo("--count", 8, script=script)
    for _ in range(2):
        scripted.demo("--count", 8, script=script)
        assert scripted.counts["compiles"] == 0
    assert tree(system) == before


# ---- The system's policy file --------------------------------------------------------------------


@pytest.fixture
def policy_file(world: World) -> Path:
    """Returns the place of the system's policy file. There is none yet."""
    path = Path(world.environment["PYLAYER_SYSTEM_CONFIG"])
    path.parent.mkdir()
    return path


@pytest.fixture
def user(world: World) -> Path:
    """Returns the place of the user's policy file. There is none yet."""
    path = world.directory / "home" / ".config" / "pylayer" / "policy.yaml"
    path.parent.mkdir(parents=True)
    return path


def start(world: World) -> subprocess.CompletedProcess[str]:
    """Runs a program with one device."""
    return world.run([str(HOST), *STEPS])


def mode(world: World) -> str:
    """Runs a program; returns its mode."""
    start(world)
    return str(world.runs()[-1]["mode"])


def test_named_file_lies_over_the_system(world: World, policy_file: Path, tmp_path: Path) -> None:
    """A file that PYLAYER_CONFIG names replaces the user's file, not the system's."""
    policy_file.write_text("settings: {mode: cells, store: read-only}\n")
    named = tmp_path / "named.yaml"
    named.write_text("settings: {mode: observe}\n")
    world.environment["PYLAYER_CONFIG"] = str(named)
    assert mode(world) == "observe" and world.stored_files() == []


@pytest.mark.parametrize("whose", ["the system's", "the system's below the user's", "the user's"])
@pytest.mark.parametrize("how", ["appears", "changes", "goes"])
def test_change_is_obeyed_at_once(world: World, policy_file: Path, user: Path, how: str, whose: str) -> None:
    """The second run with the same files has no interpreter. If a file appears, changes or goes, the very next run
    obeys."""
    on, off = "settings: {mode: cells}\n", "settings: {mode: observe}\n"
    if "below" in whose:
        user.write_text("settings: {application_caches: check}\n")
    file = user if whose == "the user's" else policy_file
    if how != "appears":
        file.write_text(on if how == "changes" else off)
    assert mode(world) == ("observe" if how == "goes" else "cells")
    again = start(world)
    if how != "goes":  # to observe needs policy
        assert "threads: 1" in again.stdout and world.last()["fetched"] == 4
    if how == "goes":
        file.unlink()
    else:
        file.write_text(off)
    assert mode(world) == ("cells" if how == "goes" else "observe")


def test_skip_rules_of_the_system(world: World, policy_file: Path, user: Path) -> None:
    """A skip rule of the system's excludes a program, from the second start without an interpreter, and the user's
    never_skip includes it again."""
    policy_file.write_text("skip: [{executable: host}]\n")
    for _ in range(2):
        skipped = start(world)
        assert world.runs() == [] and not list(world.store.glob("store/*"))
    assert "threads: 1" in skipped.stdout
    user.write_text("never_skip: [{executable: host}]\n")
    assert mode(world) == "cells"
    user.write_text("skip: [{executable: other}]\n")
    start(world)
    assert len(world.runs()) == 1


@pytest.mark.parametrize("how", ["file", "directory"])
def test_file_of_somebody_else(world: World, policy_file: Path, user: Path, how: str) -> None:
    """A system's file that others than root could have written is ignored, with one line that names it. The user's file
    stays in force, and the second run has no interpreter."""
    policy_file.write_text("settings: {mode: observe}\n")
    user.write_text("settings: {application_caches: check}\n")
    give_away(policy_file if how == "file" else policy_file.parent)
    for _ in range(2):
        done = start(world)
        (line,) = said(done.stderr, "warn")
        assert f"{policy_file} is not used: " in line and world.runs()[-1]["mode"] == "cells"
    assert "threads: 1" in done.stdout and world.last()["fetched"] == 4


def test_file_that_is_wrong(world: World, policy_file: Path, user: Path) -> None:
    """If one file has an error, the line names it, and the other file is in force. If both have, there are two lines,
    and the defaults are in force."""
    good, bad = "settings: {mode: observe}\n", "settings: {mde: cells}\n"
    policy_file.write_text(bad)
    user.write_text(good)
    (line,) = said(start(world).stderr, "warn")
    assert f"{policy_file}, line 1: unknown key 'mde'" in line and line.endswith("; this file is not used")
    assert world.runs()[-1]["mode"] == "observe"
    policy_file.write_text(good)
    user.write_text(bad)
    (line,) = said(start(world).stderr, "warn")
    assert f"{user}, line 1: unknown key 'mde'" in line and line.endswith(f"; only {policy_file} is in force")
    assert world.runs()[-1]["mode"] == "observe"
    policy_file.write_text(bad)
    first, second = said(start(world).stderr, "warn")
    assert str(policy_file) in first and str(user) in second and second.endswith("; the defaults are in force")
    assert world.runs()[-1]["mode"] == "cells"


def test_place(world: World) -> None:
    """Without PYLAYER_SYSTEM_CONFIG the file is /etc/pylayer/policy.yaml. A relative path in the variable begins at the
    program's directory."""
    place = world.directory / "image"
    place.mkdir()
    line = (
        'mount -t tmpfs none "$0"; mkdir "$0/upper" "$0/work"; '
        'mount -t overlay -o "lowerdir=/etc,upperdir=$0/upper,workdir=$0/work" none /etc; mkdir -p /etc/pylayer; '
        'echo "settings: {mode: observe}" > /etc/pylayer/policy.yaml; chmod 755 /etc/pylayer; '
        'chmod 644 /etc/pylayer/policy.yaml; exec "$@"'
    )
    command = (*unshared("--mount"), "sh", "-ec", line, str(place))
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine gives this user no overlay mounts")
    world.run([*command, str(HOST), *STEPS], PYLAYER_SYSTEM_CONFIG=None)
    assert world.runs()[-1]["mode"] == "observe"
    (world.directory / "other.yaml").write_text("settings: {mode: observe}\n")
    world.run([str(HOST), *STEPS], PYLAYER_SYSTEM_CONFIG="other.yaml")
    assert world.runs()[-1]["mode"] == "observe"
