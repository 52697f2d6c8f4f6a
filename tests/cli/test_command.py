"""The command itself: version, help, wrong use, how it ends, what each command prints with ``--json``, and each command
without a home directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import jsonschema
import lints
import pytest
import recorded_runs
import yaml
from cli import stores
from cli.stores import GAME, IDENTITY, filled, write_run
from cli.user import CTRL_C, DEMO, User
from click.testing import CliRunner
from disk import LIBRARY
from recorded_runs import cache, hits, pipeline
from unit.things import flip, program_id
from world import ROOT

from pylayer.cli import main, prewarm
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


#: Command lines by their exit status: what is wrong use, and what is not there, and the line that says so. Files:
#: ``there`` is a text, ``game.foz`` a recording by Fossilize.
REFUSED = {
    2: {
        "nonsense": "no such command 'nonsense'; see pylayer --help",
        "stat": "no such command 'stat'; see pylayer --help",
        "policy chek": "no such command 'chek'. Did you mean 'check'? See pylayer policy --help",
        "doctor --foo": "no such option '--foo'; see pylayer doctor --help",
        "stats --jsn": "no such option '--jsn'. Did you mean '--json'? See pylayer stats --help",
        "stats --json --nonsense": "no such option '--nonsense'; see pylayer stats --help",
        "run": "missing argument '-- APP [ARGS]...'; see pylayer run --help",
        "run --preset gamers -- true": "the presets are engine-developers, fleets, hardening, players",
        "run --preset players --policy x.yaml -- true": "write 'preset: players' into x.yaml to have both",
        "doctor a argument": "got unexpected extra argument (argument); see pylayer doctor --help",
        "trim --max-size much": "invalid value for '--max-size': 'much' is not a size; write it like 500M or 2GiB",
        "ls --identity nonsense": "--identity nonsense cannot begin an identity, which has only digits and a to f",
        "report --frame-ms 0 --json": "--frame-ms",
        "report --html - --json": "give one of --html, --trace and --json",
        "report --html a --trace b": "give one of --html, --trace and --json",
        "rm --pipelines --yes": "say what to remove: a NAME or --identity, or --stale, or --all",
        "rm --pipelines --all --stale --yes": "say what to remove",
        "rm --pipelines x --all --yes": "say what to remove",
        "rm --pipelines --stale --history --yes": "say what to remove",
        "rm --pipelines --identity zz --yes": "--identity zz cannot begin an identity",
        "export new --app game* --recordings --identity ab": "recordings are of no driver",
        "import there --for *": "* names 2 programs: tool (23e93467ef52909b), game (The Game) (53dadfb93be0b95b)",
        "warm --steam 570 --like 1": "--cache-dir, --steam, --like and --database exclude each other",
        "prewarm game.foz": "give either --for or --as",
        "prewarm game.foz --for game --as game": "give either --for or --as",
        "prewarm game.foz --as ../game": "--as ../game is no name of a file",
        "prewarm game.foz --as ..": "--as .. is no name of a file",
        "prewarm game.foz --as game*": "--as game* is no name of a file",
    },
    1: {
        **dict.fromkeys(("ls nobody", "ls The", "ls TOOL", "ls gam --json"), "has no program and no identity"),
        "stats nothing --json": "no run of nothing is recorded",
        "report nothing --json": "no run of nothing",
        "report last~7 --json": "too far back",
        "report --html missing/page.html": "missing/page.html was not written: No such file or directory",
        "report --trace t.json": "no timeline is recorded for game (The Game), so there is no trace",
        "stats --prometheus nowhere/pylayer.prom": "was not written: No such file or directory",
        "rm --pipelines nobody": "has nothing of a program named nobody",
        "export there --app tool": "there already exists and was not changed",
        "export there --app game* --recordings": "there already exists and was not changed",
        "export new --app nobody": "stores nothing for a program named nobody",
        "export new --app nobody --recordings": "nothing is recorded of a program named nobody",
        "import nothing": "No such file or directory",
        "import .": "is not a regular file",
        "import there": "there was refused and nothing was imported",
        "import there --for nobody": "this store knows no program named nobody. Start it once under pylayer",
        "prewarm nothing.foz --for game": "nothing was replayed: nothing.foz cannot be read: No such file",
        "prewarm there --for game": "nothing was replayed: there is no recording by Fossilize",
        "prewarm game.foz --for nobody": "this store knows no program named nobody",
        "rebuild nobody": "no state is recorded of a program named nobody",
        "off C:\\Games\\New.exe": 'add the item {executable: "New.exe"} to the list skip of',
        "off nobody --undo": "no run of nobody is recorded",
        "fleet pull": "the policy file names no fleet; set fleet.url in it",
        "fleet publish --key nothing": "nothing cannot be used as a key",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [(words, status, says) for status, rows in REFUSED.items() for words, says in rows.items()],
)
def test_refused(user: User, words: str, status: int, says: str) -> None:
    """What cannot be done is one line on standard error, which may say where the help is and what was meant. No file is
    written or changed."""
    filled(user.store)
    write_run(user.store, IDENTITY, GAME)
    (user.directory / "there").write_text("text")
    (user.directory / "game.foz").write_bytes(prewarm.MAGIC + bytes(100))
    (user.home / "fossilize-replay").touch(0o755)
    user.environment["PATH"] = f"{user.home}:{os.environ['PATH']}"
    before = files(user)
    assert says in user.fails(*words.split(), status=status)
    assert files(user) == before


def files(user: User) -> dict[Path, bytes]:
    """Returns what is in the user's store and working directory."""
    found = [path for place in (user.store, user.directory) for path in place.rglob("*")]
    return {path: path.read_bytes() for path in found if path.is_file()}


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
    assert "verifying" not in user.says("ls", "--verify")


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


