"""The command itself: version, help, wrong use."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from cli.user import User

COMMANDS = (
    *("run", "install", "uninstall", "doctor", "stats"),
    *("ls", "show", "verify", "trim", "clear", "export", "import", "key", "policy", "quarantine", "report"),
)


def test_version(user: User) -> None:
    """--version prints the installed distribution's version."""
    assert user.pylayer("--version").stdout == f"pylayer {version('vk-pylayer')}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help(user: User, command: str) -> None:
    """Each command's help has an example and the exit statuses, and fits 80 columns."""
    done = user.pylayer(command, "--help")
    assert done.returncode == 0
    assert f"Example:\n    pylayer {command}" in done.stdout
    assert "Exit status:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_help_lists_commands(user: User) -> None:
    """The help without a command lists every command with a line on what it does."""
    lines = user.pylayer("--help").stdout.splitlines()
    for command in COMMANDS:
        assert any(line.split()[:1] == [command] and len(line.split()) > 3 for line in lines), command


@pytest.mark.parametrize("arguments", [("nonsense",), ("stats", "--nonsense"), ("run",), ("doctor", "argument")])
def test_wrong_use(user: User, arguments: tuple[str, ...]) -> None:
    """Wrong use ends with status 2 and says where help is."""
    done = user.pylayer(*arguments)
    assert done.returncode == 2
    assert "--help" in done.stderr or "-h" in done.stderr


@pytest.mark.parametrize("command", ["stats", "uninstall", "install", "ls", "verify", "trim"])
def test_no_home(user: User, command: str) -> None:
    """Without any home directory a command ends with one line that names the variables to set."""
    empty = {"HOME": "", "XDG_CACHE_HOME": "", "XDG_DATA_HOME": ""}
    done = user.pylayer(command, **empty)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "HOME" in done.stderr
