"""Application caches: data that a program read back is told apart from other data."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.things import IDENTITY, facts, sketch_of

from pylayer.common import file_kinds
from pylayer.common.identity import Identity
from pylayer.store import cache_history, format, sketch
from pylayer.store.cache_history import PASSED, History, Known
from pylayer.store.folder import Folder
from pylayer.store.reader import Reader
from pylayer.store.sketch import Sketches


class Processes:
    """Processes of one program. Each that reads or passes data has a file of its own, as the layer writes it."""

    def __init__(self, root: str) -> None:
        self.folder = Folder(root, IDENTITY)
        self.clock = 1000

    def read(self, *data: bytes, folder: Folder | None = None) -> Path:
        """A process reads this data from its caches. Returns its file."""
        return self._write(folder or self.folder, *[(one, 0, sketch_of(one)) for one in data])

    def passed(self, *data: bytes) -> Path:
        """A process passes this data, and nothing is known against it."""
        return self._write(self.folder, *[(one, PASSED, b"") for one in data])

    def _write(self, folder: Folder, *what: tuple[bytes, int, bytes]) -> Path:
        self.clock += 1
        known = [Known(xxhash.xxh3_128_digest(one), len(one), self.clock, *rest) for one, *rest in what]
        parts = [part for one in known for part in one.parts()]
        return Path(folder.write_file(file_kinds.ATTEST, 7, "stutter", parts)[0])

    def history(self) -> History:
        return History(self.folder, 7, True)

    @property
    def files(self) -> list[Path]:
        return sorted(Path(self.folder.path).glob("*.attest"))


@pytest.fixture
def processes(root: str) -> Processes:
    return Processes(root)


def known(history: History, data: bytes) -> str:
    """Returns what is known of data that the program passes."""
    return history.outcome(xxhash.xxh3_128_digest(data), len(data), sketch_of(data))[0]


def compact(processes: Processes, monkeypatch: pytest.MonkeyPatch, most: int = 0, alive: Path | None = None) -> None:
    """Combines the files, of which there are more than ``most``. All their writers have ended, but of ``alive``."""
    monkeypatch.setattr(cache_history, "may_have_writer", lambda path: path == str(alive))
    monkeypatch.setattr(cache_history, "MAX_FILES", most)
    list(cache_history.compact(processes.folder))


# ---- outcomes ----------------------------------------------------------------------------------------


def blob(size: int, seed: int = 1) -> bytes:
    """Returns data as a driver would, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def test_other_data_is_unknown(processes: Processes) -> None:
    """Data that the driver may have made is not called altered: the program may have got it without the layer."""
    good = blob(20_000)
    processes.read(good)
    session = processes.history()
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


def test_what_others_do_meanwhile_is_known(processes: Processes) -> None:
    """What a process reads or passes is known to others that have read the history before. So is what it adds to its
    file later."""
    history = processes.history()
    assert [known(history, word) for word in (b"read", b"passed", b"appended")] == ["unknown"] * 3
    processes.passed(b"passed")
    file = processes.read(b"read")
    assert [known(history, word) for word in (b"read", b"passed", b"appended")] == ["attested", "attested", "unknown"]
    record = Known(xxhash.xxh3_128_digest(b"appended"), 8, 1, 0)
    salt = Reader(str(file)).salt
    with file.open("ab") as out:
        out.write(b"".join(format.seal(record.parts(), salt)))
    assert known(history, b"appended") == "attested"


def test_damage_is_found_once(processes: Processes) -> None:
    """Each data that the program passes asks what is known. A damaged file is read again only when it has grown."""
    history = processes.history()
    with processes.read(b"read").open("ab") as out:
        out.write(b"no record" * 10)
    for data in (b"read", b"other", b"data"):
        known(history, data)
    assert len(history.damage) == 1


@pytest.mark.parametrize("combined", [False, True])
def test_what_passed_is_no_evidence(processes: Processes, monkeypatch: pytest.MonkeyPatch, combined: bool) -> None:
    """Data that passed as unknown may itself be the damaged copy. So good data that differs from it by little
    passes."""
    good = blob(20_000)
    processes.passed(good[:1000] + b"!" + good[1001:])
    if combined:
        compact(processes, monkeypatch)
    assert known(processes.history(), good) == "unknown"


