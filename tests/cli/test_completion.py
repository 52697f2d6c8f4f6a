"""``pylayer completion``: what real shells complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli.stores import GAME, IDENTITY, TOOL, filled, write_run
from cli.user import User

from pylayer.common.identity import program_id


@pytest.fixture
def shell(user: User) -> User:
    """A user with a store, whose home has ``pylayer`` and the completion for every shell."""
    filled(user.store)
    write_run(user.store, IDENTITY, GAME)
    write_run(user.store, IDENTITY, TOOL)
    write_run(user.store, IDENTITY, ("evil $(touch pwned)", ""))
    binaries = user.home / "bin"
    binaries.mkdir()
    (binaries / "pylayer").symlink_to(Path(sys.executable).with_name("pylayer"))
    user.environment["PATH"] = f"{binaries}:{user.environment['PATH']}"
    for name in ("bash", "zsh", "fish"):
        done = user.pylayer("completion", name)
        assert (done.returncode, done.stderr) == (0, "")
        (user.home / f"completion.{name}").write_text(done.stdout)
    return user


def bash(user: User, line: str) -> list[str]:
    """Returns what bash offers for a line whose last word is being typed."""
    script = """
source ~/completion.bash
IFS=' ' read -ra COMP_WORDS <<< "$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { COMPREPLY+=("as $2"); }
"$(complete -p pylayer | sed 's/.*-F \\([^ ]*\\).*/\\1/')" pylayer
printf '%s\\n' "${COMPREPLY[@]}"
"""
    return run(user, ["bash", "--norc", "-c", script, "bash", line])


def fish(user: User, line: str) -> list[str]:
    """Returns what fish offers, without descriptions."""
    script = 'source ~/completion.fish; complete -C "$argv[1]"'
    return [found.partition("\t")[0] for found in run(user, ["fish", "--no-config", "-c", script, line])]


def zsh(user: User, line: str) -> list[str]:
    """Returns what zsh offers. The test replaces zsh's functions that would show it."""
    script = """
compdef() { :; }
_describe() { print -rl -- ${${(P)3}%%:*}; }
compadd() { print -rl -- ${(P)argv[-1]}; }
_path_files() { print -r -- "as $1"; }
source ~/completion.zsh
words=("${(@s: :)1}")
CURRENT=$#words
_pylayer_completion
"""
    return run(user, ["zsh", "-f", "-c", script, "zsh", line])


def run(user: User, command: list[str]) -> list[str]:
    done = subprocess.run(
        command, env=user.environment, cwd=user.directory, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return sorted(filter(None, done.stdout.splitlines()))


SHELLS = pytest.mark.parametrize("complete", [bash, zsh, fish])


@SHELLS
def test_commands_and_options(shell: User, complete: object) -> None:
    """Shells complete commands, their subcommands, options, and the values of an option."""
    assert callable(complete)
    assert complete(shell, "pylayer sta") == ["state", "stats", "status"]
    assert complete(shell, "pylayer key ") == ["new", "show"]
    assert complete(shell, "pylayer trim --max-") == ["--max-program", "--max-size"]
    assert complete(shell, "pylayer run --log ") == ["debug", "error", "info", "warn"]


@SHELLS
def test_the_store(shell: User, complete: object) -> None:
    """Shells complete the store's programs and identities."""
    assert callable(complete)
    assert complete(shell, "pylayer ls g") == ["game"]
    assert complete(shell, "pylayer stats t") == ["tool"]
    assert complete(shell, f"pylayer clear --identity {IDENTITY.name[:4]}") == [IDENTITY.name]
    assert complete(shell, f"pylayer ls {IDENTITY.name[:6]}") == [IDENTITY.name]


@SHELLS
def test_no_name_is_obeyed(shell: User, complete: object) -> None:
    """A program whose name contains characters special to a shell is offered by its number."""
    assert callable(complete)
    number = f"{program_id('evil $(touch pwned)', ''):016x}"
    assert complete(shell, f"pylayer ls {number[:5]}") == [number]
    assert complete(shell, "pylayer ls evil") == []
    assert not list(shell.directory.iterdir())


@SHELLS
def test_programs_to_run(shell: User, complete: object) -> None:
    """After `run --`, shells complete programs in PATH."""
    assert callable(complete)
    assert complete(shell, "pylayer run -- pylaye") == ["pylayer"]


def test_files(shell: User) -> None:
    """The shell itself completes files and directories."""
    (shell.directory / "some.key").touch()
    for line in ("pylayer key show ", "pylayer import ", "pylayer run -- pylayer ", "pylayer export x --app x --sign "):
        assert bash(shell, line) == ["as default"]
        assert zsh(shell, line) == ["as -f"]
    assert bash(shell, "pylayer run --store ") == ["as dirnames"]
    assert zsh(shell, "pylayer run --store ") == ["as -/"]
    assert fish(shell, "pylayer key show some") == ["some.key"]


@pytest.mark.parametrize("damage", ["no store", "no home", "a run that is none"])
def test_never_an_error(user: User, damage: str) -> None:
    """If the store cannot be read, completion offers nothing and prints nothing."""
    variables = {"COMP_WORDS": "pylayer clear --app ", "COMP_CWORD": "3", "_PYLAYER_COMPLETE": "bash_complete"}
    if damage == "no home":
        variables |= {"HOME": "", "XDG_CACHE_HOME": ""}
    elif damage == "a run that is none":
        (user.store / "runs").mkdir(parents=True)
        (user.store / "runs" / "x.run").write_bytes(b"\xff\x00 none")
    done = user.pylayer(**variables)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
