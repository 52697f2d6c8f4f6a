"""The commands of ``pylayer fleet`` and ``pylayer run``, as users type them, and the demonstration of a fleet."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.stores import IDENTITY, present
from cli.user import DEMO, User
from fleet.faulty import Faulty, serving
from fleet.fleets import Builder, Machine, write_policy
from world import ROOT, World

EXPORT = ("export", "all.pylayer", "--app", "*", "--sign", "key")
PUBLISH = ("fleet", "publish", "all.pylayer", "--key", "key")


@pytest.fixture
def farm(tmp_path: Path) -> User:
    """A builder that compiled the demo's pipelines, pushed and published them. Its key is ``key``."""
    directory = tmp_path / "farm"
    directory.mkdir()
    user = User(directory)
    user.demo(20, **World(directory).never_idle())  # so that its cells are not joined
    user.pylayer("trim")  # a process that ends within a compaction leaves cells in a journal and in a pack
    user.pylayer("key", "key", "--new")
    write_policy(user, f"file://{directory}/www", user.public_key("key"))
    assert "Exported: 20 pipelines" in user.pylayer(*EXPORT).stdout
    assert "Published: 20 new records in 1 pack, index 1" in user.pylayer(*PUBLISH).stdout
    return user


def www(farm: User) -> Path:
    return farm.home.parent / "www"


def test_a_machine_that_never_compiled(farm: User, user: User) -> None:
    """A machine with an empty home pulls, and its first run compiles nothing. With the preset fleets, programs record
    uses nowhere. ls says that it does not know when pipelines were used, and not that they never were."""
    write_policy(user, f"file://{www(farm)}", farm.public_key("key"))
    user.policy_file.write_text(f"preset: fleets\n{user.policy_file.read_text()}")
    assert "Pulled: 20 records in 1 pack" in user.says("fleet", "pull")
    assert user.json("ls")["identities"][0]["programs"][0]["last_used_s"] == 0
    for _ in range(2):  # with policy, and with the plan that it kept
        user.demo(20)
        (total,) = user.json("stats", "--last")["programs"]
        assert (total["hits"], total["compiled"]) == (20, 0)
    assert user.json("ls")["identities"][0]["programs"][0]["last_used_s"] == 0
    assert "? no use is recorded" in user.pylayer("ls").stdout


def test_rounds(farm: User) -> None:
    """What is published again is published once, and the command says so. Without exports the index is signed anew.
    What the storage lost is told. A web server of another user can read what the umask lets it."""
    mask = os.umask(0)
    os.umask(mask)
    for words in (PUBLISH, ("fleet", "publish", "--key", "key")):
        assert "Published: 0 new records in 0 packs, index 1" in farm.pylayer(*words).stdout
    for pack in www(farm).rglob("*.pack"):
        assert stat.S_IMODE(pack.stat().st_mode) == 0o666 & ~mask
        pack.unlink()
    assert "the storage lost 1 pack" in farm.pylayer(*words).stderr


def test_nothing_to_publish(user: User, tmp_path: Path) -> None:
    """Without exports, and where nothing was published, a line says so."""
    write_policy(user, f"file://{tmp_path}/www", user.public_key("key", "--new"))
    assert user.says("fleet", "publish", "--key", "key").startswith("Nothing was published to file://")


def injected(farm: User, code: str) -> subprocess.CompletedProcess[str]:
    """Runs a publication in a process that first runs this code."""
    started = farm.process(PUBLISH)
    begin = (
        "import os, signal, sys\nfrom pylayer.cli import main\nfrom pylayer.fleet.storage import Objects, Unavailable\n"
    )
    started["args"] = [sys.executable, "-P", "-c", f"{begin}{code}\nsys.exit(main.main())", *started["args"][3:]]
    return subprocess.run(**started, capture_output=True, timeout=120, check=False)


def test_a_publisher_is_stopped(farm: User) -> None:
    """SIGTERM ends a publication, which leaves no lock."""
    done = injected(farm, "Objects.read = lambda *_: os.kill(os.getpid(), signal.SIGTERM)")
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert not (www(farm) / "lock").exists()


def test_one_identity_that_fails(farm: User) -> None:
    """What the storage does not do for one identity keeps no other from being published."""
    (identity,) = (path.name for path in (www(farm) / "v1").iterdir())
    (www(farm) / "v1" / ("0" * 32)).mkdir()
    (www(farm) / "v1" / ("0" * 32) / "index").touch()
    fail = """
real = Objects.read
def read(self, path, most_bytes):
    if "000000" in path:
        raise Unavailable("out of order")
    return real(self, path, most_bytes)
Objects.read = read"""
    done = injected(farm, fail)
    assert (done.returncode, done.stderr) == (1, "pylayer: out of order\n")
    assert "Published: " in done.stdout and f"for identity {identity}" in done.stdout


