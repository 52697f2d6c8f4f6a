"""``pylayer run``: the environment it makes, and a program that ends as it would without pylayer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from cli.user import DEMO, User
from world import PACKAGE

from pylayer import LAYER_NAME
from pylayer.cli import status
from pylayer.store.runs import read_all

MANIFESTS = str(PACKAGE / "data" / "manifests")


def program_environment(user: User, *options: str, **environment: str) -> dict[str, str]:
    """What a program gets from ``pylayer run``."""
    done = user.pylayer("run", *options, "--", "env", "-0", **environment)
    assert done.returncode == 0 and done.stderr == ""
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


# ---- the end of the program ------------------------------------------------------------------------


OPTIONS = pytest.mark.parametrize("option", [[], ["--summary"]], ids=["", "summary"])


@OPTIONS
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["sh", "-c", "exit 3"], 3, ""),
        (["sh", "-c", "kill -TERM $$"], -signal.SIGTERM, ""),
        # Without '#!', it runs with sh, as it does from a shell and from env.
        (["./script", "word"], 5, "word\n"),
        # As env's.
        (["no-such-program"], 127, "pylayer: no-such-program was not started: "),
        (["/no/such/program"], 127, "pylayer: /no/such/program was not started: "),
        (["./plain"], 126, "pylayer: ./plain was not started: "),
        (["./folder"], 126, "pylayer: ./folder was not started: "),
    ],
)
def test_how_it_ends(user: User, option: list[str], words: list[str], status: int, says: str) -> None:
    """The program's end is pylayer's. With --summary pylayer is still there, and says with 128 + n that signal n ended
    the program. One line says why a program was not started."""
    (user.directory / "folder").mkdir()
    (user.directory / "plain").write_text("text\n")
    (user.directory / "script").write_text('echo "$1"; exit 5\n')
    (user.directory / "script").chmod(0o755)
    done = user.pylayer("run", *option, "--", *words)
    assert done.returncode == (128 - status if status < 0 and option else status)
    said = done.stderr if status > 125 else done.stdout
    assert said.startswith(says) and said.count("\n") == (says != "")


@OPTIONS
def test_signals_reach_the_program(user: User, option: list[str]) -> None:
    """A signal sent to pylayer reaches the program, which decides what it means."""
    script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done"
    process = subprocess.Popen(
        **user.process(("run", *option, "--", "sh", "-c", script)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 7


@OPTIONS
def test_signal_dispositions(user: User, option: list[str]) -> None:
    """The program ignores and blocks no signal that it would not ignore and block without pylayer."""
    command = ["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"]

    def signals(output: str) -> list[int]:
        # glibc's posix_spawn leaves its own two, 32 and 33, ignored; no program can use them.
        return [int(line.split()[1], 16) & ~(3 << 31) for line in output.splitlines()]

    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    assert signals(user.pylayer("run", *option, "--", *command).stdout) == signals(plain.stdout)


@pytest.mark.parametrize("separator", [["--"], []])
def test_arguments_are_the_programs(user: User, separator: list[str]) -> None:
    """Everything behind the program's name reaches it, also what looks like pylayer's options or another '--'."""
    done = user.pylayer("run", *separator, "printf", "%s,", "--summary", "--", "-h", "")
    assert done.stdout == "--summary,--,-h,,"


# ---- the environment -------------------------------------------------------------------------------


def test_environment(user: User) -> None:
    """Where nothing is set, the layer is asked for, and its manifest's directory added to the loader's own."""
    environment = program_environment(user)
    assert environment["VK_INSTANCE_LAYERS"] == LAYER_NAME
    assert environment["VK_ADD_LAYER_PATH"] == MANIFESTS
    new = {"VK_INSTANCE_LAYERS", "VK_ADD_LAYER_PATH", "PYLAYER_STDERR", "_"}
    assert {key: value for key, value in environment.items() if key not in new} == {
        key: value for key, value in user.environment.items() if key not in new
    }


@pytest.mark.parametrize(
    ("variable", "before", "after"),
    [
        ("VK_INSTANCE_LAYERS", "VK_LAYER_other", f"{LAYER_NAME}:VK_LAYER_other"),
        ("VK_INSTANCE_LAYERS", LAYER_NAME, LAYER_NAME),
        ("VK_INSTANCE_LAYERS", f"VK_LAYER_a:{LAYER_NAME}:VK_LAYER_b", f"{LAYER_NAME}:VK_LAYER_a:VK_LAYER_b"),
        ("VK_INSTANCE_LAYERS", "", LAYER_NAME),
        ("VK_LAYER_PATH", "/one:/two", f"{MANIFESTS}:/one:/two"),
        ("VK_LAYER_PATH", "", MANIFESTS),
    ],
)
def test_variables_that_are_set(user: User, variable: str, before: str, after: str) -> None:
    """The layer comes first and once; the others stay in their order. Where VK_LAYER_PATH is set, even to nothing, the
    loader ignores VK_ADD_LAYER_PATH, so ours is put there."""
    environment = program_environment(user, **{variable: before})
    assert environment[variable] == after
    assert ("VK_ADD_LAYER_PATH" in environment) == (variable != "VK_LAYER_PATH")


@pytest.mark.parametrize("layer_path", [None, "", "/nonexistent"])
def test_layer_works(user: User, layer_path: str | None) -> None:
    """A program that knows nothing of pylayer has its pipelines stored, whatever VK_LAYER_PATH says."""
    user.demo(4, **({} if layer_path is None else {"VK_LAYER_PATH": layer_path}))
    (run,) = read_all(str(user.store))
    assert run["counters"]["compiled"] == 4


def test_store_and_log(user: User, tmp_path: Path) -> None:
    """PYLAYER_STORE keeps this run's pipelines elsewhere, also a relative path, and --log makes the layer talk."""
    done = user.pylayer("run", "--log", "info", "--", DEMO, "--count", 4, PYLAYER_STORE="other")
    assert done.returncode == 0 and "pylayer: info: " in done.stderr
    assert len(list(read_all(str(user.directory / "other")))) == 1
    assert not user.store.exists()


