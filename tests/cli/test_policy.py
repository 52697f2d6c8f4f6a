"""``pylayer policy`` and ``pylayer off``: a policy file is checked, explained and changed, and so is the system's."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli.test_stats import write_run
from cli.user import DEMO, ON_RADV, User
from host_steps import HOST
from unit.things import program_id

from pylayer.common import compiled, config
from pylayer.common.settings import settings_for
from pylayer.store.runs import read_all
from pylayer.values import DeviceFacts, Program

PRESETS = ["engine-developers", "fleets", "hardening", "players"]


@pytest.fixture
def file(user: User) -> Path:
    """The policy file in force."""
    return user.policy_file


# ---- check -----------------------------------------------------------------------------------------


def test_each_error_is_a_line(user: User, file: Path) -> None:
    """Each error is one line, which begins with a place that editors can follow."""
    file.write_text("settings:\n  mde: off\n  record_state: yes   # really\nshare:\n    some\n")
    said = user.says("policy", "check", status=1)
    first, *others = said.splitlines()
    assert first.startswith(f"{file}:2:3: unknown key 'mde' in settings; did you mean mode? allowed: ")
    assert others == [
        f"{file}:3:17: settings.record_state is 'yes'; allowed: true or false",
        f"{file}:5:5: share is 'some'; allowed: program, all",
        "3 problems: the layer uses nothing of this file.",
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("share: all\nsettings: {}\nshare: all\n", 3, 1, "not YAML: the key 'share' appears twice"),
        ("share: all\n# caf\xe9 \0\n", 2, 8, "not YAML: special characters are not allowed"),
        ("rules:\n- match: {executable: a}\n  set: {}\n- match: {}\n  set: {}\n", 4, 10, "at least one condition"),
        ("\n\npolicy: a:B\n", 3, 1, "No such file or directory"),
        ('"\\e[31mred": 1\n', 1, 1, "unknown key"),
    ],
)
def test_places(user: User, file: Path, text: str, line: int, column: int, message: str) -> None:
    """Errors of YAML, of the schema, and of what the file names all have line and column. Terminal control characters
    are not printed."""
    file.write_bytes(text.encode())
    done = user.pylayer("policy", "check")
    found, _ = done.stdout.splitlines()
    assert done.returncode == 1 and found.startswith(f"{file}:{line}:{column}: ") and message in found
    assert "\x1b" not in found


def test_class_that_is_not_there_leaves_the_rest(user: User, file: Path) -> None:
    """If the policy class cannot be used, the layer uses the rest of the file, and so do commands."""
    file.write_text("policy: a:B\nmax_store_mib: 7\n")
    assert user.json("ls")["max_store_bytes"] == 7 << 20
    assert "in force" not in user.pylayer("trim").stderr


def test_files_that_cannot_be_read(user: User, file: Path) -> None:
    """A file that does not exist, that others can write to, or that is not text is an error of the file."""
    done = user.pylayer("policy", "check", "missing.yaml")
    assert done.returncode == 1 and "missing.yaml: cannot be read: No such file or directory" in done.stdout
    assert user.pylayer("policy", "check", PYLAYER_CONFIG="/no/such/file").returncode == 1
    file.write_text("share: all\n")
    file.chmod(0o666)
    assert f"{file} can be written by others (chmod go-w {file})" in user.pylayer("policy", "check").stdout
    file.chmod(0o600)
    file.write_bytes(b"share: all\n# \xff\n")
    assert f"{file}:2:1: not UTF-8" in user.pylayer("policy", "check").stdout


# ---- what is written, and the schema -------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [("run", "--", HOST, "instance"), ("policy", "check"), ("off", "steam", "--undo")],
    ids=["run", "check", "off"],
)
def test_commands_compile_the_file(user: User, file: Path, command: tuple[Any, ...]) -> None:
    """run, check and off write the compiled copy of the policy file in force, so that its skip rules hold without an
    interpreter in the very next program. A file that is not in force has no copy."""
    file.write_text("skip:\n- {executable: host}\n")
    other = user.directory / "other.yaml"
    other.write_text("share: all\n")
    assert user.pylayer("policy", "check", other).returncode == 0
    assert not user.store.exists()
    assert user.pylayer(*command).returncode == 0
    (copy,) = user.store.glob("policy/*.flat")
    document = compiled.read_copy(str(copy))
    assert document == config.read(str(file))


# ---- presets ---------------------------------------------------------------------------------------


def test_presets(user: User) -> None:
    """Each preset exists and is valid by itself, for this package and for any JSON Schema validator."""
    assert config.preset_names() == PRESETS
    descriptions = config.schema()["properties"]["preset"]["enumDescriptions"][1:]
    directory = Path(config.preset_path("players")).parent
    assert {path.stem for path in directory.glob("*.yaml")} == {*PRESETS, "default"}
    for name, description in zip(PRESETS, descriptions, strict=True):
        text = config.read_preset(name)
        document = config.Source(name, text).document
        jsonschema.validate(document, config.schema())
        assert "preset" not in document and document
        assert text.startswith(f"# {name}: {description}.\n")


def test_run_with_a_preset(user: User) -> None:
    """`run --preset` starts a program under the preset."""
    done = user.pylayer("run", "--preset", "engine-developers", "--log", "info", "--", DEMO, "--count", 4)
    assert done.returncode == 0 and ": mode observe for pipelines" in done.stderr


# ---- explain ---------------------------------------------------------------------------------------

POLICY = """\
preset: players
share: program
settings:
  mode: cells
  record_state: false
