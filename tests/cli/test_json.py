"""docs/json.yaml: the commands print with --json exactly what it documents, key by key and type by type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import recorded_runs
import yaml
from cli import stores
from cli.stores import GAME, IDENTITY, filled, flip, write_run
from cli.test_command import ALL
from cli.user import User
from recorded_runs import cache, hits, pipeline
from unit.things import program_id
from world import ROOT

from pylayer.store import state
from pylayer.store.block_list import TABLE

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