def test_unusable_store(user: User) -> None:
    """Where the store cannot be used, the program runs all the same, without the layer, and one line says so."""
    (user.home / "file").write_text("")
    place = str(user.home / "file" / "store")
    done = user.pylayer("run", "--", "sh", "-c", "echo ran; exit 4", PYLAYER_STORE=place)
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert done.stderr.startswith("pylayer: the program runs without the layer: ") and done.stderr.count("\n") == 1


# ---- --policy --------------------------------------------------------------------------------------


def test_policy(user: User) -> None:
    """--policy gives the program an absolute path, and the layer obeys the file."""
    (user.directory / "policy.yaml").write_text("settings: {mode: observe}\n")
    environment = program_environment(user, "--policy", "policy.yaml")
    assert environment["PYLAYER_CONFIG"] == str(user.directory / "policy.yaml")
    assert user.pylayer("run", "--policy", "policy.yaml", "--", DEMO, "--count", 4).returncode == 0
    assert [run["mode"] for run in read_all(str(user.store))] == ["observe"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("settings:\n  mode: cell\n", "line 2"),
        ("settings: [", "not YAML"),
        (None, "cannot be read"),
    ],
)
def test_bad_policy(user: User, text: str | None, told: str) -> None:
    """A policy file that cannot be used is one clear line with file and place, status 2, and nothing is run."""
    policy = user.directory / "policy.yaml"
    if text is not None:
        policy.write_text(text)
    said = user.fails("run", "--policy", policy, "--", "touch", "started", status=2)
    assert str(policy) in said and told in said and "nothing was started" in said
    assert not (user.directory / "started").exists()


@pytest.mark.parametrize("text", ["settings: {mode: cell}\n", None])
def test_policy_in_force_that_cannot_be_used(user: User, text: str | None) -> None:
    """Where the policy file in force cannot be used one line says so, and the program runs with the defaults."""
    policy = user.directory / "policy.yaml"
    if text is not None:
        policy.write_text(text)
    done = user.pylayer("run", "--", "echo", "started", PYLAYER_CONFIG=str(policy))
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert done.stderr.count("\n") == 1 and str(policy) in done.stderr
    assert done.stderr.endswith("; the defaults are in force\n")
    assert user.pylayer("run", "--", "true").stderr == ""


