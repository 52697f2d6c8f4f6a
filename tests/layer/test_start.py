"""Policy starts when a message needs it. A program that only finds stored pipelines gets no thread, obeys the decision
that an earlier run kept, and does so many calls and no more."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import xxhash
from disk import FailingDisk, age, uses_in
from host_steps import END, HOST, SANDBOX, run_host, two_instances
from scripted_driver import ScriptedDriver
from world import BUILD, PACKAGE, ROOT, World, repeated, said

from pylayer.store import contents, runs

MAPPED = ("mapped", "_policy.")


#: Nothing here depends on the driver.
QUICK = True


def starts(world: World, *steps: str | int) -> bool:
    """Runs steps and returns whether the interpreter's library was in the process at the end."""
    process = run_host(world, *steps, *MAPPED, *END)
    return "_policy. is mapped" in process.stderr


def fill(world: World, count: int = 8) -> None:
    """Two runs: the first stores pipelines and a plan. The second ends the tests' part in a first run of a day."""
    for _ in range(2):
        run_host(world, "instance", "device", "pipelines", count, *END)
    assert list(world.store.glob("plans/*.plan"))


#: Names of an executable and of its application, as bytes.
NAMES = {
    "ASCII": (b"game", b"The Game"),
    "UTF-8": ("Spiel \u00e4 \u6e38\u620f".encode(), "\u6e38\u620f".encode()),
    "no UTF-8": (b"caf\xe9", b"\xff\xc3"),
    "control characters": (b"a\tb\nc%0A\x1b[1m", b"\r\n%"),
    "long": (b"g" * 255, "\u00e4".encode() * 200),
    "nothing": (b"-", b""),
}


@pytest.mark.parametrize("name", NAMES)
def test_any_name_needs_no_interpreter(world: World, name: str) -> None:
    """A program of any name has one number, finds its pipelines without an interpreter, and has all of its runs in one
    row."""
    executable, application = NAMES[name]
    program = shutil.copy(HOST, bytes(world.directory) + b"/" + executable)
    steps = ("instance", "device", "pipelines", "8", *MAPPED, *END)
    words = [program, b"names", application, b"", *map(str.encode, steps)]
    for found in (0, 8, 8):
        errors = subprocess.run(words, env=world.environment, capture_output=True, timeout=60, check=True).stderr
        assert (b"_policy. is not mapped" in errors) == (found > 0)
        assert world.last()["hits"] == found
    number = f"{xxhash.xxh3_64_intdigest(executable + bytes(1) + application[:255]):016x}"
    (row,) = json.loads(world.pylayer("stats", "--json").stdout)["programs"]
    assert (row["program_id"], row["runs"]) == (number, 3), row
    assert {path.name[:16] for path in [*world.stored_files(), *world.store.glob("runs/*.run")]} == {number}


@pytest.mark.parametrize(
    "steps",
    [
        ("instance",),
        ("instance", "device"),
        ("instance", "device", "pipelines", 3),
        ("instance", "device", "pipelines", 3, "destroy-device"),
        ("instance", "device", "pipelines", 3, "destroy-device", "destroy-instance"),
        ("instance", "device", "sleep", 2500, "again", 3),
    ],
    ids=["instance", "device", "hit", "device destroyed", "all destroyed", "later"],
)
def test_a_warm_program_has_no_thread_more(world: World, steps: tuple[str | int, ...]) -> None:
    """A program that only finds stored pipelines has the threads that it has without the layer, and can enter a sandbox
    that needs a single thread, at each time. Its statistics are written, whatever it does not destroy."""
    fill(world)
    *_, filled = world.runs()
    process = run_host(world, *steps, *SANDBOX)
    assert "threads: 1\n" in process.stdout and "filtered: 1 of 1 threads" in process.stdout
    run, hits = world.runs()[-1], 3 * ("pipelines" in steps) + 3 * ("again" in steps)
    assert len(world.runs()) == 2 + ("device" in steps) and run["ended"] >= run["started"] > 0
    if "device" in steps:
        assert [run["counters"][name] for name in ("hits", "compiled")] == [hits, 0]
        assert [run[key] for key in ("executable", "mode")] == ["host", "cells"]
        assert [run[key] for key in ("identity", "program")] == [filled[key] for key in ("identity", "program")]


