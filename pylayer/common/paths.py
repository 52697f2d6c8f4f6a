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
_FILE_TYPE, _PLAIN_FILE = 0o170000, 0o100000  # stat.S_IFMT, stat.S_IFREG
_DIRECTORY_TYPE, _LINK = 0o040000, 0o120000  # stat.S_IFDIR, stat.S_IFLNK
_DIRECTORY = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC


def _process_environment(name: str, default: str) -> str:
    import os

    return os.environ.get(name, default)


#: Looks up a variable; in a program's process the layer does it, which knows the program's own environment.
getenv: Callable[[str, str], str] = _process_environment


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


#: Longer policy files are refused.
MAX_POLICY_FILE_BYTES = 1 << 20


def config_file() -> str | None:
    """``PYLAYER_CONFIG``, else ``$XDG_CONFIG_HOME/pylayer/policy.yaml``; None without a home."""
    wanted = getenv("PYLAYER_CONFIG", "")
    if wanted:
        return _absolute(wanted)
    base = _base("XDG_CONFIG_HOME", ".config")
    return f"{base}/pylayer/policy.yaml" if base else None


def _judge(path: str, status: posix.stat_result, sticky_is_fine: bool = False) -> None:
    if status.st_uid not in (posix.geteuid(), 0):
        raise UntrustedDirectory(f"{path} belongs to user {status.st_uid}; it is not used")
    if sticky_is_fine and status.st_mode & _STICKY:
        return
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise UntrustedDirectory(f"{path} can be written by others (chmod go-w {path}); it is not used")


def open_directory(path: str, below: int | None = None, follow: bool = True, sticky_is_fine: bool = False) -> int:
    """A descriptor of a directory that nobody else could have written to, good for ``dir_fd`` alone.

    What was looked at is what is used, whatever happens to the path meanwhile. ``below``: a descriptor of the directory
    that the last part of ``path`` is in. Links on the way are followed, because a cache may lie on another disk; one in
    the last place is not, without ``follow``. Raises OSError, UntrustedDirectory included.
    """
    flags = _DIRECTORY if follow else _DIRECTORY | posix.O_NOFOLLOW
    try:
        fd = posix.open(path if below is None else path.rpartition("/")[2], flags, dir_fd=below)
    except OSError as error:
        what = "Not a directory" if follow else "Not a directory, or a link to one"
        strerror = what if isinstance(error, NotADirectoryError) else error.strerror
        raise type(error)(error.errno, strerror, path) from None
    try:
        _judge(path, posix.fstat(fd), sticky_is_fine)
    except BaseException:
        posix.close(fd)
        raise
    return fd


def _with_path(error: OSError, path: str) -> OSError:
    """Of a call that was given the last part of ``path`` alone."""
    return type(error)(error.errno, error.strerror, path)


def _open_root(path: str) -> int:
    """``open_directory``; a link in its place may be the user's own or the system's, not one that anybody put into a
    directory like /tmp."""
    status = posix.lstat(path)
    if status.st_mode & _FILE_TYPE == _LINK and status.st_uid not in (posix.geteuid(), 0):
        raise UntrustedDirectory(f"{path} is a link that belongs to user {status.st_uid}; it is not used")
    return open_directory(path)


def _root() -> tuple[int, int] | None:
    try:
        status = posix.stat("/")
    except OSError:
        return None
    return status.st_dev, status.st_ino


_root_at_start = _root()


def root_changed() -> bool:
    """Whether the process has shut itself into another root directory, where paths lead elsewhere."""
    return _root() != _root_at_start


def require_own(path: str) -> None:
    """Raises UntrustedDirectory where somebody else could have written what is in the directory ``path``, OSError where
    it is none."""
    posix.close(_open_root(path))


def require_own_below(root: str, *names: str) -> None:
    """``require_own`` for ``root`` and for directories in each other below it, of which none is a link."""
    path = root
    fd = _open_root(path)
    try:
        for name in names:
            path = f"{path}/{name}"
            inner = open_directory(path, fd, follow=False)
            posix.close(fd)
            fd = inner
    finally:
        posix.close(fd)


def _plain(path: str, fd: int) -> int:
    """``fd``, which is closed where it is no plain file or somebody else could have written it."""
    try:
        status = posix.fstat(fd)
        kind = status.st_mode & _FILE_TYPE
        if kind == _DIRECTORY_TYPE:
            raise IsADirectoryError(21, "Is a directory", path)
        if kind != _PLAIN_FILE:
            raise OSError(22, "It is no plain file", path)
        _judge(path, status)
    except BaseException:
        posix.close(fd)
        raise
    return fd


def open_below(directory: int, path: str, flags: int = posix.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the file ``path`` in a directory of the store that ``open_directory`` gave, for reading or as
    ``flags`` say. A link is no file of the store, and nobody waits for the writer of a pipe that lies in it.

    Raises OSError, UntrustedDirectory where somebody else could have written the file.
    """
    name = path.rpartition("/")[2]
    try:
        fd = posix.open(name, flags | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK, mode, dir_fd=directory)
    except OSError as error:
        raise _with_path(error, path) from None
    return fd if flags & posix.O_EXCL else _plain(path, fd)  # what was just made is the user's own


def open_in_store(path: str, flags: int = posix.O_RDONLY, mode: int = 0o600) -> int:
    """``open_below`` with the directory that ``path`` names, which must be the user's own."""
    directory = open_directory(path.rpartition("/")[0], follow=False)
    try:
        return open_below(directory, path, flags, mode)
    finally:
        posix.close(directory)


def open_own_file(path: str) -> int:
    """A descriptor for reading a plain file that nobody else could have written or put there.

    In a directory like /tmp others can add files, but not replace this one. The file may be a link, as those who keep
    their settings in a repository have it: then it is the file itself that counts. Raises OSError, UntrustedDirectory
    included.
    """
    directory = open_directory(path.rpartition("/")[0] or "/", sticky_is_fine=True)
    try:
        fd = posix.open(path.rpartition("/")[2], posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        raise _with_path(error, path) from None
    finally:
        posix.close(directory)
    return _plain(path, fd)


def require_own_file(path: str) -> None:
    """Raises OSError, UntrustedDirectory included, where ``open_own_file`` would."""
    posix.close(open_own_file(path))


def read_own_file(path: str, limit: int) -> bytes:
    """At most ``limit`` bytes of a file that ``open_own_file`` opens."""
    fd = open_own_file(path)
    try:
        data = b""
        while len(data) < limit and (more := posix.read(fd, limit - len(data))):
            data += more
        return data
    finally:
        posix.close(fd)


def make_private(path: str) -> None:
    """Creates a directory that only its owner can use, and checks one that is there.

    Nothing is created in another user's directory: what root made in a home (``sudo -E``) would be of no use to the
    one who lives there. Raises OSError, UntrustedDirectory included.
    """
    import os

    if root_changed():
        raise OSError("the program changed its root directory")
    try:
        require_own(path)
        return
    except FileNotFoundError:
        pass
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    owner = os.stat(above).st_uid
    if owner not in (os.geteuid(), 0):
        raise UntrustedDirectory(f"{above} belongs to user {owner}; {path} is not created in it")
    os.makedirs(path, mode=0o700, exist_ok=True)
    require_own(path)


def make_private_below(root: str, *names: str) -> None:
    """``make_private`` for ``root`` and for directories in each other below it, of which none is a link. Raises
    OSError."""
    make_private(root)
    path = root
    for name in names:
        path = f"{path}/{name}"
        try:
            posix.mkdir(path, 0o700)
        except FileExistsError:
            pass
    require_own_below(root, *names)
