"""Application caches: data that a program read back is told apart from other data, and the last good data is
restored."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.things import SERIAL, FakeCommands, cache_data, cache_read, facts, flip, load, scan, sketch_of

from pylayer.common.identity import Identity
from pylayer.common.settings import DEFAULTS
from pylayer.inhost.session import DeviceSession
from pylayer.policy import Policy
from pylayer.store import cache_history, format, quarantine, reader, sketch
from pylayer.store.cache_history import Attestation
from pylayer.store.maintenance import repair_whole_files
from pylayer.store.reader import Reader
from pylayer.store.sketch import Sketches
from pylayer.values import LOG_WARN, VERDICT_EMPTY

Make = Callable[..., DeviceSession]


def loads_caches(session: DeviceSession) -> DeviceSession:
    """Makes the program one that has given data to vkCreatePipelineCache before."""
    session.caches.note_load(cache_data(b"something"), passed=True)
    return session


def restore(session: DeviceSession, slot: int, any_slot: bool) -> bool:
    return session.restore(session.last_good(slot, any_slot), load_expected=True)


def files(root: str, suffix: str) -> list[Path]:
    return sorted(Path(root).rglob(f"*{suffix}"))


# ---- outcomes ----------------------------------------------------------------------------------------


def test_attested_in_the_next_run(make: Make) -> None:
    """What the program read is attested in the same run and in the next, even if the process was killed."""
    session = make()
    session.caches.read(cache_read(b"first"))
    session.caches.read(cache_read(b"second", slot=1))
    assert session.caches.history(cache_data(b"first")) == "attested"
    later = make()
    assert [later.caches.history(cache_data(data)) for data in (b"first", b"second")] == ["attested"] * 2


def blob(size: int, seed: int = 1) -> bytes:
    """Returns data as a driver would, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def test_damaged_copies_are_altered(make: Make) -> None:
    """A copy of what the program read is altered if a word is changed, its end is missing, or its end is filled. The
    kind of change is known."""
    good = blob(20_000)
    make().caches.read(cache_read(good))
    session = make()
    for data, damage in (
        (good[:1000] + bytes([good[1000] ^ 4]) + good[1001:], "one 64-bit word changed"),
        (good[:-1] + bytes([good[-1] ^ 0x80]), "one 64-bit word changed"),
        (good[:-1], "cut off, it has 19999 of 20000 bytes"),
        (good[:5000], "cut off, it has 5000 of 20000 bytes"),
        (good[:4099] + bytes(len(good) - 4099), "one byte repeated from 4099 on"),
        (good[:4099] + b"\xff" * (len(good) - 4099), "one byte repeated from 4099 on"),
        (good[:200] + bytes(len(good) - 200), "one byte repeated from 200 on"),
    ):
        given = cache_data(data)
        assert (session.caches.history(given), given.damage) == ("altered", damage)
    assert session.caches.history(cache_data(good)) == "attested"


def test_other_data_is_unknown(make: Make) -> None:
    """Data that the driver may have made is not called altered: the program may have got it without the layer."""
    good = blob(20_000)
    make().caches.read(cache_read(good))
    session = make()
    for data in (
        blob(20_000, seed=2),
        good + blob(4112, seed=3),
        good + b"\0",
        good[:10_000] + blob(10_000, seed=4),
        good[32:] + good[:32],
        # Another pipeline of the same size differs in its key and somewhere in its code.
        good[:500] + blob(16, seed=5) + good[516:],
        good[:1000],  # too short to tell from the beginning of another cache
    ):
        assert session.caches.history(cache_data(data)) == "unknown"


def passes(session: DeviceSession, data: bytes) -> str:
    """Has data pass, if nothing is known against it. Returns what was known of it before."""
    given = cache_data(data)
    given.history = session.caches.history(given)
    session.caches.note_load(given, passed=given.history != "altered")
    return given.history


def test_what_passed_is_known_from_then_on(make: Make) -> None:
    """Unknown data that passed is known in the same run and in later ones. With ``strict`` only what was read counts,
    and ``report`` tells both apart."""
    assert [passes(make(), b"from before") for _ in range(3)] == ["unknown", "attested", "attested"]
    for setting in ("strict", "report"):
        session = make({"application_caches": setting})
        assert passes(session, b"from before") == "unknown"
    session.caches.read(cache_read(b"from before"))
    for setting in ("strict", "report", "attest"):
        assert passes(make({"application_caches": setting}), b"from before") == "attested"


