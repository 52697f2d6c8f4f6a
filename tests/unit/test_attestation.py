"""Application caches: what a program read back is told from anything else, and the last good data comes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from unit.things import FakeCommands, cache_data, cache_read, device_state, facts, load, program

from pylayer.identity import Identity
from pylayer.session import DeviceSession
from pylayer.settings import DEFAULTS
from pylayer.store import attestation, quarantine
from pylayer.store.attestation import Attestations
from pylayer.store.folder import Folder
from pylayer.store.maintenance import repair_whole_files
from pylayer.values import CARRIER_CELLS, LOG_WARN

SERIAL = 5
Make = Callable[..., DeviceSession]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def commands() -> FakeCommands:
    return FakeCommands()


@pytest.fixture
def make(root: str, commands: FakeCommands) -> Make:
    """Makes a session of a device that exists, as a new process would."""

    def new(settings: dict[str, Any] | None = None, application: str = "Stutter", **changes: Any) -> DeviceSession:
        wanted = {**DEFAULTS, "fsync_interval_ms": None, **(settings or {})}
        of = program(application=application)
        session = DeviceSession(commands, SERIAL, of, facts(**changes), root, "program", wanted)
        session.state = device_state(carrier=CARRIER_CELLS)
        return session

    return new


def restore(session: DeviceSession, slot: int, any_slot: bool) -> bool:
    return session.restore(session.last_good(slot, any_slot), load_expected=True)


def end(session: DeviceSession) -> None:
    session.close()


def files(root: str, suffix: str) -> list[Path]:
    return sorted(Path(root).rglob(f"*{suffix}"))


# ---- outcomes ----------------------------------------------------------------------------------------


def test_unknown_without_history(make: Make) -> None:
    """Of a program that never read back a cache nothing is known."""
    assert make().caches.history(cache_data(b"a blob from before")) == "unknown"


def test_attested_in_the_next_run(make: Make) -> None:
    """What the program read is attested in the same run and in the next, also when the process was killed."""
    session = make()
    session.caches.read(cache_read(b"first"))
    session.caches.read(cache_read(b"second", slot=1))
    assert session.caches.history(cache_data(b"first")) == "attested"
    later = make()
    assert [later.caches.history(cache_data(data)) for data in (b"first", b"second")] == ["attested"] * 2


def test_altered(make: Make) -> None:
    """Data that is none of what the program read is altered, by one bit or in length."""
    end_of = make()
    end_of.caches.read(cache_read(b"good data"))
    session = make()
    for data in (b"good dat`", b"good dat", b"good data ", b"something else"):
        assert session.caches.history(cache_data(data)) == "altered"
    wrong_length = cache_data(b"good data")
    wrong_length.data_size += 1
    assert session.caches.history(wrong_length) == "altered"


def test_stale(make: Make) -> None:
    """What the program read from another driver build is stale here, whether or not it read anything here."""
    old = make(driver_version=1)
    old.caches.read(cache_read(b"of the old driver"))
    end(old)
    session = make()
    assert session.caches.history(cache_data(b"of the old driver")) == "stale"
    session.caches.read(cache_read(b"of this driver"))
    assert make().caches.history(cache_data(b"of the old driver")) == "stale"
    assert make(driver_version=1).caches.history(cache_data(b"of this driver")) == "stale"


def test_other_programs_history_says_nothing(make: Make) -> None:
    """A program's data is judged by its own history, never by another program's."""
    make(application="another").caches.read(cache_read(b"of another"))
    assert make().caches.history(cache_data(b"of another")) == "unknown"


def test_incomplete_data_is_attested_at_the_bytes_written(make: Make, root: str) -> None:
    """Data that was cut at the program's buffer may come back; it is never kept as the last good data."""
    session = make()
    session.caches.read(cache_read(b"whole data of the cache"))
    session.caches.read(cache_read(b"whole", incomplete=True))
    session = make()
    assert session.caches.history(cache_data(b"whole")) == "attested"
    (blob,) = files(root, ".blob")
    assert b"whole data of the cache" in blob.read_bytes()


@pytest.mark.parametrize("setting", ["check", "pass"])
def test_switched_off(make: Make, root: str, setting: str) -> None:
    """Without attestation nothing is remembered or known."""
    make().caches.read(cache_read(b"remembered"))
    session = make({"application_caches": setting})
    session.caches.read(cache_read(b"not remembered"))
    assert session.caches.history(cache_data(b"other")) == "unknown"
    assert len(files(root, ".attest")) == 1


def test_hostile_attestations(make: Make, root: str) -> None:
    """Attestations that do not verify count for nothing, and what is wrong is said."""
    make().caches.read(cache_read(b"good"))
    (path,) = files(root, ".attest")
    data = bytearray(path.read_bytes())
    data[256 + 64] ^= 1
    path.write_bytes(data)
    session = make()
    assert session.caches.history(cache_data(b"good")) == "unknown"
    load(session)
    (line,) = session.commands.lines(LOG_WARN)  # type: ignore[attr-defined]
    assert "damaged-data" in line


