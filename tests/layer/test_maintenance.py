"""Folding in a program's own process, in the layer's Python."""

from __future__ import annotations

from collections.abc import Callable

from world import Run, World

from pylayer.store.maintenance import EXIT_JOURNALS

#: Nothing here depends on the driver.
QUICK = True


def test_short_runs_do_not_leave_ever_more_files(world: World, demo: Callable[..., Run]) -> None:
    """Short runs fold their journals. The modules for that are not frozen into the policy library and must be found as
    files."""
    for seed in range(EXIT_JOURNALS):
        demo("--compute", "--count", 1, "--seed", 100 + seed)
    for seed in range(200, 220):  # a fold that takes longer than exit() waits is left to the next run
        run = demo("--compute", "--count", 1, "--seed", seed, PYLAYER_LOG="info")
        assert "policy failed" not in run.stderr
        if len(world.stored_files(".pack")) == 1 and len(world.stored_files(".closed", ".journal")) < EXIT_JOURNALS:
            break
    assert len(world.stored_files(".pack")) == 1
    assert len(world.stored_files(".closed", ".journal")) < EXIT_JOURNALS
    again = demo("--compute", "--count", 1, "--seed", 100)
    assert world.last()["compiled"] == 0, again.stderr