def test_refused_export(farm: User) -> None:
    """An export that is refused is told in one line, with its name."""
    (farm.directory / "x").write_bytes(b"nonsense")
    done = farm.pylayer(*PUBLISH, "x")
    assert done.returncode == 1 and done.stderr.startswith("pylayer: x was refused: it is not signed")
    assert done.stderr.count("\n") == 1 and "Published: " in done.stdout
    assert "No such file" in farm.fails(*PUBLISH, "nothing")


# ---- what a user gets wrong --------------------------------------------------------------------------


KEY = f"pylayer-ed25519:{'A' * 43}="
PULL = ("fleet", "pull", "--identity", IDENTITY.name)


@pytest.mark.parametrize(
    ("url", "keys", "words", "says"),
    [
        ("", [], ["fleet", "pull"], "fleet.url"),
        ("http://127.0.0.1:1", [], PULL, "fleet.keys"),
        ("http://127.0.0.1:1", [], [*PULL[:3], "xyz"], "is no identity"),
        ("gopher://x", ["pylayer-ed25519:short"], ["fleet", "pull"], "a URL that begins with https://"),
        ("s3://bucket", [KEY], PULL, "pip install obstore"),
        ("http://127.0.0.1:1", [KEY], PULL, "the server cannot be reached"),
        ("http://127.0.0.1:1", [KEY], PUBLISH[:2] + PUBLISH[3:], "nothing more was published: .*can only be read"),
    ],
)
def test_what_a_user_gets_wrong(
    user: User, tmp_path: Path, url: str, keys: list[str], words: list[str], says: str
) -> None:
    """One line says what is missing or cannot work, here where obstore is missing, and nothing is made in the store."""
    (tmp_path / "obstore.py").write_text("raise ImportError('no module named obstore')\n")
    user.pylayer("key", "key", "--new")
    if url:
        write_policy(user, url, *keys)
    line = user.fails(*words, status=1 + (says == "is no identity"), PYTHONPATH=str(tmp_path))
    assert re.search(says, line) and not (user.store / "store").exists()


# ---- a pull -----------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path, user: User) -> Iterator[tuple[Faulty, Builder]]:
    """A server with one published pipeline for the user's device. The policy file names it."""
    builder = Builder(tmp_path / "b", identity=present(user.environment))
    builder.publish(1)
    with serving(builder.www) as server:
        write_policy(user, server.url, *builder.keys)
        yield server, builder


def test_run_pulls_nothing(user: User, served: tuple[Faulty, Builder]) -> None:
    """`pylayer run` asks no server: whoever wants that pulls before it. Nor does a pull without a driver."""
    server, _ = served
    done = user.pylayer("run", "--", "true")
    nowhere = {"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none"}
    assert "it is not known which pipelines fit" in user.fails("fleet", "pull", **nowhere)
    assert (done.returncode, done.stderr, server.requests) == (0, "", [])


