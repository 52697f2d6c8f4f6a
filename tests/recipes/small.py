"""Recipes that tests of more than one subject run."""

from __future__ import annotations

#: A pointer with a length of zero, which is valid, and what a program has whose file was empty.
ZERO_LENGTH = """device modules
cache C0
read D0 C0 zero
created: cache C1 data=D0
"""

#: The global key of VK_KHR_pipeline_binary. Without the feature the extension is there all the same.
GLOBAL_KEY = "device binaries\nglobal: globalkey\n"
GLOBAL_KEY_WITHOUT_FEATURE = "device binaries off=binaries\nglobal: globalkey\n"


def key_in(printed: str) -> str:
    """Returns the key that a recipe printed, in hexadecimal."""
    return printed.rpartition("key=")[2].strip()
