"""A fleet for tests: a builder with a directory as storage, machines that pull from it, and nginx in between."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.stores import GAME, IDENTITY, Store, cell, name_of
from cli.user import User
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from unit.things import program_id
from world import ROOT

from pylayer.common.files import Scratch
from pylayer.common.identity import Identity
from pylayer.common.settings import Limits
from pylayer.fleet.index import Index, parse
from pylayer.fleet.publishing import Published, publish
from pylayer.fleet.pulling import Pull, Pulled, make_folder
from pylayer.fleet.signatures import append_signature, index_payload, public_of, signed_index
from pylayer.fleet.storage import Objects, open_to_read, open_to_write
from pylayer.fleet.trust import Untrusted
from pylayer.store.store import Store as Face


def write_policy(user: User, url: str, *keys: str) -> None:
    """Writes a policy file with a fleet."""
    listed = ", ".join(f"{{name: key {number}, key: '{key}'}}" for number, key in enumerate(keys))
    user.policy_file.write_text(f"fleet: {{url: '{url}', keys: [{listed}]}}\n")


class Builder:
    """A machine that compiles, exports and publishes into a directory."""

    def __init__(self, directory: Path, www: Path | None = None, identity: Identity = IDENTITY) -> None:
        self.www = www or directory / "www"
        self.url = f"file://{self.www}"
        self.store = Store(directory / "builder", identity)
        self.face = Face(str(self.store.root))
        #: Exports that are to be published.
        self.exports = directory / "exports"
        self.exports.mkdir(exist_ok=True)
        #: Why exports were refused.
        self.refused: list[str] = []
        self.key = Ed25519PrivateKey.generate()
        self.keys = {public_of(self.key): "builder"}

    @property
    def place(self) -> Path:
        return self.www / "v1" / self.store.identity.name

    @property
    def storage(self) -> Objects:
        return open_to_write(self.url)

    def export(self, *numbers: int, program: tuple[str, str] = GAME) -> Path:
        """Compiles pipelines with these numbers, and exports all of the program. Returns the export."""
        if numbers:
            self.store.journal(program, *(cell(number, identity=self.store.identity) for number in numbers))
        names = {program_id(*program): name_of(program)}
        path = self.exports / f"{time.time_ns()}.pylayer"
        list(self.face.export(self.store.identity, names, "A device").steps(str(path)))
        append_signature(str(path), self.key)
        return path

    def publish_all(
        self, keys: Mapping[str, str] | None = None, export_keys: Mapping[str, str] | None = None
    ) -> list[Published]:
        """Publishes the exports, and deletes those that were not refused."""
        trusted = self.keys if keys is None else keys, self.keys if export_keys is None else export_keys
        exports = sorted(map(str, self.exports.iterdir()))
        with Scratch(str(self.store.root)) as work:
            results, self.refused = publish(self.storage, work, self.key, trusted, exports)
        for path in exports:
            if not any(text.startswith(path) for text in self.refused):
                os.unlink(path)
        return results

    def publish(self, *numbers: int, program: tuple[str, str] = GAME, **terms: Any) -> Published:
        """Exports pipelines, if any are given, and publishes. Raises Untrusted if nothing was published."""
        if numbers:
            self.export(*numbers, program=program)
        results = [one for one in self.publish_all(**terms) if one.identity == self.store.identity.name]
        if any(result.problem for result in results):
            raise Untrusted(results[0].problem)
        return results[0] if results else Published(self.store.identity.name)

    @property
    def index(self) -> Index:
        """What is published."""
        return parse(index_payload((self.place / "index").read_bytes())[0])

    def replace_index(self, **changes: Any) -> None:
        """Puts another index in place: the present one with changes."""
        changed = dataclasses.replace(self.index, **changes)
        (self.place / "index").write_bytes(signed_index(changed.payload(), self.key))


class Machine:
    """A machine that pulls."""

    def __init__(self, directory: Path, keys: Mapping[str, str], identity: Identity = IDENTITY) -> None:
        self.root = directory
        self.identity = identity
        self.keys = dict(keys)
        directory.mkdir(parents=True, exist_ok=True)

    def pull(self, url: str, limits: Limits | None = None) -> Pulled:
        make_folder(str(self.root), url)
        work = Pull(open_to_read(url), Face(str(self.root)), self.identity.name, self.keys)
        work.plan()
        list(work.steps(1 << 40 if limits is None else limits.max_store))
        return work.result

    def numbers(self, program: tuple[str, str] = GAME) -> list[int]:
        """Returns the numbers of the pipelines that a run of the program would load."""
        return Store(self.root, self.identity).loaded(program) if (self.root / "store").exists() else []

    def files(self) -> dict[str, bytes]:
        """Returns the files of the store, without what is remembered of fleets."""
        base = self.root / "store"
        return {str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()}


@contextlib.contextmanager
def nginx(directory: Path, www: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serves a directory with nginx, as docs/fleets.md shows it, or over HTTPS with a certificate and its key; yields
    the URL."""
    directory.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    block = re.search(r"```nginx\n(.*?)```", (ROOT / "docs" / "fleets.md").read_text(), re.S)
    assert block is not None
    server = block[1].replace("/srv/pylayer", str(www)).replace("listen 8080;", f"listen 127.0.0.1:{port};")
    if certificate is not None:
        files = f"ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]};"
        server = server.replace(f"{port};", f"{port} ssl; {files}")
    temporary = "\n".join(
        f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = directory / "nginx.conf"
    config.write_text(
        f"daemon off; pid {directory}/pid; error_log {directory}/error.log; worker_processes 1;\n"
        f"events {{}}\nhttp {{\naccess_log {directory}/access.log;\n{temporary}\n{server}}}\n"
    )
    www.parent.chmod(0o755)
    if www.stat().st_uid == 0:  # nginx's worker is another user, and the test's directories are root's alone
        config.write_text("user root;\n" + config.read_text())
    process = subprocess.Popen(["/usr/sbin/nginx", "-c", config, "-p", directory], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            assert process.poll() is None, (directory / "error.log").read_text()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            time.sleep(0.05)
        yield f"http{'s' if certificate else ''}://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def certificate(directory: Path) -> tuple[Path, Path]:
    """Returns a certificate for 127.0.0.1 that no authority issued, and its key."""
    made, key = directory / "authority.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=server -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-out", made, "-keyout", key], check=True, capture_output=True)
    return made, key
