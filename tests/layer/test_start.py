"""Policy starts when a message needs it. A program that only finds stored pipelines gets no thread."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import xxhash
from host_steps import END, HOST, lines, run_host, two_instances
from scripted_driver import ScriptedDriver
from uses import age, uses_in
from world import PACKAGE, World

from pylayer.store import contents, runs

MAPPED = ("mapped", "_policy.")
#: What a program looks at that is about to enter a sandbox. The last two can be done once in a process.
SANDBOX = ("threads", "new-user", "filter")


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


@pytest.mark.parametrize(
    "end", [END, ("destroy-device",), ()], ids=["destroyed", "device destroyed", "nothing destroyed"]
)
def test_stored_pipelines_need_no_interpreter(world: World, end: tuple[str, ...]) -> None:
    """A program that creates stored pipelines, or none, ends without an interpreter. Its statistics are written."""
    fill(world)
    for count in (8, 0):
        count_before = len(world.runs())
        process = run_host(world, "instance", "device", "pipelines", count, *MAPPED, *end)
        assert "_policy. is not mapped" in process.stderr
        run = world.runs()[-1]
        assert len(world.runs()) == count_before + 1
        assert (run["counters"]["hits"], run["counters"]["compiled"], run["counters"]["fetched"]) == (count, 0, count)
        assert run["executable"] == "host" and run["mode"] == "cells" and run["ended"] >= run["started"] > 0
        assert run["identity"] == world.runs()[0]["identity"] and run["program"] == world.runs()[0]["program"]


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
    that needs a single thread, at each time."""
    fill(world)
    process = run_host(world, *steps, *SANDBOX)
    assert "threads: 1\n" in process.stdout and "filtered: 1 of 1 threads" in process.stdout


def test_no_thread_without_a_device(world: World) -> None:
    """A program that only creates an instance gets no thread, even where nothing is stored yet."""
    run_host(world, "instance", *SANDBOX)
    run_host(world, "instance", "destroy-instance", *SANDBOX)


@pytest.mark.parametrize(
    ("policy", "variables"),
    [
        ("settings: {mode: off}\n", {}),
        ("skip: [{executable: host}]\n", {}),
        ("", {"DISABLE_PYLAYER": "1"}),
    ],
    ids=["off", "skip rule", "DISABLE_PYLAYER"],
)
def test_no_thread_where_the_layer_does_nothing(world: World, policy: str, variables: dict[str, str]) -> None:
    """Where the layer does nothing, no thread starts either, not even in a program that compiles. The first run of a
    policy file makes the plan, or reads the rules."""
    world.environment |= world.policy(policy)
    run_host(world, "instance", "device", "pipelines", 3, *END, **variables)
    process = run_host(world, "instance", "device", "pipelines", 4, *SANDBOX, *END, **variables)
    assert "threads: 1\n" in process.stdout


def test_a_thread_that_cannot_start(world: World) -> None:
    """If a sandbox allows no threads, a pipeline that is not stored is compiled and not stored. The program notices
    nothing, and its statistics are written."""
    fill(world)
    before = len(world.runs())
    process = run_host(world, "instance", "device", "refuse", "thread", "pipelines", 12, *END)
    assert not lines(process)
    assert len(world.runs()) == before + 1
    assert (world.last()["hits"], world.last()["compiled"]) == (8, 4)


def test_a_compile_starts_it(world: World) -> None:
    """A pipeline that is not stored starts the interpreter, which stores it."""
    fill(world)
    assert starts(world, "instance", "device", "pipelines", 12)
    assert world.last()["compiled"] == 4
    run_host(world, "instance", "device", "pipelines", 12, *END)
    assert world.last()["compiled"] == 0


def test_without_a_plan_it_starts_with_the_device(world: World) -> None:
    """The first run of all, and one after a change of the policy file, start the interpreter in vkCreateDevice."""
    assert starts(world, "instance", "device")
    fill(world)
    world.environment |= world.policy("settings: {application_caches: check}\n")
    assert not starts(world, "instance")
    assert starts(world, "instance", "device")


def test_logs_begin_with_the_device(world: World) -> None:
    """If the log is to have policy's lines, the interpreter starts in vkCreateDevice."""
    world.environment["PYLAYER_LOG"] = "info"
    assert starts(world, "instance", "device")


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


def test_one_instance_after_another(world: World) -> None:
    """A program that destroys its instance and creates another one gets no thread, and both find what is stored."""
    fill(world)
    assert not starts(world, "instance", "device", "pipelines", 8, *END, "instance", "device", "again", 8)
    assert [run["counters"]["hits"] for run in world.runs()[-2:]] == [8, 8]


def test_a_skip_rule_holds_in_the_next_run(world: World) -> None:
    """A program with a new policy file waits in vkCreateDevice for what policy decides. By then the file's compiled
    copy is written, so that its rules hold in the next program, however short."""
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
    for _ in range(2000):  # none of them with a chance of 1 in 10^13
        scripted.demo("--count", 1)
        if len(list(world.store.glob("runs/*.run"))) < runs.MAX_RUNS:
            return
    raise AssertionError("nothing was pruned")


def test_devices_that_come_and_go(world: World) -> None:
    """Many short-lived devices that only find stored pipelines start no interpreter either. Each has its statistics."""
    fill(world, 2)
    steps = ["device", "again", 2, "destroy-device"] * 40
    process = run_host(world, "instance", *steps, *MAPPED, "destroy-instance")
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
    run_host(world, "use-in-destructor", "instance", "device", "pipelines", 8)
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
