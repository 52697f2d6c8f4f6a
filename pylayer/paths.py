"""Where pylayer keeps things, and whether a directory may be trusted.

Imported before a program's first device exists, so with ``posix``, which is built in: importing ``os`` costs 1 ms.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WRITABLE_BY_OTHERS = 0o022  # stat.S_IWGRP | stat.S_IWOTH
_STICKY = 0o1000  # stat.S_ISVTX


def _process_environment(name: str, default: str) -> str:
    import os

    return os.environ.get(name, default)


#: Looks up a variable; in a program's process the layer does it, which knows the program's own environment.
getenv: Callable[[str, str], str] = _process_environment


#: Interpreters whose scripts are the programs; a version may follow.
_INTERPRETERS = ("java", "javaw", "lua", "luajit", "node", "nodejs", "perl", "ruby")


class UntrustedDirectory(OSError):
    """A store or configuration that another user owns or may write to."""


def _base(variable: str, fallback: str) -> str | None:
    value = getenv(variable, "")
    if value.startswith("/"):  # XDG Base Directory: relative paths are invalid
        return value
    home = getenv("HOME", "")
    return f"{home}/{fallback}" if home.startswith("/") else None


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def exists(path: str) -> bool:
    """Whether something is at ``path`` and can be looked at."""
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def store_root() -> str | None:
    """``PYLAYER_STORE``, else ``$XDG_CACHE_HOME/pylayer``, else ``~/.cache/pylayer``; None without a home."""
    wanted = getenv("PYLAYER_STORE", "")
    if wanted:
        return _absolute(wanted)
    base = _base("XDG_CACHE_HOME", ".cache")
    return f"{base}/pylayer" if base else None


def config_file() -> str | None:
    """``PYLAYER_CONFIG``, else ``$XDG_CONFIG_HOME/pylayer/policy.yaml``; None without a home."""
    wanted = getenv("PYLAYER_CONFIG", "")
    if wanted:
        return _absolute(wanted)
    base = _base("XDG_CONFIG_HOME", ".config")
    return f"{base}/pylayer/policy.yaml" if base else None


def _require_own(path: str, sticky_is_fine: bool) -> None:
    status = posix.stat(path)
    if status.st_uid not in (posix.geteuid(), 0):
        raise UntrustedDirectory(f"{path} belongs to user {status.st_uid}; it is not used")
    if sticky_is_fine and status.st_mode & _STICKY:
        return
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise UntrustedDirectory(f"{path} can be written by others (chmod go-w {path}); it is not used")


def require_own(path: str) -> None:
    """Raises UntrustedDirectory where somebody else could have written what is in ``path``."""
    _require_own(path, sticky_is_fine=False)


def require_own_file(path: str) -> None:
    """Raises UntrustedDirectory where somebody else could have written the file ``path``. In a directory like
    /tmp others can add files, but not replace this one."""
    _require_own(path.rpartition("/")[0] or "/", sticky_is_fine=True)
    _require_own(path, sticky_is_fine=False)


def make_private(path: str) -> None:
    """Creates a directory that only its owner can use, and checks one that is there.

    Raises OSError, UntrustedDirectory included.
    """
    import os

    os.makedirs(path, mode=0o700, exist_ok=True)
    require_own(path)


def _runs_scripts(name: str) -> bool:
    if name.startswith("qemu-"):
        return not name.startswith("qemu-system")
    return (
        name.startswith(("python", "pypy", "wine", "ld-linux", "ld-musl"))
        or name.rstrip("0123456789.-") in _INTERPRETERS
    )


def program_name(executable: str, arguments: list[bytes]) -> str:
    """The name of a program from its executable's and its whole command line."""
    if not _runs_scripts(executable):
        return executable
    # Wine takes its own name out of the command line, which then begins with the Windows program.
    first = 0 if arguments and arguments[0].lower().endswith(b".exe") else 1
    for argument in arguments[first:]:
        if argument in (b"-c", b"-e"):
            return f"{executable} {argument.decode()}"
        if argument and not argument.startswith(b"-"):
            script = argument.decode("utf-8", "replace").replace("\\", "/")
            return f"{executable} {script.rpartition('/')[2]}"
    return executable


def executable_name() -> str:
    """What program this is: the executable's name, for an interpreter with the script's.

    From /proc/self, because argv[0] can be anything. Valid UTF-8 whatever the file is called.
    """
    try:
        name = posix.readlink(b"/proc/self/exe").rpartition(b"/")[2].decode("utf-8", "replace")
    except OSError:
        return "unknown"
    try:
        with open("/proc/self/cmdline", "rb") as file:
            arguments = file.read(65536).split(b"\0")
    except OSError:
        arguments = []
    return program_name(name, arguments)
