"""Vulkan pipeline caching that survives: policy, store and command line of VK_LAYER_PYLAYER_pipeline_cache.

This file is imported in the program's process, where every import is somebody else's start-up time.
"""

__version__ = "0.1.0"

LAYER_NAME = "VK_LAYER_PYLAYER_pipeline_cache"
