"""A real S3 server: Ceph's radosgw, with one monitor and one object store in memory, on loopback ports.

The Debian packages are radosgw, ceph-mon, ceph-osd and ceph-common. Nothing of it survives the test.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleet.fleets import free_port

PROGRAMS = ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph", "ceph-authtool", "monmaptool")
ACCESS, SECRET = "fleet-access", "fleet-secret"

CONFIG = """
[global]
fsid = {fsid}
mon host = {monitor}
keyring = {directory}/keyring
osd max object name len = 256
run dir = {directory}
admin socket = {directory}/$name.asok
log file = {directory}/$name.log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
[mon.a]
mon data = {directory}/mon
[osd]
keyring = {directory}/keyring
[osd.0]
osd data = {directory}/osd
osd objectstore = memstore
memstore device bytes = 1073741824
public addr = 127.0.0.1
cluster addr = 127.0.0.1
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = {directory}/rgw
"""


def missing() -> str:
    """Returns the programs that are not installed."""
    return ", ".join(name for name in PROGRAMS if shutil.which(name) is None)


@dataclass
class Server:
    """The server's URL, and the environment with which obstore finds it."""

    url: str
    environment: dict[str, str]


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


class _Cluster:
    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self.directory = directory
        self._stack = stack
        self._config = directory / "ceph.conf"

    def run(self, *words: object) -> str:
        """Runs a command to its end; returns its output."""
        command = [str(words[0]), "-c", str(self._config), *map(str, words[1:])]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts a daemon that ends with the test."""
        command = [words[0], "-c", str(self._config), *words[1:], "-f"]
        with (self.directory / f"{words[0]}.out").open("wb") as out:
            process = subprocess.Popen(command, cwd=self.directory, stdout=out, stderr=out)
        self._stack.callback(lambda: (process.kill(), process.wait(60)))
        return process

    def build(self, port: int) -> None:
        """Makes a cluster, and starts its monitor and object store."""
        fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
        monitor = f"[v2:127.0.0.1:{free_port()},v1:127.0.0.1:{free_port()}]"
        self._config.write_text(CONFIG.format(fsid=fsid, monitor=monitor, directory=self.directory, port=port))
        for name in ("mon", "osd", "rgw"):
            (self.directory / name).mkdir()
        for name in ("mon.", "client.admin", "client.rgw", "osd.0"):
            rights = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
            new = ("--create-keyring",) if name == "mon." else ()
            self.run("ceph-authtool", "keyring", *new, "--gen-key", "-n", name, *rights)
        self.run("monmaptool", "--create", "--addv", "a", monitor, "--fsid", fsid, "monmap")
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap", "--keyring", "keyring")
        self.start("ceph-mon", "-i", "a")
        self.run("ceph", "osd", "new", osd)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.run("ceph", "osd", "crush", "add", "osd.0", "1.0", "host=here", "root=default")
        self.start("ceph-osd", "-i", "0")


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Server]:
    """Starts everything, and yields when the server answers."""
    with contextlib.ExitStack() as stack:
        cluster, port = _Cluster(directory, stack), free_port()
        cluster.build(port)
        process = cluster.start("radosgw", "-n", "client.rgw", "--keyring", str(directory / "keyring"))
        url = f"http://127.0.0.1:{port}"
        for _ in range(1200):
            assert process.poll() is None, (directory / "radosgw.out").read_text()[-2000:]
            if _answers(url):
                break
            time.sleep(0.1)
        keys = (f"--access-key={ACCESS}", f"--secret-key={SECRET}")
        cluster.run("radosgw-admin", "-n", "client.rgw", "user", "create", "--uid=f", "--display-name=fleet", *keys)
        variables = {"ENDPOINT_URL": url, "ACCESS_KEY_ID": ACCESS, "SECRET_ACCESS_KEY": SECRET, "REGION": "default"}
        yield Server(url, {f"AWS_{name}": value for name, value in variables.items()} | {"AWS_ALLOW_HTTP": "true"})