def test_no_thread_without_a_device(world: World) -> None:
    """A program that only creates an instance gets no thread, even where nothing is stored yet."""
    run_host(world, "instance", *SANDBOX)
    run_host(world, "instance", "destroy-instance", *SANDBOX)


def test_no_thread_with_mode_off(world: World) -> None:
    """With mode off no thread starts, not even in a program that compiles, once the first run has made the plan."""
    world.environment |= world.policy("settings: {mode: off}\n")
    run_host(world, "instance", "device", "pipelines", 3, *END)
    process = run_host(world, "instance", "device", "pipelines", 4, *SANDBOX, *END)
    assert "threads: 1\n" in process.stdout


def test_a_thread_that_cannot_start(world: World) -> None:
    """If a sandbox allows no threads, a pipeline that is not stored is compiled and not stored. The program notices
    nothing, and its statistics are written."""
    fill(world)
    before = len(world.runs())
    process = run_host(world, "instance", "device", "refuse", "thread", "pipelines", 12, *END)
    assert not said(process.stderr, "warn")
    assert len(world.runs()) == before + 1
    assert (world.last()["hits"], world.last()["compiled"]) == (8, 4)


@pytest.mark.usefixtures("needs_binaries")
def test_two_configurations_of_devices(real: World) -> None:
    """A program that alternates between devices with and without pipeline binaries finds the same pipelines with both,
    and gets no thread: the driver's global key is not needed to know the identity."""
    for kind in ("device", "binary-device"):  # the first run of each has no plan
        real.run([str(HOST), "instance", kind, "pipelines", "3", *END])
    for kind in ("device", "binary-device"):
        process = run_host(real, "instance", kind, "pipelines", 3, *SANDBOX)
        assert "threads: 1\n" in process.stdout
        assert (real.last()["hits"], real.last()["compiled"]) == (3, 0)
    assert len(list((real.store / "store").iterdir())) == 1


@pytest.mark.parametrize("second", ["device", "binary-device"])
def test_several_devices_at_once(real: World, second: str) -> None:
    """A program with two instances, each with a device, alike or not, gets no thread in its second run, and each device
    finds its pipelines."""
    command = two_instances(second)
    alone = real.run(command, VK_INSTANCE_LAYERS=None).stdout
    assert real.run(command).stdout != alone
    before = len(real.runs())
    assert real.run(command).stdout == alone
    counters = [run["counters"] for run in real.runs()[before:]]
    assert sorted(run["hits"] for run in counters) == [1, 2]
    assert not any(run["compiled"] for run in counters)


def test_a_skip_rule_holds_in_the_next_run(world: World) -> None:
    """A program with a new policy file, in the first run of all and later, starts the interpreter in vkCreateDevice and
    waits there for what policy decides. By then the file's compiled copy is written, so that its rules hold in the next
    program, however short."""
    for number in range(3):
        world.environment |= world.policy(f"skip: [{{executable: host}}]\n# {number}\n")
        assert not starts(world, "instance")
        assert starts(world, "instance", "device")
        assert len(list(world.store.glob("policy/*.flat"))) == number + 1
        assert not starts(world, "instance", "device", "pipelines", 1)


@pytest.mark.parametrize("ago", [2 * contents.RECENT_SECONDS, -365 * 86400], ids=["old", "ahead"])
def test_uses_are_written_once_a_day(world: World, ago: int) -> None:
    """The first run of a day that uses stored pipelines says so in the store, without an interpreter; the next one has
    nothing to say. A use that is dated a year ahead, because the clock was wrong, says nothing of today."""
    fill(world)
    for path in world.stored_files(".closed", ".journal"):
        age(path, ago)
    before = set(world.stored_files())
    for _ in range(2):
        assert not starts(world, "instance", "device", "pipelines", 8)
    (new,) = set(world.stored_files()) - before
    header, records = uses_in(new)
    assert header.identity_digest.hex() == new.parent.name and header.application == "host"
    assert [len(fingerprints) for fingerprints, _ in records] == [8]
    assert abs(records[0][1] - time.time()) < 3600


