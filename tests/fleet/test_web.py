"""How a machine reads from a web server that may be anybody's: bounded, to one host, without telling secrets."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.stores import IDENTITY
from cli.user import User
from fleet.faulty import Answer, Faulty, only, serving
from fleet.fleets import Builder, Machine

from pylayer.fleet.index import MAX_INDEX_BYTES

INDEX = f"v1/{IDENTITY.name}/index"
SECRET = "hunter2"


@pytest.fixture
def server(builder: Builder) -> Iterator[Faulty]:
    """Serves what the builder publishes."""
    builder.publish(1, 2)
    with serving(builder.www) as served:
        yield served


def endless() -> Iterator[bytes]:
    """A body that never ends."""
    return itertools.repeat(bytes(1 << 16))


def chunks(data: Iterator[bytes]) -> Iterator[bytes]:
    return (b"%x\r\n%s\r\n" % (len(piece), piece) for piece in data)


# ---- bounded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 500])
def test_body_of_an_error(server: Faulty, machine: Machine, status: int) -> None:
    """The body of an error is not read, however long it is and whatever is in it: its status is told."""
    server.fault = only("index", lambda path, answer: Answer(status, None, itertools.chain([b"\xff\xfe"], endless())))
    result = machine.pull(server.url)
    assert (str(status) in result.problem) == (status != 404), result
    assert server.sent < 64 << 20


def test_chunks_that_never_end(server: Faulty, machine: Machine) -> None:
    """Of an index in chunks without an end no more is read than an index can have, whatever Content-Length says."""
    headers = {"Transfer-Encoding": "chunked"}
    server.fault = only("index", lambda path, answer: Answer(200, 100, chunks(endless()), headers))
    assert str(MAX_INDEX_BYTES) in machine.pull(server.url).problem
    assert server.sent < 64 << 20


def test_pack_in_chunks_that_never_end(server: Faulty, machine: Machine) -> None:
    """Of a pack in chunks without an end no more is read than the index says."""
    headers = {"Transfer-Encoding": "chunked"}
    server.fault = only(".pack", lambda path, answer: Answer(200, None, chunks(endless()), headers))
    assert "more than the" in machine.pull(server.url).problem
    assert server.sent < 64 << 20


@pytest.mark.parametrize("chunked", [False, True])
def test_no_content_length(server: Faulty, machine: Machine, chunked: bool) -> None:
    """A server that does not announce sizes is read from."""

    def unannounced(path: str, answer: Answer) -> Answer:
        if not chunked:
            return Answer(answer.status, None, answer.body, answer.headers)
        body = [*chunks(iter(answer.body)), b"0\r\n\r\n"]
        return Answer(answer.status, None, body, {"Transfer-Encoding": "chunked"})

    server.fault = unannounced
    assert machine.pull(server.url).problem == "" and machine.numbers() == [1, 2]


def test_endless_head(server: Faulty, user: User) -> None:
    """A server that says for ever that the answer is about to come is left when the time of the pull is over."""
    policy = user.home / ".config" / "pylayer" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text(f"fleet: {{url: '{server.url}', keys: [{{name: x, key: 'pylayer-ed25519:{'A' * 43}='}}]}}\n")
    again = itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")
    server.fault = lambda path, answer: Answer(100, None, again)
    started = user.process(("fleet", "pull", "--identity", IDENTITY.name))
    code = "import sys; from pylayer.cli import fleet, main; fleet.PULL_SECONDS = 1; sys.exit(main.main())"
    started["args"] = [sys.executable, "-P", "-c", code, *started["args"][3:]]
    done = subprocess.run(**started, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1 and ("too slow" in done.stderr or "longer than 1 s" in done.stderr), done.stderr


# ---- one host ----------------------------------------------------------------------------------------


def test_redirect(tmp_path: Path, server: Faulty, machine: Machine) -> None:
    """A redirect is not followed: credentials go to no other server."""
    with serving(tmp_path) as other:
        target = {"Location": f"{other.url}/{INDEX}"}
        server.fault = lambda path, answer: Answer(302, None, endless(), target)
        assert "status 302; redirects are not followed" in machine.pull(server.url).problem
        assert other.requests == [] and server.sent < 64 << 20


def test_impossible_server(machine: Machine) -> None:
    """A server with a name that no server can have is one line."""
    assert "UnicodeError" in machine.pull(f"http://{'a' * 70}.example/fleet").problem


def test_proxy(server: Faulty, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names is asked, with the credentials that the environment has for it."""
    monkeypatch.setenv("http_proxy", server.url.replace("http://", f"http://user:{SECRET}@"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    machine.pull("http://pylayer.invalid/fleet")
    assert server.requests[0][0] == f"http://pylayer.invalid/fleet/{INDEX}"
    assert server.headers["Proxy-Authorization"] == "Basic dXNlcjpodW50ZXIy"


# ---- secrets -----------------------------------------------------------------------------------------


def test_authorization(server: Faulty, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that asks for credentials gets those of the environment. They are in no message and no file."""

    def guarded(path: str, answer: Answer) -> Answer:
        return answer if server.headers.get("Authorization") == f"Bearer {SECRET}" else Answer(401, 0, [])

    server.fault = guarded
    assert "PYLAYER_FLEET_AUTHORIZATION" in machine.pull(server.url).problem
    monkeypatch.setenv("PYLAYER_FLEET_AUTHORIZATION", "Bearer wrong")
    assert "wrong" not in machine.pull(server.url).problem
    monkeypatch.setenv("PYLAYER_FLEET_AUTHORIZATION", f"Bearer {SECRET}")
    assert machine.pull(server.url).problem == ""
    assert not [path for path in machine.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("url", ["http://user:hunter2@127.0.0.1:1/x", "http://127.0.0.1:1/?token=hunter2"])
def test_credentials_in_the_url(user: User, url: str) -> None:
    """A URL with credentials is refused, and none of them is printed or written anywhere."""
    policy = user.home / ".config" / "pylayer" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text(f"fleet: {{url: '{url}'}}\n")
    printed = []
    for command in ("fleet pull", "policy check"):
        done = user.pylayer(*command.split())
        assert done.returncode != 0
        printed.append(done.stdout + done.stderr)
    printed.append(user.pylayer("run", "--", "true").stderr)
    assert not [text for text in printed if SECRET in text]
    assert not [path for path in user.store.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
