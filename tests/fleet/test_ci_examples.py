"""config/ci: the shell lines of the examples for GitHub and GitLab, run as their runners run them.

Only the lines that install the wheel are left out: `make check-wheel` tests one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.user import DEMO, User
from world import ROOT


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