def schema(said: Any) -> dict[str, Any]:
    """Returns the JSON schema of a documented value. The name of an optional key ends with ?, and in <> is any key."""
    if isinstance(said, list):
        return {"type": "array", "items": schema(said[0])}
    if not isinstance(said, dict):
        words = [word for word in said.partition(" - ")[0].split() if word != "or"]
        return {} if "any" in words else {"type": ["string" if word == "text" else word for word in words]}
    properties, anything = {}, False
    for key, value in said.items():
        if key.startswith("<"):
            anything = schema(value)
        else:
            optional = key.endswith("?")
            properties[key.rstrip("?")] = {"anyOf": [schema(value), {"type": "null"}]} if optional else schema(value)
    required = [key for key in properties if key in said]
    return {"type": "object", "properties": properties, "additionalProperties": anything, "required": required}


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


def test_json_is_as_documented(full: User) -> None:
    """Every key that a command prints is documented with its type, and every documented key is printed."""
    seen, wrong = set(), []
    for line in COMMANDS:
        done = full.pylayer(*line.split(), "--json")
        assert done.returncode in (0, 1) and done.stderr == "", f"{line}: {done.stderr}"
        path = max((path for path in DOCUMENTED if f"pylayer {line} ".startswith(f"{path} ")), key=len)
        seen.add(path)
        errors = jsonschema.Draft202012Validator(schema(DOCUMENTED[path])).iter_errors(yaml.safe_load(done.stdout))
        wrong += [f"{line}: {error.json_path}: {error.message}" for error in errors]
    assert not wrong, "\n".join(wrong)
    assert seen == set(DOCUMENTED)


# ---- Without a home, with one that cannot be written, and on a full disk -------------------------


