"""A run's timeline: what is written is read back, within bounds, and no content of a file raises an exception."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from unit.things import facts

from pylayer.common.identity import Identity
from pylayer.store import format, timeline
from pylayer.store.timeline import Event, TimelineFile

IDENTITY = Identity.of(facts())


def events(root: Path, name: str = "run") -> list[Event]:
    line = timeline.read(str(root), name)
    assert line is not None and line.outcome == "ok"
    return line.events


def written(root: Path, *added: Event, name: str = "run", limit: int = 1 << 20) -> TimelineFile:
    file = TimelineFile(str(root), name, IDENTITY, 7, "stutter", limit)
    for event in added:
        file.add(event)
    file.flush()
    return file


def test_round_trip(tmp_path: Path) -> None:
    """Every field is read back, including texts and names of threads, over several flushes."""
    thread = os.getpid()
    first = Event("pipeline", 1, 2, "plain", 3, thread, (1 << 64) - 1, 4, 5, 0x11, "MainPS")
    second = Event("cache", 10, 20, "emptied", number=2, value=1000, text="altered")
    third = Event("device", 30, 40, "binaries", text="chosen by the policy file")
    last = Event("hits", (1 << 63), 7, kind=1, value=99)
    file = written(tmp_path, first, second)
    file.add(third)
    file.add(Event("count", 50, value=2, text="altered"))
    file.add(last)
    file.flush()
    found = events(tmp_path)
    assert [event.as_dict() for event in (found[0], found[1], found[2], found[4])] == [
        event.as_dict() for event in (first, second, third, last)
    ]
    assert (found[3].type, found[3].text) == ("count", "altered")
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and line.threads == {thread: Path("/proc/self/comm").read_text().strip()}
    assert file.events == 5 and file.dropped == 0


def test_bytes(tmp_path: Path) -> None:
    """The bytes are as docs/internals/format.md describes them."""
    written(tmp_path, Event("pipeline", 1, 2, "uncacheable", 3, 0, 4, 5, 6, 7, "cs"))
    data = (tmp_path / "runs" / "run.events").read_bytes()
    assert data[16:20] == b"EVNT" and data[256:260] == b"NOTE"
    size = int.from_bytes(data[264:272], "little")
    assert data[320 : 320 + size] == b"texts.1=s:cs\n"
    at = 256 + format.record_size(size)
    assert data[at : at + 4] == b"EVTS"
    numbers = [1, 2, 4, 6]
    expected = b"".join(number.to_bytes(8, "little") for number in numbers)
    expected += b"".join(number.to_bytes(4, "little") for number in (0, 5, 7, 1))
    expected += bytes([1, 0, 3, 2]) + bytes(12)
    assert data[at + 64 : at + 128] == expected and len(data) == at + 128


def test_torn(tmp_path: Path) -> None:
    """A file that ends in the middle of a flush has the events of the earlier flushes."""
    file = written(tmp_path, Event("end", 1))
    whole = os.path.getsize(file.path)
    file.add(Event("end", 2))
    file.flush()
    os.truncate(file.path, whole + 100)
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and line.outcome == "truncated"
    assert [event.start_ns for event in line.events] == [1]


def test_follow(tmp_path: Path) -> None:
    """What a run appends is read once, even if a flush was first seen incomplete. Texts of earlier flushes are
    known."""
    follower = timeline.Follower(str(tmp_path), "run")
    assert follower.new() == []
    file = written(tmp_path, Event("count", 1, text="failed"), Event("end", 2))
    assert [event.start_ns for event in follower.new()] == [1, 2]
    assert follower.new() == []
    whole = os.path.getsize(file.path)
    file.add(Event("count", 3, text="failed"))
    file.flush()
    data = Path(file.path).read_bytes()
    Path(file.path).write_bytes(data[: whole + 70])
    assert follower.new() == []
    Path(file.path).write_bytes(data)
    assert [(event.start_ns, event.text) for event in follower.new()] == [(3, "failed")]


def test_full(tmp_path: Path) -> None:
    """The file stays within its limit. Events beyond it are counted."""
    file = TimelineFile(str(tmp_path), "run", IDENTITY, limit=10_000)
    for number in range(50):
        for _ in range(10):
            file.add(Event("pipeline", number, outcome="compiled"))
        file.flush()
    assert os.path.getsize(file.path) <= 10_000
    assert file.events == len(events(tmp_path)) > 100
    assert file.events + file.dropped == 500


def test_waiting_is_bounded(tmp_path: Path) -> None:
    """Events that are never flushed use a bounded amount of memory."""
    file = TimelineFile(str(tmp_path), "run", IDENTITY)
    for _ in range(timeline.MAX_WAITING + 5):
        file.add(Event("end", 1))
    assert file.dropped == 5


def test_cannot_be_written(tmp_path: Path) -> None:
    """The first failure is reported. After it, events are only counted and nothing is tried again."""
    (tmp_path / "runs").write_text("not a directory")
    file = TimelineFile(str(tmp_path), "run", IDENTITY)
    file.add(Event("end", 1))
    with pytest.raises(OSError):
        file.flush()
    file.add(Event("end", 2))
    file.flush()
    assert file.dropped == 2 and file.events == 0


def test_hostile_texts(tmp_path: Path) -> None:
    """Texts of programs are cut to a limit and otherwise read back unchanged. Their number is limited too."""
    texts = ["</script>\x1b[31m\n", "x" * 500, *(f"entry{number}" for number in range(10_000))]
    written(tmp_path, *(Event("pipeline", 1, outcome="compiled", text=text) for text in texts))
    found = [event.text for event in events(tmp_path)]
    assert found[0] == texts[0] and found[1] == "x" * timeline.MAX_TEXT
    assert len(set(found)) == timeline.MAX_TEXTS + 1 and found[-1] == ""


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b"", "empty"),
        (b"PYLCACHE", "truncated"),
        (bytes(300), "zero-filled"),
        (b"x" * 1000, "not-a-store-file"),
        (format.file_header(format.JOURNAL, IDENTITY, salt=0), "not-a-store-file"),
    ],
)
def test_not_a_timeline(tmp_path: Path, data: bytes, outcome: str) -> None:
    """A file that is not a timeline, like a store's file of another kind, has no events, and the reason is given."""
    (tmp_path / "runs").mkdir(mode=0o700)
    (tmp_path / "runs" / "run.events").write_bytes(data)
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and (line.events, line.outcome) == ([], outcome)