@pytest.mark.parametrize("combined", [False, True])
def test_what_passed_is_no_evidence(make: Make, monkeypatch: pytest.MonkeyPatch, combined: bool) -> None:
    """Data that passed as unknown may itself be the damaged copy. So good data that differs from it by little
    passes."""
    good = blob(20_000)
    session = make()
    assert passes(session, good[:1000] + b"!" + good[1001:]) == "unknown"
    session.close()
    if combined:
        monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
        monkeypatch.setattr(cache_history, "MAX_FILES", 0)
        make().caches.attestations.compact()  # type: ignore[union-attr]
    assert passes(make(), good) == "unknown"
    assert passes(make(), good) == "attested"


def test_without_a_sketch_nothing_is_altered(make: Make) -> None:
    """Without a sketch of what the program read, or of what it loads, the answer is unknown."""
    session = make()
    good = blob(20_000)
    session.caches.read(cache_read(good, sketch=b""))
    assert session.caches.history(cache_data(good)) == "attested"
    assert session.caches.history(cache_data(good[:-1])) == "unknown"
    session.caches.read(cache_read(good + b"x"))
    assert session.caches.history(cache_data(good[:-1], sketch=b"")) == "unknown"
    assert session.caches.wants_sketch(cache_data(good[:-1], sketch=b""))
    assert not session.caches.wants_sketch(cache_data(good))


def damage_of(data: bytes, *good: bytes) -> str:
    sketches = Sketches()
    for one in good:
        sketches.add(len(one), sketch_of(one))
    return sketches.damage(len(data), sketch_of(data))


@given(st.binary(min_size=9, max_size=300_000), st.data())
@settings(max_examples=60, deadline=None)
def test_any_single_change_is_seen(good: bytes, draw: st.DataObject) -> None:
    """One changed word is found in data of any content and size, whichever bits changed."""
    at = draw.draw(st.integers(0, len(good) - 1))
    bits = draw.draw(st.integers(1, 255))
    data = good[:at] + bytes([good[at] ^ bits]) + good[at + 1 :]
    assert damage_of(data, good).startswith("one 64-bit word")


@given(st.integers(1024, 200_000), st.data())
@settings(max_examples=60, deadline=None)
def test_any_cut_is_seen(size: int, draw: st.DataObject) -> None:
    """Data is recognised if it was cut off at any byte, or filled with zeros or 0xff from there."""
    good = blob(size + 600)
    at = draw.draw(st.integers(1024, size))
    assert damage_of(good[:at], good).startswith("cut off")
    for fill in (b"\0", b"\xff"):
        assert damage_of(good[:at] + fill * (len(good) - at), good).startswith("one byte repeated")


def test_damage_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage is found among thousands of caches that differ in one key alone, and in each case one of them is compared,
    or two."""
    code = blob(3000, seed=0)
    goods = [blob(32, seed=1) + blob(20, seed=100 + number) + code for number in range(3000)]
    sketches, compared = Sketches(), 0
    judge = sketch._differ_in_one_word

    def counted(*arguments: Any) -> bool:
        nonlocal compared
        compared += 1
        return judge(*arguments)

    monkeypatch.setattr(sketch, "_differ_in_one_word", counted)
    for good in goods:
        sketches.add(len(good), sketch_of(good))
    for number, good in enumerate(goods[::30]):
        at = 31 * number % len(good)
        changed = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        cut = good[:2000]
        for data, damage in ((changed, "one 64-bit"), (cut, "cut off"), (cut + bytes(1052), "one byte")):
            compared = 0
            assert sketches.damage(len(data), sketch_of(data)).startswith(damage) and compared <= 2
    compared = 0
    other = blob(32, seed=1) + blob(20, seed=99) + code
    assert sketches.damage(len(other), sketch_of(other)) == "" and compared <= 2


def test_sketch_of_another_layout() -> None:
    """A sketch whose length is not that of one of the data, such as an older build's, says nothing."""
    good = blob(5000)
    sketches = Sketches()
    sketches.add(len(good), sketch_of(good)[8:])
    assert sketches.damage(4000, sketch_of(good[:4000])) == ""
    sketches.add(len(good), sketch_of(good))
    assert sketches.damage(4000, sketch_of(good[:4000])) == "cut off, it has 4000 of 5000 bytes"


def test_stale(make: Make) -> None:
    """What the program read from another driver build is stale, whether or not it read anything from this one."""
    old = make(driver_version=1)
    old.caches.read(cache_read(b"of the old driver"))
    old.close()
    session = make()
    assert session.caches.history(cache_data(b"of the old driver")) == "stale"
    session.caches.read(cache_read(b"of this driver"))
    assert make().caches.history(cache_data(b"of the old driver")) == "stale"
    assert make(driver_version=1).caches.history(cache_data(b"of this driver")) == "stale"


