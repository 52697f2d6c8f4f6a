"""What the Khronos validation layer says."""

from __future__ import annotations

import re

#: What validation 1.4.309 says of correct programs. Where vkCreatePipelineBinariesKHR with room for handles gives
#: VK_PIPELINE_BINARY_MISSING_KHR, it takes the room for objects; where it gives VK_INCOMPLETE, one half of it takes
#: what was made for objects and the other does not. Of graphics pipelines it reads VkGraphicsPipelineCreateInfo::flags,
#: with DERIVATIVE in it, where VkPipelineCreateFlags2CreateInfo replaces them.
MISTAKEN = (
    "VkPipelineBinaryKHR 0x0 has not been destroyed",
    "vkDestroyPipelineBinaryKHR(): Couldn't find VkPipelineBinaryKHR Object",
    "vkCreateGraphicsPipelines(): Invalid VkPipeline Object 0x0.",
)


def without_mistakes(said: str) -> str:
    """The messages that are right."""
    messages = re.split(r"^(?=Validation )", said, flags=re.MULTILINE)
    return "".join(message for message in messages if not any(words in message for words in MISTAKEN))
