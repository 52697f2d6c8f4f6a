"""config/containers: the image and the Kubernetes manifests, run with podman: ``make containers``, as root on Debian.

The image is built from Containerfile and the wheel of dist/, on a ``debian:12`` that mmdebstrap makes if there is none.
No cluster is needed. The test does to volumes what a kubelet does: it gives each file of a volume to fsGroup and lets
this group write to it, before each pod, and makes directories of ConfigMaps and Secrets.

PODMAN, PODMAN_BUILD and PODMAN_RUN: the command and options that this machine needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.user import DEMO
from fleet.fleets import nginx
from world import ROOT, driver_environment

FILES = ROOT / "config" / "containers"
PODMAN = shlex.split(os.environ.get("PODMAN", "podman"))
DRIVER = {name: value for name, value in driver_environment("radv").items() if not name.endswith(("_FILES", "NAMES"))}
COUNT = 20
APP = f"#!/bin/sh\nexec /usr/local/bin/pipelines --count {COUNT}\n"
#: What the unchanged image has: a driver, and neither Python nor pylayer.
UNCHANGED = """FROM debian:12
RUN apt-get update && apt-get install --yes --no-install-recommends libvulkan1 mesa-vulkan-drivers
COPY demo-app pipelines /usr/local/bin/
CMD ["demo-app"]
"""


def podman(*arguments: Any, status: int = 0) -> str:
    """Runs podman, and checks its exit status. Returns what was printed."""
    done = subprocess.run([*PODMAN, *map(str, arguments)], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == status, f"{arguments}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def run_options(**environment: str) -> list[str]:
    given = [f"--env={name}={value}" for name, value in (DRIVER | environment).items()]
    return [*shlex.split(os.environ.get("PODMAN_RUN", "")), "--read-only", "--cap-drop=all", *given]


def build(directory: Path, tag: str, file: Path) -> None:
    options = shlex.split(os.environ.get("PODMAN_BUILD", ""))
    podman("build", *options, "--network=host", "--layers", f"--file={file}", f"--tag={tag}", directory)


@pytest.fixture(scope="module", autouse=True)
def images(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The images of the manifests."""
    assert os.geteuid() == 0 and list((ROOT / "dist").glob("*-cp311-*.whl")), "needs root, and the wheel for Debian 12"
    directory = tmp_path_factory.mktemp("images")
    if subprocess.run([*PODMAN, "image", "exists", "debian:12"], check=False).returncode:
        base = directory / "base.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "bookworm", base], check=True)
        podman("import", base, "docker.io/library/debian:12")
        base.unlink()
    build(ROOT / "dist", "pylayer", FILES / "Containerfile")
    shutil.copy(DEMO, directory)
    (directory / "demo-app").write_text(APP)
    (directory / "demo-app").chmod(0o755)
    for tag, text in (
        ("demo-app", UNCHANGED),
        ("demo-app-pylayer", 'FROM pylayer\nCOPY demo-app pipelines /usr/local/bin/\nCMD ["demo-app"]\n'),
    ):
        (directory / "Containerfile").write_text(text)
        build(directory, tag, directory / "Containerfile")


def totals(store: str, *options: str) -> dict[str, int]:
    """Returns the statistics of the only program of a store, which is a volume."""
    arguments = ("--network=none", f"--volume={store}", "--entrypoint=pylayer", *options, "pylayer", "stats", "--json")
    text = podman("run", "--rm", *run_options(), *arguments)
    (total,) = json.loads(text[text.index("{") :])["programs"]
    return {name: total[name] for name in ("runs", "hits", "compiled")}


# ---- The image ------------------------------------------------------------------------------------


@contextlib.contextmanager
def container(*arguments: str) -> Iterator[str]:
    """Starts a container; yields its number. Removes it."""
    number = podman("run", "--detach", *run_options(), *arguments).split()[-1]
    try:
        yield number
    finally:
        podman("rm", "--force", number)


def test_store_on_a_volume() -> None:
    """The second container of a user who is not root, with a read-only file system and no network, compiles nothing."""
    volume = "pylayer-test-volume"
    podman("volume", "rm", "--force", volume)
    for _ in range(2):
        podman(
            "run", "--rm", *run_options(), "--network=none", f"--volume={volume}:/var/lib/pylayer", "demo-app-pylayer"
        )
    assert totals(f"{volume}:/var/lib/pylayer") == {"runs": 2, "hits": COUNT, "compiled": COUNT}
    podman("volume", "rm", volume)


def test_exit_status() -> None:
    """The container's exit status is the program's."""
    podman("run", "--rm", *run_options(), "--network=none", "pylayer", "sh", "-c", "exit 7", status=7)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(number: signal.Signals) -> None:
    """A signal to the container reaches the program."""
    script = f"trap 'exit 9' {number.value}; echo ready; while :; do sleep 0.1; done"
    with container("--network=none", "pylayer", "sh", "-c", script) as name:
        while "ready" not in podman("logs", name):
            time.sleep(0.1)
        podman("kill", f"--signal={number.value}", name)
        assert podman("wait", name).split() == ["9"]


