"""The system's policy file in the commands: they say which files are in force, and which of them is at fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.test_stats import write_run
from cli.user import User

MODE = "settings: {mode: observe}\n"


@pytest.fixture
def system(user: User) -> Path:
    """Returns the place of the system's policy file. There is none yet."""
    path = Path(user.environment["PYLAYER_SYSTEM_CONFIG"])
    path.parent.mkdir()
    return path


@pytest.fixture
def own(user: User) -> Path:
    """Returns the place of the user's policy file. There is none yet."""
    return user.policy_file


def test_check(user: User, system: Path, own: Path) -> None:
    """check reads both files, says of each whether it is valid, and compiles them for the next program."""
    system.write_text("preset: fleets\n")
    assert user.pylayer("policy", "check").stdout == f"{system} is valid, over the preset fleets.\n"
    own.write_text(MODE)
    done = user.pylayer("policy", "check")
    assert done.stdout == f"{system} is valid, over the preset fleets.\n{own} is valid.\n"
    assert len(list(user.store.glob("policy/*.flat"))) == 2
    assert user.pylayer("policy", "check", own).stdout == f"{own} is valid.\n"


def test_check_names_the_file_at_fault(user: User, system: Path, own: Path) -> None:
    """Each problem has its file."""
    system.write_text("settings:\n  mde: cells\n")
    own.write_text(MODE)
    done = user.pylayer("policy", "check")
    assert done.returncode == 1 and f"{system}:2:3: unknown key 'mde'" in done.stdout
    assert "1 problem: the layer uses nothing of this file.\n" in done.stdout and f"{own} is valid.\n" in done.stdout
    system.write_text(MODE)
    own.write_text("share: everybody\n")
    done = user.pylayer("policy", "check")
    assert f"{own}:1:8: share is" in done.stdout
    assert f"{system} is valid.\n" in done.stdout


def test_explain(user: User, system: Path, own: Path) -> None:
    """explain names both files and says of each setting which of them it is from, also with another file than the
    user's."""
    system.write_text("max_store_mib: 7\nsettings:\n  mode: observe\n  driver_cache: replace\n")
    own.write_text("settings:\n  driver_cache: keep\n")
    out = user.pylayer("policy", "explain", "game").stdout
    assert out.startswith(f"Policy: {own}, over {system}\n")
    for line in (f"observe  ({system}:3)", f"keep  ({own}:2)", f"7  ({system}:1)"):
        assert line in out, out
    found = user.json("policy", "explain", "game", PYLAYER_CONFIG=str(own))
    assert (found["file"], found["system_file"]) == (str(own), str(system))
    assert found["devices"][0]["settings"]["mode"]["source"] == str(system)
    own.unlink()
    assert user.pylayer("policy", "explain").stdout.startswith(f"Policy: {system}\n")
    system.write_text("mode: 1\n")
    assert f"{system}, line 1: unknown key 'mode'" in user.pylayer("policy", "explain").stderr


def test_off_and_on(user: User, system: Path, own: Path) -> None:
    """on includes what the system's file skips, by an exception in the user's file. off says that it cannot exclude
    what the system's never_skip includes."""
    system.write_text("skip: [{executable: game}]\nnever_skip: [{executable: tool}]\n")
    assert "already off" in user.pylayer("off", "game").stdout
    done = user.pylayer("off", "--undo", "game")
    assert f'wrote never_skip {{executable: "game"}} to {own}:' in done.stdout
    assert user.json("policy", "explain", "game")["devices"][0]["skipped"] == ""
    write_run(user, program="tool", executable="tool")
    failed = user.pylayer("off", "tool")
    assert failed.returncode == 1 and "never_skip of a policy file includes tool" in failed.stderr
