"""``pylayer doctor NAME``: whether the layer is on for a program, was on in its last run, and what limits it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli.stores import NOW, Store, verdict
from cli.test_stats import write_run
from cli.user import DEMO, User

from pylayer import LAYER_NAME
from pylayer.cli.environment import container
from pylayer.cli.manifests import LIBRARY_NAME
from pylayer.store.block_list import DAY, LAYER_OFF

#: A name that no process of another test has.
GAME = f"game-{os.getpid()}-{time.monotonic_ns()}"
TOOL = f"tool-{GAME}"


@pytest.fixture
def game(user: User) -> Path:
    """The demo program under the name ``GAME``."""
    return Path(shutil.copy(DEMO, user.directory / GAME))


def write_game(user: User, name: str = GAME, **values: str) -> None:
    write_run(user, program=name, executable=name, **values)


def limits(found: dict[str, Any]) -> dict[str, str]:
    """Returns what limits the layer, by the name of the check."""
    return {check["name"]: check["found"] for check in found["checks"] if check["status"] != "ok"}


@contextmanager
def running(user: User, *words: object, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a command that has more work than any test lasts."""
    started = user.process((), **environment) | {"args": list(map(str, words))}
    with subprocess.Popen(**started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_running_under_the_layer(user: User, game: Path) -> None:
    """A program that runs under the layer is on. The program's own environment tells where its store is, so that a
    store that the shell does not know is found."""
    other = user.directory / "other"
    command = ["env", f"PYLAYER_STORE={other}", *user.process(("run", "--", game, "--count", 14336))["args"]]
    with running(user, *command) as process:
        while not any(other.glob("store/*/*.live")) or not user.json("stats", PYLAYER_STORE=str(other))["programs"]:
            assert process.poll() is None
            time.sleep(0.02)
        found = user.json("doctor", GAME)
        assert found["on"] and found["pid"] == process.pid and limits(found) == {}
        assert f"is running (pid {process.pid}, since " in found["answer"]
        (device,) = found["facts"]
        assert device["name"] == "device" and ": mode cells" in device["text"]


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "no variable enables it"),
        ({"ENABLE_PYLAYER": "1", "DISABLE_PYLAYER": ""}, "DISABLE_PYLAYER is set"),
        ({"VK_INSTANCE_LAYERS": LAYER_NAME, "VK_LOADER_LAYERS_DISABLE": "*py*"}, "VK_LOADER_LAYERS_DISABLE=*py*"),
        # What a machine of continuous integration is in comes first.
        ({"ENABLE_PYLAYER": "1", "SNAP": "/"}, "manifest" if container(os.environ) else "a container (snap)"),
    ],
)
def test_running_without_the_layer(user: User, game: Path, environment: dict[str, str], says: str) -> None:
    """A program that runs without the layer is off, and its own environment says why (test_obstacles.py has all
    reasons)."""
    with running(user, game, "--count", 14336, **environment) as process:
        done = user.pylayer("doctor", GAME)
        assert done.returncode == 1
        first = done.stdout.splitlines()[0]
        assert (
            first.startswith(f"Off: {GAME} is running (pid {process.pid}) and the layer does nothing") and says in first
        )


def test_loaded_and_nothing_recorded(user: User, game: Path) -> None:
    """A program in which the layer is loaded, and which records nothing, is off. The answer says so."""
    user.policy_file.write_text("settings: {mode: 'off', application_caches: pass}\n")
    command = user.process(("run", "--", game, "--count", 14336))["args"]
    with running(user, *command) as process:
        while LIBRARY_NAME not in Path(f"/proc/{process.pid}/maps").read_text():
            assert process.poll() is None
            time.sleep(0.02)
        answer = user.json("doctor", GAME, status=1)["answer"]
        assert answer.startswith(f"Off: {GAME} is running (pid {process.pid}) and the layer does nothing")
        assert "the layer is loaded" in answer


def test_last_run(user: User, game: Path) -> None:
    """A program that is not running has the answer of its last run."""
    user.pylayer("run", "--", game, "--count", 4)
    done = user.pylayer("doctor", GAME)
    first, device = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert first.startswith(f"On: in the last run of {GAME}") and first.endswith("; it is not running now.")
    assert "mode cells" in device and "4 compiled" in device


def test_unknown_program(user: User) -> None:
    """A program of which nothing is known is off."""
    assert "no run of it under the layer is recorded" in user.json("doctor", TOOL, status=1)["answer"]


def test_skip_rule(user: User) -> None:
    """A skip rule of the policy file switches the layer off, whatever the last run was."""
    write_game(user)
    user.policy_file.write_text("skip: [{executable: game-*}]\n")
    found = user.json("doctor", GAME, status=1)
    assert (
        found["answer"]
        == f"Off: the skip rule executable: game-* excludes {GAME}; pylayer off {GAME} --undo includes it."
    )
    assert [fact["name"] for fact in found["facts"]] == ["last run under the layer"]


def test_off_after_deaths(user: User) -> None:
    """A block that switches the layer off makes the answer off. One about another program does not."""
    store = Store(user.store)
    write_game(user, identity=store.identity.name)
    write_game(user, TOOL, identity=store.identity.name)
    store.file(".verdict", (GAME, ""), verdict(type=LAYER_OFF, subject=0, until_s=NOW + DAY))
    found = user.json("doctor", GAME, status=1)
    assert "the layer is off, because the program died repeatedly" in found["answer"]
    assert set(limits(found)) == {"blocks"} and limits(user.json("doctor", TOOL)) == {}


def test_limits(user: User) -> None:
    """A broken policy file and a store that cannot be written are listed."""
    write_game(user)
    user.policy_file.write_text("settings: {mde: cells}\n")
    found = limits(user.json("doctor", GAME))
    assert set(found) == {"policy"} and "; the defaults are in force" in found["policy"]
    text = user.pylayer("doctor", GAME).stdout
    assert "warning  policy" in text and "  store" not in text
    blocked = user.directory / "file"
    blocked.write_text("")
    found = limits(user.json("doctor", GAME, status=1, PYLAYER_STORE=str(blocked)))
    assert set(found) == {"store", "policy"} and f"{blocked} cannot be written" in found["store"]


def test_here(user: User) -> None:
    """Without a name, the answer is for programs that are started from here. The exit status is that of the checks."""
    assert "pylayer run -- APP runs one program under it" in user.json("doctor")["answer"]
    assert "ENABLE_PYLAYER=yes" in user.json("doctor", ENABLE_PYLAYER="yes")["answer"]
    user.pylayer("install", "--implicit")
    write_game(user)
    found = user.json("doctor", ENABLE_PYLAYER="1")
    assert found["answer"] == "On: programs that are started from here run under the layer."
    assert found["facts"] == [] and found["program"] is None
    assert user.json("doctor", ENABLE_PYLAYER="1", DISABLE_PYLAYER="1")["on"] is False