def test_one_process_of_64_prunes(scripted: ScriptedDriver) -> None:
    """Programs that only find stored pipelines leave no more statistics than others: now and then one deletes old
    ones."""
    world = scripted.world
    scripted.demo("--count", 1)
    (example,) = world.store.glob("runs/*.run")
    for number in range(runs.MAX_RUNS):
        example.with_name(f"{7:016x}-{number:016x}-{number:016x}.run").write_bytes(example.read_bytes())
    # None of 2000 has a chance of 1 in 10^13.
    repeated(lambda: scripted.demo("--count", 1) and len([*world.store.glob("runs/*.run")]) < runs.MAX_RUNS, 2000)


def test_devices_that_come_and_go(world: World) -> None:
    """Many short-lived instances and devices that only find stored pipelines start no interpreter either. Each device
    has its statistics."""
    fill(world, 2)
    steps = ["instance", *["device", "again", 2, "destroy-device"] * 2, "destroy-instance"] * 20
    process = run_host(world, *steps, "instance", *MAPPED, "destroy-instance")
    assert "_policy. is not mapped" in process.stderr
    assert sum(run["counters"]["hits"] for run in world.runs()[2:]) == 80


def test_cancelled_thread_that_starts_it(world: World) -> None:
    """If the thread whose compile starts policy was cancelled, policy starts: what the thread compiled is stored."""
    fill(world)
    steps = ("instance", "device", "pipelines", 8, "cancelled-pipelines", 3, *END)
    run_host(world, *steps, PYLAYER_TEST_DRIVER="")  # this driver does nothing that notices a cancellation
    assert world.runs()[-1]["stored_records"] == 3


def test_device_that_outlives_exit(world: World) -> None:
    """A program that destroys its device after the layer's own function at exit() leaves what one run leaves."""
    fill(world, 11)
    for path in world.stored_files(".closed", ".journal"):
        age(path, 2 * contents.RECENT_SECONDS)
    before, runs_before = set(world.stored_files()), len(world.runs())
    last = ("at", "destructor", "pipelines", 3, "destroy-device", "then")
    run_host(world, *last, "instance", "device", "pipelines", 8)
    assert len(set(world.stored_files()) - before) == 1 and len(world.runs()) == runs_before + 1


@pytest.mark.root
def test_chroot_before_it_starts(world: World, tmp_path: Path) -> None:
    """If a program calls chroot before policy starts, a compile does not start the interpreter: its libraries' paths
    lead to other files now, here to copies. The program gets its pipelines."""
    fill(world)
    jail = tmp_path / "jail"
    shutil.copytree(PACKAGE, jail / PACKAGE.relative_to("/"))
    assert not starts(world, "instance", "device", "chroot", str(jail), "pipelines", 12)


@pytest.mark.parametrize("fork", ["fork", "fork-exit", "raw-fork"])
def test_marker_outlives_children(world: World, fork: str) -> None:
    """A child of the program that ends does not remove the program's crash marker."""
    fill(world)
    seen = world.directory / "seen"
    look = f"ls {world.store}/store/*/*.live >> {seen}; true"
    run_host(world, "instance", "device", "pipelines", 8, fork, "spawn", look, *END)
    assert len(seen.read_text().splitlines()) == 1
    assert not list(world.store.glob("store/*/*.live"))


# ---- Decisions -----------------------------------------------------------------------------------


def plans(world: World) -> list[Path]:
    return sorted(world.store.glob("plans/*.plan"))


def modes(world: World) -> list[str]:
    return [run["mode"] for run in world.runs()]


@pytest.mark.parametrize("operation", ["stat", "open", "read"])
def test_policy_file_that_fails_for_a_moment(world: World, operation: str) -> None:
    """If the layer or policy fails once to examine, open or read the policy file, no plan of that run is kept. Later
    runs obey the file, and share one plan."""
    config = world.directory / "config" / "pylayer" / "policy.yaml"
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text("settings: {mode: 'off'}\n")
    environment = {"PYLAYER_CONFIG": None, "XDG_CONFIG_HOME": str(config.parents[1])}
    for number in range(1, 40):
        shutil.rmtree(world.store, ignore_errors=True)
        disk = FailingDisk(world, f"{operation}:EIO:nth={number}")
        disk.environment |= {**environment, "PYLAYER_TEST_STORAGE_ROOT": str(config.parents[1])}
        world.demo("--count", 4, **disk.environment)
        if not disk.struck:
            break
        kept = plans(world)
        world.demo("--count", 4, **environment)
        assert modes(world)[-1] == "off" and len(plans(world)) == 1 and set(kept) <= set(plans(world)), disk.struck
    assert 1 < number < 39