# ---- The manifests --------------------------------------------------------------------------------


class Cluster:
    """The objects of kubernetes.yaml, and volumes below a directory."""

    def __init__(self, directory: Path, url: str, public: str, key: bytes) -> None:
        self.directory = directory
        text = (FILES / "kubernetes.yaml").read_text()
        changed = text.replace("https://pipelines.example.com", url).replace("pylayer-ed25519:...", public)
        self.objects = {found["kind"]: found for found in yaml.safe_load_all(changed)}
        self.data = {
            "pylayer": {name: value.encode() for name, value in self.objects["ConfigMap"]["data"].items()},
            "pylayer-builder": {"builder.key": key},
        }

    def _volume(self, volume: dict[str, Any], group: int) -> Path:
        """Makes a volume as a kubelet does before it starts a pod."""
        source = volume.get("persistentVolumeClaim", {}).get("claimName")
        path = self.directory / (source or volume["name"])
        if source is None:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(exist_ok=True)
        if source is None:
            path.chmod(0o777)
        made = volume.get("configMap", {}).get("name") or volume.get("secret", {}).get("secretName")
        mode = volume.get("secret", {}).get("defaultMode", 0o644)
        for name, data in self.data.get(made, {}).items():
            (path / name).write_bytes(data)
            (path / name).chmod(mode)
        mask = 0o440 if made else 0o660
        for found in (path, *path.rglob("*")):
            status = found.lstat()
            os.chown(found, status.st_uid, group, follow_symlinks=False)
            found.chmod(status.st_mode & 0o7777 | mask | (0o2110 if found.is_dir() else 0))
        return path

    def run(self, pod: dict[str, Any], again: bool = False) -> str:
        """Runs the containers of a pod, the initial ones first. ``again``: as after a crash of its program, which keeps
        the volumes. Returns what the last one printed."""
        context = pod["securityContext"]
        group, printed = context["fsGroup"], ""
        assert context["runAsNonRoot"] and context["runAsUser"] == context["runAsGroup"] == group
        if not again:
            self.volumes = {volume["name"]: self._volume(volume, group) for volume in pod["volumes"]}
        for found in [*([] if again else pod.get("initContainers", [])), *pod["containers"]]:
            own = found["securityContext"]
            assert own["readOnlyRootFilesystem"] and own["capabilities"] == {"drop": ["ALL"]}
            mounts = []
            for mount in found["volumeMounts"]:
                place = self.volumes[mount["name"]] / mount.get("subPath", "")
                mounts.append(f"--volume={place}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}")
            command = found.get("command", [])
            printed = podman(
                "run", "--rm", *run_options(**{pair["name"]: pair["value"] for pair in found["env"]}), *mounts,
                "--read-only-tmpfs=false", "--security-opt=no-new-privileges", "--network=host",
                f"--user={context['runAsUser']}:{context['runAsGroup']}",
                *([f"--entrypoint={json.dumps(command[:1])}"] if command else []), found["image"], *command[1:],
            )  # fmt: skip
        return printed


def test_manifests(tmp_path: Path) -> None:
    """The job compiles and publishes, twice, because a volume has other modes the second time. The program in its
    unchanged image pulls that, and compiles nothing, also when it is started again. Without the fleet it compiles."""
    keys = tmp_path / "keys"
    keys.mkdir()
    keys.chmod(0o777)
    options = (*run_options(), "--network=none", f"--volume={keys}:/keys", "--entrypoint=pylayer", "pylayer")
    podman("run", "--rm", *options, "key", "/keys/key", "--new")
    public = podman("run", "--rm", *options, "key", "/keys/key").rpartition(": ")[2].strip()
    www = tmp_path / "pylayer-fleet"
    www.mkdir()
    with nginx(tmp_path / "nginx", www) as url:
        cluster = Cluster(tmp_path, url, public, (keys / "key").read_bytes())
        job = cluster.objects["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert "Published: 20 new records" in cluster.run(job)
        assert "Published: 0 new records" in cluster.run(job)
        pod = cluster.objects["Deployment"]["spec"]["template"]["spec"]
        cluster.run(pod)
        cluster.run(pod, again=True)
        options = ("--env=PYLAYER_STORE=/cache/pylayer", "--user=1000:1000")
        assert totals(f"{cluster.volumes['cache']}:/cache", *options) == {"runs": 2, "hits": 2 * COUNT, "compiled": 0}
    printed = cluster.run(pod)
    assert f"{COUNT} of {COUNT} pipelines" in printed and "pylayer: " not in printed
