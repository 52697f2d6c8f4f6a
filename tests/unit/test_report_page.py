"""The page of ``pylayer report --html`` as text; tests/report opens it in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import recorded_runs
from plotly.offline import get_plotlyjs
from recorded_runs import MS, cache, pipeline

from pylayer.report import drawing, figures, page, recorded

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m{{ 7 * 7 }}\u202e"


def render(root: Path) -> str:
    runs = recorded.read(str(root))
    return page.render(str(root), [(run, figures.of_run(str(root), runs, run)) for run in runs], figures.FRAME_NS)


def test_only_the_pages_own_scripts_run(tmp_path: Path) -> None:
    """The content security policy names the hashes of the page's two scripts and allows nothing to be loaded."""
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
    """No name, reason, thread or entry point becomes markup, script, template or a terminal control sequence."""
    recorded_runs.write(
        tmp_path, [pipeline(0, 20, text=HOSTILE), cache(30, "emptied", HOSTILE)],
        program=HOSTILE, executable=HOSTILE, device=HOSTILE, driver=HOSTILE, reason=HOSTILE, carrier=HOSTILE,
        kinds={HOSTILE: {"hits": 1, "compiled": 2}}, refused={HOSTILE: 1}, identity=HOSTILE,
        policy={"class": HOSTILE, "failures": 1, "switched_off": HOSTILE},
    )  # fmt: skip
    text = render(tmp_path)
    own = text.replace(get_plotlyjs(), "")
    # Three figures and two scripts.
    assert own.count("<script") == own.count("</script>") == 2 + 2
    assert "<img" not in own and "onerror=alert(2)&gt;" in own
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "\x1b" not in outside and "\u202e" not in outside and "{{ 7 * 7 }}" in outside


def test_page_without_timeline_says_so(tmp_path: Path) -> None:
    """If no timeline was recorded, the page says why and has everything else."""
    recorded_runs.write(tmp_path)
    text = render(tmp_path)
    assert "No timeline was recorded" in text and "Stored by this run" in text


def test_of_many_events_the_longest_are_drawn(tmp_path: Path) -> None:
    """Events that are not drawn are counted, and the page says where to find them."""
    count = drawing.MOST_EVENTS + 5
    events = [pipeline(number, 0.5 if number % 1000 else 0.7, fingerprint=number + 1) for number in range(count)]
    recorded_runs.write(tmp_path, events)
    (run,) = runs = recorded.read(str(tmp_path))
    line = run.timeline(str(tmp_path))
    assert line is not None
    own = figures.of_run(str(tmp_path), runs, run)
    drawn = drawing.timeline(run, line, own["duration_ns"], figures.FRAME_NS)
    assert drawn is not None
    assert (drawn.left_out, drawn.events) == (5, drawing.MOST_EVENTS)
    (bars,) = [trace for trace in drawn.figure["data"] if trace["name"] == "graphics"]
    assert len(bars["x"]) == drawing.MOST_EVENTS and bars["x"].count(0.0007) == len(range(0, count, 1000))
    text = page.render(str(tmp_path), [(run, own)], figures.FRAME_NS)
    assert "The shortest 5 events are not drawn" in text and len(text) - len(get_plotlyjs()) < 2_000_000


def test_many_threads_share_rows(tmp_path: Path) -> None:
    """If a program has more threads than the page has rows, the least busy threads share one row."""
    events = [pipeline(number, 5 + number % 7, thread=100 + number) for number in range(drawing.MOST_THREADS + 10)]
    recorded_runs.write(tmp_path, events)
    (run,) = recorded.read(str(tmp_path))
    line = run.timeline(str(tmp_path))
    assert line is not None
    drawn = drawing.timeline(run, line, 10**10, figures.FRAME_NS)
    assert drawn is not None and drawn.threads == drawing.MOST_THREADS + 1
    assert drawn.figure["layout"]["yaxis"]["ticktext"][-1] == "10 other threads"
    assert max(drawn.figure["data"][0]["y"]) == drawing.MOST_THREADS


def test_compile_time_is_added_up(tmp_path: Path) -> None:
    """A compilation across the end of an interval is divided between both intervals, and the sum is unchanged."""
    recorded_runs.write(tmp_path, [pipeline(7, 8), pipeline(9, 2, thread=102), pipeline(30, 4)])
    (run,) = recorded.read(str(tmp_path))
    line = run.timeline(str(tmp_path))
    assert line is not None
    drawn = drawing.timeline(run, line, 34 * MS, figures.FRAME_NS)
    assert drawn is not None
    (bars,) = [trace for trace in drawn.figure["data"] if trace["name"] == "compiling"]
    assert bars["y"] == [3 + 1, 5 + 1, 4] and bars["x"] == [0.0075, 0.0125, 0.0325]