def test_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest timelines stay, within limits of number and bytes. Statistics are not touched."""
    directory = tmp_path / "runs"
    directory.mkdir(mode=0o700)
    for number in range(60):
        (directory / f"{number:04}.events").write_bytes(bytes(10))
    (directory / "0000.run").touch()
    assert timeline.prune(str(tmp_path)) == 60 - timeline.MAX_FILES
    assert (directory / "0010.events").exists() and not (directory / "0009.events").exists()
    monkeypatch.setattr(timeline, "MAX_TOTAL_BYTES", 50)
    timeline.prune(str(tmp_path))
    assert sorted(os.listdir(directory)) == ["0000.run", *(f"{number:04}.events" for number in range(55, 60))]


def test_timelines_from_the_future(tmp_path: Path) -> None:
    """Timelines that are dated in the future, because the clock was wrong, are deleted before those of today."""
    directory = tmp_path / "runs"
    directory.mkdir(mode=0o700)
    now = time.time_ns()
    for number in range(timeline.MAX_FILES):
        (directory / f"{now + 10**16 + number:016x}-0.events").write_bytes(bytes(10))
    (directory / f"{now:016x}-0.events").write_bytes(bytes(10))
    assert timeline.prune(str(tmp_path)) == 1 and (directory / f"{now:016x}-0.events").exists()


def test_timeline_of_a_living_process_is_kept(tmp_path: Path) -> None:
    """The timeline of a device that exists stays, however many newer runs of its program there are."""
    file = written(tmp_path, Event("hits", 1), name="0000")
    folder = tmp_path / "store" / ("0" * 32)
    folder.mkdir(mode=0o700, parents=True)
    (folder / "0000.live").touch()
    for number in range(1, timeline.MAX_FILES + 11):
        (tmp_path / "runs" / f"{number:04}.events").write_bytes(bytes(10))
    assert timeline.prune(str(tmp_path)) == 10
    file.add(Event("hits", 2))
    file.flush()
    assert [event.start_ns for event in events(tmp_path, "0000")] == [1, 2]