def test_policy_file_that_was_changed_back(world: World) -> None:
    """A plan that was made by another content of the policy file is not found when the file has its old content again,
    even if it has its old time, too."""
    config = world.directory / "policy.yaml"
    environment = {"PYLAYER_CONFIG": str(config)}
    for mode in ("cells", "off!!", "cells"):
        config.write_text(f"settings: {{mode: '{mode.rstrip('!')}'}}{mode.count('!') * ' '}\n")
        os.utime(config, (1_000_000_000,) * 2)
        world.demo("--count", 4, **environment)
    assert modes(world) == ["cells", "off", "cells"] and len(plans(world)) == 2


def test_containers_share_a_plan(world: World, tmp_path: Path) -> None:
    """The same build and policy file in another file system find the plan that was kept: each container mounts its
    image anew, so device, inode and change time differ."""
    counts = []
    for container in ("one", "two"):
        image = tmp_path / container
        shutil.copytree(PACKAGE, image / "pylayer")
        world.install_manifest(image / "pylayer")
        config = tmp_path / "policy.yaml"
        config.unlink(missing_ok=True)
        config.write_text("settings: {mode: cells}\n")
        os.utime(config, (1_000_000_000,) * 2)
        world.demo("--count", 4, PYLAYER_CONFIG=str(config))
        counts.append((len(plans(world)), world.last()["fetched"]))
    assert counts == [(1, 0), (1, 4)]


def test_image_carries_a_plan(world: World, tmp_path: Path) -> None:
    """A new store that has another store's plans and exported pipelines serves its first program without the
    interpreter. Without the plans the first program starts it, and finds the pipelines all the same."""
    steps = ["instance", "device", "pipelines", "4", "threads", *END]
    world.run([str(HOST), *steps])
    exported = tmp_path / "pipelines"
    world.pylayer("export", exported, "--app", "host")
    kept = world.store / "plans"
    for carried in (True, False):
        world.store = tmp_path / f"carried {carried}"
        world.environment["PYLAYER_STORE"] = str(world.store)
        world.pylayer("import", exported)
        if carried:
            shutil.copytree(kept, world.store / "plans")
        stdout = world.run([str(HOST), *steps]).stdout
        assert ("threads: 1" in stdout) == carried
        assert (world.last()["hits"], world.last()["compiled"]) == (4, 0)


def test_each_build_has_its_own_plans(tmp_path: Path) -> None:
    """A change of any source makes another build, and the same sources in another place do not."""
    sys.path.insert(0, str(ROOT / "shim" / "policy"))
    layer_tables = importlib.import_module("layer_tables")
    ids = []
    for name in ("pylayer/policy.py", "shim/layer/base.h", "config/default.yaml", ""):
        copy = tmp_path / (name.replace("/", "-") or "same")
        for folder in ("pylayer/common", "shim/layer", "config"):
            (copy / folder).mkdir(parents=True)
        for path in ("pylayer/policy.py", "pylayer/common/a.json", "shim/layer/base.h", "config/default.yaml"):
            (copy / path).write_text("changed" if path == name else "content")
        ids.append(layer_tables.build_id(copy))
    assert len(set(ids)) == 4 and layer_tables.build_id(tmp_path / "same") == ids[3]
    assert layer_tables.build_id(ROOT) != ids[3]


def test_each_program_has_its_own(world: World) -> None:
    """Each program has a decision of its own, whatever its arguments. Later runs use it and do not write it again."""
    inodes = set()
    for count in (4, 5, 4):
        world.demo("--count", count)
        inodes |= {path.stat().st_ino for path in plans(world)}
    assert len(inodes) == 1 and world.last()["hits"] == 4 and modes(world) == ["cells"] * 3
    other = shutil.copy(BUILD / "demo" / "pipelines", world.directory / "other")
    world.run([str(other), "--count", "4"])
    assert len(plans(world)) == 2


