"""Application caches: data that a program read back is told apart from other data."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.folders import IDENTITY
from unit.things import sketch_of

from pylayer.store import cache_history, format, sketch
from pylayer.store.cache_history import Attestations
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader
from pylayer.store.sketch import Sketches

Make = Callable[..., Attestations]


@pytest.fixture
def make(root: str) -> Make:
    """Returns the history of a program, as each of its processes has it."""
    return lambda takes_passed=True: Attestations(Folder(root, IDENTITY), 7, "stutter", None, takes_passed)


def read(history: Attestations, data: bytes) -> None:
    """The program reads this data from a cache."""
    history.attest(xxhash.xxh3_128_digest(data), len(data), 0, False, sketch_of(data))


def outcome(history: Attestations, data: bytes) -> tuple[str, str]:
    """Returns what is known of data that the program passes, and its damage."""
    return history.outcome(xxhash.xxh3_128_digest(data), len(data), sketch_of(data))


def known(history: Attestations, data: bytes) -> str:
    return outcome(history, data)[0]


def end(history: Attestations) -> None:
    """The process ends."""
    history.compact()
    history.close()


def files(root: str, suffix: str) -> list[Path]:
    return sorted(Path(root).rglob(f"*{suffix}"))


# ---- outcomes ----------------------------------------------------------------------------------------


def blob(size: int, seed: int = 1) -> bytes:
    """Returns data as a driver would, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def test_damaged_copies_are_altered(make: Make) -> None:
    """A copy of what the program read is altered if a word is changed, its end is missing, or its end is filled. The
    kind of change is known."""
    good = blob(20_000)
    read(make(), good)
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
        assert outcome(session, data) == ("altered", damage)
    assert known(session, good) == "attested"


def test_other_data_is_unknown(make: Make) -> None:
    """Data that the driver may have made is not called altered: the program may have got it without the layer."""
    good = blob(20_000)
    read(make(), good)
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
        assert known(session, data) == "unknown"


def passes(history: Attestations, data: bytes) -> str:
    """Has data pass, if nothing is known against it. Returns what was known of it before."""
    before = known(history, data)
    if before != "altered":
        history.note_pass(xxhash.xxh3_128_digest(data), len(data), 0)
    return before


def test_what_passed_is_known_from_then_on(make: Make) -> None:
    """Unknown data that passed is known in the same run and in later ones, but where only what was read counts."""
    assert [passes(make(), b"from before") for _ in range(3)] == ["unknown", "attested", "attested"]
    assert passes(make(False), b"from before") == "unknown"
    read(make(), b"from before")
    assert known(make(False), b"from before") == "attested"


@pytest.mark.parametrize("combined", [False, True])
def test_what_passed_is_no_evidence(make: Make, monkeypatch: pytest.MonkeyPatch, combined: bool) -> None:
    """Data that passed as unknown may itself be the damaged copy. So good data that differs from it by little
    passes."""
    good = blob(20_000)
    session = make()
    assert passes(session, good[:1000] + b"!" + good[1001:]) == "unknown"
    end(session)
    if combined:
        monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
        monkeypatch.setattr(cache_history, "MAX_FILES", 0)
        make().compact()
    assert passes(make(), good) == "unknown"
    assert passes(make(), good) == "attested"


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


def test_history_is_bounded(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs leave few files with the newest attestations. What was dropped is unknown, and so is a damaged copy of
    it."""
    monkeypatch.setattr(cache_history, "MAX_RECORDS", 10)
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    monkeypatch.setattr("time.time", iter(range(1000, 100000)).__next__)
    for number in range(30):
        session = make()
        read(session, blob(5000, seed=number))
        end(session)
    assert len(files(root, ".attest")) <= cache_history.MAX_FILES + 1
    session = make()
    assert known(session, blob(5000, seed=29)) == "attested"
    assert known(session, blob(5000, seed=0)) == "unknown"
    assert known(session, blob(5000, seed=0)[:-1]) == "unknown"
    assert known(session, blob(5000, seed=29)[:-1]) == "altered"


def test_what_cannot_be_read_is_not_deleted(make: Make, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combining files leaves one of a newer version and one whose data the disk does not give: nobody knows what is in
    them."""
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    for number in range(cache_history.MAX_FILES):
        session = make()
        read(session, blob(5000, seed=number))
        end(session)
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
        read(session, blob(5000, seed=100 + number))
        end(session)
    left = files(root, ".attest")
    assert newer in left and broken in left and not set(rest) & set(left)


def test_what_a_writer_added_before_it_ended_is_not_lost(
    make: Make, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that folds many files into one keeps what other processes added to them after it read them."""
    writers = [make() for _ in range(cache_history.MAX_FILES + 1)]
    for number, writer in enumerate(writers):
        read(writer, b"early %d" % number)
    reader = make()
    assert known(reader, b"early 0") == "attested"
    for number, writer in enumerate(writers):
        read(writer, b"late %d" % number)
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: False)
    end(reader)
    assert len(files(root, ".attest")) == 1
    session = make()
    for number in range(len(writers)):
        for word in (b"early %d", b"late %d"):
            assert known(session, word % number) == "attested"
