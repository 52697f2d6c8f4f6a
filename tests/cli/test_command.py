"""The command itself: version, help, wrong use, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import lints
import pytest
from cli.stores import filled
from cli.user import CTRL_C, User
from click.testing import CliRunner

from pylayer.cli.main import command


def all_commands(
    found: click.Command = command, words: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    """Returns every command below the first one, with the words that call it."""
    listed = [(words, found)] if words else []
    if isinstance(found, click.Group):
        context = click.Context(found)
        for name in found.list_commands(context):
            below = found.get_command(context, name)
            assert below is not None
            listed += all_commands(below, (*words, name))
    return listed


ALL = all_commands()


def test_version(user: User) -> None:
    """--version prints pylayer's version, the version of the Python that policy runs in, the store's format, and the
    build id."""
    lines = user.pylayer("--version").stdout.splitlines()
    assert lines[0] == f"pylayer {version('vk-pylayer')}"
    assert lines[1] == f"policy runs in Python {sys.version_info[0]}.{sys.version_info[1]}"
    assert re.fullmatch(r"store format \d+", lines[2])
    assert re.fullmatch(r"build [0-9a-f]{32}", lines[3])


def test_help(user: User) -> None:
    """Each command's help has an example and the exit statuses, and fits 80 columns."""
    problems = []
    for words, _ in ALL:
        name = " ".join(words)
        text = CliRunner().invoke(command, [*words, "--help"], prog_name="pylayer").stdout
        wanted = (f"Example:\n    pylayer {name}", "Exit status:")
        problems += [f"{name}: no {part.partition(':')[0]}" for part in wanted if part not in text]
        problems += [f"{name}: too long: {line}" for line in text.splitlines() if len(line) > 80]
    lints.none(problems)
    assert (
        user.pylayer("ls", "--help").stdout == CliRunner().invoke(command, ["ls", "--help"], prog_name="pylayer").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "no such command 'nonsense'; see pylayer --help"),
        (("stat",), "no such command 'stat'; see pylayer --help"),
        (("policy", "chek"), "no such command 'chek'. Did you mean 'check'? See pylayer policy --help"),
        (("doctor", "--foo"), "no such option '--foo'; see pylayer doctor --help"),
        (("stats", "--jsn"), "no such option '--jsn'. Did you mean '--json'? See pylayer stats --help"),
        (("stats", "--json", "--nonsense"), "no such option '--nonsense'; see pylayer stats --help"),
        (("run",), "missing argument '-- APP [ARGS]...'; see pylayer run --help"),
        (("doctor", "a", "argument"), "got unexpected extra argument (argument); see pylayer doctor --help"),
        (
            ("trim", "--max-size", "much"),
            "invalid value for '--max-size': 'much' is not a size; write it like 500M or 2GiB; see pylayer trim --help",
        ),
    ],
)
def test_wrong_use(user: User, arguments: tuple[str, ...], says: str) -> None:
    """Wrong use ends with status 2 and one line. It may suggest what was meant, and it says where the help is."""
    done = user.pylayer(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pylayer: {says}\n")


@pytest.mark.parametrize(
    "words",
    [
        "ls",
        "stats",
        "ls --verify",
        "trim",
        "rm --all",
        "stats --runs",
    ],
)
def test_no_store(user: User, words: str) -> None:
    """If no program has run yet, a command says so in one line and succeeds. It creates nothing."""
    done = user.pylayer(*words.split())
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")
    assert str(user.store) in done.stdout
    assert not user.store.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(user: User, shell: str) -> None:
    """click prints the script for a shell. What the script asks for are commands, options and kinds of files."""
    done = user.pylayer(_PYLAYER_COMPLETE=f"{shell}_source")
    assert (done.returncode, done.stderr) == (0, "") and f"_PYLAYER_COMPLETE={shell}_complete" in done.stdout
    asks = {"_PYLAYER_COMPLETE": "bash_complete"}
    assert "plain,stats" in user.pylayer(COMP_WORDS="pylayer sta", COMP_CWORD="1", **asks).stdout.split()
    assert user.pylayer(COMP_WORDS="pylayer trim --ma", COMP_CWORD="2", **asks).stdout.split() == ["plain,--max-size"]
    assert user.pylayer(COMP_WORDS="pylayer import ", COMP_CWORD="2", **asks).stdout.split() == ["file,"]


# ---- how it ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ends", "says"),
    [
        (CTRL_C, -signal.SIGINT, ""),
        ("\x04", 1, "pylayer: there was no answer, so nothing was done\n"),
        ("n\n", 1, "pylayer: nothing was deleted\n"),
    ],
    ids=["Ctrl-C", "Ctrl-D", "no"],
)
def test_no_answer(user: User, answer: str, ends: int, says: str) -> None:
    """What is no yes at a question does nothing: Ctrl-C ends the command by SIGINT, and for the rest one line says
    so."""
    store = filled(user.store)
    before = store.files()
    status, text = user.terminal("rm", "--all", answer=answer)
    assert status == ends and "Remove" in text and store.files() == before
    assert text.endswith(says) and (says != "" or "pylayer:" not in text)