rules:
- match: {executable: "blend*", vendor: 0x1002}
  set: {mode: observe, driver_cache: replace}
- match: {engine: "Unreal*"}
  set: {mode: "off"}
- match: {device: "*RADV*"}
  set: {driver_cache: keep}
"""


@ON_RADV
def test_origins(user: User, file: Path) -> None:
    """Each setting is shown with its origin: default, preset, a line or a rule. explain also shows which rules
    match."""
    file.write_text(POLICY)
    found = user.json("policy", "explain", "blender")
    (device,) = found["devices"]
    assert [(rule["number"], rule["line"], rule["matches"], rule["failed"]) for rule in device["rules"]] == [
        (1, 7, True, []),
        (2, 9, False, ["engine"]),
        (3, 11, True, []),
    ]
    settings = device["settings"]
    assert settings["mode"] == {"value": "observe", "source": str(file), "line": 7, "rule": 1}
    assert settings["driver_cache"] == {"value": "keep", "source": str(file), "line": 11, "rule": 3}
    assert settings["record_state"] == {"value": False, "source": str(file), "line": 5, "rule": 0}
    assert settings["application_caches"] == {"value": "attest", "source": "default", "line": 0, "rule": 0}
    assert found["top"]["share"]["source"] == str(file) and found["top"]["max_store_mib"]["source"] == "preset players"
    program = Program(**device["program"])
    facts = DeviceFacts(
        **device["device"] | {"pipeline_cache_uuid": bytes.fromhex(device["device"]["pipeline_cache_uuid"])}
    )
    in_force = settings_for(config.read(str(file)), program, facts)
    assert {key: value["value"] for key, value in settings.items()} == in_force
    assert device["plan"]["mode"] == "observe" and device["reason"] == "chosen by the policy file"
    text = user.pylayer("policy", "explain", "blender").stdout
    for words in ("does not match: engine is not known", "rule 1, ", "preset players:", "Mode observe: chosen by"):
        assert words in " ".join(text.split())


def test_skipped_programs(user: User, file: Path) -> None:
    """explain reports a program that the layer skips, with the rule. never_skip overrides the rule."""
    text = user.pylayer("policy", "explain", "vulkaninfo").stdout
    assert "because of the built-in skip rule executable: vulkaninfo*" in " ".join(text.split()) and "Mode" not in text
    file.write_text('skip: [{executable: "my-*"}]\nnever_skip: [{executable: vulkaninfo}]\n')
    for name, rule in (("vulkaninfo", ""), ("my-tool", "skip rule executable: my-*"), ("game", "")):
        (device,) = user.json("policy", "explain", name)["devices"]
        assert device["skipped"] == rule


@ON_RADV
def test_devices(user: User) -> None:
    """Each device is explained. Without any device, explain assumes one with common features."""
    (device,) = user.json("policy", "explain", "Game")["devices"]
    assert (device["device"]["driver_name"], device["program"]["executable"]) == ("radv", "Game")
    nowhere = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
    (device,) = user.json("policy", "explain", "Game", **nowhere)["devices"]
    assert device["plan"]["mode"] == "cells" and "assumed" in device["device_note"]


def test_other_files_are_explained(user: User) -> None:
    """explain accepts a file other than the one in force, such as a preset. An invalid one is an error."""
    done = user.pylayer("policy", "explain", PYLAYER_CONFIG=config.preset_path("hardening"))
    assert "Mode off: switched off by the policy file" in done.stdout and "hardening.yaml:" in done.stdout
    assert "record_state        true  (default)" in user.pylayer("policy", "explain").stdout
    bad = user.directory / "bad.yaml"
    bad.write_text("shared: all\n")
    assert "pylayer policy check shows where" in user.fails("policy", "explain", PYLAYER_CONFIG=str(bad))
    assert "/no/such/file" in user.fails("policy", "explain", PYLAYER_CONFIG="/no/such/file")


#: The beginning of a policy class with a plan_device of its own.
MINE = """\
from pylayer.policy import Policy
class Mine(Policy):
    def plan_device(self, program, facts, settings):
        plan = super().plan_device(program, facts, settings)
