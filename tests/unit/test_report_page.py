"""The page of ``pylayer report --html`` as text; tests/report opens it in a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import recorded_runs
from recorded_runs import MONOTONIC, MS, Event, cache, hits, pipeline
from report import made_up

from pylayer.report import page, recorded, rows
from pylayer.store.timeline import Present

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m{{ 7 * 7 }}\u202e"


def render(root: Path) -> str:
    runs = recorded.read(str(root))
    return page.render([(run, rows.of_run(runs, run)) for run in runs], rows.FRAME_NS)


def test_only_the_pages_own_scripts_run(tmp_path: Path) -> None:
    """The content security policy names the hashes of the page's scripts and styles and allows nothing to be loaded."""
    recorded_runs.write(tmp_path, [pipeline(0, 20)])
    text = render(tmp_path)
    scripts, styles = (re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("script", "style"))
    own = [*scripts, *styles]
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in own}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and len(scripts) == 2 and len(styles) == 1 and " style=" not in text
    assert set(re.findall(r"'sha256-([^']*)'", policy[1])) == hashes
    directives = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert "unsafe" not in policy[1]
    assert set(directives) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    assert not re.search(
        r"<(?:link|img|iframe|object|embed|base)\b", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    )


def test_texts_of_programs_are_texts(tmp_path: Path) -> None:
    """No name, reason, thread or entry point becomes markup, script, template or a terminal control sequence."""
    recorded_runs.write(
        tmp_path, [pipeline(0, 20, text=HOSTILE), cache(30, "emptied", HOSTILE)],
        program=HOSTILE, executable=HOSTILE, device=HOSTILE, driver=HOSTILE, reason=HOSTILE, mode=HOSTILE,
        kinds={HOSTILE: {"hits": 1, "compiled": 2}}, refused={HOSTILE: 1},
        policy={"class": HOSTILE, "failures": 1, "switched_off": HOSTILE},
    )  # fmt: skip
    text = render(tmp_path)
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    # The timeline's data; the scripts are gone.
    assert own.count("<script") == own.count("</script>") == 1 and text.count("<script>") == 2
    assert "<img" not in own and "onerror=alert(2)&gt;" in own
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "\x1b" not in outside and "\u202e" not in outside and "{{ 7 * 7 }}" in outside


def data_of(root: Path) -> dict[str, Any]:
    """What the page's script gets of the only run of a store."""
    (run,) = recorded.read(str(root))
    line = run.timeline
    assert line is not None
    found = page.timeline(line, rows.origin(run), 10**10, rows.FRAME_NS)
    unpacked = json.loads(gzip.decompress(base64.b64decode(page.packed(found))))
    assert isinstance(unpacked, dict)
    return unpacked


def test_every_event_is_on_the_page(tmp_path: Path) -> None:
    """Each event has what --json tells of a pipeline, with its outcome in words. Hits are those of each second."""
    named = Event("shader", MONOTONIC, fingerprint=0xABC, stages=0x10, value=0x77, text="water.frag")
    recorded_runs.write(
        tmp_path, [pipeline(0, 20), named, cache(30, "emptied", "stale"), pipeline(31, 2), hits(0, 3), hits(0, 4)]
    )
    data = data_of(tmp_path)
    first, judged, last = data["events"]
    shader = {"stage": "fragment", "hash": f"{0x77:016x}", "name": "water.frag"}
    assert (first["at_ns"], first["duration_ns"], last["at_ns"]) == (0, 20 * MS, 31 * MS)
    assert (first["fingerprint"], first["name"], first["shaders"]) == (f"{0xABC:016x}", "water.frag", [shader])
    assert (first["kind"], first["sort"], first["outcome"]) == ("graphics", "compiled", "compiled, and kept")
    assert judged["sort"] == "wait" and judged["outcome"].startswith("emptied: read back by this program from another")
    assert data["frames"] is None and data["hits"] == [[0, 1_000_000, 7]]


def test_many_threads_share_rows(tmp_path: Path) -> None:
    """The busiest threads have rows of their own, the one that presents before all. The others share one row."""
    count = page.MOST_THREADS + 10
    shown = [Present(MONOTONIC, 1, 100, 1), Present(MONOTONIC + MS, 2, 100, 1)]
    events = [pipeline(number, 5 + number, thread=100 + number) for number in range(count)]
    recorded_runs.write(tmp_path, events, presents=shown)
    data = data_of(tmp_path)
    assert [own["id"] for own in data["threads"][:3]] == [100, 100 + count - 1, 100 + count - 2]
    assert data["threads"][0]["presents"] and not data["threads"][1]["presents"]
    assert data["threads"][-1]["name"] == "10 other threads" and len(data["threads"]) == page.MOST_THREADS + 1
    assert sum(own["row"] == page.MOST_THREADS for own in data["events"]) == 10


def test_frames(tmp_path: Path) -> None:
    """Starts and numbers count from those of the frame before. Of a late frame the page tells how much of it was
    pipelines."""
    times = [(1, 0), (2, 10), (3, 20), (7, 50), (8, 90), (9, 100)]
    shown = [Present(MONOTONIC + at * MS, number, 101, 3) for number, at in times]
    recorded_runs.write(tmp_path, [pipeline(55, 30)], presents=shown)
    data = data_of(tmp_path)
    assert data["events"][0]["frame"] == 2
    data = data["frames"]
    assert data["start_us"] == [0, 10_000, 40_000, 40_000]
    assert data["duration_us"] == [10_000, 10_000, 40_000, 10_000]
    assert data["number"] == [2, 1, 5, 1] and data["swapchain"] == [3] * 4 and data["late"] == [[2, 30_000, 1]]


def test_page_is_small(tmp_path: Path) -> None:
    """With 125 pipelines and 5,000 frames, of which some are late, the page has less than 0.25 MB."""
    made_up.write_page(tmp_path / "short.html", 125, 60, 5000)
    assert (tmp_path / "short.html").stat().st_size < 250_000