def test_pulls_at_once(user: User, served: tuple[Faulty, Builder]) -> None:
    """Of several pulls that begin at once, one downloads, and the others use what it pulled."""
    server, builder = served
    started = user.process(("fleet", "pull"))
    pulls = [subprocess.Popen(**started, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    printed = [pull.communicate(timeout=120) for pull in pulls]
    assert sum(path.endswith(".pack") for path, _ in server.requests) == 1
    assert sum("Pulled: 1 record in 1 pack" in out for out, _ in printed) == 1
    assert sum("Nothing is missing" in out for out, _ in printed) == 5 and not [error for _, error in printed if error]
    assert Machine(user.store, builder.keys, builder.store.identity).numbers() == [1]


def test_units() -> None:
    """The systemd units start a command that exists, and the timer starts the service of its name."""
    parser = configparser.ConfigParser(interpolation=None)
    assert parser.read([ROOT / "config" / "pylayer-pull.service", ROOT / "config" / "pylayer-pull.timer"])
    lines = [parser["Service"][key].split() for key in ("ExecStart", "ExecStartPost")]
    assert {line[0] for line in lines} == {"%h/.local/bin/pylayer"}
    assert [line[1:] for line in lines] == [["fleet", "pull"], ["trim"]]
    assert parser["Timer"]["Persistent"] == "true" and parser["Install"]["WantedBy"] == "timers.target"


# ---- The demonstration ---------------------------------------------------------------------------


@pytest.mark.foreign
def test_a_new_driver_overnight() -> None:
    """A machine that pulls compiles nothing. Nor does it with a new driver, for which the builder compiled what it had
    recorded, without the program. Nor does one on which the program runs without the layer."""
    program = Path(__file__).with_name("demo.py")
    done = subprocess.run([sys.executable, "-P", program, "--count", "20"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" 0 compiled, 20 hits") == 3 and "20 of 20 pipelines" in done.stdout


# ---- The examples for GitHub and GitLab ----------------------------------------------------------


def github(job: Path) -> tuple[dict[str, str], str, Path]:
    """Returns the variables of the runner, the lines of all steps, and the store, which actions/cache keeps."""
    steps = yaml.safe_load((ROOT / "config" / "ci" / "github.yml").read_text())["jobs"]["vulkan"]["steps"]
    (cached,) = [step["with"]["path"] for step in steps if "actions/cache" in step.get("uses", "")]
    variables = {"RUNNER_TEMP": str(job / "temporary"), "GITHUB_PATH": str(job / "path")}
    (job / "temporary").mkdir()
    lines = "\n".join(step["run"] for step in steps if "run" in step)
    return variables | {"KEY": (job.parent / "key").read_text()}, lines, Path(cached.replace("~", str(job / "home")))


def gitlab(job: Path) -> tuple[dict[str, str], str, Path]:
    """As ``github``. GitLab's cache has the store, and the checkout may be written to by all."""
    example = yaml.safe_load((ROOT / "config" / "ci" / "gitlab.yml").read_text())["vulkan"]
    project = job / "project"
    shutil.copy(job.parent / "key", job / "key")
    for path in (project, project / "pylayer.yaml", job / "key"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    variables = {"CI_PROJECT_DIR": str(project), "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}
    variables |= {"PYLAYER_KEY": str(job / "key"), "PYLAYER_STORE": str(project / ".pylayer")}
    assert example["variables"] == {"PYLAYER_STORE": "$CI_PROJECT_DIR/.pylayer"}
    assert example["cache"]["paths"] == [".pylayer/"]
    return variables, "\n".join(example["before_script"] + example["script"]), project / ".pylayer"


def run_job(user: User, number: int, runner: Callable[[Path], Any], restored: bool, count: int) -> tuple[int, int]:
    """Runs a job on a machine that begins it anew, with what the job before left in the cache or with nothing. Returns
    how many of the program's pipelines were hits, and how many were compiled."""
    job, cache = user.directory / str(number), user.directory / "cache.tar"
    (job / "home").mkdir(parents=True)
    (job / "project").mkdir()
    shutil.copy(user.directory / "pylayer.yaml", job / "project")
    program = job / "project" / "demo-app"
    program.write_text(f"#!/bin/sh\nexec {DEMO} --count {count}\n")
    program.chmod(0o755)
    variables, text, store = runner(job)
    kept = [line for line in text.splitlines() if "venv" not in line and "bin/pip" not in line]
    variables |= {"HOME": str(job / "home"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    given = {name: value for name, value in user.environment.items() if not name.startswith("XDG_")} | variables
    if restored:
        subprocess.run(["tar", "-xPf", cache], check=True)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "umask 0\n" * (runner is gitlab) + "\n".join(kept)],
        env=given, cwd=job / "project", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "for identity" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    # The next job's store is where this one's was.
    following = str(store).replace(str(job), str(job.parent / str(number + 1)))
    subprocess.run(["tar", "-cPf", cache, f"--transform=s,^{store},{following},", store], check=True)
    (total,) = user.json("stats", PYLAYER_STORE=str(store))["programs"]
    return int(total["hits"]), int(total["compiled"])


@pytest.mark.parametrize("runner", [github, gitlab])
def test_jobs(user: User, runner: Callable[[Path], Any]) -> None:
    """The first job compiles and publishes, and the second has the store of the first. The third has lost the cache,
    pulls what the first published, and publishes what the program creates since then. The fourth pulls both."""
    user.pylayer("key", "key", "--new")
    public = user.public_key("key")
    fleet = f"{{url: 'file://{user.directory}/www', keys: [{{name: ci, key: '{public}'}}]}}"
    (user.directory / "pylayer.yaml").write_text(f"fleet: {fleet}\n")
    assert run_job(user, 1, runner, restored=False, count=20) == (0, 20)
    assert run_job(user, 2, runner, restored=True, count=20) == (20, 20)
    assert run_job(user, 3, runner, restored=False, count=30) == (20, 10)
    assert run_job(user, 4, runner, restored=False, count=30) == (30, 0)
