"""Programs that run without the layer and with it: all that they can see is the same, but for what is listed.

The scripts are those of tests/differential/interpreter.c.
"""

from __future__ import annotations

import pytest
from world import BUILD, World

INTERPRETER = BUILD / "differential" / "interpreter"


def run_script(world: World, *lines: str, layer: bool = True, arguments: tuple[str, ...] = ()) -> list[str]:
    """What each line of a script printed, without the end."""
    script = "\n".join(["begin 1", *lines, "end", ""])
    changes = {} if layer else {"VK_INSTANCE_LAYERS": None}
    output = world.run([str(INTERPRETER), *arguments], input=script, **changes).stdout.splitlines()
    return [line for line in output if line != "end"]


COMPUTE = "compute - : P0 shader=comp0 from=inline spec=1 feedback=stages"


@pytest.mark.parametrize(("device", "arguments"), [("allocator", ()), ("", ("allocator",))])
def test_allocation_callbacks_and_threads(world: World, device: str, arguments: tuple[str, ...]) -> None:
    """The allocation callbacks of a program's device, or of its instance, are called by the thread that is in one of
    its commands only, and not by the one that loads what is stored."""
    first = f"device control maintenance5 {device}"
    assert run_script(world, first, COMPUTE, arguments=arguments)[-1] == "used=1 live=0 foreign=0"
    # Policy answers about the second cache's data when it has loaded what is stored, without help of this thread.
    script = (first, "cache C0", "read D0 C0", "cache C1 data=D0")
    assert run_script(world, *script, arguments=arguments)[-1] == "used=1 live=0 foreign=0"