def test_other_programs_history_says_nothing(make: Make) -> None:
    """A program's data is judged by its own history only."""
    make(application="another").caches.read(cache_read(b"of another"))
    assert make().caches.history(cache_data(b"of another")) == "unknown"


def test_incomplete_data_is_attested_at_the_bytes_written(make: Make, root: str) -> None:
    """Data that was cut at the program's buffer may come back. It is never stored as the last good data."""
    session = make()
    session.caches.read(cache_read(b"whole data of the cache"))
    session.caches.read(cache_read(b"whole", incomplete=True))
    session = make()
    assert session.caches.history(cache_data(b"whole")) == "attested"
    (blob,) = files(root, ".blob")
    assert b"whole data of the cache" in blob.read_bytes()
    (path,) = files(root, ".attest")
    data = path.read_bytes()
    found = [Attestation.read(data[one.start : one.start + one.size]) for one in scan(data, [])]
    assert [(one.size, one.flags) for one in found] == [(23, 0), (5, cache_history.INCOMPLETE)]


@pytest.mark.parametrize("setting", ["check", "pass"])
def test_switched_off(make: Make, root: str, setting: str) -> None:
    """Without attestation nothing is recorded or known."""
    make().caches.read(cache_read(b"remembered"))
    session = make({"application_caches": setting})
    session.caches.read(cache_read(b"not remembered"))
    assert session.caches.history(cache_data(b"other")) == "unknown"
    assert len(files(root, ".attest")) == 1


def test_hostile_attestations(make: Make, root: str) -> None:
    """Attestations that do not verify are ignored, and the log says what is wrong."""
    make().caches.read(cache_read(b"good"))
    (path,) = files(root, ".attest")
    flip(path, 256 + 64)
    session = make()
    assert session.caches.history(cache_data(b"good")) == "unknown"
    load(session)
    (line,) = session.commands.lines(LOG_WARN)  # type: ignore[attr-defined]
    assert "damaged-data" in line