def test_attestations_are_bounded(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs leave one file with the newest attestations, and none of a living writer is deleted."""
    monkeypatch.setattr(attestation, "MAX_ATTESTATIONS", 10)
    monkeypatch.setattr("pylayer.store.ended.has_writer", lambda path: False)
    monkeypatch.setattr("time.time", iter(range(1000, 100000)).__next__)
    for number in range(30):
        session = make()
        session.caches.read(cache_read(b"data %d" % number))
        end(session)
    assert len(files(root, ".attest")) <= attestation.MAX_FILES + 1
    session = make()
    assert session.caches.history(cache_data(b"data 29")) == "attested"
    assert session.caches.history(cache_data(b"data 0")) == "altered"


# ---- the last good data ------------------------------------------------------------------------------


def test_last_good_data_is_replaced_by_newer(make: Make, root: str) -> None:
    """Each cache of a device has one file with its last data; the same data is not written again."""
    session = make()
    session.caches.read(cache_read(b"early"))
    session.caches.read(cache_read(b"late"))
    session.caches.read(cache_read(b"of another cache", slot=1))
    before = {path: path.stat().st_ino for path in files(root, ".blob")}
    assert len(before) == 2
    session.caches.read(cache_read(b"late"))
    later = make()
    later.caches.read(cache_read(b"late"))
    assert {path: path.stat().st_ino for path in files(root, ".blob")} == before


def test_restored_with_the_store(make: Make, commands: FakeCommands) -> None:
    """Data refused before the store is loaded: the last good data is handed over with the store."""
    make().caches.read(cache_read(b"last good"))
    session = make()
    assert restore(session, 0, any_slot=True)
    load(session)
    assert commands.loaded == [b"last good"]
    assert session.caches.restored == 1


def test_restored_after_the_load(make: Make, commands: FakeCommands) -> None:
    """Data refused later: the last good data follows, once."""
    make().caches.read(cache_read(b"last good"))
    session = make()
    load(session)
    assert restore(session, 0, any_slot=False)
    assert not restore(session, 0, any_slot=False)
    assert commands.loaded == [b"last good"]
    assert (commands.done, commands.cancelled) == ([SERIAL] * 2, [SERIAL])


def test_which_cache_is_restored(make: Make, commands: FakeCommands) -> None:
    """The cache's own data by preference; another's only for data that was refused, not for a cache that is empty."""
    first = make()
    first.caches.read(cache_read(b"of cache 0"))
    first.caches.read(cache_read(b"of cache 2", slot=2))
    session = make()
    load(session)
    assert restore(session, 2, any_slot=True)
    assert not restore(session, 1, any_slot=False)
    assert restore(session, 0, any_slot=True)
    assert commands.loaded == [b"of cache 2", b"of cache 0"]


def test_nothing_to_restore(make: Make, commands: FakeCommands) -> None:
    """Without a history, without seeding, or with a layer that stays out, nothing is restored."""
    assert not restore(make(), 0, any_slot=True)
    make().caches.read(cache_read(b"last good"))
    assert not restore(make({"seed_application_caches": False}), 0, any_slot=True)
    session = make()
    session.state = None
    assert not restore(session, 0, any_slot=True)
    assert not restore(make(driver_version=1), 0, any_slot=True)
    assert commands.loaded == []


def test_damaged_blob_is_not_restored(make: Make, commands: FakeCommands, root: str) -> None:
    """Kept data that does not verify reaches no driver, is named, and goes to quarantine."""
    make().caches.read(cache_read(b"last good" * 10))
    (path,) = files(root, ".blob")
    data = bytearray(path.read_bytes())
    data[-20] ^= 4
    path.write_bytes(data)
    session = make()
    load(session)
    assert not restore(session, 0, any_slot=True)
    assert commands.loaded == []
    assert [what.outcome for what in session.loaded.damage] == ["damaged-data"]
    assert session.folder is not None
    assert repair_whole_files(session.folder, session.loaded.damage) == 1
    assert [item.outcome for item in quarantine.items(root)] == ["damaged-data"]
    assert files(root, ".blob") == []


def test_two_processes_at_once(make: Make, root: str) -> None:
    """Two processes of a program attest side by side; the next knows both, and keeps one blob a cache."""
    first, second = make(), make()
    first.caches.read(cache_read(b"of the first"))
    second.caches.read(cache_read(b"of the second"))
    session = make()
    assert session.caches.history(cache_data(b"of the first")) == "attested"
    assert session.caches.history(cache_data(b"of the second")) == "attested"
    assert len(files(root, ".blob")) == 1


def test_store_that_cannot_be_written(make: Make, root: str, commands: FakeCommands) -> None:
    """Where nothing can be stored, what the program reads is passed over with one line."""
    os.makedirs(root)
    os.chmod(root, 0o777)
    session = make()
    for number in range(3):
        session.caches.read(cache_read(b"data %d" % number))
    assert len(commands.lines(LOG_WARN)) == 1


def test_digest_is_xxh3_128(root: str) -> None:
    """The layer's digest and the one of the stored record are the same function of the same bytes."""
    folder = Folder(root, Identity.of(facts()))
    kept = Attestations(folder, 7, "a program")
    data = bytes(range(256)) * 40
    kept.attest(xxhash.xxh3_128_digest(data), len(data), 0, False)
    kept.keep(xxhash.xxh3_128_digest(data), 0, memoryview(data))
    again = Attestations(folder, 7, "a program")
    blob = again.last_good(0, any_slot=False)
    assert blob is not None
    assert again.read_blob(blob) == data
