"""What the Khronos validation layer says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from world import ROOT, World

MANIFEST = "VkLayer_khronos_validation.json"
#: Where tests/validation/fetch.sh puts the layer if the system's is too old, and where systems have it.
PLACES = (ROOT / "build" / "validation" / "layer", Path("/usr/share/vulkan/explicit_layer.d"))


def version() -> str:
    """Returns the version of the validation layer that the tests use, or empty text if there is none."""
    manifest = next((place / MANIFEST for place in PLACES if (place / MANIFEST).exists()), None)
    return str(json.loads(manifest.read_text())["layer"]["api_version"]) if manifest else ""


#: Without any validation layer the tests run, and fail: `make test-all` installs it.
_NEWER = pytest.mark.skipif(
    bool(version()) and tuple(map(int, version().split("."))) < (1, 4, 309),
    reason=f"the validation layer of this system is {version()}; it does not know pipeline binaries, as 1.4.309 does",
)
#: For ``pytestmark``.
VALIDATES = [pytest.mark.foreign, _NEWER]


def needs_validation(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test as one that the validation layer watches."""
    return pytest.mark.foreign(_NEWER(test))


#: What validation 1.4.309 says of correct programs. Where vkCreatePipelineBinariesKHR with room for handles gives
#: VK_PIPELINE_BINARY_MISSING_KHR, it takes the room for objects; where it gives VK_INCOMPLETE, one half of it takes
#: what was made for objects and the other does not. Of graphics pipelines it reads VkGraphicsPipelineCreateInfo::flags,
#: with DERIVATIVE in it, where VkPipelineCreateFlags2CreateInfo replaces them.
MISTAKEN = (
    # That a pipeline binary with a null handle was not destroyed, as 1.4.309 and 1.4.363 say it.
    "VkPipelineBinaryKHR 0x0 has not been destroyed",
    "has 1 leaked objects that have not been destroyed.\nVkPipelineBinaryKHR 0x0\n",
    "vkDestroyPipelineBinaryKHR(): Couldn't find VkPipelineBinaryKHR Object",
    "vkCreateGraphicsPipelines(): Invalid VkPipeline Object 0x0.",
    # It looks for VK_PIPELINE_CREATE_2_LIBRARY_BIT_KHR among the legacy flags.
    "The stage member of at least one element of pStages must be VK_SHADER_STAGE_RAYGEN_BIT_KHR",
)


def messages(said: str) -> list[str]:
    """Returns each message that is right, with all its lines."""
    every = re.split(r"^(?=Validation )", said, flags=re.MULTILINE)
    return [message for message in every if message and not any(words in message for words in MISTAKEN)]


def broken_rules(said: str) -> set[str]:
    """Returns the lines about broken rules that are right."""
    return {line for message in messages(said) for line in message.splitlines() if "VUID" in line}


def validated(world: World, command: Iterable[object], *options: str, **more: Any) -> str:
    """Runs a command with validation below the layer, or above it with the options ``--below`` and the layer's name.
    Returns what validation reported."""
    log = world.directory / "validation.txt"
    runner = [str(ROOT / "tests" / "validation" / "run.sh"), "--log", str(log), *options, "--"]
    world.run([*runner, *map(str, command)], **more)
    return log.read_text()
