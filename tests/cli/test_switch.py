"""``pylayer off``, with --undo too: the rules that it writes, and that nothing else in the policy file changes."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest
from cli.test_stats import write_run
from cli.user import DEMO, User
from unit.things import program_id

from pylayer.store.runs import read_all

BLOCK = """skip:  # launchers
# first
- {executable: a}

- executable: b   # b
  engine: c
never_skip: []
"""
#: Policy files by their layout.
FILES = {
    "empty": "",
    "without the list": "# mine\npreset: players  # good\n\nsettings: {mode: cells}",
    "block list": BLOCK,
    "indented list": "skip:\n    - executable: a\n    - {executable: b}\n# end\n",
    "no list of ours": "never_skip: []\n# skip: []\nsettings: {}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_off_and_undo(user: User, name: str) -> None:
    """off adds lines and keeps all others, on removes its rule, and both do nothing the second time."""
    text, path = FILES[name], user.policy_file
    path.write_text(text)
    write_run(user, program="game", executable="game")
    done = user.pylayer("off", "game")
    assert done.returncode == 0 and done.stdout.endswith("To undo: pylayer off game --undo\n"), done.stderr
    off = path.read_text()
    assert user.pylayer("policy", "check").returncode == 0 and str(path) in done.stdout
    header = "" if "\nskip:" in f"\n{text}" else "skip:\n"
    kept = re.sub(header + r' *- \{executable: "game"\}  # by pylayer off\n', "", off)
    assert off != text and kept.rstrip("\n") == text.rstrip("\n")
    assert "skip rule executable: game" in user.pylayer("policy", "explain", "game").stdout
    assert "already off" in user.pylayer("off", "game").stdout and path.read_text() == off
    assert user.pylayer("off", "--undo", "game").returncode == 0
    assert path.read_text().rstrip("\n") == text.rstrip("\n")
    assert "already on" in user.pylayer("off", "--undo", "game").stdout


def test_no_policy_file(user: User) -> None:
    """Without a policy file, off makes one. The layer obeys it in the program's next run, and on ends that."""
    user.demo(3)
    assert user.pylayer("off", "pipelines").returncode == 0
    user.demo(3)
    assert len(list(read_all(str(user.store)))) == 1
    assert user.pylayer("off", "--undo", "pipelines").returncode == 0
    user.demo(3)
    assert len(list(read_all(str(user.store)))) == 2


def test_built_in_rule(user: User) -> None:
    """on makes an exception where another rule excludes the program, and off takes it away."""
    assert "already off, because of the built-in skip rule" in user.pylayer("off", "steam").stdout
    done = user.pylayer("off", "--undo", "steam")
    assert 'wrote never_skip {executable: "steam"}' in done.stdout and "To undo: pylayer off steam" in done.stdout
    assert user.pylayer("off", "steam").returncode == 0 and user.policy_file.read_text() == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("settings: {mde: cells}\n", "Correct the file first: pylayer policy check"),
        ("never_skip: [{executable: 'g*'}]\n", "never_skip of a policy file includes game and overrides skip"),
        ("skip: []\n", 'add the item {executable: "game"} to its list skip by hand'),
        ("skip: [{executable: a}]  # mine\n", 'add the item {executable: "game"} to its list skip by hand'),
        ("{settings: {}}\n", 'add the item {executable: "game"} to its list skip by hand'),
    ],
)
def test_what_cannot_be_edited(user: User, text: str, says: str) -> None:
    """A file that is not valid, excludes the rule or has another layout stays as it is, and one line says why."""
    user.policy_file.write_text(text)
    write_run(user, program="game", executable="game")
    done = user.pylayer("off", "game")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and says in done.stderr, done.stderr
    assert user.policy_file.read_text() == text


def test_last_item_of_a_list_with_a_comment(user: User) -> None:
    """Where the file would not be valid without the rule's line, it stays as it is, and one line says what to do."""
    text = '# mine\nskip:  # launchers\n- {executable: "game"}  # by pylayer off\n'
    user.policy_file.write_text(text)
    done = user.pylayer("off", "--undo", "game")
    assert done.returncode == 1 and "remove line 3 by hand" in done.stderr, done.stderr
    assert user.policy_file.read_text() == text


def test_linked_file(user: User) -> None:
    """A policy file that is a link, for example into a repository of settings, stays one."""
    target = user.home / "policy.yaml"
    target.write_text("# mine\n")
    user.policy_file.symlink_to(target)
    write_run(user, program="game: \"x\" 'y'", executable="game: \"x\" 'y'")
    assert user.pylayer("off", "game: \"x\" 'y'").returncode == 0
    assert user.policy_file.is_symlink() and target.read_text().startswith("# mine\nskip:\n- {executable: ")


#: That of the demo program.
APPLICATION = "pipelines"
#: A name that no process of another test has.
GAME = f"Game{os.getpid()}-{time.monotonic_ns()}"
#: Names of the program, with Game64 for GAME.
NAMES = (
    "Game64.exe", "game64.EXE", "C:\\Games\\game64.exe", "Z:/games/game64.exe", "wine64 Game64.exe",
    f"Game64.exe ({APPLICATION})", "game64*", "NUMBER",
)  # fmt: skip


@pytest.mark.parametrize("older", ["", "wine64", "wine64-9"])
@pytest.mark.parametrize("name", NAMES)
def test_windows_program(user: User, name: str, older: str) -> None:
    """A Windows program is off by each name that a user can see, also if an earlier version recorded it."""
    program = shutil.copy(DEMO, user.directory / f"{GAME}.exe")
    recorded = f"{older} {GAME}.exe".strip()
    number = f"{program_id(recorded, APPLICATION):016x}"
    name = name.replace("Game64", GAME).replace("game64", GAME.lower()).replace("NUMBER", number)

    def starts() -> int:
        assert user.pylayer("run", "--", program, "--count", 3).returncode == 0
        return len([run for run in read_all(str(user.store)) if run["executable"] == f"{GAME}.exe"])

    before = 0 if older else starts()
    if older:
        shown = f"{recorded} ({APPLICATION})"
        write_run(user, program=shown, executable=recorded, application=APPLICATION, started=time.time())
    done = user.pylayer("off", name)
    assert done.returncode == 0, done.stderr
    assert starts() == before, user.policy_file.read_text()
    status = user.pylayer("doctor", name)
    assert status.returncode == 1 and "skip rule" in status.stdout
    assert user.pylayer("off", "--undo", name).returncode == 0 and starts() == before + 1
    assert user.policy_file.read_text() == ""


@pytest.mark.parametrize("undo", [[], ["--undo"]], ids=["off", "undo"])
def test_name_that_never_ran(user: User, undo: list[str]) -> None:
    """Nothing changes if no recorded run has the name. off says which rule excludes a program before its first run."""
    user.policy_file.write_text("# mine\n")
    done = user.pylayer("off", "C:\\Games\\New.exe", *undo)
    assert done.returncode == 1 and "no run of C:\\Games\\New.exe is recorded" in done.stderr
    assert ('add the item {executable: "New.exe"} to the list skip of' in done.stderr) == (not undo)
    assert user.policy_file.read_text() == "# mine\n"
