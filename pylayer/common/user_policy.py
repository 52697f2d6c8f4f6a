"""Imports the user's policy class: Python source beside the policy file that nobody else could have written.

The directory is checked, and then each file through the descriptor it is read from. Compiled files beside the source
(``__pycache__``) and extension modules are ignored: nobody can see what is in them, and another user may be able to
write to a directory of compiled files although not to the source.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import FileFinder, SourceFileLoader

from ..common.paths import exists, read_own_file, require_own
from ..policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SOURCE_BYTES = 16 << 20


class _OwnSource(SourceFileLoader):
    def get_data(self, path: str) -> bytes:
        """importlib calls this for source and for compiled files. Raises OSError for anything but source."""
        if not path.endswith(".py"):
            raise OSError(f"{path} is not read: policy must be source code (.py)")
        return read_own_file(path, MAX_SOURCE_BYTES)


def _finder_for(directory: str) -> Callable[[str], FileFinder]:
    def finder(path: str) -> FileFinder:
        if path != directory and not path.startswith(f"{directory.rstrip('/')}/"):
            raise ImportError
        require_own(path)
        return FileFinder(path, (_OwnSource, [".py"]))

    return finder


def load(wanted: str, *files: str | None) -> Policy:
    """Returns an object of the class ``wanted``, which is module:Class. The module is in the directory of the first of
    these policy files that has it there.

    Raises OSError (UntrustedDirectory included), TypeError if the class is no subclass of Policy, and whatever the
    user's code raises.
    """
    module_name, _, class_name = wanted.partition(":")
    directories = [os.path.dirname(os.path.abspath(file)) for file in files if file]
    having = (one for one in directories if exists(f"{one}/{module_name}.py") or exists(f"{one}/{module_name}"))
    directory = next(having, directories[0])
    # The finder checks it too, but importlib does not ask it for a module that is builtin or already imported.
    require_own(directory)
    sys.path_hooks.insert(0, _finder_for(directory))
    sys.path_importer_cache.pop(directory, None)
    sys.path.insert(0, directory)
    try:
        module = __import__(module_name)
    finally:
        if directory in sys.path:
            sys.path.remove(directory)
    sys.path.append(directory)  # for imports in its methods; last, so that it hides nothing that pylayer imports later
    try:
        policy = getattr(module, class_name)()
        if not isinstance(policy, Policy):
            raise TypeError(f"{class_name} is not a subclass of pylayer.policy.Policy")
    except BaseException:
        sys.path.remove(directory)
        raise
    return policy
