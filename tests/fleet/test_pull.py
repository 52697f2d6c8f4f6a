"""``pylayer fleet pull`` from nginx, configured as docs/fleets.md shows it, from a directory, and from servers that
fail, lie or are anybody's."""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import others
import pytest
from cli.stores import GAME, IDENTITY, OLD_DRIVER, TOOL, Store, cell, cell_data
from cli.user import User
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleet.faulty import Answer, Fault, Faulty, cut, dripping, failing, flipped, only, serving
from fleet.fleets import Builder, Machine, certificate, nginx, write_policy
from unit.things import flip, program_id

from pylayer.common.file_kinds import TEMPORARY
from pylayer.common.settings import Limits
from pylayer.fleet.index import MAX_INDEX_BYTES
from pylayer.fleet.signatures import public_of
from pylayer.fleet.storage import Unavailable
from pylayer.store import bounds, format
from pylayer.store.checking import Trim
from pylayer.store.pack import PackWriter
from pylayer.store.reader import Reader


def requests(directory: Path) -> list[str]:
    """Returns the requests that nginx answered: method, path and status."""
    lines = (directory / "access.log").read_text().splitlines()
    return [f"{line.split()[5][1:]} {line.split()[6]} {line.split()[8]}" for line in lines if '"GET / ' not in line]


@pytest.mark.foreign
def test_empty_machine(tmp_path: Path, builder: Builder, machine: Machine) -> None:
    """An empty machine has everything that is published after one pull. A second one downloads the index alone. The
    documented server gives packs for ever and the index until asked again, shows nothing else, and writes nothing."""
    builder.publish(*range(20))
    builder.publish(*range(20, 30), program=TOOL)
    with nginx(tmp_path / "nginx", builder.www) as url:
        result = machine.pull(url)
        assert (result.packs, result.records, result.problem) == (2, 30, "")
        assert machine.numbers() == list(range(20)) and machine.numbers(TOOL) == list(range(20, 30))
        before = machine.files()
        again = machine.pull(url)
        assert (again.packs, again.bytes, again.left, again.problem) == (0, 0, 0, "")
        assert machine.files() == before
        index = f"GET /{INDEX} 200"
        assert [line for line in requests(tmp_path / "nginx") if ".pack" not in line] == [index, index]
        pack = f"{url}/v1/{IDENTITY.name}/{builder.index.packs[0].name}"
        with urllib.request.urlopen(pack) as answer:
            assert "immutable" in answer.headers["Cache-Control"]
        with urllib.request.urlopen(f"{url}/{INDEX}") as answer:
            assert answer.headers["Cache-Control"] == "no-cache" and answer.headers["ETag"]
        (builder.www / "lock").touch()
        for hidden in ("lock", "", f"v1/{IDENTITY.name}/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{url}/{hidden}")
        for method in ("PUT", "DELETE", "POST"):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(urllib.request.Request(pack, b"x", method=method))