"""


def test_policy_class_is_asked(user: User, file: Path) -> None:
    """The plan is that of the user's policy class. If the class fails, explain says so."""
    (file.parent / "mine.py").write_text(f"{MINE}        plan.mode = 3\n        return plan\n")
    file.write_text("policy: mine:Mine\n")
    (device,) = user.json("policy", "explain", "x")["devices"]
    assert device["plan"]["mode"] == "observe" and device["reason"] == "chosen by the policy class"
    assert "Mode observe: chosen by the policy class" in user.pylayer("policy", "explain", "x").stdout
    (file.parent / "mine.py").write_text(f"{MINE}        raise RuntimeError('no')\n")
    (device,) = user.json("policy", "explain", "x")["devices"]
    assert device["plan"] is None and "RuntimeError: no" in device["reason"]
    (file.parent / "mine.py").write_text("this is no Python\n")
    found = user.json("policy", "explain", "x")
    assert "mine:Mine cannot be used: SyntaxError" in found["policy_problem"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("plan.mode //= 0", "plan_device of the policy class failed: ZeroDivisionError: "),
        ("plan = None", "plan_device of the policy class failed: TypeError: plan_device returned no Plan"),
        ("print('{}'); this is no Python", "mine:Mine cannot be used: SyntaxError: invalid syntax"),
    ],
)
def test_check_tries_the_policy_class(user: User, file: Path, body: str, says: str) -> None:
    """check asks a policy class for a plan of the devices here, and names what it raises and the line."""
    file.write_text("share: all\npolicy: mine:Mine\n")
    (file.parent / "mine.py").write_text(f"{MINE}        print(plan)\n        return plan\n")
    assert user.pylayer("policy", "check").returncode == 0
    (file.parent / "mine.py").write_text(f"{MINE}        {body}\n        return plan\n")
    done = user.pylayer("policy", "check")
    assert done.returncode == 1 and f"policy.yaml:2:1: policy: {says}" in done.stdout
    assert ("(mine.py, line 5)" in done.stdout) == ("no Plan" not in says) and "frozen" not in done.stdout
    assert done.stdout.endswith("1 problem: the rest of this file is valid.\n")


# ---- The system's policy file --------------------------------------------------------------------


MODE = "settings: {mode: observe}\n"


@pytest.fixture
def system(user: User) -> Path:
    """Returns the place of the system's policy file. There is none yet."""
    path = Path(user.environment["PYLAYER_SYSTEM_CONFIG"])
    path.parent.mkdir()
    return path


