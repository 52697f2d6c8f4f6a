"""metrics.textfile in the policy file: what node_exporter finds there, from real programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from world import World

COUNT = 12


def collect(directory: Path) -> tuple[Counter[tuple[str, str]], list[dict[str, str]]]:
    """Sums by metric and run, and what is said of each run: as node_exporter does it, which refuses the same labels
    in two files."""
    seen, sums, runs = set(), Counter[tuple[str, str]](), []
    for path in directory.glob("*.prom"):
        for family in text_string_to_metric_families(path.read_text()):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in seen
                seen.add(key)
                sums[sample.name, sample.labels["run"]] += int(sample.value)
                if sample.name == "pylayer_run_info":
                    runs.append(sample.labels)
    return sums, runs


def test_textfile(world: World) -> None:
    """Each run has a file with its totals, which stays for a while after its end."""
    directory = world.directory / "collector"
    directory.mkdir()
    policy = world.directory / "policy.yaml"
    policy.write_text(f"metrics:\n  textfile: {directory}\n")
    for _ in range(2):
        world.demo("--count", COUNT, PYLAYER_CONFIG=str(policy))
    sums, runs = collect(directory)
    assert len(list(directory.iterdir())) == len(runs) == 2
    of = {name: sorted(sums[name, run["run"]] for run in runs) for name in {name for name, _ in sums}}
    assert of["pylayer_pipelines_total"] == [COUNT, COUNT]
    assert of["pylayer_pipeline_compiles_total"] == of["pylayer_pipeline_hits_total"] == [0, COUNT]
    assert of["pylayer_stored_records_total"] == of["pylayer_loaded_records"] == [0, COUNT]
    assert of["pylayer_run_ended"] == [1, 1]
    assert {run["executable"] for run in runs} == {"pipelines"} and runs[0]["carrier"] == "cells"


def test_read_only_store(world: World) -> None:
    """With a store that cannot be written to the file is there all the same."""
    world.demo("--count", COUNT)
    directory = world.directory / "collector"
    directory.mkdir()
    policy = world.directory / "policy.yaml"
    policy.write_text(f"settings: {{store: read-only}}\nmetrics: {{textfile: {directory}}}\n")
    before = len(world.runs())
    (world.store / "runs").rename(world.store / "elsewhere")
    (world.store / "runs").write_text("not a directory")
    world.demo("--count", COUNT, PYLAYER_CONFIG=str(policy))
    sums, (run,) = collect(directory)
    assert sums["pylayer_pipeline_hits_total", run["run"]] == COUNT and before == 1


def test_unwritable(world: World) -> None:
    """A directory that is not there costs a line of the log and nothing else."""
    policy = world.directory / "policy.yaml"
    policy.write_text(f"metrics:\n  textfile: {world.directory}/nowhere\n")
    result = world.demo("--count", COUNT, PYLAYER_CONFIG=str(policy))
    assert result["created"] == COUNT and result.stderr.count("metrics cannot be written to") == 1
    assert world.last()["compiled"] == COUNT
