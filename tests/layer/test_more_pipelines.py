"""Commands that take a VkPipelineCache and create pipelines that no mode supports. They reach the driver unchanged,
and nobody merges into the cache while they use it."""

from __future__ import annotations

import pytest
from scripted_driver import ScriptedDriver

COMMANDS = ["vkCreateRayTracingPipelinesNV", "vkCreateExecutionGraphPipelinesAMDX", "vkCreateDataGraphPipelinesARM"]

HAS = "more-pipelines=yes"


@pytest.mark.parametrize("command", COMMANDS)
def test_cache_in_use_is_not_merged_into(scripted: ScriptedDriver, command: str) -> None:
    """While one thread is in the command, pipelines that another thread compiles for the same cache are not merged into
    it. Afterwards they are."""
    scripted.settings(mode="cells")
    script = f"{HAS};create-more=wait:destroy-cache"
    scripted.program("more_pipelines", "beside", command, script=script)
    assert scripted.counts["compiles"] > 1 and scripted.counts["violations"] == 0
    assert scripted.world.last()["passed"] == 1


def test_cache_of_a_deferred_operation_is_not_merged_into(scripted: ScriptedDriver) -> None:
    """A deferred operation uses the cache after its command has returned, so nothing is merged into that cache any
    more. What is compiled is still stored."""
    scripted.settings(mode="cells")
    for compiled in (3, 0):
        scripted.program("more_pipelines", "deferred", script=HAS, allow=True)
        assert scripted.counts["compiles"] == compiled
        # The only violation is the program's own: nobody joins the operation before its cache is destroyed.
        assert scripted.violations == ["VIOLATION vkDestroyPipelineCache of a cache that is in use"]


@pytest.mark.parametrize(
    ("settings", "library"),
    [
        ({"mode": "cells"}, "libVkLayer_pylayer_pipeline_cache.so"),
        ({"mode": "off"}, "libVkLayer_pylayer_pipeline_cache.so"),  # the layer checks caches
        ({"mode": "off", "application_caches": "pass"}, "libvulkan_test_driver.so"),
    ],
)
def test_commands_where_the_driver_has_them(scripted: ScriptedDriver, settings: dict[str, str], library: str) -> None:
    """If the layer handles caches, it provides the same commands as the driver and no others."""
    scripted.settings(**settings)
    found = scripted.program("commands", 3, "VK_NV_ray_tracing", "--", *COMMANDS, script=HAS).stdout
    assert [line.split()[:2] for line in found.splitlines()] == [[command, library] for command in COMMANDS]
    for script in ("", HAS):
        assert scripted.program("commands", 3, "--", *COMMANDS, script=script).stdout == ""
