"""``pylayer off``, with --undo too: the rules that it writes, and that nothing else in the policy file changes."""

from __future__ import annotations

import re

import pytest
from cli.user import User

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
    "without the list": "# mine\npreset: players  # good\n\nsettings: {carrier: cells}",
    "block list": BLOCK,
    "indented list": "skip:\n    - executable: a\n    - {executable: b}\n# end\n",
    "no list of ours": "never_skip: []\n# skip: []\nsettings: {}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_off_and_undo(user: User, name: str) -> None:
    """off adds lines and keeps all others, on removes its rule, and both do nothing the second time."""
    text, path = FILES[name], user.policy_file
    path.write_text(text)
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
    assert user.pylayer("off", "pipelines").returncode == 0
    user.demo(3)
    assert list(read_all(str(user.store))) == []
    assert user.pylayer("off", "--undo", "pipelines").returncode == 0
    user.demo(3)
    assert len(list(read_all(str(user.store)))) == 1


def test_built_in_rule(user: User) -> None:
    """on makes an exception where another rule excludes the program, and off takes it away."""
    assert "already off, because of the built-in skip rule" in user.pylayer("off", "steam").stdout
    done = user.pylayer("off", "--undo", "steam")
    assert 'wrote never_skip {executable: "steam"}' in done.stdout and "To undo: pylayer off steam" in done.stdout
    assert user.pylayer("off", "steam").returncode == 0 and user.policy_file.read_text() == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("settings: {carier: cells}\n", "Correct the file first: pylayer policy check"),
        ("never_skip: [{executable: 'g*'}]\n", "its never_skip includes game and overrides skip"),
        ("skip: []\n", 'add the item {executable: "game"} to its list skip by hand'),
        ("skip: [{executable: a}]  # mine\n", 'add the item {executable: "game"} to its list skip by hand'),
        ("{settings: {}}\n", 'add the item {executable: "game"} to its list skip by hand'),
    ],
)
def test_what_cannot_be_edited(user: User, text: str, says: str) -> None:
    """A file that is not valid, excludes the rule or has another layout stays as it is, and one line says why."""
    user.policy_file.write_text(text)
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
    assert user.pylayer("off", "game: \"x\" 'y'").returncode == 0
    assert user.policy_file.is_symlink() and target.read_text().startswith("# mine\nskip:\n- {executable: ")
