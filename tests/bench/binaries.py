"""Pipeline binaries against the raw floor, and what the driver's own disk cache costs: part of `make bench`.

The raw floor is the demo program with --source and without any layer: key, look-up in a table of its own,
vkCreatePipelineBinariesKHR from data, vkCreate*Pipelines. Alone, with the driver that the environment gives:

    python tests/bench/run.py --only binaries,driver-cache --here
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures import Figure, Row, show_table
from pipeline_binaries import APPLICATION, bytes_on_disk
from stores import copy
from world import LAYER_NAME, Run, World

MODES = ("cells", "binaries")
VALUES = ("keep", "replace")


class Binaries:
    """Runs of the program that uses VK_KHR_pipeline_binary, and with --source plain knows nothing of it."""

    def __init__(self, directory: Path, count: int, here: bool = False) -> None:
        self.directory = directory
        self.count = count
        self.world = World(directory, "here" if here else "radv")
        self.world.environment["PYLAYER_LOG"] = "error"
        self.remarks: list[str] = []

    def expect(self, figure: str, what: str, got: int, wanted: int) -> None:
        """Drivers differ, and a figure that is not of what it says must not pass for one."""
        remark = f"{figure}: {got} {what}, not {wanted}"
        if got != wanted and remark not in self.remarks:
            self.remarks.append(remark)

    def disk(self, directory: Path | None) -> dict[str, str]:
        """The driver's own cache in a directory, or none: as Mesa and NVIDIA's driver read it."""
        off = "1" if directory is None else "0"
        return {
            "MESA_SHADER_CACHE_DISABLE": off,
            "MESA_SHADER_CACHE_DIR": str(directory or self.directory / "unused"),
            "__GL_SHADER_DISK_CACHE": "0" if directory is None else "1",
            "__GL_SHADER_DISK_CACHE_PATH": str(directory or self.directory / "unused"),
            "__GL_SHADER_DISK_CACHE_SKIP_CLEANUP": "1",
        }

    def run(
        self, *arguments: str | Path, layered: bool = True, disk: Path | None = None, **settings: str
    ) -> dict[str, Any]:
        config = self.directory / "policy.yaml"
        config.write_text(json.dumps({"settings": settings}))
        if disk:
            disk.mkdir(exist_ok=True)
        process = self.world.run(
            [*APPLICATION, "--count", str(self.count), *map(str, arguments)],
            VK_INSTANCE_LAYERS=LAYER_NAME if layered else None,
            PYLAYER_CONFIG=str(config),
            **self.disk(disk),
        )
        result: dict[str, Any] = Run.of(process)
        assert result["created"] == self.count
        if layered:
            result["counters"] = self.world.last()
        return result

    def plain(self, layered: bool = True, disk: Path | None = None, **settings: str) -> tuple[float, dict[str, Any]]:
        """A program that only creates pipelines: nanoseconds for each, and all else."""
        result = self.run("--source", "plain", layered=layered, disk=disk, **settings)
        return result["create_ns_total"] / self.count, result

    def floor(self, archive: Path, disk: Path | None) -> float:
        result = self.run("--archive", archive, layered=False, disk=disk)
        self.expect("raw floor", "pipelines from the archive", result["from_archive"], self.count)
        return float(result["create_ns_total"]) / self.count

    def fresh_store(self) -> None:
        shutil.rmtree(self.world.store, ignore_errors=True)

    def filled_store(self, name: str, **settings: str) -> Path:
        """Keeps the store of a run: programs compact what they find, so each round begins with a copy of it."""
        self.fresh_store()
        self.plain(**settings)
        copy(self.world.store, self.directory / name)
        return self.directory / name

    # ---- the floor, a miss, a warm driver cache ------------------------------------------------------

    def hit(self, rounds: int) -> Row:
        """As installed the driver's cache is filled, as the run that filled the store left it."""
        columns = [
            Figure("binaries, hit per pipeline", "raw floor: key, look-up, create from binaries", 1.10) for _ in "12"
        ]
        archive = self.directory / "archive"
        self.run("--archive", archive, layered=False)
        store = self.filled_store("binaries-hit", mode="binaries")
        filled = self.directory / "filled-disk"
        self.plain(layered=False, disk=filled)
        for _ in range(rounds):
            for figure, disk in zip(columns, (filled, None), strict=True):
                floor = self.floor(archive, disk)
                copy(store, self.world.store)
                under, result = self.plain(mode="binaries", disk=disk)
                self.expect(figure.name, "hits", result["counters"]["binary_hits"], self.count)
                figure.add(floor, under)
        return Row(*columns)

    def miss(self, rounds: int) -> Row:
        columns = [
            Figure("binaries, miss per pipeline", "the driver alone, its cache empty", limit) for limit in (None, 1.03)
        ]
        for _ in range(rounds):
            for figure, installed in zip(columns, (True, False), strict=True):
                alone, _ = self.plain(layered=False, disk=self.fresh_disk() if installed else None)
                self.fresh_store()
                under, result = self.plain(mode="binaries", disk=self.fresh_disk() if installed else None)
                self.expect(figure.name, "compiled", result["counters"]["compiled"], self.count)
                figure.add(alone, under)
        return Row(*columns)

    def warm_driver_cache(self, rounds: int) -> Figure:
        """What the store lacks is created in a cell, as the program would create it in an empty cache of its own."""
        name, baseline = (
            "cells, first run over a warm driver cache",
            "an empty cache of the program's own, over the same",
        )
        figure = Figure(name, baseline, 1.25)
        disk = self.directory / "warm-disk"
        disk.mkdir()
        self.demo(disk, None)
        for _ in range(rounds):
            alone = self.demo(disk, None, "--cache", "object")
            self.fresh_store()
            figure.add(alone, self.demo(disk, LAYER_NAME))
        return figure

    def demo(self, disk: Path, layers: str | None, *arguments: str) -> float:
        """Returns the nanoseconds that each pipeline takes the program of tests/demo."""
        run = self.world.demo("--count", self.count, *arguments, layers=layers, **self.disk(disk))
        return run["create_ns_total"] / self.count

    def rows(self, rounds: int, cold_rounds: int) -> list[Row]:
        return [self.hit(rounds), self.miss(cold_rounds), Row(self.warm_driver_cache(rounds))]

    # ---- the driver's cache, kept or replaced ----------------------------------------------------------

    def fresh_disk(self) -> Path:
        disk = self.directory / "fresh-disk"
        shutil.rmtree(disk, ignore_errors=True)
        return disk

    def driver_cache(self, rounds: int) -> list[dict[str, Any]]:
        """Cold, then with store and driver cache warm, and with the store over a driver cache that is empty."""
        ways: list[tuple[str, dict[str, str] | None]] = [("the driver alone", None)]
        for mode, value in itertools.product(MODES, VALUES):
            ways.append((f"{mode}, {value}", {"mode": mode, "driver_cache": value}))
        stores = {
            name: self.filled_store(f"store {name}", **settings) for name, settings in ways if settings is not None
        }
        rows = {name: DriverCache(name) for name, _ in ways}
        for _ in range(rounds):
            for name, settings in ways:
                self._driver_cache_round(rows[name], stores.get(name), settings)
        first = rows["the driver alone"]
        return [row.as_dict(first) for row in rows.values()]

    def _driver_cache_round(self, row: DriverCache, store: Path | None, settings: dict[str, str] | None) -> None:
        layered, wanted = settings is not None, settings or {}
        disk = self.fresh_disk()
        self.fresh_store()
        row.cold.append(self.plain(layered, disk, **wanted)[0])
        row.cold_bytes.append(bytes_on_disk(disk))
        row.both_warm.append(self.plain(layered, disk, **wanted)[0])
        if store is None:
            return
        disk = self.fresh_disk()
        copy(store, self.world.store)
        row.store_warm.append(self.plain(layered, disk, **wanted)[0])
        row.requeued_bytes.append(bytes_on_disk(disk))


