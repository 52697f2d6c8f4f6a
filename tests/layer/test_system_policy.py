"""The system's policy file, /etc/pylayer/policy.yaml: defaults for all users, below the user's own file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from host_steps import END, HOST, lines
from namespaces import unshared
from others import give_away
from world import World

#: Nothing here depends on the driver.
QUICK = True

STEPS = ("instance", "device", "pipelines", "4", "threads", *END)


@pytest.fixture
def system(world: World) -> Path:
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


def test_named_file_lies_over_the_system(world: World, system: Path, tmp_path: Path) -> None:
    """A file that PYLAYER_CONFIG names replaces the user's file, not the system's."""
    system.write_text("settings: {mode: cells, store: read-only}\n")
    named = tmp_path / "named.yaml"
    named.write_text("settings: {mode: observe}\n")
    world.environment["PYLAYER_CONFIG"] = str(named)
    assert mode(world) == "observe" and world.stored_files() == []


@pytest.mark.parametrize("whose", ["the system's", "the system's below the user's", "the user's"])
@pytest.mark.parametrize("how", ["appears", "changes", "goes"])
def test_change_is_obeyed_at_once(world: World, system: Path, user: Path, how: str, whose: str) -> None:
    """The second run with the same files has no interpreter. If a file appears, changes or goes, the very next run
    obeys."""
    on, off = "settings: {mode: cells}\n", "settings: {mode: observe}\n"
    if "below" in whose:
        user.write_text("settings: {application_caches: check}\n")
    file = user if whose == "the user's" else system
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


def test_skip_rules_of_the_system(world: World, system: Path, user: Path) -> None:
    """A skip rule of the system's excludes a program, from the second start without an interpreter, and the user's
    never_skip includes it again."""
    system.write_text("skip: [{executable: host}]\n")
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
def test_file_of_somebody_else(world: World, system: Path, user: Path, how: str) -> None:
    """A system's file that others than root could have written is ignored, with one line that names it. The user's file
    stays in force, and the second run has no interpreter."""
    system.write_text("settings: {mode: observe}\n")
    user.write_text("settings: {application_caches: check}\n")
    give_away(system if how == "file" else system.parent)
    for _ in range(2):
        done = start(world)
        (line,) = lines(done)
        assert f"{system} is not used: " in line and world.runs()[-1]["mode"] == "cells"
    assert "threads: 1" in done.stdout and world.last()["fetched"] == 4


def test_file_that_is_wrong(world: World, system: Path, user: Path) -> None:
    """If one file has an error, the line names it, and the other file is in force. If both have, there are two lines,
    and the defaults are in force."""
    good, bad = "settings: {mode: observe}\n", "settings: {mde: cells}\n"
    system.write_text(bad)
    user.write_text(good)
    (line,) = lines(start(world))
    assert f"{system}, line 1: unknown key 'mde'" in line and line.endswith("; this file is not used")
    assert world.runs()[-1]["mode"] == "observe"
    system.write_text(good)
    user.write_text(bad)
    (line,) = lines(start(world))
    assert f"{user}, line 1: unknown key 'mde'" in line and line.endswith(f"; only {system} is in force")
    assert world.runs()[-1]["mode"] == "observe"
    system.write_text(bad)
    first, second = lines(start(world))
    assert str(system) in first and str(user) in second and second.endswith("; the defaults are in force")
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
