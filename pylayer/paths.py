"""Where pylayer keeps things, and whether a directory may be trusted."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


#: Looks up a variable; in a program's process the layer does it, which knows the program's own environment.
getenv: Callable[[str, str], str] = os.environ.get


class UntrustedDirectory(OSError):
    """A store or configuration directory that another user owns or may write to."""


def _base(variable: str, fallback: str) -> str | None:
    value = getenv(variable, "")
    if value.startswith("/"):  # XDG Base Directory: relative paths are invalid
        return value
    home = getenv("HOME", "")
    return os.path.join(home, fallback) if home.startswith("/") else None


def store_root() -> str | None:
    """``PYLAYER_STORE``, else ``$XDG_CACHE_HOME/pylayer``, else ``~/.cache/pylayer``; None without a home."""
    wanted = getenv("PYLAYER_STORE", "")
    if wanted:
        return os.path.abspath(wanted)
    base = _base("XDG_CACHE_HOME", ".cache")
    return os.path.join(base, "pylayer") if base else None


def config_file() -> str | None:
    """``PYLAYER_CONFIG``, else ``$XDG_CONFIG_HOME/pylayer/policy.yaml``; None without a home."""
    wanted = getenv("PYLAYER_CONFIG", "")
    if wanted:
        return os.path.abspath(wanted)
    base = _base("XDG_CONFIG_HOME", ".config")
    return os.path.join(base, "pylayer", "policy.yaml") if base else None


def require_own(path: str) -> None:
    """Raises UntrustedDirectory where somebody else could have written what is in ``path``."""
    status = os.stat(path)
    if status.st_uid not in (os.geteuid(), 0):
        raise UntrustedDirectory(f"{path} belongs to user {status.st_uid}; it is not used")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
        raise UntrustedDirectory(f"{path} can be written by others (chmod go-w {path}); it is not used")


def make_private(path: str) -> None:
    """Creates a directory that only its owner can use, and checks one that is there.

    Raises OSError, UntrustedDirectory included.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    require_own(path)


def executable_name() -> str:
    """What program this is: the executable's name, for an interpreter with the script's.

    From /proc/self, because argv[0] can be anything.
    """
    try:
        name = os.path.basename(os.readlink("/proc/self/exe"))
    except OSError:
        return "unknown"
    if not name.startswith(("python", "wine", "java", "perl", "ruby", "node", "lua", "qemu-", "ld-linux")):
        return name
    try:
        with open("/proc/self/cmdline", "rb") as file:
            arguments = file.read(65536).split(b"\0")[1:]
    except OSError:
        return name
    for argument in arguments:
        if argument and not argument.startswith(b"-"):
            script = argument.decode("utf-8", "replace").replace("\\", "/")
            return f"{name} {os.path.basename(script)}"
    return name