@pytest.mark.foreign
def test_https(tmp_path: Path, builder: Builder, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTPS nothing is read from a server whose certificate is not trusted, and the line says so."""
    builder.publish(1)
    authority, key = certificate(tmp_path)
    with nginx(tmp_path / "nginx", builder.www, (authority, key)) as url:
        assert "certificate is not trusted" in machine.pull(url).problem and machine.numbers() == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert machine.pull(url).problem == "" and machine.numbers() == [1]


def test_nothing_published(builder: Builder, machine: Machine) -> None:
    """If nothing is published for a machine's driver, that is no problem, and nothing is made in the store."""
    builder.publish(1)
    other = Machine(machine.root, machine.keys, OLD_DRIVER)
    result = other.pull(builder.url)
    assert (result.published, result.problem) == (False, "") and not (machine.root / "store").exists()


# ---- what is there decides ---------------------------------------------------------------------------


def delete_packs(machine: Machine) -> None:
    for path in machine.root.glob("store/*/*.pack"):
        path.unlink()


def damage_packs(machine: Machine) -> None:
    """A bit of a record flips, and a run takes the record out."""
    for path in machine.root.glob("store/*/*.pack"):
        flip(path, 1000)
    Store(machine.root).mend()


def evict(machine: Machine) -> None:
    """Of a pack, a part is evicted, and the rest is in another file."""
    list(bounds.Eviction(str(machine.root), 5000).steps())


@pytest.mark.parametrize("lose", [delete_packs, damage_packs, evict])
def test_what_is_gone_is_pulled_again(builder: Builder, machine: Machine, lose: Callable[[Machine], None]) -> None:
    """Packs that were pulled and are not whole in the store any more are missing, whatever became of them. What is
    there is not pulled again."""
    builder.publish(1, 2, 3)
    builder.publish(4, 5, 6)
    machine.pull(builder.url)
    assert machine.pull(builder.url).packs == 0
    lose(machine)
    assert machine.numbers() != [1, 2, 3, 4, 5, 6]
    assert machine.pull(builder.url).packs > 0
    assert sorted(set(machine.numbers())) == [1, 2, 3, 4, 5, 6] and machine.pull(builder.url).packs == 0


@pytest.mark.parametrize("data", [b"{" * 60000, b"", b"\xff"])
def test_damaged_memory(builder: Builder, machine: Machine, data: bytes) -> None:
    """What a machine remembers may be anything: the next pull does what is to be done."""
    builder.publish(1, 2)
    machine.pull(builder.url)
    (path,) = (machine.root / "fleet").rglob("*.index")
    path.write_bytes(data)
    assert machine.pull(builder.url).problem == "" and machine.numbers() == [1, 2]


def test_compaction_leave_pulled_packs(builder: Builder, machine: Machine) -> None:
    """A compaction does not take in what was pulled, or it would be pulled again. Once another pack has it, a
    compaction does, and equal content is stored once."""
    builder.publish(1, 2)
    machine.pull(builder.url)
    store = Store(machine.root)
    before = machine.files()
    store.journal(GAME, cell(3))
    list(Trim(machine.root, Limits(1 << 40)).steps())
    assert before.items() <= machine.files().items() and machine.pull(builder.url).packs == 0
    builder.replace_index(packs=(), number=builder.index.number + 1)
    machine.pull(builder.url)
    list(Trim(machine.root, Limits(1 << 40)).steps())
    assert len(list(machine.root.glob("store/*/*.pack"))) == 1 and machine.numbers() == [1, 2, 3]


# ---- limits of the store -----------------------------------------------------------------------------


def test_store_limit(builder: Builder, machine: Machine) -> None:
    """A pull adds no more than the store may have, and says what has no room. It does not pull that each time to evict
    it again."""
    limits = Limits(30_000)
    for first in range(0, 60, 10):
        builder.publish(*range(first, first + 10))
    result = machine.pull(builder.url, limits=limits)
    assert "max_store_mib" in result.problem and result.left > 0
    assert 0 < Store(machine.root).sizes() <= 30_000
    before = machine.files()
    assert machine.pull(builder.url, limits=limits).packs == 0 and machine.files() == before


def test_pulled_records(builder: Builder, machine: Machine) -> None:
    """A pulled pipeline is marked, was never used here, and keeps the time that compiling it took."""
    builder.publish(7)
    machine.pull(builder.url)
    (path,) = Store(machine.root).folder.files(None, (".pack",))
    (record,) = (
        one for part in Reader(path).verified(IDENTITY.digest, []) for one in part.records if one.magic == b"CELL"
    )
    assert (record.flags, record.create_ns, record.last_used) == (format.PULLED, 2_000_000, format.NEVER_USED)


@pytest.mark.parametrize("last_used", [0, 1 << 40])
def test_pulled_goes_before_unknown(builder: Builder, machine: Machine, last_used: int) -> None:
    """What this machine compiled while its clock was wrong is evicted after what was pulled and not used."""
    builder.publish(*range(20))
    machine.pull(builder.url)
    store = Store(machine.root)
    store.journal(GAME, *(cell(number, last_used=last_used) for number in range(100, 110)))
    store.pack()
    list(bounds.Eviction(str(machine.root), 20_000).steps())
    assert set(range(100, 110)) <= set(machine.numbers())
    assert len(machine.numbers()) < 30


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_private_files(builder: Builder, machine: Machine, mask: int) -> None:
    """What a pull writes is for its user alone, and for the user's next pull, whatever the umask."""
    builder.publish(1)
    with others.umask(mask):
        machine.pull(builder.url)
    assert {path.stat().st_mode & 0o777 for path in machine.root.rglob("*")} == {0o600, 0o700}


# ---- A web server that may be anybody's ----------------------------------------------------------


INDEX = f"v1/{IDENTITY.name}/index"
SECRET = "hunter2"


@pytest.fixture
def faulty(builder: Builder) -> Iterator[Faulty]:
    """Serves what the builder publishes."""
    with serving(builder.www) as served:
        yield served


@pytest.fixture
def server(builder: Builder, faulty: Faulty) -> Faulty:
    """The same, and two pipelines are published."""
    builder.publish(1, 2)
    return faulty


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


@pytest.mark.parametrize(
    ("suffix", "size", "told"), [("index", 100, str(MAX_INDEX_BYTES)), (".pack", None, "more than the")]
)
def test_chunks_that_never_end(server: Faulty, machine: Machine, suffix: str, size: int | None, told: str) -> None:
    """Of an index in chunks without an end no more is read than an index can have, whatever Content-Length says, and
    of a pack no more than the index says."""
    headers = {"Transfer-Encoding": "chunked"}
    server.fault = only(suffix, lambda path, answer: Answer(200, size, chunks(endless()), headers))
    assert told in machine.pull(server.url).problem
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
    """A server that says for ever that the answer is about to come is left when the time of the pull is over, or when
    that is more often than Python's newer versions allow."""
    write_policy(user, server.url, f"pylayer-ed25519:{'A' * 43}=")
    again = itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")
    server.fault = lambda path, answer: Answer(100, None, again)
    started = user.process(("fleet", "pull", "--identity", IDENTITY.name))
    code = "import sys; from pylayer.cli import fleet, main; fleet.PULL_SECONDS = 1; sys.exit(main.main())"
    started["args"] = [sys.executable, "-P", "-c", code, *started["args"][3:]]
    done = subprocess.run(**started, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1 and re.search("too slow|longer than 1 s|HTTPException", done.stderr), done.stderr


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
    assert "Unicode" in machine.pull(f"http://{'a' * 70}.example/fleet").problem


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
    monkeypatch.setenv("PYLAYER_FLEET_AUTHORIZATION", "Bearer two\nlines")
    with pytest.raises(Unavailable, match="is not the value of a header"):
        machine.pull(server.url)
    monkeypatch.setenv("PYLAYER_FLEET_AUTHORIZATION", f"Bearer {SECRET}")
    assert machine.pull(server.url).problem == ""
    assert not [path for path in machine.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("url", ["http://user:hunter2@127.0.0.1:1/x", "http://127.0.0.1:1/?token=hunter2"])
def test_credentials_in_the_url(user: User, url: str) -> None:
    """A URL with credentials is refused, and none of them is printed or written anywhere."""
    write_policy(user, url)
    printed = []
    for command in ("fleet pull", "policy check"):
        done = user.pylayer(*command.split())
        assert done.returncode != 0
        printed.append(done.stdout + done.stderr)
    printed.append(user.pylayer("run", "--", "true").stderr)
    assert not [text for text in printed if SECRET in text]
    assert not [path for path in user.store.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


# ---- Faults --------------------------------------------------------------------------------------


#: A number that no index has had.
NEXT = int(time.time()) + 100_000


def problem(machine: Machine, url: str) -> str:
    """Pulls; returns what went wrong. The store is as it was."""
    before = machine.files()
    result = machine.pull(url)
    assert result.problem and "\n" not in result.problem, result
    assert machine.files() == before and result.packs == 0
    return result.problem


@pytest.fixture
def known(builder: Builder, machine: Machine, faulty: Faulty) -> Machine:
    """A machine that pulled once from the faulty, before more was published."""
    builder.publish(1, 2)
    machine.pull(faulty.url)
    builder.publish(3, 4)
    return machine


def parts(machine: Machine) -> list[Path]:
    """Returns what is left of packs that were not finished."""
    return list((machine.root / "fleet").rglob(f"*{TEMPORARY}"))


# ---- the faulty --------------------------------------------------------------------------------------


#: What the faulty does to which files, and how it is told.
FAULTS = [
    *((suffix, failing(status), str(status)) for suffix in ("index", ".pack") for status in (403, 500, 503)),
    (".pack", failing(404), f"has no v1/{IDENTITY.name}/"),
    *((".pack", cut(at), "") for at in (0, 1, 255, 256, 1000)),
    *((".pack", flipped(at), "other bytes than the index says") for at in (0, 100, 300, 5000, -1)),
]


@pytest.mark.parametrize(("suffix", "fault", "told"), FAULTS)
def test_fault_of_the_server(faulty: Faulty, known: Machine, suffix: str, fault: Fault, told: str) -> None:
    """What a faulty does wrong is told, nothing of the pack is kept, and the next pull does what is left."""
    faulty.fault = only(suffix, fault)
    assert told in problem(known, faulty.url)
    assert parts(known) == []
    faulty.fault = Faulty.fault
    assert known.pull(faulty.url).problem == "" and known.numbers() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "fault", [failing(404), failing(403), flipped(300), lambda path, answer: replace(answer, size=7)]
)
def test_one_pack_that_fails(builder: Builder, faulty: Faulty, machine: Machine, fault: Fault) -> None:
    """One pack that the faulty does not give out, or gives out with other bytes, does not keep the others from being
    pulled. It is told, and the next pull asks for it again."""
    for number, program in enumerate([("a", ""), ("b", ""), ("c", "")]):
        builder.publish(number, program=program)
    first = min(builder.index.packs, key=lambda pack: pack.bytes).name
    faulty.fault = only(first, fault)
    result = machine.pull(faulty.url)
    assert result.problem and (result.packs, result.left) == (2, 1)
    faulty.fault = Faulty.fault
    assert machine.pull(faulty.url).packs == 1


@pytest.mark.parametrize("suffix", ["index", ".pack"])
def test_server_that_stops(faulty: Faulty, known: Machine, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A faulty that does not go on is left after a while, and nothing is kept of the pack."""
    monkeypatch.setattr("pylayer.fleet.storage._STALL_SECONDS", 1)
    end, sent = Event(), []

    def pause() -> None:
        sent.append(1)
        if len(sent) > 30:
            end.wait(120)

    faulty.fault = only(suffix, dripping(pause))
    assert "too slow" in problem(known, faulty.url)
    end.set()
    assert parts(known) == []


# ---- who signs what ----------------------------------------------------------------------------------


def test_mirror_that_lags_behind(builder: Builder, faulty: Faulty, known: Machine) -> None:
    """An old index is not believed, and is no problem: the machine goes on with the last one, until that expires."""
    known.pull(faulty.url)
    for path in known.root.glob("store/*/*.pack"):
        path.unlink()
    builder.replace_index(number=1, issued=1)
    result = known.pull(faulty.url)
    assert (result.problem, result.records) == ("", 4) and known.numbers() == [1, 2, 3, 4]


def test_key_that_was_removed(faulty: Faulty, known: Machine) -> None:
    """After a key was taken out of the policy file, its index is not believed, even if it did not change."""
    known.pull(faulty.url)
    known.keys = {public_of(Ed25519PrivateKey.generate()): "new"}
    assert "fleet.keys" in problem(known, faulty.url)


def test_kept_index_that_expired(
    builder: Builder, faulty: Faulty, known: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that did not change is refused when it expires."""
    assert known.pull(faulty.url).problem == ""
    later = builder.index.expires + 1
    monkeypatch.setattr("pylayer.fleet.pulling.time.time", lambda: later)
    assert "expired" in problem(known, faulty.url)


# ---- packs that are signed and yet wrong -------------------------------------------------------------


def list_pack(builder: Builder, data: bytes) -> None:
    """Puts these bytes behind a signed index."""
    digest = hashlib.sha256(data).hexdigest()
    (builder.place / f"{digest}.pack").write_bytes(data)
    pack = replace(builder.index.packs[0], sha256=digest, bytes=len(data))
    builder.replace_index(packs=(*builder.index.packs, pack), number=NEXT)


def pack_of(directory: Path, data: bytes, fields: dict[str, Any]) -> bytes:
    """Returns a pack with one record that no publisher writes."""
    header = {"identity": IDENTITY, "program": program_id(*GAME), **fields}
    directory.chmod(0o700)
    writer = PackWriter(str(directory / "x.pack"), header.pop("identity"), header.pop("program"), "game")
    writer.add_parts(format.record_parts(header.pop("magic", format.CELL), data, **header))
    return Path(writer.finish()).read_bytes()


@pytest.mark.parametrize(
    ("data", "fields", "expected"),
    [
        (b"too short", {"flags": 2}, "shorter than a pipeline cache header"),
        (cell_data(1), {"flags": 0}, "was not published"),
        (cell_data(1), {"flags": 2, "magic": format.ATTEST}, "wrong file"),
        (bytes(8), {"magic": format.USED}, "was not published"),
        (cell_data(1), {"flags": 2, "identity": OLD_DRIVER}, "foreign-identity"),
        (cell_data(1), {"flags": 2, "program": 7}, "program 0000000000000007"),
    ],
)
def test_signed_pack_that_is_wrong(
    tmp_path: Path, builder: Builder, machine: Machine, data: bytes, fields: dict[str, Any], expected: str
) -> None:
    """A pack that a trusted key published is still verified record by record, and refused as a whole."""
    builder.publish(1)
    machine.pull(builder.url)
    list_pack(builder, pack_of(tmp_path, data, fields))
    assert expected in problem(machine, builder.url)
    assert machine.numbers() == [1]


def test_damaged_pack_that_is_signed(builder: Builder, machine: Machine) -> None:
    """A pack whose bytes are those of the index, but whose records do not verify, is refused."""
    builder.publish(*range(5))
    machine.pull(builder.url)
    data = bytearray((builder.place / builder.index.packs[0].name).read_bytes())
    data[600] ^= 1
    list_pack(builder, bytes(data))
    assert "damaged" in problem(machine, builder.url)


# ---- this machine ------------------------------------------------------------------------------------


def test_store_of_somebody_else(builder: Builder, machine: Machine) -> None:
    """A pull writes nothing into a store that others may write to."""
    builder.publish(1)
    (machine.root / "store").mkdir(0o777)
    (machine.root / "store").chmod(0o777)
    with pytest.raises(OSError, match="can be written by others"):
        machine.pull(builder.url)
    assert machine.files() == {}
