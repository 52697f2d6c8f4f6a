"""A run's file and its frames: what is written is read back, within bounds, and no content of a file raises an
exception."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import MONOTONIC, MS
from unit.things import IDENTITY

from pylayer.report import late_frames
from pylayer.store import format, timeline
from pylayer.store.timeline import FRAME_NS, Event, Present, RunFile, Usual, read


def events(root: Path) -> list[Event]:
    line = timeline.read(str(root), "run")
    assert line is not None and line.outcome == "ok"
    return line.events


def written(root: Path, *added: Event, limit: int = 1 << 20) -> RunFile:
    file = RunFile(str(root), "run", IDENTITY, 7, "stutter", limit)
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


def test_cannot_be_written(tmp_path: Path, presents: list[Present]) -> None:
    """Each failure is reported, and its events and frames are counted. Later ones are written once that is possible."""
    (tmp_path / "runs").write_text("not a directory")
    file = RunFile(str(tmp_path), "run", IDENTITY)
    file.add(Event("hits", 1, text="text"))
    for first in (0, 10):
        file.present(presents[first : first + 10])
        with pytest.raises(OSError, match="runs"):
            file.flush()
    assert file.frames_left_out == 20
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


# ---- Frames --------------------------------------------------------------------------------------


USUAL, LATE, EVERY = 10 * MS, 50 * MS, 10
COUNT = 4000


@pytest.fixture
def presents() -> list[Present]:
    """Frames of 10 ms. Every tenth takes 50 ms."""
    found, at = [], MONOTONIC
    for number in range(1, COUNT + 1):
        at += LATE if number % EVERY == 0 else USUAL
        found.append(Present(at, number, 101, 1))
    return found


def frames_written(root: Path, presents: list[Present], limit: int) -> RunFile:
    """Writes a timeline in flushes of 100 frames."""
    line = RunFile(str(root), "run", IDENTITY, limit=limit)
    for first in range(0, len(presents), 100):
        line.present(presents[first : first + 100])
        line.flush()
    line.close()
    return line


def test_a_timeline_that_is_full_of_frames(tmp_path: Path, presents: list[Present]) -> None:
    """Frames fill half of a timeline. What is not kept is counted, and the layer's own counts are told. It counts late
    frames by one budget, so for another one their number is unknown. The longest frame is known for each."""
    file = frames_written(tmp_path, presents, 20 << 10)
    line = read(str(tmp_path), "run")
    assert line is not None and 2000 < len(line.presents[1][0]) == COUNT - file.frames_left_out < COUNT
    late = late_frames.late(line, FRAME_NS)
    assert late and all(own.frame.number % EVERY == 0 and own.usual_ns == USUAL for own in late)
    counted = {"frames": COUNT, "late_frames": 400, "late_by_pipelines": 3, "longest_frame_ns": LATE}
    for budget, number in ((FRAME_NS, 400), (8 * MS, None)):
        told = late_frames.row(counted, line, late_frames.late(line, budget), budget, MONOTONIC)
        assert (told["frames"], told["late_frames"], told["longest_frame_ns"]) == (COUNT, number, LATE)


def test_a_lower_rate_is_usual_after_a_while(tmp_path: Path) -> None:
    """Frames that take longer for good are not late for ever, also if some are missing before them."""
    times = [MONOTONIC + number * USUAL for number in range(100)]
    times += [times[-1] + 200 * MS + number * LATE for number in range(200)]
    numbers = [*range(1, 101), *range(111, 311)]
    line = frames_written(
        tmp_path, [Present(at, number, 101, 1) for at, number in zip(times, numbers, strict=True)], 1 << 20
    )
    assert line.frames_left_out == 0
    found = read(str(tmp_path), "run")
    assert found is not None and 0 < len(late_frames.late(found, FRAME_NS)) < 110


def pattern(*times_ms: float, count: int = 600) -> list[int]:
    """Returns the frames of a program whose frames take these times, one after the other."""
    return [int(times_ms[number % len(times_ms)] * MS) for number in range(count)]


@pytest.mark.parametrize(
    ("times", "late"),
    [
        (pattern(1000 / 60), 0),
        (pattern(1000 / 24), 0),
        (pattern(2000 / 59.94, 3000 / 59.94), 0),  # 24 frames a second at 59.94 Hz, and 45
        (pattern(1000 / 59.94, 1000 / 59.94, 2000 / 59.94), 200),
        (pattern(25, 0.05), 0),  # one generated frame right after each other one
        (pattern(25, 0.3, 0.3, 0.3), 0),
        (pattern(25, 3, 3), 0),
        (pattern(30, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5), 0),
        (pattern(24, 26, 0.1, 0.1), 0),
        ([int((12 + 8 * (number % 100) / 100) * MS) for number in range(600)], 0),  # variable refresh
        (pattern(*[1.0] * 9, 60), 60),  # hitches of a fast program
        (pattern(*[8.0] * 4, 60), 120),
    ],
)
def test_what_is_late(times: list[int], late: int) -> None:
    """The number of late frames, without the first few, of which nothing is known to be usual."""
    usual, found = Usual(), 0
    for number, took in enumerate(times):
        found += number >= 60 and usual.is_late(took)
        usual.add(took)
    assert abs(found - late * (len(times) - 60) / len(times)) <= 2