def test_data_of_another_driver_is_stale(processes: Processes, root: str) -> None:
    """Data that the program read from another driver is stale, unless it read the same from this one. What it only
    passed there says nothing."""
    other = Folder(root, Identity.of(facts(driver_version=1)))
    processes.read(b"theirs", b"both", folder=other)
    processes.read(b"both")
    assert [known(processes.history(), word) for word in (b"theirs", b"both")] == ["stale", "attested"]


def damage_of(data: bytes, *good: bytes) -> str:
    sketches = Sketches()
    for one in good:
        sketches.add(len(one), sketch_of(one))
    return sketches.damage(len(data), sketch_of(data))


@given(st.binary(min_size=9, max_size=300_000), st.data())
@settings(max_examples=60)
def test_any_single_change_is_seen(good: bytes, draw: st.DataObject) -> None:
    """One changed word is found in data of any content and size, whichever bits changed."""
    at = draw.draw(st.integers(0, len(good) - 1))
    bits = draw.draw(st.integers(1, 255))
    data = good[:at] + bytes([good[at] ^ bits]) + good[at + 1 :]
    assert damage_of(data, good).startswith("one 64-bit word")


@given(st.integers(1024, 200_000), st.data())
@settings(max_examples=60)
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


def test_history_is_bounded(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs leave few files with the newest records. Of older ones only the digest stays, and in the end nothing:
    a damaged copy, and then the data, is unknown."""
    blobs = [blob(5000, seed=number) for number in range(30)]
    room = 12 * cache_history.BARE_BYTES + 5 * 112  # 112 bytes: of such a sketch
    monkeypatch.setattr(cache_history, "MAX_BYTES", room)
    monkeypatch.setattr(cache_history, "MAX_RECORDS", 12)
    for number, one in enumerate(blobs):
        processes.read(one)
        if number % 10 == 9:
            compact(processes, monkeypatch)
            assert len(processes.files) == 1 and processes.files[0].stat().st_size <= room + format.FILE_HEADER.size
    words = [(known(processes.history(), one), known(processes.history(), one[:-1])) for one in blobs]
    states = [("unknown", "unknown"), ("attested", "unknown"), ("attested", "altered")]
    assert words == sorted(words, key=states.index) and [words.count(state) > 0 for state in states] == [True] * 3


def test_what_cannot_be_read_is_not_deleted(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combining files leaves one of a newer version and one whose data the disk does not give: nobody knows what is in
    them."""
    newer, broken, *rest = [processes.read(blob(5000, seed=number)) for number in range(4)]
    data = bytearray(newer.read_bytes())
    data[8:12] = (format.VERSION + 1).to_bytes(4, "little")
    newer.write_bytes(data)
    parts = Reader.parts

    def fails(self: Reader, *arguments: Any, **named: Any) -> Any:
        if self.path == str(broken):
            raise OSError(5, "Input/output error", self.path)
        return parts(self, *arguments, **named)

    monkeypatch.setattr(Reader, "parts", fails)
    compact(processes, monkeypatch, 1)
    left = processes.files
    assert newer in left and broken in left and len(left) == 3 and not set(rest) & set(left)


def test_files_of_processes_that_live_are_not_combined(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may append to its file. What it added before it ended is in the combined file."""
    ended = [processes.read(b"early %d" % number) for number in range(3)]
    alive = processes.read(b"alive")
    compact(processes, monkeypatch, 2, alive)
    assert alive in processes.files and len(processes.files) == 2 and not set(ended) & set(processes.files)
    assert [known(processes.history(), word) for word in (b"early 0", b"early 2", b"alive")] == ["attested"] * 3


def test_files_that_others_combine_meanwhile(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone when its size is asked for keeps no other work from being done."""
    gone = processes.read(b"data" * 10)
    listed = processes.folder.files_by_program((file_kinds.ATTEST,))
    gone.unlink()
    monkeypatch.setattr(Folder, "files_by_program", lambda *_: listed)
    assert list(cache_history.compact(processes.folder)) == []
