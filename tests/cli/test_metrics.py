"""``pylayer stats --prometheus``: Prometheus' own parser reads the output correctly, whatever programs are called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from cli.test_stats import write_run
from cli.user import User
from prometheus_client.parser import text_string_to_metric_families

from pylayer.cli import stats

COMMON = ("store", "program", "device", "identity", "since")

Found = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parsed(text: str, beside: tuple[str, ...] = COMMON) -> Found:
    """Returns samples by name and by labels other than ``beside``. No two samples have the same labels."""
    found: Found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            key = tuple(sorted((name, text) for name, text in sample.labels.items() if name not in beside))
            assert key not in found.setdefault(sample.name, {})
            found[sample.name][key] = sample.value
    return found


def test_real_program(user: User) -> None:
    """Two runs: the first compiled every pipeline, the second found every one. The file is complete and readable by
    everybody."""
    user.demo(12)
    user.demo(12)
    file = user.directory / "pylayer.prom"
    assert user.pylayer("stats", "--prometheus", file).stdout == ""
    assert file.stat().st_mode & 0o777 == 0o644 and [path.name for path in user.directory.iterdir()] == [file.name]
    assert file.read_text() == user.pylayer("stats", "--prometheus").stdout
    found = parsed(file.read_text())
    assert found["pylayer_runs_total"] == {(): 2} and found["pylayer_pipelines_total"] == {(): 24}
    assert sum(found["pylayer_pipeline_hits_total"].values()) == 12
    assert sum(found["pylayer_pipeline_compiles_total"].values()) == 12
    assert found["pylayer_stored_records_total"] == found["pylayer_loaded_records_total"] == {(): 12}
    ((info, one),) = found["pylayer_program_info"].items()
    assert one == 1 and dict(info)["executable"] == "pipelines" and dict(info)["mode"] == "cells"
    (size,) = found["pylayer_store_bytes"].values()
    assert size == user.json("ls")["store_bytes"]
    assert found["pylayer_store_limit_bytes"] == {(): 4096 << 20}


def test_values(user: User) -> None:
    """Counters are added up over runs by kind, outcome and reason. Units are seconds and bytes."""
    kinds: dict[str, Any] = {"graphics, fast-linked": {"hits": 10, "compiled": 20, "compile_ns": 1_500_000_000}}
    for _ in range(2):
        write_run(
            user,
            counters={"pipelines": 30, "hits": 10, "hit_ns": 2_500_000_000, "events_dropped": 3},
            kinds=kinds,
            refused={"altered": 2},
            cache_outcomes={"attested": 5},
            damage={"truncated": 1},
        )
    found = parsed(user.pylayer("stats", "--prometheus").stdout)
    kind = (("kind", "graphics, fast-linked"),)
    assert found["pylayer_pipelines_total"] == {(): 60}
    assert found["pylayer_pipeline_hit_seconds_total"] == {(): 5}
    assert found["pylayer_pipeline_hits_total"] == {kind: 20}
    assert found["pylayer_pipeline_compiles_total"] == {kind: 40}
    assert found["pylayer_pipeline_compile_seconds_total"] == {kind: 3}
    assert found["pylayer_queue_dropped_total"] == {(): 6}
    assert found["pylayer_cache_data_total"] == {
        (("outcome", "passed"), ("reason", "attested")): 10,
        (("outcome", "refused"), ("reason", "altered")): 4,
    }
    assert found["pylayer_damaged_parts_total"] == {(("outcome", "truncated"),): 2}
    assert found["pylayer_last_run_start_time_seconds"] == {(): 1}


def test_evicted_runs(user: User) -> None:
    """When the oldest run is evicted, a new series begins, so no counter of a series decreases."""
    write_run(user, started=1000.0, counters={"pipelines": 100})
    write_run(user, started=2000.0, counters={"pipelines": 10})
    (before,) = parsed(user.pylayer("stats", "--prometheus").stdout, ())["pylayer_pipelines_total"].items()
    min(user.store.glob("runs/*.run")).unlink()
    (after,) = parsed(user.pylayer("stats", "--prometheus").stdout, ())["pylayer_pipelines_total"].items()
    assert (before[1], after[1]) == (110, 10)
    assert dict(before[0])["since"] == "1970-01-01T00:16:40Z" and dict(after[0])["since"] == "1970-01-01T00:33:20Z"
    assert set(before[0]) ^ set(after[0]) == {("since", dict(of[0])["since"]) for of in (before, after)}


@pytest.mark.parametrize("name", ['a "game"\\', "two\nlines", "x} 5\npylayer_evil 1", "\x00\x1b\u202e", "'", "ünï {}"])
def test_hostile_names(user: User, name: str) -> None:
    """A program's name is always a label, whatever it contains. Names that are displayed alike count as one program."""
    write_run(user, program=name, executable=name, cache_outcomes={name: 1}, counters={"pipelines": 1})
    write_run(user, program=name, executable="other", started=float("nan"), counters={"pipelines": 1})
    text = user.pylayer("stats", "--prometheus").stdout
    found = parsed(text)
    assert set(found) <= {metric for metric, _, _ in stats.METRICS}
    assert found["pylayer_pipelines_total"] == {(): 2} and "\x1b" not in text


def test_names() -> None:
    """Names follow Prometheus' conventions: counters end in _total, gauges do not, and all have the same prefix."""
    for name, kind, _ in stats.METRICS:
        assert name.startswith("pylayer_") and name.endswith("_total") == (kind == "counter")


def test_empty_store(user: User) -> None:
    """Without a store, the file lists the metrics and reports that nothing is stored."""
    assert parsed(user.pylayer("stats", "--prometheus").stdout)["pylayer_store_bytes"] == {(): 0}


def test_unwritable(user: User, tmp_path: Path) -> None:
    """A directory that cannot be written to is reported in one line. The old file stays."""
    done = user.pylayer("stats", "--prometheus", tmp_path / "nowhere" / "pylayer.prom")
    assert done.returncode == 1 and done.stderr.endswith("was not written: No such file or directory\n")
    assert not os.path.lexists(tmp_path / "nowhere")