class DriverCache:
    """Samples of one way, in nanoseconds a pipeline and bytes in the driver's directory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cold: list[float] = []
        self.both_warm: list[float] = []
        self.store_warm: list[float] = []
        self.cold_bytes: list[int] = []
        self.requeued_bytes: list[int] = []

    def as_dict(self, alone: DriverCache) -> dict[str, Any]:
        def ratio(mine: list[float], others: list[float]) -> float:
            return statistics.median(own / other for own, other in zip(mine, others, strict=True))

        return {
            "way": self.name,
            "rounds": len(self.cold),
            "cold_ns": statistics.median(self.cold),
            "cold_ratio": ratio(self.cold, alone.cold),
            "both_warm_ns": statistics.median(self.both_warm),
            "both_warm_ratio": ratio(self.both_warm, alone.both_warm),
            "store_warm_ns": statistics.median(self.store_warm) if self.store_warm else None,
            "cold_bytes": statistics.median(self.cold_bytes),
            "requeued_bytes": statistics.median(self.requeued_bytes) if self.requeued_bytes else None,
        }


def show_driver_cache(rows: list[dict[str, Any]]) -> None:
    def cells(row: dict[str, Any]) -> Iterator[str]:
        yield row["way"]
        for times in ("cold", "both_warm"):
            yield f"{row[f'{times}_ns'] / 1e3:.1f} us"
            yield f"{row[f'{times}_ratio']:.2f} x"
        yield "" if row["store_warm_ns"] is None else f"{row['store_warm_ns'] / 1e3:.1f} us"
        for written in ("cold_bytes", "requeued_bytes"):
            yield "" if row[written] is None else f"{row[written] / 1024:.0f} KiB"

    title = "The driver's own disk cache, kept or replaced: medians per pipeline, bytes in its directory"
    headings = (
        "way",
        "cold",
        "",
        "store and driver cache warm",
        "",
        "store warm",
        "written cold",
        "written store warm",
    )
    show_table(title, headings, (list(cells(row)) for row in rows))
