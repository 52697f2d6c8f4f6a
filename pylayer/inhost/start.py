"""What the interpreter runs first. It is code inside the policy library, which has no other module's path yet."""

from __future__ import annotations

import encodings
import sys
import time

import pylayer
import pylayer.common
import pylayer.store

#: Reading a directory fails if the program closes all descriptors meanwhile, or has none left for a moment (6 of 1,080
#: that did so right after vkCreateInstance). So the import is tried again.
ATTEMPTS = 10


def run(site: str, stdlib: str) -> None:
    """Makes modules importable that are not in the library, and runs policy. ``site``: the directory of the package.
    ``stdlib``: that of the private standard library."""
    encodings.__path__.append(stdlib + "/encodings")
    for package in (pylayer, pylayer.common, sys.modules[__package__], pylayer.store):
        package.__path__.append(f"{site}/{package.__name__.replace('.', '/')}")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            from . import host

            break
        except (ImportError, OSError):
            if attempt == ATTEMPTS:
                raise
        sys.path_importer_cache.clear()
        time.sleep(0.01)
    host.prepare()()
