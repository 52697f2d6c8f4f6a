"""``pylayer rebuild``: what a program created on one driver is compiled for another, without the program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import recorded_state as recorded
import xxhash
from cli.user import ON_RADV, User
from unit.things import flip
from world import BUILD, until

from pylayer.cli.replaying import Ended, Replayer
from pylayer.common import file_kinds
from pylayer.store import state
from pylayer.store.reader import parts_of
from pylayer.store.store import Store

COUNT = 12


def play(user: User, **environment: str) -> tuple[int, int]:
    """Runs the program. Returns how many pipelines were found and how many compiled."""
    user.demo(COUNT, **environment)
    driver = "build-2" if environment else ""
    found = [one for one in user.json("stats", "--last")["programs"] if driver in one["driver_info"]]
    return found[0]["hits"], found[0]["compiled"]


def only_program(user: User) -> state.State:
    """Returns what is recorded of the only program."""
    (program,) = state.programs(str(user.store))
    return state.read(str(user.store), program)


@pytest.fixture
def updater(user: User) -> User:
    """A user with a program that ran once and whose pipelines were recorded. Then the driver changes."""
    assert play(user) == (0, COUNT)
    return user


def driver(*statements: str) -> dict[str, str]:
    """Returns the variables of a new build of the driver, which does this."""
    return {"PYLAYER_TEST_DRIVER": ";".join(("driver-version=2;uuid=7e58;driver-info=build-2", *statements))}


def rebuilt(user: User, *arguments: object, status: int = 0, **environment: str) -> dict[str, Any]:
    done = user.pylayer("rebuild", *arguments, **environment)
    assert done.returncode == status, done.stdout + done.stderr
    (one,) = recorded.rebuilds(done.stdout)
    return one


def numbers(one: dict[str, Any]) -> tuple[int, int]:
    return one["wanted"], one["rebuilt"]


def test_new_driver(updater: User) -> None:
    """Nothing is to do for the driver that has all. For a new one everything is compiled, and the program's first run
    there compiles nothing. A second rebuild has nothing to do."""
    assert rebuilt(updater)["wanted"] == 0
    assert numbers(rebuilt(updater, "--jobs", 2, **driver())) == (COUNT, COUNT)
    assert play(updater, **driver()) == (COUNT, 0)
    assert rebuilt(updater, **driver())["wanted"] == 0
    assert not list(updater.store.glob("scratch.*"))


@ON_RADV
def test_same_bytes(updater: User) -> None:
    """What is rebuilt for the driver that it was recorded on is what the program stored, byte for byte."""

    def digests() -> set[int]:
        paths = [path for path in updater.store.glob("store/*/*") if path.suffix in file_kinds.COMPACTED]
        parts = (part for path in paths for part in parts_of(str(path), bytes.fromhex(path.parent.name), []))
        return {number for part in parts for record in part.records for _, number in record.cells}

    before = digests()
    (identity,) = Store(str(updater.store)).identities()
    assert updater.pylayer("rm", "--pipelines", "--identity", identity, "--yes").returncode == 0
    assert digests() == set()
    assert rebuilt(updater)["rebuilt"] == COUNT
    assert digests() == before


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("crash", "the driver crashed (SIGSEGV)"),
        ("exit", "the driver ended the process with status 0"),
        ("hang", "no answer within 2 s"),
        ("error:unknown", "the driver returned -13"),
    ],
)
def test_pipelines_that_harm(updater: User, action: str, why: str) -> None:
    """Pipelines that the driver crashes on, hangs in or refuses cost themselves alone. They are named, and not tried
    again until somebody asks, or the driver changes."""
    bad = driver(f"pipeline={action}?compile?chosen")
    one = rebuilt(updater, "--jobs", 2, "--timeout", 2, status=1, **bad)
    lost = one["not_rebuilt"][why]
    assert 0 < lost < COUNT // 2 and one["not_rebuilt"] == {why: lost} and numbers(one) == (COUNT, COUNT - lost)
    one = rebuilt(updater, **bad)
    assert numbers(one) == (0, 0) and one["not_tried"] == {why: lost}
    assert why in updater.pylayer("rebuild", **bad).stdout
    assert play(updater, **driver()) == (COUNT - lost, lost)
    newest = max(updater.store.glob("store/*"), key=lambda path: path.stat().st_ctime)
    assert updater.pylayer("rm", "--pipelines", "--identity", newest.name, "--yes").returncode == 0
    assert numbers(rebuilt(updater, "--all", **driver())) == (COUNT, COUNT)


def test_device_that_cannot_be_created(updater: User) -> None:
    """A device that cannot be created is one reason for all of its pipelines, and is tried again."""
    bad = driver("create-device=error:initialization-failed")
    for _ in range(2):
        one = rebuilt(updater, status=1, **bad)
        assert one["not_rebuilt"] == {"its device cannot be created: vkCreateDevice returned -3": COUNT}
    assert numbers(rebuilt(updater, **driver())) == (COUNT, COUNT)


def test_features_of_a_structure_that_the_driver_leaves_out(user: User) -> None:
    """An older driver refuses what is enabled in a structure that it does not fill in. It is left out then, and reasons
    say so."""
    recipe = user.directory / "test.recipe"
    recipe.write_text("device control vulkan14 modules\ncompute - : P0 shader=comp0\n")
    assert user.pylayer("run", "--", BUILD / "tests" / "recipes", recipe).returncode == 0
    refuses = "create-device=error:feature-not-present?unanswered"
    one = rebuilt(user, status=1, **driver(refuses, "pipeline=crash?compile"))
    assert one["not_rebuilt"] == {"the driver crashed (SIGSEGV) (without structure 55)": 1}
    assert numbers(rebuilt(user, "--all", **driver(refuses))) == (1, 1)


@pytest.mark.parametrize("policy", ['settings: {mode: "off"}', "settings: {store: read-only}"])
def test_nothing_is_stored(updater: User, policy: str) -> None:
    """Where the layer stores nothing, one slice finds that out, and nothing is noted of the pipelines."""
    updater.policy_file.write_text(f"{policy}\n")
    one = rebuilt(updater, status=1, **driver())
    updater.policy_file.unlink()
    (why,) = one["not_rebuilt"]
    assert one["not_rebuilt"][why] == COUNT and "keeps the layer from storing" in why
    assert numbers(rebuilt(updater, **driver())) == (COUNT, COUNT)


@pytest.mark.parametrize("result", ["out-of-host-memory", "out-of-device-memory", "device-lost"])
def test_results_of_the_moment(updater: User, result: str) -> None:
    """Missing memory and a lost device say nothing about a pipeline: the next rebuild tries it again."""
    one = rebuilt(updater, status=1, **driver(f"pipeline=error:{result}?compile?chosen"))
    lost = sum(one["not_rebuilt"].values())
    assert 0 < lost < COUNT and numbers(rebuilt(updater, **driver())) == (lost, lost)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_in_the_middle(updater: User, number: signal.Signals) -> None:
    """After Ctrl-C, what was compiled until then is stored. A kill loses a slice. The next rebuild does the rest, and
    nothing is left of the first."""
    slow = driver("pipeline=slow:250?compile")
    process = subprocess.Popen(**updater.process(("rebuild", "--jobs", "1"), **slow), start_new_session=True)
    replayer_of(process, updater, "/*.journal")
    os.kill(process.pid, number)
    assert process.wait(60) == -number
    one = rebuilt(updater, **driver())
    wanted, done = numbers(one)
    assert wanted == done and (0 < wanted < COUNT if number == signal.SIGINT else wanted == COUNT)
    assert play(updater, **driver()) == (COUNT, 0)
    assert updater.pylayer("trim").returncode == 0
    assert not list(updater.store.glob("scratch.*"))


def replayer_of(process: subprocess.Popen[str], user: User, made: str) -> int:
    """Waits until the first replayer of a rebuild has made this in its store. Returns the replayer's number."""
    until(process, lambda: any(user.store.glob(f"scratch.*/*.store/store/*{made}")))
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    (replayer,) = (int(child) for task in tasks for child in task.read_text().split())
    return replayer