@pytest.mark.parametrize("module", ["enum", "click", "pylayer.cli.stats", "pylayer.report.rows"])
def test_ctrl_c_while_it_starts(user: User, module: str) -> None:
    """Ctrl-C while the command's modules are imported ends it by SIGINT, without any output. It does so in a callback,
    too, where an exception would be lost."""
    code = """
import os, sys
class Callback:
    def __del__(self):
        os.kill(os.getpid(), 2)
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            Callback()
module = sys.argv.pop(1)
assert module not in sys.modules
sys.meta_path.insert(0, Press())
from pylayer.__main__ import main
main()
"""
    words = [sys.executable, "-P", "-c", code, module, "stats"]
    done = subprocess.run(words, env=user.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("words", ["ls", "ls --json", "stats --help", "ls --verify"])
def test_nobody_reads(user: User, words: str) -> None:
    """If the reader has gone, as in `| head`, SIGPIPE ends the command without any output on standard error."""
    filled(user.store)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(**user.process(tuple(words.split())), stdout=writer, stderr=subprocess.PIPE, timeout=120)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("words", ["ls", "ls --json", "stats --help"])
def test_output_that_cannot_be_written(user: User, words: str) -> None:
    """If standard output is on a full disk, one line says so."""
    filled(user.store)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(**user.process(tuple(words.split())), stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "pylayer: the output cannot be written: No space left on device\n"


# ---- colours and widths --------------------------------------------------------------------------------

COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|9[0-7])[0-9;]*m")


def test_colours(user: User) -> None:
    """Colours are for terminals only, and never used if NO_COLOR is set or the terminal is a dumb one."""
    filled(user.store)
    assert COLOUR.search(user.terminal("ls", "--verify")[1])
    assert not COLOUR.search(user.terminal("ls", "--verify", NO_COLOR="1")[1])
    assert "\x1b" not in user.terminal("ls", "--verify", TERM="dumb")[1]
    assert "\x1b" not in user.pylayer("ls", "--verify").stdout
    assert COLOUR.search(user.pylayer("ls", "--verify", FORCE_COLOR="1", TERM="xterm-256color").stdout)
    asks = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"}
    assert not COLOUR.search(user.pylayer("ls", "--verify", **asks).stdout)


def test_progress(user: User) -> None:
    """Long work shows its progress on standard error, on a terminal only."""
    filled(user.store)
    assert "verifying" in user.terminal("ls", "--verify")[1]
    assert "verifying" not in user.terminal("ls", "--verify", "--json")[1]
    assert "verifying" not in user.terminal("ls", "--verify", TERM="dumb")[1]
    assert "trimming" in user.terminal("trim")[1]
    assert "checking" in user.terminal("doctor")[1]
    assert "checking" not in user.terminal("doctor", "--json")[1]
    done = user.pylayer("ls", "--verify")
    assert "verifying" not in done.stdout and done.stderr == ""


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("words", ["ls", "stats", "doctor", "report"])
def test_tables_fit_the_terminal(user: User, words: str, columns: int) -> None:
    """A table is no wider than the terminal, and no number in it is cut."""
    user.demo(10)
    _, text = user.terminal(words, columns=columns, NO_COLOR="1")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines()
    table = [line for line in lines if not re.search("^Store: |^Besides | are used| were written", line)]
    assert max(map(len, table)) <= columns
    words_of_it = set(re.findall(r"[^\s,]+", " ".join(lines)))
    if words == "stats":
        (program,) = user.json("stats")["programs"]
        assert {str(program["pipelines"]), "compiled", "saved", "ms"} <= words_of_it
    elif words == "ls":
        assert {"pipelines", "10", "disk"} <= words_of_it
