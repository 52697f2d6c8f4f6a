"""Persistent Vulkan pipeline caching: policy, store and command line of VK_LAYER_PYLAYER_pipeline_cache.

Every program's process imports this file, and each import here would lengthen the program's start.
"""

__version__ = "0.1.0"

LAYER_NAME = "VK_LAYER_PYLAYER_pipeline_cache"