def test_policy_class_is_asked_every_time(world: World) -> None:
    """A policy class of the user decides in every run. Its plans are not kept."""
    config = world.policy_class(
        "class Mine(Policy):\n"
        "    def plan_device(self, program, facts, settings):\n"
        "        print('asked')\n"
        "        return super().plan_device(program, facts, settings)\n"
    )
    for _ in range(2):
        assert "asked" in world.demo("--count", 4, **config, PYLAYER_LOG="info").stderr
    assert plans(world) == []


def test_damaged_plans_are_not_taken(world: World) -> None:
    """A damaged plan, with bytes changed, removed or added, is not used: policy makes and keeps a new one."""
    world.demo("--count", 1)
    (path,) = plans(world)
    good = path.read_bytes()
    damaged = [good[:size] for size in (0, 15, len(good) - 1)] + [good + b"\0", bytes(len(good))]
    for at in (0, 15, 16, 40, len(good) - 1):
        flipped = bytearray(good)
        flipped[at] ^= 1
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        result = world.demo("--count", 1)
        assert result["created"] == 1
        assert path.read_bytes() == good, "the plan was made and kept again"


# ---- What a warm run costs -----------------------------------------------------------------------


COUNT = 40
STEPS = ("instance", "device", "pipelines", COUNT, *END)
#: More bytes than any operation has: all of them go through, and are noted.
ALL = 1 << 30


@pytest.fixture
def warm(scripted: ScriptedDriver) -> ScriptedDriver:
    """A driver whose pipelines are stored, with the plan of a run that found them."""
    for _ in range(3):
        scripted.program("host", *STEPS)
    return scripted


def struck(warm: ScriptedDriver, rule: str) -> list[str]:
    """Returns the kinds of the files about which a rule noted an operation of a warm run. By chance, policy starts at
    the end of one run in 64 and does more, so this is the run of four that did least."""

    def once() -> list[str]:
        disk = FailingDisk(warm.world, rule)
        warm.program("host", *STEPS, **disk.environment)
        return [Path(line.rpartition(": ")[2]).suffix for line in disk.struck]

    return min((once() for _ in range(4)), key=len)


def test_calls_of_the_driver(warm: ScriptedDriver) -> None:
    """A pipeline takes a cache of its own and a merge more than without the layer. The device takes one cache more, and
    one look at what is in it."""
    layered = Counter(warm.counts)
    warm.program("host", *STEPS, layered=False)
    more = layered - Counter(warm.counts)
    del more["allocate"]  # memory of the driver's, by what it does
    caches = Counter({"create-cache": COUNT + 1, "destroy-cache": COUNT + 1, "get-data": 2, "merge": COUNT})
    assert more == caches + Counter({"hits": COUNT, "initial-data": COUNT})


#: File operations below the store. A pipeline takes one open, stat and close of its file, and two reads. Directories
#: have no suffix.
OPERATIONS = {
    "open": {".closed": COUNT + 1, "": 11, ".flat": 1, ".plan": 1, ".live": 1, ".run": 1, ".tmp": 1},
    "stat": {".closed": COUNT + 2, "": 10, ".flat": 2, ".plan": 2, ".live": 1, ".tmp": 1},
    "read": {".closed": 3 * COUNT + 3, ".flat": 1, ".plan": 1},
    "write": {".live": 1, ".tmp": 1},
    "change": {".live": 2, ".tmp": 2, ".run": 1, "": 1},
    "fsync": {},
}
#: Of these reads, with headers that are read twice: when the device looks for records, and with the data.
BYTES = 25_781


@pytest.mark.parametrize("operation", OPERATIONS)
def test_file_operations(warm: ScriptedDriver, operation: str) -> None:
    """A warm run reads each record once and keeps no file open."""
    assert Counter(struck(warm, f"{operation}:SHORT={ALL}")) == OPERATIONS[operation]


def test_bytes_read(warm: ScriptedDriver) -> None:
    """A warm run asks for so many bytes of the store, and not for one less. The disk gives no more than the rule says,
    and is struck when that is too few."""
    assert struck(warm, f"read:SHORT={ALL}:after={BYTES}") == []
    disk = FailingDisk(warm.world, f"read:SHORT={ALL}:after={BYTES - 1}")
    warm.program("host", *STEPS, **disk.environment)
    assert disk.struck
