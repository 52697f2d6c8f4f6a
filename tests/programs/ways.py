"""Ways in which the demo program creates pipelines: the one table of every test that says what the program sees."""

from __future__ import annotations

Arguments = list[str | int]

WAYS: dict[str, Arguments] = {
    "mixed": ["--count", 12],
    "compute": ["--count", 8, "--compute"],
    "graphics": ["--count", 8, "--graphics"],
    "ray tracing": ["--count", 3, "--ray-tracing", "--feedback"],
    "deferred ray tracing": ["--count", 4, "--batch", 2, "--ray-tracing", "--deferred", 2, "--feedback"],
    "libraries": ["--count", 4, "--gpl"],
    "libraries, feedback": ["--count", 4, "--gpl", "--feedback"],
    "batches": ["--count", 10, "--batch", 4],
    "large batches": ["--count", 12, "--batch", 12],
    "threads": ["--count", 12, "--threads", 3],
    "threads and batches": ["--count", 12, "--threads", 3, "--batch", 2],
    "derivatives": ["--count", 8, "--batch", 4, "--derivatives"],
    "early return": ["--count", 8, "--batch", 4, "--early-return"],
    "may not compile": ["--count", 8, "--batch", 4, "--fail-on-compile-required", "--early-return"],
    "feedback": ["--count", 8, "--feedback"],
    "feedback in batches": ["--count", 8, "--batch", 4, "--feedback"],
    "own cache": ["--count", 8, "--cache", "object"],
    "own cache, threads": ["--count", 12, "--cache", "object", "--threads", 3],
    "own cache, batches": ["--count", 8, "--cache", "object", "--batch", 4],
    "own cache, feedback": ["--count", 8, "--api", "1.3", "--cache", "object", "--feedback"],
    "Vulkan 1.0": ["--count", 6, "--api", "1.0", "--feedback"],
    "Vulkan 1.1": ["--count", 6, "--api", "1.1"],
    "Vulkan 1.2": ["--count", 6, "--api", "1.2", "--feedback"],
    "Vulkan 1.3": ["--count", 6, "--api", "1.3", "--feedback"],
    "Vulkan 1.3, features chained": ["--count", 6, "--api", "1.3", "--features13"],
    "cache control asked for": ["--count", 6, "--api", "1.3", "--cache-control"],
    "features chained and asked for": ["--count", 6, "--api", "1.3", "--features13", "--cache-control"],
    "second instance": ["--count", 6, "--repeat-instances", 2],
    "no destroy": ["--count", 6, "--no-destroy"],
    "no destroy, exit": ["--count", 6, "--no-destroy", "--exit", "exit"],
    "own cache, no destroy": ["--count", 8, "--cache", "object", "--no-destroy"],
}


def ways(*without: str, only: tuple[str, ...] = ()) -> dict[str, Arguments]:
    """All ways but these, or only some."""
    assert set(without) | set(only) <= set(WAYS)
    return {name: WAYS[name] for name in only or WAYS if name not in without}
