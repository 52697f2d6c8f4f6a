"""What runs: programs in several worlds, from the store that they find to the runs that follow a bad moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline_binaries import APPLICATION
from world import BUILD

EIGHT = ("--count", "8")
EIGHT_13 = ("--api", "1.3", *EIGHT)
TWELVE = ("--count", "12")


@dataclass(frozen=True)
class Scenario:
    """One world. Arguments are those of its program."""

    name: str
    #: The runs that fill the store.
    before: tuple[tuple[str, ...], ...]
    #: The run with the bad moment, and each run after it.
    arguments: tuple[str, ...]
    #: What the scripted driver is (tests/driver/driver.h).
    script: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    driver: str = "test"
    program: tuple[str, ...] = (str(BUILD / "demo" / "pipelines"), "--json")


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("warm", (EIGHT, EIGHT), EIGHT),
        Scenario("more", (EIGHT, EIGHT), TWELVE),
        Scenario("first", (), EIGHT),
        Scenario("own cache", (("--cache", "cache", "--cache-save", "cache", *EIGHT),) * 2,
                 ("--cache", "cache", "--cache-save", "cache", *TWELVE)),
        Scenario("binaries", (EIGHT_13, EIGHT_13), ("--api", "1.3", *TWELVE), settings={"mode": "binaries"}),
        Scenario("strict own cache", (("--cache", "cache", "--cache-save", "cache", *EIGHT),) * 2,
                 ("--cache", "cache", "--cache-save", "cache", *TWELVE), settings={"application_caches": "strict"}),
        Scenario("strict own binaries", ((*EIGHT, "--archive", "archive", "--source", "capture"),) * 2,
                 (*TWELVE, "--archive", "archive", "--source", "capture"),
                 settings={"application_caches": "strict"}, program=APPLICATION),
        Scenario("libraries", (("--gpl", "--count", "2"),) * 2, ("--gpl", "--count", "3")),
        Scenario("deferred", (("--ray-tracing", "--deferred", "1", "--count", "4"),) * 2,
                 ("--ray-tracing", "--deferred", "1", "--count", "6")),
        Scenario("compaction", tuple((*EIGHT, "--seed", str(seed)) for seed in range(1, 18)), (*EIGHT, "--seed", "20")),
        Scenario("ends badly", (EIGHT, EIGHT), (*EIGHT, "--exit", "_exit")),
        Scenario("RADV warm", (EIGHT, EIGHT), EIGHT, driver="radv"),
        Scenario("RADV more", (EIGHT, EIGHT), TWELVE, driver="radv"),
        Scenario("RADV first", (), EIGHT, driver="radv"),
    )
}  # fmt: skip
