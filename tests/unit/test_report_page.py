"""The page of ``pylayer report --html`` as text; tests/report opens it in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from pathlib import Path

import recorded_runs
from recorded_runs import cache, pipeline

from pylayer.report import figures, page, recorded

#: Of the file that pylayer/report/echarts/README.md names.
ECHARTS = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m{{ 7 * 7 }}\u202e"


def render(root: Path) -> str:
    runs = recorded.read(str(root))
    return page.render(str(root), [(run, figures.of_run(str(root), runs, run)) for run in runs], figures.FRAME_NS)


def test_echarts_is_what_apache_released() -> None:
    """The library's file was not touched."""
    data = resources.files("pylayer.report").joinpath("echarts/echarts.min.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() == ECHARTS


def test_only_the_pages_own_scripts_run(tmp_path: Path) -> None:
    """The policy names the hashes of the two scripts that are there, and allows nothing to be loaded."""
    recorded_runs.write(tmp_path, [pipeline(0, 20)])
    text = render(tmp_path)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and len(scripts) == 2
    assert set(re.findall(r"'sha256-([^']*)'", policy[1])) == hashes
    directives = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert "unsafe" not in directives["script-src"] and set(directives) == {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action",
    }  # fmt: skip
    assert not re.search(
        r"<(?:link|img|iframe|object|embed|base)\b", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    )


def test_texts_of_programs_are_texts(tmp_path: Path) -> None:
    """No name, reason, thread or entry point becomes markup, script, template or an order to a terminal."""
    recorded_runs.write(
        tmp_path, [pipeline(0, 20, text=HOSTILE), cache(30, "emptied", HOSTILE)],
        program=HOSTILE, executable=HOSTILE, device=HOSTILE, driver=HOSTILE, reason=HOSTILE, carrier=HOSTILE,
        kinds={HOSTILE: {"hits": 1, "compiled": 2}}, refused={HOSTILE: 1}, identity=HOSTILE,
        policy={"class": HOSTILE, "failures": 1, "switched_off": HOSTILE},
    )  # fmt: skip
    text = render(tmp_path)
    assert text.count("<script") == text.count("</script>") == 3
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "<img" not in text.replace(page._file("echarts/echarts.min.js"), "") and "onerror=alert(2)&gt;" in outside
    assert "\x1b" not in outside and "\u202e" not in outside and "{{ 7 * 7 }}" in outside


def test_page_without_timeline_says_so(tmp_path: Path) -> None:
    """Where no timeline was recorded the page says why, and has the rest."""
    recorded_runs.write(tmp_path)
    text = render(tmp_path)
    assert "No timeline was recorded" in text and "Stored by this run" in text


def test_of_many_events_the_longest_are_drawn(tmp_path: Path) -> None:
    """What is not drawn is counted, and where to find it is said."""
    from pylayer.report import drawing

    count = drawing.MOST_EVENTS + 5
    events = [pipeline(number, 0.5 if number % 1000 else 0.7, fingerprint=number + 1) for number in range(count)]
    recorded_runs.write(tmp_path, events[: count // 2])
    (run,) = runs = recorded.read(str(tmp_path))
    line = run.timeline(str(tmp_path))
    assert line is not None
    line.events[:] = events
    own = figures.of_run(str(tmp_path), runs, run)
    drawn = drawing.of_run(run, line, own, drawing.Shared(), figures.FRAME_NS)
    assert drawn["left_out"] == 5 and len(drawn["events"]["at"]) == drawing.MOST_EVENTS
    assert sum(ms == 0.7 for ms in drawn["events"]["ms"]) == len(range(0, count, 1000))
    text = page.render(str(tmp_path), [(run, own)], figures.FRAME_NS)
    assert "The shortest 5 events are not drawn" in text and len(text) < 5_000_000


def test_many_threads_share_rows(tmp_path: Path) -> None:
    """A program with more threads than a page has rows has one row for those that did least."""
    from pylayer.report import drawing

    events = [pipeline(number, 5 + number % 7, thread=100 + number) for number in range(drawing.MOST_THREADS + 10)]
    recorded_runs.write(tmp_path, events)
    (run,) = runs = recorded.read(str(tmp_path))
    own = figures.of_run(str(tmp_path), runs, run)
    drawn = drawing.of_run(run, run.timeline(str(tmp_path)), own, drawing.Shared(), figures.FRAME_NS)
    assert len(drawn["threads"]) == drawing.MOST_THREADS + 1 and drawn["threads"][-1] == "10 other threads"
    assert max(drawn["events"]["thread"]) == drawing.MOST_THREADS
