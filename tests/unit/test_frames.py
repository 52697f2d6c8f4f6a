"""Frames in a timeline: how many it keeps, and which of them a report calls late."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_runs import IDENTITY, MONOTONIC, MS

from pylayer.report import late_frames
from pylayer.store.timeline import FRAME_NS, Event, Present, RunFile, Usual, read

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


def written(root: Path, presents: list[Present], limit: int, events: list[Event] | None = None) -> RunFile:
    """Writes a timeline in flushes of 100 frames."""
    line = RunFile(str(root), "run", IDENTITY, limit=limit)
    for event in events or ():
        line.add(event)
    for first in range(0, len(presents), 100):
        line.present(presents[first : first + 100])
        line.flush()
    line.close()
    return line


def test_a_timeline_that_is_full_of_frames(tmp_path: Path, presents: list[Present]) -> None:
    """Frames fill half of a timeline. What is not kept is counted."""
    file = written(tmp_path, presents, 20 << 10)
    line = read(str(tmp_path), "run")
    assert line is not None and 2000 < len(line.presents[1][0]) == COUNT - file.frames_left_out < COUNT
    late = late_frames.late(line, FRAME_NS)
    assert late and all(own.frame.number % EVERY == 0 and own.usual_ns == USUAL for own in late)


def test_what_is_known_beside_a_full_timeline(tmp_path: Path, presents: list[Present]) -> None:
    """If the timeline lacks frames, the layer's own counts are told. It counts late frames by one budget, so for
    another one their number is unknown. The longest frame is known for each."""
    written(tmp_path, presents, 20 << 10)
    line = read(str(tmp_path), "run")
    counted = {"frames": COUNT, "late_frames": 400, "late_by_pipelines": 3, "longest_frame_ns": LATE}
    for budget, late in ((FRAME_NS, 400), (8 * MS, None)):
        told = late_frames.row(counted, line, late_frames.late(line, budget), budget, MONOTONIC)
        assert (told["frames"], told["late_frames"], told["longest_frame_ns"]) == (COUNT, late, LATE)


def test_a_lower_rate_is_usual_after_a_while(tmp_path: Path) -> None:
    """Frames that take longer for good are not late for ever, also if some are missing before them."""
    times = [MONOTONIC + number * USUAL for number in range(100)]
    times += [times[-1] + 200 * MS + number * LATE for number in range(200)]
    numbers = [*range(1, 101), *range(111, 311)]
    line = written(tmp_path, [Present(at, number, 101, 1) for at, number in zip(times, numbers, strict=True)], 1 << 20)
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
        (pattern(1000 / 59.94), 0),
        (pattern(1000 / 59.94, 1000 / 59.94 + 0.3), 0),
        (pattern(1000 / 29.97), 0),
        (pattern(1000 / 24), 0),
        (pattern(2000 / 59.94, 3000 / 59.94), 0),  # 24 frames a second at 59.94 Hz, and 45
        (pattern(1000 / 59.94, 1000 / 59.94, 2000 / 59.94), 200),
        (pattern(25, 0.05), 0),  # one generated frame right after each other one
        (pattern(25, 0.05, 0.05), 0),
        (pattern(25, 0.3, 0.3, 0.3), 0),
        (pattern(25, 3, 3), 0),
        (pattern(30, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5), 0),
        (pattern(12.5, 12.5), 0),  # generated frames, with pacing
        (pattern(24, 26, 0.1, 0.1), 0),
        ([int((12 + 8 * (number % 100) / 100) * MS) for number in range(600)], 0),  # variable refresh
        (pattern(8, 12, 16, 20, 16, 12), 0),
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


def test_what_cannot_be_written_is_counted(tmp_path: Path, presents: list[Present]) -> None:
    """Frames that the disk does not take are counted as left out."""
    line = RunFile(str(tmp_path), "run", IDENTITY)
    (tmp_path / "runs").write_text("a file in the place of the directory")
    for first in (0, 10):
        line.present(presents[first : first + 10])
        with pytest.raises(OSError, match="runs"):
            line.flush()
    assert line.frames_left_out == 20
