"""``store: read-only``: stored pipelines are used, and not a byte of the store changes."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from poison import poison_records
from world import Run, World

#: Directories below the store's root that a read-only run must not change.
KEPT = ("store",)


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def read_only(world: World, **settings: Any) -> None:
    world.environment |= world.policy(json.dumps({"settings": {"store": "read-only", **settings}}))


def contents(world: World) -> dict[str, str]:
    """Returns a digest and the modification time of every file and directory in KEPT, by path."""
    found = {}
    for part in KEPT:
        for path in sorted((world.store / part).rglob("*")):
            data = path.read_bytes() if path.is_file() else b""
            found[str(path)] = f"{hashlib.sha256(data).hexdigest()} {path.stat().st_mtime_ns}"
    return found


def warnings(result: Run) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith(("pylayer: warn", "pylayer: error"))]


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_store_stays_as_it_is(world: World, mode: str) -> None:
    """Stored pipelines are hits, the others are compiled in every run, and not a byte of the store changes."""
    arguments = ["--api", "1.3", "--cache", "object"]
    config = world.directory / "filling.yaml"
    config.write_text(json.dumps({"settings": {"mode": mode}}))
    world.demo("--count", 12, *arguments, PYLAYER_CONFIG=str(config))
    before = contents(world)
    assert before
    read_only(world, mode=mode)
    for _ in range(2):
        result = world.demo("--count", 24, *arguments)
        assert result["created"] == 24 and warnings(result) == []
        counters = world.last()
        assert counters["hits"] >= 12 and counters["compiled"] == 24 - counters["hits"]
        run = world.runs()[-1]
        assert run["stored_records"] == run["lost_records"] == run["write_errors"] == 0
        assert contents(world) == before


def test_many_short_runs_compaction_nothing(world: World) -> None:
    """Journals that would otherwise be compacted, and a store beyond its limits, stay unchanged."""
    for seed in range(5):
        world.demo("--count", 8, "--seed", seed)
    config = world.policy(json.dumps({"max_store_mib": 1, "settings": {"store": "read-only"}}))
    (world.store / "store" / "ballast").write_bytes(bytes(2 << 20))
    before = contents(world)
    for _ in range(2):
        world.demo("--count", 8, **config)
        assert world.last()["hits"] == 8
    assert contents(world) == before


def test_attestations_are_used_and_not_added_to(world: World) -> None:
    """A program's cache data is compared with the existing history, and nothing is added to the history."""
    cache = world.directory / "program.cache"
    world.demo("--count", 8, "--cache", cache, "--cache-save", cache)
    good = cache.read_bytes()
    before = contents(world)
    read_only(world)
    world.demo("--count", 16, "--cache", cache, "--cache-save", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}
    assert contents(world) == before
    world.demo("--count", 8, "--cache", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"unknown": 1}, "it was read in a run that remembered nothing"
    cache.write_bytes(good)
    world.demo("--count", 8, "--cache", cache)
    assert world.runs()[-1]["cache_outcomes"] == {"attested": 1}


def test_crash_is_seen_without_a_word_in_the_store(real: World, tmp_path: Path) -> None:
    """A stored pipeline crashes the driver once. Each later run compiles that pipeline, until the runtime directory is
    emptied. The store does not change."""
    real.demo("--count", 12)
    (path,) = real.stored_files(".closed")
    assert poison_records(path, lambda number, record: number == 3)
    before = contents(real)
    read_only(real)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    environment = {"XDG_RUNTIME_DIR": str(runtime)}
    assert real.demo("--count", 12, check=False, **environment).returncode == -signal.SIGSEGV
    for _ in range(2):
        assert real.demo("--count", 12, **environment)["created"] == 12
        assert (real.last()["compiled"], real.last()["hits"]) == (1, 11)
    assert contents(real) == before
