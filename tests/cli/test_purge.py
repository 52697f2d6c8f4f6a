"""``pylayer uninstall --purge``: everything that pylayer wrote goes, it is listed before, and nothing else goes."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from cli.test_top import write_run as write_running
from cli.user import User
from recorded_runs import pipeline
from world import PACKAGE


def files(user: User) -> list[Path]:
    return sorted(path for path in user.home.rglob("*") if path.is_file())


@pytest.fixture
def settled(user: User) -> User:
    """A user who installed the layer, ran a program, and has a policy file and completion."""
    user.environment["XDG_RUNTIME_DIR"] = str(user.home / "run")
    user.pylayer("install", "--implicit")
    user.pylayer("policy", "init")
    user.demo(4)
    script = user.data / "bash-completion" / "completions" / "pylayer"
    script.parent.mkdir(parents=True)
    script.write_text(user.pylayer("completion", "bash").stdout)
    return user


def test_purge(settled: User) -> None:
    """--purge deletes all files that pylayer wrote, also of Flatpak programs, and names the command for the package."""
    flatpak = settled.home / ".var" / "app" / "org.example.Game" / "cache" / "pylayer"
    flatpak.parent.mkdir(parents=True)
    (settled.store.parent / "pylayer").rename(flatpak)
    settled.demo(4)
    killed = settled.store.parent / "pylayer-bench-killed" / "store-with" / "a"
    killed.parent.mkdir(parents=True)
    killed.touch()
    before = files(settled)
    planned = settled.pylayer("uninstall", "--purge", "--dry-run")
    assert planned.returncode == 0 and files(settled) == before
    for path in (settled.store / "store", flatpak / "runs", settled.home / ".config" / "pylayer" / "policy.yaml"):
        assert f"Would delete {path}: " in planned.stdout
    done = settled.pylayer("uninstall", "--purge", "--yes")
    assert done.returncode == 0 and files(settled) == [] and not settled.store.exists() and not flatpak.exists()
    assert done.stdout.splitlines()[-1].startswith("To remove the rest: ")
    assert settled.pylayer("uninstall", "--purge", "--yes").returncode == 0


def test_asks(settled: User) -> None:
    """--purge asks first, also with --quiet. Without a terminal it deletes nothing."""
    before = files(settled)
    refused = settled.pylayer("uninstall", "--purge")
    assert refused.returncode == 2 and "add --yes" in refused.stderr and files(settled) == before
    status, text = settled.terminal("uninstall", "--purge", "--quiet", answer="n\n")
    assert status == 1 and f"Delete {settled.store}/store: pipelines" in text and files(settled) == before
    status, text = settled.terminal("uninstall", "--purge", answer="y\n")
    assert status == 0 and files(settled) == []
    settled.demo(4)
    assert "Nothing to remove" not in settled.pylayer("uninstall", "--purge", "--yes").stdout


def test_what_stays(settled: User) -> None:
    """A policy class and a directory that is not only a store stay, and lines say so. --system has no --purge."""
    module, notes = settled.home / ".config" / "pylayer" / "mine.py", settled.store / "notes.txt"
    module.write_text("")
    notes.write_text("")
    before = files(settled)
    done = settled.pylayer("uninstall", "--purge", "--yes")
    assert f"Kept: {module}, because it is your own file" in done.stdout
    assert f"Kept: {settled.store}, because notes.txt in it is not of a store" in done.stdout
    assert files(settled) == [path for path in before if path == module or settled.store in path.parents]
    assert settled.pylayer("uninstall", "--system", "--purge").returncode == 2
    assert settled.pylayer("uninstall", "--dry-run").returncode == 2


def test_running_program(settled: User) -> None:
    """While a program runs under the layer, nothing is removed, and one line names it."""
    write_running(settled, pipeline(0, 1))
    before = files(settled)
    done = settled.pylayer("uninstall", "--purge", "--yes")
    assert done.returncode == 1 and "is running under the layer; end it first" in done.stderr
    assert files(settled) == before


def installation(user: User, environment: Path) -> list[str]:
    """Returns the commands that --purge prints in an installation there, after which that is as it was."""
    venv.create(environment)
    (environment / "installed").write_text("")
    before = sorted(environment.parent.rglob("*"))
    done = subprocess.run(
        [environment / "bin" / "python", "-Bm", "pylayer", "uninstall", "--purge", "--yes", "--json"],
        env={**user.environment, "PYTHONPATH": ":".join([str(PACKAGE.parent), *filter(None, sys.path)])},
        cwd=user.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and sorted(environment.parent.rglob("*")) == before, done.stderr
    commands: list[str] = json.loads(done.stdout)["commands"]
    return commands


def test_package(user: User) -> None:
    """--purge never deletes the installation that it runs from. It prints the command for the tool that made it."""
    user.environment["XDG_RUNTIME_DIR"] = str(user.home / "run")
    plain, pipx = user.directory / "my env", user.directory / "pipx" / "venvs" / "vk-pylayer"
    assert installation(user, plain) == [f"'{plain}/bin/python' -m pip uninstall vk-pylayer"]
    assert installation(user, pipx) == ["pipx uninstall vk-pylayer"]


def test_clone(user: User) -> None:
    """After make demo in a clone, --purge prints the commands for system packages that make installed, and for what it
    built."""
    user.environment["XDG_RUNTIME_DIR"] = str(user.home / "run")
    clone = user.directory / "clone"
    (clone / ".ci").mkdir(parents=True)
    (clone / ".ci" / "system-packages").write_text("")
    (clone / "build").mkdir()
    (clone / "build" / "system-packages").write_text("glslang-tools\ngcc\ngcc\n")
    commands = installation(user, clone / ".venv")
    assert commands[0] == "sudo sh -c 'apt-mark auto gcc glslang-tools && apt-get autoremove'"
    assert commands[-1] == f"make -C {clone} clean"