def test_policy_is_parsed_once(user: User) -> None:
    """The parser of YAML takes 13 ms. While the policy file does not change, only the first start needs it."""
    user.policy_file.write_text("settings: {mode: cells}\n")
    imported = [user.pylayer("run", "--", "true", PYTHONPROFILEIMPORTTIME="1").stderr for _ in range(2)]
    assert ["| yaml" in text.replace("  ", "") for text in imported] == [True, False]


def test_untrusted_policy(user: User) -> None:
    """A policy file in a directory that others may write to, which the layer would refuse, is refused at once. In one
    like /tmp, where others cannot replace it, it is used."""
    directory = user.directory / "shared"
    directory.mkdir()
    (directory / "policy.yaml").write_text("share: all\n")
    for mode, wanted in ((0o1777, 0), (0o777, 2)):
        directory.chmod(mode)
        done = user.pylayer("run", "--policy", directory / "policy.yaml", "--", "true")
        assert done.returncode == wanted and ("chmod go-w" in done.stderr) == (wanted == 2)


# ---- --summary -------------------------------------------------------------------------------------


def test_summary(user: User) -> None:
    """--summary prints the table of just this run to standard error, and leaves standard output to the program."""
    user.demo(20)
    done = user.pylayer("run", "--summary", "--", DEMO, "--count", 20, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["created"] == 20
    (row,) = [line.split() for line in done.stderr.splitlines() if line.startswith("pipelines ")]
    assert row[1:5] == ["1", "20", "20", "0"]


def test_summary_of_its_own(user: User) -> None:
    """--summary leaves out programs that run at the same time and were not started by the command, and has all that
    were, whoever started them."""
    words = f"{DEMO} --count 3 & PYLAYER_SESSION=another {DEMO} --count 5 --compute & wait"
    done = user.pylayer("run", "--summary", "--", "sh", "-c", words)
    assert done.returncode == 0 and len(user.json("stats", "--runs")["processes"]) == 2
    (row,) = [line for line in done.stderr.splitlines() if line.startswith("pipelines")]
    assert row.split()[1:3] == ["1", "3"]
    alone = user.pylayer("run", "--summary", "--", "sh", "-c", words.replace("another", "third").split("&")[1])
    assert "nothing was recorded" in alone.stderr


@pytest.mark.parametrize(
    ("words", "environment", "says"),
    [
        ("true", {"DISABLE_PYLAYER": ""}, "DISABLE_PYLAYER is set"),
        ("true", {"VK_LOADER_LAYERS_DISABLE": "~all~"}, "VK_LOADER_LAYERS_DISABLE=~all~ names the layer"),
        ("true", {}, "created no Vulkan device"),
        ("steam", {}, "the built-in skip rule executable: steam excludes steam"),
        ("steam", {}, "pylayer doctor steam "),
        ("flatpak", {}, "flatpak starts programs in a container"),
        ("setuid", {}, "setuid has elevated privileges"),
        ("launcher", {}, "launcher has ended, and what it started still runs: "),
    ],
)
def test_summary_says_why(user: User, words: str, environment: dict[str, str], says: str) -> None:
    """If nothing is recorded, --summary says what is known about why."""
    command = user.directory / words
    command.write_text("#!/bin/sh\n" + ("sleep 1 >/dev/null 2>&1 &\n" if words == "launcher" else ""))
    command.chmod(0o4755 if words == "setuid" else 0o755)
    done = user.pylayer("run", "--summary", "--", command, **environment)
    assert says in done.stderr.splitlines()[-1]


def test_32_bit_program(tmp_path: Path) -> None:
    """A 32-bit program is named as such."""
    (tmp_path / "game").write_bytes(b"\x7fELF\x01\x01\x01")
    assert status.of_file(str(tmp_path / "game")).startswith("game is a 32-bit program")


def test_same_process(user: User) -> None:
    """Without --summary the program takes pylayer's place: its process is the one that was started."""
    process = subprocess.Popen(**user.process(("run", "--", "sh", "-c", "echo $$")), stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=20)
    assert int(output) == process.pid
    assert os.WEXITSTATUS(process.returncode) == 0