def test_killed_from_outside(updater: User) -> None:
    """Who kills a replayer says nothing about its pipeline: the next rebuild tries it again."""
    process = subprocess.Popen(**updater.process(("rebuild", "--jobs", "1"), **driver("pipeline=slow:250?compile")))
    os.kill(replayer_of(process, updater, "/*.journal"), signal.SIGTERM)
    assert process.wait(60) == 1
    assert numbers(rebuilt(updater, **driver())) == (1, 1)


def test_killed_over_a_driver_that_hangs(updater: User) -> None:
    """A replayer ends with the command, even if the driver hangs in it."""
    process = subprocess.Popen(**updater.process(("rebuild", "--jobs", "1"), **driver("pipeline=hang?compile")))
    replayer = replayer_of(process, updater, "")
    time.sleep(0.5)  # until the driver hangs
    process.kill()
    process.wait()
    end = time.monotonic() + 20
    while not has_ended(replayer) and time.monotonic() < end:
        time.sleep(0.02)
    assert has_ended(replayer)


def has_ended(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def answering(words: str, place: Path, most_bytes: int = 1 << 30) -> Replayer:
    """Returns a replayer that creates every device, and then runs this as a shell."""
    script = place / "replayer"
    script.write_text(f"#!/bin/sh\necho ready\n{words}\n")
    script.chmod(0o755)
    facts = SimpleNamespace(vendor_id=1, device_id=2, pipeline_cache_uuid=bytes(16))
    return Replayer(str(script), facts, dict(os.environ), most_bytes)  # type: ignore[arg-type]


def create(replayer: Replayer, user: User) -> str:
    """Begins with the first recorded pipeline of the user's program, and creates it."""
    found = only_program(user)
    created = next(iter(found.created.values()))
    replayer.begin(found, created.instance, created.device, 5)
    return replayer.create(found, created, 1)


@pytest.mark.parametrize(
    ("words", "most", "why"),
    [
        ("yes lacks something", 1 << 30, "no answer"),
        ("cat /dev/zero", 1 << 30, "no answer"),
        ("exec sleep 60", 1 << 10, "needs more than"),
    ],
)
def test_replayers_that_are_ended(updater: User, words: str, most: int, why: str, tmp_path: Path) -> None:
    """A replayer that says too much or takes too much costs its pipeline."""
    replayer = answering(words, tmp_path, most)
    with pytest.raises(Ended, match=why) as ended:
        create(replayer, updater)
    assert not replayer.close(5) and not ended.value.again


def test_missing_and_circular_objects(updater: User) -> None:
    """Pipelines of which an object is missing, malformed, or made of itself are counted. The others are rebuilt."""
    found = only_program(updater)
    journal = state.writer(str(updater.store), found.program, "pipelines")
    key = next(iter(found.created))
    inside = recorded.object_of(bytes(96), 11, handles=[(8, 17, bytes(16))])
    short = recorded.object_of(bytes(8), 11)
    for number, data in enumerate((inside, short, inside[:50], b"")):
        digest = xxhash.xxh3_128_digest(data)
        created = state.Created(state.CREATED.pack(digest, *key[1:3], number + 1), 1, 1)
        journal.append([*state.object_parts(data), *state.created_parts(created)])
    journal.append(state.created_parts(state.Created(state.CREATED.pack(b"?" * 16, *key[1:3], 9), 1, 1)))
    one = rebuilt(updater, status=1, **driver())
    assert numbers(one) == (COUNT + 5, COUNT) and sum(one["not_rebuilt"].values()) == 5
    assert {"impossible lengths", "an object that it is made of is missing"} < one["not_rebuilt"].keys()


def test_another_fingerprint(updater: User) -> None:
    """What the layer would not find in the program's run is no success."""
    found = only_program(updater)
    objects = [found.data(digest) for digest in found.objects]
    for path in found.paths:
        Path(path).unlink()
    journal = state.writer(str(updater.store), found.program, "pipelines")
    for data in objects:
        journal.append(state.object_parts(data))
    for key in found.created:
        journal.append(state.created_parts(state.Created(state.CREATED.pack(*key[:3], 1), 1, 1)))
    one = rebuilt(updater, status=1, **driver())
    assert (one["rebuilt"], one["not_rebuilt"]) == (0, {"its data was stored under another fingerprint": COUNT})


def test_hostile_objects() -> None:
    """The replayer accepts no object with a length or a place outside of it, under sanitizers."""
    subprocess.run([BUILD / "fuzz" / "objects", "--random", "300000"], check=True, timeout=250)


def test_forgotten_and_cleared(updater: User) -> None:
    """rm removes a program's state. trim compacts it, verify reads it, ls counts it, and no export has it."""
    assert updater.pylayer("ls", "--verify").returncode == 0
    (path,) = updater.store.glob("state/*")
    assert updater.json("ls")["state_bytes"] == path.stat().st_size and path.stat().st_mode & 0o777 == 0o600
    assert updater.pylayer("export", "all.pylayer", "--app", "pipelines").returncode == 0
    assert not re.search(b"OBJT|CRTD|VkShader", (updater.directory / "all.pylayer").read_bytes())
    flip(path, 600)
    assert updater.pylayer("ls", "--verify").returncode == 1
    assert updater.pylayer("trim").returncode == 0 and updater.pylayer("ls", "--verify").returncode == 0
    program = only_program(updater).program
    for words in (("rm", "pipelines", "--recordings"), ("rm", "pipelines"), ("rm", "--all")):
        state.record_again(str(updater.store), program)
        updater.demo(COUNT)
        assert state.programs(str(updater.store))
        (updater.store / "state" / f"{program:016x}.unrecorded").touch()
        assert updater.pylayer(*words, "--yes").returncode == 0
        assert list(updater.store.glob("state/*")) == []
