"""The paths of pylayer's files, and checks that no other user could have written to them.

Imported before a program's first device exists. So it uses ``posix``, which is built in: importing ``os`` takes 1 ms.
"""

from __future__ import annotations

import posix

_WRITABLE_BY_GROUP, _WRITABLE_BY_ALL = 0o020, 0o002  # stat.S_IWGRP, stat.S_IWOTH
_STICKY = 0o1000  # stat.S_ISVTX
_FILE_TYPE, _PLAIN_FILE = 0o170000, 0o100000  # stat.S_IFMT, stat.S_IFREG
_DIRECTORY_TYPE, _LINK = 0o040000, 0o120000  # stat.S_IFDIR, stat.S_IFLNK
_DIRECTORY = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC


def getenv(name: str, default: str) -> str:
    """Looks up an environment variable. In a program's process these are the program's, as they were at its first
    vkCreateInstance."""
    import os

    return os.environ.get(name, default)


class UntrustedDirectory(OSError):
    """A directory or file of the store or the configuration that another user owns or may write to."""


def _base(variable: str, fallback: str) -> str | None:
    value = getenv(variable, "")
    if value.startswith("/"):  # XDG Base Directory: relative paths are invalid
        return value
    home = getenv("HOME", "")
    return f"{home}/{fallback}" if home.startswith("/") else None


def _own_path(own: str, base: str | None, tail: str) -> str | None:
    """Returns what the variable ``own`` says, else the path of ``tail`` below ``base``."""
    if wanted := getenv(own, ""):
        return _absolute(wanted)
    return f"{base}/{tail}" if base else None


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def exists(path: str) -> bool:
    """Returns whether ``path`` exists, as far as this process may know. True if an error such as EIO keeps that from
    being known: who then opens the file gets the error."""
    try:
        posix.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except OSError:
        pass
    return True


def store_root() -> str | None:
    """Returns ``PYLAYER_STORE``, else ``$XDG_CACHE_HOME/pylayer``, else ``~/.cache/pylayer``, or None without a home
    directory."""
    return _own_path("PYLAYER_STORE", _base("XDG_CACHE_HOME", ".cache"), "pylayer")


def system_store_root() -> str:
    """Returns ``PYLAYER_SYSTEM_STORE``, else ``/usr/share/pylayer``: a store that root fills. Programs use its
    pipelines beside those of the user's store, and nothing writes to it."""
    return _absolute(getenv("PYLAYER_SYSTEM_STORE", "") or "/usr/share/pylayer")


#: Longer policy files are rejected.
MAX_POLICY_FILE_BYTES = 1 << 20


def config_file() -> str | None:
    """Returns ``PYLAYER_CONFIG``, else ``$XDG_CONFIG_HOME/pylayer/policy.yaml`` (by default below ``~/.config``), or
    None without a home directory."""
    return _own_path("PYLAYER_CONFIG", _base("XDG_CONFIG_HOME", ".config"), "pylayer/policy.yaml")


def system_config_file() -> str:
    """Returns ``PYLAYER_SYSTEM_CONFIG``, else ``/etc/pylayer/policy.yaml``: an administrator's policy file, whose keys
    the user's file overrides."""
    return _absolute(getenv("PYLAYER_SYSTEM_CONFIG", "") or "/etc/pylayer/policy.yaml")


def config_files() -> tuple[str | None, str | None]:
    """Returns the policy files in force, the system's and the user's, each None if there is none. A file that
    ``PYLAYER_CONFIG`` names is in force even if it does not exist; reading it is then an error."""
    system, user = system_config_file(), config_file()
    there = user is not None and (getenv("PYLAYER_CONFIG", "") != "" or exists(user))
    return system if exists(system) else None, user if there else None


def _writable_by_others(status: posix.stat_result) -> bool:
    """Returns whether somebody else may write to a file or directory of this user or root. A private group is nobody
    else: most distributions create one for each user, with the user's own number, and set the umask to 002. Its members
    are not looked up, because that loads a name service into the program. shim/layer/process/trusted.c has the same
    rule."""
    if not status.st_mode & _WRITABLE_BY_GROUP or status.st_mode & _WRITABLE_BY_ALL:
        return bool(status.st_mode & _WRITABLE_BY_ALL)
    user = posix.geteuid()
    return not (user != 0 and user == status.st_uid == status.st_gid == posix.getegid())


def _judge(path: str, status: posix.stat_result, sticky_is_fine: bool = False) -> None:
    if status.st_uid not in (posix.geteuid(), 0):
        raise UntrustedDirectory(f"{path} belongs to user {status.st_uid}; it is not used")
    if sticky_is_fine and status.st_mode & _STICKY:
        return
    if _writable_by_others(status):
        raise UntrustedDirectory(f"{path} can be written by others (chmod go-w {path}); it is not used")


