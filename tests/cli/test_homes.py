"""Commands without a home directory, with one that cannot be written, and with one on a full disk."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from cli.user import DEMO, User
from disk import LIBRARY

from pylayer.cli.main import COMMANDS

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
    assert {words.split()[0] for words in USES.strip().splitlines()} == set(COMMANDS)


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
    for command, says in (("install", "Installed: "), ("uninstall", "Removed: ")):
        process = user.process((command,), XDG_DATA_HOME=str(tmp_path / "data"))
        process["args"][1:3] = ["-Pc", NO_ENTRY]
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            del process["env"][name]
        done = subprocess.run(**process, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(says), done
        assert "None" not in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("import PLACE/good.pylayer", "HOME/.cache/pylayer"),
        ("off steam --undo", "HOME/.config/pylayer/policy.yaml"),
        ("install", "HOME/.local cannot be written"),
    ],
)
def test_line_names_what_cannot_be_written(user: User, place: Path, words: str, says: str) -> None:
    """If a command cannot write, its line names the file or directory, not only the reason."""
    done = run(user, words, place, "read-only")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert says.replace("HOME", str(user.home)) in done.stderr and "Read-only file system" in done.stderr