def test_history_is_bounded(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs leave few files with the newest attestations. What was dropped is unknown, and so is a damaged copy of
    it."""
    monkeypatch.setattr(cache_history, "MAX_RECORDS", 10)
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    monkeypatch.setattr("time.time", iter(range(1000, 100000)).__next__)
    for number in range(30):
        session = make()
        session.caches.read(cache_read(blob(5000, seed=number)))
        session.close()
    assert len(files(root, ".attest")) <= cache_history.MAX_FILES + 1
    session = make()
    assert session.caches.history(cache_data(blob(5000, seed=29))) == "attested"
    assert session.caches.history(cache_data(blob(5000, seed=0))) == "unknown"
    assert session.caches.history(cache_data(blob(5000, seed=0)[:-1])) == "unknown"
    assert session.caches.history(cache_data(blob(5000, seed=29)[:-1])) == "altered"


def test_history_is_bounded_in_bytes(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the records would take too much room, the older ones are dropped."""
    monkeypatch.setattr(cache_history, "MAX_BYTES", 5 * 256)
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    monkeypatch.setattr("time.time", iter(range(1000, 100000)).__next__)
    for number in range(cache_history.MAX_FILES + 1):
        session = make()
        session.caches.read(cache_read(blob(5000, seed=number)))
        session.close()
    (path,) = files(root, ".attest")
    assert format.FILE_HEADER.size < path.stat().st_size <= format.FILE_HEADER.size + 5 * 256
    session = make()
    for number, known in ((0, False), (cache_history.MAX_FILES, True)):
        assert session.caches.history(cache_data(blob(5000, seed=number))) == ("attested" if known else "unknown")
        assert session.caches.history(cache_data(blob(5000, seed=number)[:-1])) == ("altered" if known else "unknown")


def test_what_runs_use_stays(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old data that the program still loads outlives newer data that it does not load. Its damaged copies are still
    recognised."""
    monkeypatch.setattr(cache_history, "MAX_RECORDS", 10)
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    monkeypatch.setattr("time.time", iter(range(10**6, 10**9, cache_history.RENEW_SECONDS // 4)).__next__)
    old = blob(5000)
    make().caches.read(cache_read(old))
    for number in range(30):
        session = make()
        given = cache_data(old)
        given.history = session.caches.history(given)
        session.caches.note_load(given, passed=True)
        session.caches.read(cache_read(blob(5000, seed=100 + number)))
        session.close()
    session = make()
    assert session.caches.history(cache_data(blob(5000, seed=100))) == "unknown"
    assert session.caches.history(cache_data(old)) == "attested"
    assert session.caches.history(cache_data(old[:-1])) == "altered"


def test_what_cannot_be_read_is_not_deleted(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combining files leaves one of a newer version and one whose data the disk does not give: nobody knows what is in
    them."""
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    for number in range(cache_history.MAX_FILES):
        session = make()
        session.caches.read(cache_read(blob(5000, seed=number)))
        session.caches.close()
    newer, broken, *rest = files(root, ".attest")
    data = bytearray(Path(newer).read_bytes())
    data[8:12] = (format.VERSION + 1).to_bytes(4, "little")
    Path(newer).write_bytes(data)
    parts = Reader.parts

    def fails(self: Reader, *arguments: Any, **named: Any) -> Any:
        if self.path == str(broken):
            raise OSError(5, "Input/output error", self.path)
        return parts(self, *arguments, **named)

    monkeypatch.setattr(Reader, "parts", fails)
    for number in range(3):
        session = make()
        session.caches.read(cache_read(blob(5000, seed=100 + number)))
        session.close()
    left = files(root, ".attest")
    assert newer in left and broken in left and not set(rest) & set(left)


def test_what_a_writer_added_before_it_ended_is_not_lost(
    make: Make, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that folds many files into one keeps what other processes added to them after it read them."""
    writers = [make() for _ in range(cache_history.MAX_FILES + 1)]
    for number, writer in enumerate(writers):
        writer.caches.read(cache_read(b"early %d" % number, slot=number))
    reader = make()
    assert reader.caches.history(cache_data(b"early 0")) == "attested"
    for number, writer in enumerate(writers):
        writer.caches.read(cache_read(b"late %d" % number, slot=number))
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    reader.close()
    assert len(files(root, ".attest")) == 1
    session = make()
    for number in range(len(writers)):
        for word in (b"early %d", b"late %d"):
            assert session.caches.history(cache_data(word % number)) == "attested"


def test_what_another_process_wrote_meanwhile_is_read(make: Make) -> None:
    """Data that another process read after this one began is also attested here, however often that process adds to its
    file."""
    other, session = make(), make()
    assert session.caches.history(cache_data(b"a")) == "unknown"
    for data in (b"a", b"b", b"c"):
        other.caches.read(cache_read(data))
        assert session.caches.history(cache_data(data)) == "attested"


def test_read_under_an_identity_of_an_earlier_pylayer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program read of the same driver, under an identity with the global key of pipeline binaries, is
    attested."""
    with monkeypatch.context() as earlier:
        of = Identity.of
        earlier.setattr(Identity, "of", lambda facts: Identity({**of(facts).fields, "global_key": "00" * 32}))
        first = make()
        first.caches.read(cache_read(b"read on a device with binaries"))
        first.close()
    second = make()
    assert second.identity.name != first.identity.name
    assert second.caches.history(cache_data(b"read on a device with binaries")) == "attested"


@pytest.mark.parametrize("history", ["attested", "unknown", "altered", "stale"])
def test_verdicts(make: Make, history: str) -> None:
    """By default only data that is known to be wrong is refused. In strict mode, all data that is not known to be right
    is refused."""
    data = cache_data(struct.pack("<IIII16s", 32, 1, 0x1002, 0x73BF, bytes(range(16))), history=history)

    def refused(setting: str) -> bool:
        return Policy().admit_cache(data, facts(), {**DEFAULTS, "application_caches": setting})[0] == VERDICT_EMPTY

    assert refused("attest") == (history in ("altered", "stale"))
    assert refused("strict") == (history != "attested")
    assert not refused("check")
    assert not refused("report")


# ---- the last good data ------------------------------------------------------------------------------


def test_last_good_data_is_replaced_by_newer(make: Make, root: str) -> None:
    """Each cache of a device has one file with its last data. The same data is not written again."""
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
    """If data is refused before the store is loaded, the last good data is handed over with the store."""
    make().caches.read(cache_read(b"last good"))
    session = make()
    assert restore(session, 0, any_slot=True)
    load(session)
    assert commands.loaded == [b"last good"]
    assert session.caches.restored == 1


def test_restored_after_the_load(make: Make, commands: FakeCommands) -> None:
    """If data is refused later, the last good data follows once."""
    loads_caches(make()).caches.read(cache_read(b"last good"))
    session = make()
    load(session)
    assert restore(session, 0, any_slot=False)
    assert not restore(session, 0, any_slot=False)
    assert commands.loaded == [b"last good"]
    assert (commands.done, commands.cancelled) == ([SERIAL] * 2, [SERIAL])


def test_which_cache_is_restored(make: Make, commands: FakeCommands) -> None:
    """The cache's own data is preferred. Another cache's data is used only if data was refused, not for an empty
    cache."""
    first = loads_caches(make())
    first.caches.read(cache_read(b"of cache 0"))
    first.caches.read(cache_read(b"of cache 2", slot=2))
    session = make()
    load(session)
    assert restore(session, 2, any_slot=True)
    assert not restore(session, 1, any_slot=False)
    assert restore(session, 0, any_slot=True)
    assert commands.loaded == [b"of cache 2", b"of cache 0"]


def test_program_that_never_loads_its_caches(make: Make, commands: FakeCommands) -> None:
    """A program that never gives data to vkCreatePipelineCache does not miss what it read, so nothing is reported as
    missing."""
    make().caches.read(cache_read(b"read, and never loaded"))
    session = make()
    assert session.caches.restorable_slots() == 0
    assert not restore(session, 0, any_slot=False)
    loads_caches(session)
    assert make().caches.restorable_slots() == 1
    assert restore(make(), 0, any_slot=False)


def test_power_failure_leaves_the_older_blob(make: Make, commands: FakeCommands, root: str) -> None:
    """If the newer of a cache's two files has lost its data, the older is used. It is removed once a newer one is
    complete."""
    make().caches.read(cache_read(b"older" * 100))
    (older,) = files(root, ".blob")
    kept = older.read_bytes()
    make().caches.read(cache_read(b"newer" * 100))
    (newer,) = files(root, ".blob")
    older.write_bytes(kept)
    newer.write_bytes(newer.read_bytes()[:320] + bytes(500))  # the header reached the disk
    session = make()
    load(session)
    assert restore(session, 0, any_slot=True)
    assert commands.loaded == [b"older" * 100]
    session.caches.read(cache_read(b"newest" * 100))
    assert len(files(root, ".blob")) == 1


def test_nothing_to_restore(make: Make, commands: FakeCommands) -> None:
    """Without a history, without seeding, or if the layer does nothing for the device, nothing is restored."""
    assert not restore(make(), 0, any_slot=True)
    make().caches.read(cache_read(b"last good"))
    assert not restore(make({"seed_application_caches": False}), 0, any_slot=True)
    session = make()
    session.state = None
    assert not restore(session, 0, any_slot=True)
    assert not restore(make(driver_version=1), 0, any_slot=True)
    assert commands.loaded == []


def test_damaged_blob_is_not_restored(make: Make, commands: FakeCommands, root: str) -> None:
    """Stored data that does not verify never reaches a driver. It is reported and goes to quarantine."""
    make().caches.read(cache_read(b"last good" * 10))
    (path,) = files(root, ".blob")
    flip(path, -20)
    session = make()
    load(session)
    assert not restore(session, 0, any_slot=True)
    assert commands.loaded == []
    assert [what.outcome for what in session.load.loaded.damage] == ["damaged-data"]
    assert session.folder is not None
    assert repair_whole_files(session.folder, session.load.loaded.damage) == 1
    assert [": damaged-data: " in item.reason for item in quarantine.items(root)] == [True]
    assert files(root, ".blob") == []


def test_two_processes_at_once(make: Make, root: str) -> None:
    """Two processes of a program attest at the same time. The next process knows both, and stores one blob for each
    cache."""
    first, second = make(), make()
    first.caches.read(cache_read(b"of the first"))
    second.caches.read(cache_read(b"of the second"))
    session = make()
    assert session.caches.history(cache_data(b"of the first")) == "attested"
    assert session.caches.history(cache_data(b"of the second")) == "attested"
    assert len(files(root, ".blob")) == 1


def test_store_that_cannot_be_written(make: Make, root: str, commands: FakeCommands) -> None:
    """If nothing can be stored, what the program reads is skipped, and one line says so."""
    os.makedirs(root)
    os.chmod(root, 0o777)
    session = make()
    for number in range(3):
        session.caches.read(cache_read(b"data %d" % number))
    assert len(commands.lines(LOG_WARN)) == 1


def test_file_combined_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process combines with others between two reads is gone, not damaged."""
    path = tmp_path / "0-0-0.attest"
    path.write_bytes(b"something")

    class Opened(Reader):
        def __init__(self, path: str) -> None:
            super().__init__(path)
            os.unlink(path)

    monkeypatch.setattr(reader, "Reader", Opened)
    damage: list[Any] = []
    assert cache_history.read_attestations(str(path), bytes(16), damage) == [] and damage == []