def open_directory(path: str, below: int | None = None, follow: bool = True, sticky_is_fine: bool = False) -> int:
    """Returns a descriptor of a directory that nobody else could have written to, usable only as ``dir_fd``.

    The checks use the descriptor, so it makes no difference if somebody replaces the directory at ``path`` meanwhile.
    ``below``: a descriptor of the directory that contains the last part of ``path``. Links in ``path`` are followed,
    because a cache may be on another disk. Without ``follow`` the last part must not be a link.

    Raises OSError, UntrustedDirectory included.
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


def _open_root(path: str) -> int:
    """As ``open_directory``. ``path`` may be a link of the user or of root, but not of anybody else, who could put one
    into a directory like /tmp."""
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
    """Returns whether the process changed its root directory (chroot), so that paths lead elsewhere."""
    return _root() != _root_at_start


def require_own(path: str) -> None:
    """Raises UntrustedDirectory if somebody else could have written to the directory ``path``, and OSError if it is no
    directory."""
    posix.close(_open_root(path))


def require_own_below(root: str, *names: str) -> None:
    """As ``require_own``, for ``root`` and the nested directories ``names`` below it, none of which may be a link."""
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
    """Returns ``fd``. If it is no plain file, or somebody else could have written it, closes it and raises OSError."""
    try:
        status = posix.fstat(fd)
        kind = status.st_mode & _FILE_TYPE
        if kind == _DIRECTORY_TYPE:
            raise IsADirectoryError(21, "Is a directory", path)
        if kind != _PLAIN_FILE:
            raise OSError(22, "Not a regular file", path)
        _judge(path, status)
    except BaseException:
        posix.close(fd)
        raise
    return fd


def _open_below(directory: int, path: str, flags: int) -> int:
    """Opens the file ``path``, whose directory has this descriptor, and closes that. Does not wait if a pipe is there.
    Raises OSError with the whole path.

    A file to write to never gets one of the numbers 0 to 2: a program that has closed these may write to them all the
    same. Meanwhile they are the directory's, opened with O_PATH: writing to that fails as before."""
    held = [directory]
    try:
        while flags & (posix.O_WRONLY | posix.O_RDWR) and held[-1] < 3:
            held.append(posix.dup(directory))
        name = path.rpartition("/")[2]
        return posix.open(name, flags | posix.O_CLOEXEC | posix.O_NONBLOCK, 0o600, dir_fd=directory)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None
    finally:
        for fd in held:
            posix.close(fd)


def open_made(path: str, flags: int) -> int:
    """Returns a descriptor of a file that this process made or makes, wherever it is. Raises OSError."""
    directory, slash, _ = path.rpartition("/")
    return _open_below(posix.open(directory or slash or ".", _DIRECTORY), path, flags | posix.O_NOFOLLOW)


def open_in_store(path: str, flags: int = posix.O_RDONLY) -> int:
    """Returns a descriptor of the file ``path`` for reading, or as ``flags`` say. Neither the file nor its directory
    may be a link, or writable by anybody else.

    Raises OSError, and UntrustedDirectory if somebody else could have written the file.
    """
    fd = _open_below(open_directory(path.rpartition("/")[0], follow=False), path, flags | posix.O_NOFOLLOW)
    if not flags & posix.O_EXCL:  # otherwise this user has just created it
        _plain(path, fd)
    if flags & posix.O_CREAT:
        try:
            posix.fchmod(fd, 0o600)  # a umask such as 0777 would keep the user's later processes out
        except OSError:
            pass  # root's file, or a file system without modes
    return fd


def read_own_file(path: str, limit: int) -> bytes:
    """Returns at most ``limit`` bytes of a plain file that nobody else could have written or put there.

    The directory may be one like /tmp: others can add files to it, but not replace this one. The file may be a link,
    because some users keep their settings in a repository; then the link's target is checked. Raises OSError,
    UntrustedDirectory included.
    """
    directory = open_directory(path.rpartition("/")[0] or "/", sticky_is_fine=True)
    return read_all(_plain(path, _open_below(directory, path, posix.O_RDONLY)), limit)


def read_all(fd: int, limit: int) -> bytes:
    """Returns at most ``limit`` bytes of a file that was just opened, and closes it. Raises OSError."""
    try:
        data, wanted = b"", min(posix.fstat(fd).st_size, limit)
        while len(data) < wanted and (more := posix.read(fd, wanted - len(data))):
            data += more  # a network file system may give less with one call
        return data
    finally:
        posix.close(fd)


def _require_root() -> None:
    if root_changed():
        raise OSError("the program changed its root directory")


def make_private(path: str) -> None:
    """Creates a directory that only its owner can use, or checks an existing one.

    Creates nothing in another user's directory: a directory that root created in a user's home (``sudo -E``) would be
    of no use to that user. Raises OSError, UntrustedDirectory included.
    """
    import os

    _require_root()
    try:
        require_own(path)
        return
    except FileNotFoundError:
        pass
    above, missing = path, []
    while not os.path.lexists(above):
        above, name = os.path.split(above)
        missing.append(name)
    fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _require_root()  # later it may change: what is open is where it was
        owner = os.fstat(fd).st_uid
        if owner not in (os.geteuid(), 0):
            raise UntrustedDirectory(f"{above} belongs to user {owner}; {path} is not created in it")
        for name in reversed(missing):
            try:
                os.mkdir(name, 0o700, dir_fd=fd)
                os.chmod(name, 0o700, dir_fd=fd)  # whatever the umask is
            except FileExistsError:
                pass
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
    finally:
        os.close(fd)
    require_own(path)


def make_private_below(root: str, *names: str) -> None:
    """As ``make_private``, for ``root`` and the nested directories ``names`` below it, none of which may be a link.
    Raises OSError."""
    make_private(root)
    path = root
    for name in names:
        path = f"{path}/{name}"
        try:
            posix.mkdir(path, 0o700)
            posix.chmod(path, 0o700)
        except FileExistsError:
            pass
    require_own_below(root, *names)