def test_check(user: User, system: Path, file: Path) -> None:
    """check reads both files, says of each whether it is valid, and compiles them for the next program. Without a file
    it says what is in force."""
    assert user.says("policy", "check") == f"There is no policy file at {file}: the defaults are in force.\n"
    system.write_text("preset: fleets\n")
    assert user.says("policy", "check") == f"{system} is valid, over the preset fleets.\n"
    file.write_text(MODE)
    assert user.says("policy", "check") == f"{system} is valid, over the preset fleets.\n{file} is valid.\n"
    assert len(list(user.store.glob("policy/*.flat"))) == 2
    (user.directory / "other.yaml").write_text(MODE)
    assert user.says("policy", "check", "other.yaml") == "other.yaml is valid.\n"


def test_check_names_the_file_at_fault(user: User, system: Path, file: Path) -> None:
    """Each problem has its file."""
    system.write_text("settings:\n  mde: cells\n")
    file.write_text(MODE)
    done = user.pylayer("policy", "check")
    assert done.returncode == 1 and f"{system}:2:3: unknown key 'mde'" in done.stdout
    assert "1 problem: the layer uses nothing of this file.\n" in done.stdout and f"{file} is valid.\n" in done.stdout
    system.write_text(MODE)
    file.write_text("share: everybody\n")
    done = user.pylayer("policy", "check")
    assert f"{file}:1:8: share is" in done.stdout
    assert f"{system} is valid.\n" in done.stdout


def test_explain(user: User, system: Path, file: Path) -> None:
    """explain names both files and says of each setting which of them it is from, also with another file than the
    user's."""
    system.write_text("max_store_mib: 7\nsettings:\n  mode: observe\n  driver_cache: replace\n")
    file.write_text("settings:\n  driver_cache: keep\n")
    out = user.pylayer("policy", "explain", "game").stdout
    assert out.startswith(f"Policy: {file}, over {system}\n")
    for line in (f"observe  ({system}:3)", f"keep  ({file}:2)", f"7  ({system}:1)"):
        assert line in out, out
    found = user.json("policy", "explain", "game", PYLAYER_CONFIG=str(file))
    assert (found["file"], found["system_file"]) == (str(file), str(system))
    assert found["devices"][0]["settings"]["mode"]["source"] == str(system)
    file.unlink()
    assert user.pylayer("policy", "explain").stdout.startswith(f"Policy: {system}\n")
    system.write_text("mode: 1\n")
    assert f"{system}, line 1: unknown key 'mode'" in user.pylayer("policy", "explain").stderr


def test_off_and_on(user: User, system: Path, file: Path) -> None:
    """on includes what the system's file skips, by an exception in the user's file. off says that it cannot exclude
    what the system's never_skip includes."""
    system.write_text("skip: [{executable: game}]\nnever_skip: [{executable: tool}]\n")
    assert "already off" in user.pylayer("off", "game").stdout
    assert f'wrote never_skip {{executable: "game"}} to {file}:' in user.says("off", "--undo", "game")
    assert user.json("policy", "explain", "game")["devices"][0]["skipped"] == ""
    write_run(user, program="tool", executable="tool")
    assert "never_skip of a policy file includes tool" in user.fails("off", "tool")


# ---- off -----------------------------------------------------------------------------------------


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


def test_built_in_rule(user: User) -> None:
    """on makes an exception where another rule excludes the program, and off takes it away."""
    assert "already off, because of the built-in skip rule" in user.pylayer("off", "steam").stdout
    done = user.pylayer("off", "--undo", "steam")
    assert 'wrote never_skip {executable: "steam"}' in done.stdout and "To undo: pylayer off steam" in done.stdout
    assert user.pylayer("off", "steam").returncode == 0 and user.policy_file.read_text() == ""


#: Without the rule's line, the file would not be valid.
REMOVED = '# mine\nskip:  # launchers\n- {executable: "game"}  # by pylayer off'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{REMOVED}\n", "remove line 3 by hand"),
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
    assert says in user.fails("off", "game", *["--undo"] * text.startswith(REMOVED))
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
    assert "skip rule" in user.says("doctor", name, status=1)
    assert user.pylayer("off", "--undo", name).returncode == 0 and starts() == before + 1
    assert user.policy_file.read_text() == ""
