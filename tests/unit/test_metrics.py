"""The file for Prometheus: what its own parser makes of it, whatever programs are called."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from unit.things import FakeCommands, counters, facts, program

from pylayer import metrics
from pylayer.identity import Identity
from pylayer.metrics import Textfile
from pylayer.recording import Recording
from pylayer.store import owner
from pylayer.values import LOG_WARN

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def values(**changes: Any) -> dict[str, Any]:
    """Those of a .run file."""
    made: dict[str, Any] = {
        **dict.fromkeys(("executable", "application", "engine", "driver", "driver_info", "identity", "carrier"), "x"),
        **dict.fromkeys(("stored_records", "stored_bytes", "lost_records", "write_errors", "store_bytes"), 0),
        **dict.fromkeys(("loaded_records", "loaded_bytes", "queued", "queued_bytes"), 0),
        "pylayer": "0.1",
        "pid": 7,
        "started": 1_700_000_000.5,
        "ended": 0.0,
        "program": "game",
        "device": "A device",
        "counters": counters(),
        "kinds": {},
        "refused": {},
        "cache_outcomes": {},
        "damage": {},
    }
    return made | changes


def parsed(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Samples by name and by labels beside those of each run."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            labels = {name: text for name, text in sample.labels.items() if name not in ("run", "program", "device")}
            key = tuple(sorted(labels.items()))
            assert key not in found.setdefault(sample.name, {})
            found[sample.name][key] = sample.value
    return found


def test_parsed() -> None:
    """Counters and gauges by their names, in seconds and bytes."""
    text = metrics.render(
        "0123",
        values(
            counters=counters(pipelines=30, hits=10, hit_ns=2_500_000_000, events_dropped=3),
            kinds={"graphics, fast-linked": {"hits": 10, "compiled": 20, "compile_ns": 1_500_000_000}},
            refused={"altered": 2},
            cache_outcomes={"attested": 5},
            damage={"truncated": 1},
        ),
    )
    found = parsed(text)
    kind = (("kind", "graphics, fast-linked"),)
    assert found["pylayer_pipelines_total"] == {(): 30}
    assert found["pylayer_pipeline_hit_seconds_total"] == {(): 2.5}
    assert found["pylayer_pipeline_hits_total"] == {kind: 10}
    assert found["pylayer_pipeline_compiles_total"] == {kind: 20}
    assert found["pylayer_pipeline_compile_seconds_total"] == {kind: 1.5}
    assert found["pylayer_queue_dropped_total"] == {(): 3}
    assert found["pylayer_cache_data_total"] == {
        (("reason", "attested"), ("verdict", "passed")): 5,
        (("reason", "altered"), ("verdict", "refused")): 2,
    }
    assert found["pylayer_damaged_parts"] == {(("outcome", "truncated"),): 1}
    assert found["pylayer_run_start_time_seconds"] == {(): 1_700_000_000.5}
    ((info, one),) = found["pylayer_run_info"].items()
    assert dict(info)["pid"] == "7" and one == 1
    assert set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) == {name for name, _, _ in metrics.METRICS}


@pytest.mark.parametrize("name", ['a "game"\\', "two\nlines", "x} 5\npylayer_evil 1", "\x00\x1b\u202e", "'", "ünï {}"])
def test_hostile_names(name: str) -> None:
    """A program's name is a label, whatever it is."""
    text = metrics.render("0123", values(program=name, executable=name, cache_outcomes={name: 1}))
    families = list(text_string_to_metric_families(text))
    assert {family.name for family in families} == {name.removesuffix("_total") for name, _, _ in metrics.METRICS}
    for family in families:
        assert all(sample.labels["program"] == name for sample in family.samples)


def test_documented() -> None:
    """docs/metrics.md has each metric with its type and help, and none that is not there."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [(name, kind, text.rstrip(".")) for name, kind, text in metrics.METRICS]


def test_names() -> None:
    """Prometheus' conventions: counters end in _total, gauges do not, and there is one prefix."""
    for name, kind, _ in metrics.METRICS:
        assert name.startswith("pylayer_") and name.endswith("_total") == (kind == "counter")


def test_file(tmp_path: Path) -> None:
    """It is whole at any time, for everybody to read, and written again when it is time or the run has ended."""
    file = Textfile(str(tmp_path), "0123-abc")
    file.write(values())
    path = tmp_path / "pylayer-0123-abc.prom"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644 and 'run="abc"' in path.read_text()
    file.write(values(queued=5))
    assert parsed(path.read_text())["pylayer_queue_messages"] == {(): 0}
    file.write(values(queued=5, ended=1.0))
    assert parsed(path.read_text())["pylayer_queue_messages"] == {(): 5}
    assert parsed(path.read_text())["pylayer_run_ended"] == {(): 1}


def test_left_files(tmp_path: Path) -> None:
    """Files of processes that ended a while ago go; those of ones that run, or of others, stay."""
    machine, pid, ticks = owner.this_process()
    files = {
        "pylayer-old.prom": f"# process {machine.hex()} {pid} {ticks + 1}\n",
        "pylayer-torn.prom.tmp": f"# process {machine.hex()} {pid} {ticks + 1}\n",
        "pylayer-running.prom": f"# process {machine.hex()} {pid} {ticks}\n",
        "pylayer-elsewhere.prom": f"# process {bytes(15).hex()}01 {pid} {ticks + 1}\n",
        "pylayer-mine.prom": "no process\n",
        "other.prom": f"# process {machine.hex()} {pid} {ticks + 1}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert metrics.remove_left(str(tmp_path)) == 0  # all of them are new
    for name in files:
        os.utime(tmp_path / name, (time.time() - 3600,) * 2)
    Textfile(str(tmp_path), "new").write(values())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other.prom",
        "pylayer-elsewhere.prom",
        "pylayer-mine.prom",
        "pylayer-new.prom",
        "pylayer-running.prom",
    ]


def test_directory_that_is_none(tmp_path: Path) -> None:
    """One line says that the directory cannot be used, and the run's own statistics are written."""
    commands = FakeCommands()
    recording = Recording(commands, 5, str(tmp_path), Identity.of(facts()), program(), 7, 1)  # type: ignore[arg-type]
    recording.publish_in(str(tmp_path / "nowhere"))
    totals = {key: value for key, value in values().items() if key not in ("pid", "started", "ended", "kinds")}
    for number in range(3):
        assert recording.write(totals | {"stored_bytes": number}, counters(), str(tmp_path))
    assert [(level, text.partition(":")[0]) for level, text in commands.logged] == [
        (LOG_WARN, f"metrics cannot be written to {tmp_path}/nowhere")
    ]