#: One use of each command, and more of those that do different things. PLACE is a directory that can be written.
USES = """
doctor
doctor pipelines
export --app pipelines PLACE/new.pylayer
export --app pipelines --recordings PLACE/new.recorded
fleet pull
fleet publish --key PLACE/key
import PLACE/good.pylayer
import PLACE/good.recorded
install --implicit
key PLACE/new.key --new
key PLACE/key
ls
ls --verify
off pipelines
off pipelines --undo
policy check
policy explain
prewarm --for pipelines PLACE/good.pylayer
rebuild
warm
report
report --html PLACE/page.html
rm --all --yes
run --summary -- DEMO --count 3
stats
stats --prometheus PLACE/pylayer.prom
stats --runs
trim --max-size 1M
uninstall
"""
#: What the disk below the home does (tests/storage).
DISKS = {"no home": "", "read-only": "change:EROFS", "full": "write:ENOSPC,mkdir:ENOSPC"}
UNHELPFUL = re.compile(r"Traceback|defect|\bNone\b")


@pytest.fixture
def place(user: User, tmp_path: Path) -> Path:
    """A home with a store in it, and beside it what the commands read."""
    place = tmp_path / "place"
    (place / "fleet").mkdir(parents=True)
    user.demo(6)
    assert user.pylayer("export", "--app", "pipelines", place / "good.pylayer").returncode == 0
    assert user.pylayer("export", "--app", "pipelines", "--recordings", place / "good.recorded").returncode == 0
    assert user.pylayer("key", place / "key", "--new").returncode == 0
    return place


def run(user: User, words: str, place: Path, disk: str) -> subprocess.CompletedProcess[str]:
    arguments = words.replace("PLACE", str(place)).replace("DEMO", str(DEMO)).split()
    process = user.process(tuple(arguments))
    environment = {key: value for key, value in process.pop("env").items() if not key.startswith("XDG_")}
    if disk == "no home":
        del environment["HOME"]
    else:
        environment["PYLAYER_TEST_STORAGE"] = DISKS[disk]
        environment["PYLAYER_TEST_STORAGE_ROOT"] = str(user.home)
        environment["LD_PRELOAD"] = f"{environment.get('LD_PRELOAD', '')}:{LIBRARY}"
    return subprocess.run(**process, env=environment, capture_output=True, timeout=120, check=False)


def test_uses() -> None:
    """Every command is used."""
    assert {words.split()[0] for words in USES.strip().splitlines()} == set(main.COMMANDS)


#: Commands that cannot write, by what they name: the file or directory, not only the reason.
NAMED = {
    "import PLACE/good.pylayer": "/.cache/pylayer",
    "install --implicit": "/.local cannot be written",
    "off pipelines": "/.config/pylayer/policy.yaml",
}


@pytest.mark.parametrize("disk", DISKS)
def test_one_clear_line(user: User, place: Path, disk: str) -> None:
    """Each command works or says in one line why not."""
    wrong = []
    for words in USES.strip().splitlines():
        done = run(user, words, place, disk)
        lines = done.stderr.splitlines()
        # Under `run` the program goes on, and --summary has a line of its own.
        limit = 3 if words.startswith("run") else 1
        if UNHELPFUL.search(done.stdout + done.stderr) or len(lines) > limit or done.returncode not in (0, 1):
            wrong.append(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        if done.returncode == 1 and not lines and not re.search(r"^problem |: ", done.stdout, re.M):
            wrong.append(f"{words} does not say what is wrong")
        if disk == "read-only" and words in NAMED:
            assert f"{user.home}{NAMED[words]}" in done.stderr and "Read-only file system" in done.stderr
    assert not wrong, "\n".join(wrong)


NO_ENTRY = """
import pwd, sys
from pylayer.cli.main import main
def unknown(*_):
    raise KeyError("no such user")
pwd.getpwuid = pwd.getpwnam = unknown
sys.exit(main(sys.argv[1:]))
"""


def test_uninstall_without_a_home(user: User, tmp_path: Path) -> None:
    """A user without a home directory and without an entry in the list of users, as in containers, can install into
    XDG_DATA_HOME and uninstall from there."""
    for word, says in (("install", "Installed: "), ("uninstall", "Removed: ")):
        process = user.process((word,), XDG_DATA_HOME=str(tmp_path / "data"))
        process["args"][1:3] = ["-Pc", NO_ENTRY]
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            del process["env"][name]
        done = subprocess.run(**process, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(says), done
        assert "None" not in done.stdout
