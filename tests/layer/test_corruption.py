"""Records of another driver. tests/recovery damages files in every other way."""

from __future__ import annotations

import radv
from world import World


def test_records_of_another_driver_in_a_file(world: World) -> None:
    """If a file system puts another driver's records into a file, the layer does not load them."""
    world.demo("--count", 8, **radv.gpu("navi31"))
    foreign = world.stored_files(".closed")
    world.demo("--count", 8)
    own = set(world.stored_files(".closed")).difference(foreign)
    for path in own:  # a slow run leaves more than one
        path.write_bytes(path.read_bytes()[:256] + foreign[0].read_bytes()[256:])
    world.demo("--count", 8)
    run = world.runs()[-1]
    assert (run["counters"]["fetched"], run["counters"]["compiled"]) == (0, 8)
    assert run["damage"] == {"damaged-header": len(own)}
