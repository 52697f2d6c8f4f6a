"""A run's file: what is written is read back, within bounds, and no content of a file raises an exception."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from unit.things import facts

from pylayer.common.identity import Identity
from pylayer.store import format, timeline
from pylayer.store.timeline import Event, RunFile

IDENTITY = Identity.of(facts())


def events(root: Path, name: str = "run") -> list[Event]:
    line = timeline.read(str(root), name)
    assert line is not None and line.outcome == "ok"
    return line.events


def written(root: Path, *added: Event, name: str = "run", limit: int = 1 << 20) -> RunFile:
    file = RunFile(str(root), name, IDENTITY, 7, "stutter", limit)
    for event in added:
        file.add(event)
    file.flush()
    return file


def test_round_trip(tmp_path: Path) -> None:
    """Every field is read back, including texts and names of threads, over several flushes."""
    thread = os.getpid()
    first = Event("pipeline", 1, 2, "plain", 3, thread, (1 << 64) - 1, 4, 5, 0x11, "MainPS")
    second = Event("cache", 10, 20, "emptied", number=2, value=1000, text="altered")
    last = Event("hits", (1 << 63), 7, kind=1, value=99)
    file = written(tmp_path, first, second)
    file.add(Event("cache", 50, value=2, text="altered"))
    file.add(last)
    file.flush()
    found = events(tmp_path)
    assert [found[number].as_dict() for number in (0, 1, 3)] == [event.as_dict() for event in (first, second, last)]
    assert (found[2].type, found[2].text) == ("cache", "altered")
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and line.threads == {thread: Path("/proc/self/comm").read_text().strip()}
    assert len(found) == 4 and file.dropped == 0


def test_bytes(tmp_path: Path) -> None:
    """The bytes are as docs/internals/format.md describes them."""
    written(tmp_path, Event("pipeline", 1, 2, "uncacheable", 3, 0, 4, 5, 6, 7, "cs"))
    data = (tmp_path / "runs" / "run.run").read_bytes()
    assert data[16:20] == b"RUNS" and data[256:260] == b"NOTE"
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
    file = written(tmp_path, Event("hits", 1))
    whole = os.path.getsize(file.path)
    file.add(Event("hits", 2))
    file.flush()
    os.truncate(file.path, whole + 100)
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and line.outcome == "truncated"
    assert [event.start_ns for event in line.events] == [1]


def test_full(tmp_path: Path) -> None:
    """The file stays within its limit. Events beyond it are counted."""
    file = RunFile(str(tmp_path), "run", IDENTITY, limit=10_000)
    for number in range(50):
        for _ in range(10):
            file.add(Event("pipeline", number, outcome="compiled"))
        file.flush()
    assert os.path.getsize(file.path) <= 10_000
    assert len(events(tmp_path)) > 100
    assert len(events(tmp_path)) + file.dropped == 500


def test_waiting_is_bounded(tmp_path: Path) -> None:
    """Events that are never flushed use a bounded amount of memory."""
    file = RunFile(str(tmp_path), "run", IDENTITY)
    for _ in range(timeline.MAX_WAITING + 5):
        file.add(Event("hits", 1))
    assert file.dropped == 5


def test_values(tmp_path: Path) -> None:
    """What changed of a run's values is added, level by level, between events. In a full file only the end counts."""
    file = written(tmp_path, Event("hits", 1), limit=1000)
    name, hits = "two\nlines\r\u2028, 100%=x.y", {"graphics": {"hits": 1}}
    values: dict[str, Any] = {"program": name, "refused": {}, "kinds": hits}
    file.note(values)
    whole = os.path.getsize(file.path)
    file.note(values)
    assert os.path.getsize(file.path) == whole
    file.note({"program": name, "refused": {"altered": 2}, "kinds": {"graphics": {"hits": 1, "compiled": 3}}})
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and len(line.events) == 1
    assert line.values == {
        "program": name, "refused": {"altered": 2}, "kinds": {"graphics": {"hits": 1, "compiled": 3}}
    }  # fmt: skip
    file.note({"long": "x" * (timeline.MAX_NOTE_BYTES - 10)})
    file.note({"more": "x" * 2000})
    file.note({"lost": 1})
    file.note({"ended": 2.0})
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and (line.values.get("lost"), line.values["ended"]) == (None, 2.0)


def test_cannot_be_written(tmp_path: Path) -> None:
    """Each failure is reported, and its events are counted. Later ones are written once that is possible."""
    (tmp_path / "runs").write_text("not a directory")
    file = RunFile(str(tmp_path), "run", IDENTITY)
    file.add(Event("hits", 1, text="text"))
    with pytest.raises(OSError):
        file.flush()
    with pytest.raises(OSError):
        file.note({"a": 1})
    (tmp_path / "runs").unlink()
    file.add(Event("hits", 2, text="text"))
    file.flush()
    file.note({"a": 1})
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and line.values == {"a": 1}
    assert [(event.start_ns, event.text) for event in line.events] == [(2, "text")]
    assert file.dropped == 1


def test_deleted_meanwhile(tmp_path: Path) -> None:
    """If somebody deletes the file, it is written anew, with all values."""
    file = written(tmp_path, Event("hits", 1))
    file.note({"a": 1, "b": 2})
    Path(file.path).unlink()
    file.note({"a": 1, "b": 3})
    line = timeline.Timeline()
    line.read(file.path)
    assert line.values == {"a": 1, "b": 3}


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
    (tmp_path / "runs" / "run.run").write_bytes(data)
    line = timeline.read(str(tmp_path), "run")
    assert line is not None and (line.events, line.outcome) == ([], outcome)
