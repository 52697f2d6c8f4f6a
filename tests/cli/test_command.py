"""The command itself: version, help, wrong use, how it ends, and what each command prints with ``--json``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import lints
import pytest
import recorded_runs
import yaml
from cli import stores
from cli.stores import GAME, IDENTITY, filled, flip, write_run
from cli.user import CTRL_C, User
from click.testing import CliRunner
from recorded_runs import cache, hits, pipeline
from unit.things import program_id
from world import ROOT

from pylayer.cli.main import command
from pylayer.store import state
from pylayer.store.block_list import TABLE


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


ONE_LINE = ("ls", "stats", "ls --verify", "trim", "rm --all", "stats --runs")


@pytest.mark.parametrize(
    "words", [*ONE_LINE, "rm --all --yes", "doctor", "doctor pipelines", "rebuild", "report", "warm"]
)
def test_no_store(user: User, words: str) -> None:
    """If no program has run yet, a command creates nothing. One that looks says so in one line and succeeds."""
    done = user.pylayer(*words.split())
    assert not user.store.exists()
    if words in ONE_LINE:
        assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "") and str(user.store) in done.stdout


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


# ---- --json --------------------------------------------------------------------------------------


DOCUMENTED: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "json.yaml").read_text(encoding="utf-8"))
TYPES = {"text": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "null": type(None)}

#: Commands that become another program, or that do something and answer nothing: they have an exit status.
WITHOUT = {"fleet", "fleet publish", "fleet pull", "key", "off", "policy"}
WITHOUT |= {"policy check", "prewarm", "rm", "run", "trim", "uninstall"}


def test_every_command_has_json() -> None:
    """Each command has --json, except those above, and docs/json.yaml documents each."""
    having = {f"pylayer {' '.join(words)}" for words, found in ALL if has_json(found)}
    assert {" ".join(words) for words, found in ALL if not has_json(found)} == WITHOUT
    assert having == {path for path in DOCUMENTED if " --" not in path}


def has_json(found: click.Command) -> bool:
    return any("--json" in parameter.opts for parameter in found.params)


def differences(said: Any, value: Any, path: str = "") -> Iterator[str]:
    """Yields each place where a value differs from its documentation."""
    if isinstance(said, dict):
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
            return
        anything = next((meaning for key, meaning in said.items() if key.startswith("<")), None)
        names = {key.removesuffix("?"): meaning for key, meaning in said.items() if not key.startswith("<")}
        for key, inner in value.items():
            if inner is None and f"{key}?" in said:
                continue
            if key in names or anything is not None:
                yield from differences(names.get(key, anything), inner, f"{path}.{key}")
            else:
                yield f"{path}.{key} is not documented"
        yield from (f"{path}.{key} is missing" for key in said if key[0] != "<" and key[-1] != "?" and key not in value)
    elif isinstance(said, list):
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        for inner in value:
            yield from differences(said[0], inner, f"{path}[]")
    else:
        words = [word for word in str(said).partition(" - ")[0].split() if word != "or"]
        wanted = [TYPES[word] for word in words if word != "any"]
        fits = any(isinstance(value, kind) for kind in wanted) and (not isinstance(value, bool) or "boolean" in words)
        if not fits and "any" not in words:
            yield f"{path}: {value!r} is not {said}"


def test_types_of_verdicts() -> None:
    """docs/json.yaml lists every type of a block."""
    (shape,) = DOCUMENTED["pylayer ls"]["blocks"]
    assert set(re.findall(r"[a-z]+(?:-[a-z]+)*", shape["type"].partition(" - ")[2])) - {"or"} == {
        rule.name for rule in TABLE.values()
    }


@pytest.fixture
def full(user: User) -> User:
    """A user whose store has some of everything: damage, a death, something being written, a policy file with an
    error."""
    store = filled(user.store)
    write_run(user.store, IDENTITY, GAME)
    pack = store.files("*.pack")[0]
    flip(pack, pack.stat().st_size // 2)
    store.journal(GAME, stores.cell(7), alive=True)
    store.file(".verdict", GAME, stores.verdict())
    (store.path / "0123456789abcdef-0123456789abcdef-0123456789abcdef.journal").write_bytes(b"none")
    events = [pipeline(5, 40), pipeline(60, 3, fingerprint=0xDEF), cache(1, "emptied", "altered"), hits(0, 4)]
    name = {"program": "recorded", "executable": "recorded"}
    recorded_runs.write(user.store, events[:1], pid=100, start_ticks=1, started=900.0, ended=901.0, **name)
    policy = {"class": "mine:Class", "failures": 3, "switched_off": "it failed"}
    recorded_runs.write(user.store, events, **name, policy=policy, refused={"altered": 1}, damage={"damaged-data": 1})
    user.demo(3)
    missing = state.Created(state.CREATED.pack(b"p" * 16, b"d" * 16, b"i" * 16, 99), 1, 1)
    state.writer(str(user.store), program_id(*GAME), "game").append(state.created_parts(missing))
    user.policy_file.write_text(f"fleet: {{keys: [{{name: x, key: 'pylayer-ed25519:{'A' * 43}='}}]}}\n")
    (user.directory / "wrong.yaml").write_text("settings:\n  mde: cells\n")
    (user.directory / "rules.yaml").write_text(
        "settings: {mode: cells}\nrules:\n  - match: {executable: game}\n    set: {mode: observe}\n"
    )
    return user


COMMANDS = (
    "ls",
    "ls game",
    f"ls {IDENTITY.name}",
    "stats",
    "doctor game",
    "stats --runs",
    "report pipelines",
    "ls --verify",
    "ls",
    "rebuild",
    "export pipelines.pylayer --app pipelines",
    "import pipelines.pylayer",
    "install",
    "policy explain game",
    "doctor",
    "warm",
)


def json_words(line: str) -> list[str]:
    """Returns the words of a command with --json, which stands before a program's own words."""
    before, dashes, program = line.partition(" -- ")
    return [*before.split(), "--json", *([dashes.strip(), *program.split()] if dashes else [])]


def test_json_is_as_documented(full: User) -> None:
    """Every key that a command prints is documented with its type, and every documented key is printed."""
    seen, wrong = set(), []
    for line in (line.replace("/WORK", str(full.directory)) for line in COMMANDS):
        done = full.pylayer(*json_words(line))
        assert done.returncode in (0, 1) and done.stderr == "", f"{line}: {done.stderr}"
        path = documented_path(line)
        seen.add(path)
        wrong += [f"{line}: {what}" for what in differences(DOCUMENTED[path], yaml.safe_load(done.stdout))]
    assert not wrong, "\n".join(wrong)
    assert seen == set(DOCUMENTED)


def documented_path(line: str) -> str:
    """Returns the longest part of a command line that is documented."""
    return max((path for path in DOCUMENTED if f"pylayer {line} ".startswith(f"{path} ")), key=len)


def test_errors_leave_standard_output_empty(user: User, tmp_path: Path) -> None:
    """With --json, an error is one line on standard error. Standard output stays empty."""
    for line in (
        "ls nothing",
        "stats nothing",
        "report",
        "policy explain --nonsense",
        "ls --nonsense",
    ):
        done = user.pylayer(*line.split(), "--json")
        assert done.returncode in (1, 2), line
        assert (done.stdout, done.stderr.count("\n"), done.stderr[:9]) == ("", 1, "pylayer: "), line
