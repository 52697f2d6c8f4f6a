"""A FUSE file system that delays each operation, as a network file system or a sleeping disk does: another directory,
seen through /dev/fuse. Nothing is cached, so each operation of a program comes here. It is a process of its own.

The protocol is that of <linux/fuse.h>, version 7.31."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DEVICE = Path("/dev/fuse")
ENOSYS = 38
HEADER, ATTRIBUTES = struct.Struct("<IIQQIIII"), struct.Struct("<6Q10I")
LARGEST_WRITE = 128 << 10
#: A delay that has no end until another one is set.
FOR_EVER = -1


class SlowFilesystem:
    """One that is mounted, and what it did."""

    def __init__(self, directory: Path) -> None:
        self._control, self._log = directory / "delay", directory / "operations"
        self.delay(0)
        self._log.touch()

    def delay(self, milliseconds: float) -> None:
        """From now on each operation takes this long, also those that are under way."""
        new = self._control.with_suffix(".new")
        new.write_text(str(milliseconds))
        new.rename(self._control)

    def step(self, milliseconds: float) -> tuple[str, str, str]:
        """Returns a step of tests/hosts that does the same, without a new process: as long as an operation waits, the
        kernel may let none begin or end."""
        new = self._control.with_suffix(f".{milliseconds}")
        new.write_text(str(milliseconds))
        return "replace", str(self._control), str(new)

    def operations(self) -> int:
        """Returns how many operations programs have asked for."""
        return self._log.stat().st_size


@contextmanager
def mounted(directory: Path, at: Path) -> Iterator[SlowFilesystem]:
    """Shows a new directory below ``directory`` at ``at``. Needs root."""
    behind = directory / "behind"
    behind.mkdir()
    at.mkdir()
    slow = SlowFilesystem(directory)
    command = [sys.executable, __file__, str(behind), str(at), str(slow._control), str(slow._log)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout and server.stdout.readline() == b"mounted\n"
        yield slow
    finally:
        server.kill()  # the kernel ends what is under way
        server.wait()
        subprocess.run(["umount", "--lazy", str(at)], check=True)


class Server:
    """Answers the kernel, each request on a thread."""

    def __init__(self, behind: str, control: str, log: str) -> None:
        self.paths, self.numbers, self.last = {1: behind}, {behind: 1}, 1
        self.mutex = threading.Lock()
        self.control = control
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND)
        self.fd = os.open(DEVICE, os.O_RDWR)
        self.listings: dict[int, list[os.DirEntry[str]]] = {}
        self.calls: dict[int, Callable[[int, bytes], bytes]] = {
            1: self.look_up,
            3: lambda node, _: self.attributes(self.paths[node]),
            4: self.change,
            9: self.make_directory,
            10: lambda node, data: self.none(os.unlink(self.below(node, data))),
            11: lambda node, data: self.none(os.rmdir(self.below(node, data))),
            12: lambda node, data: self.rename(node, data, 8),
            14: self.open,
            15: lambda _, data: os.pread(*self.range_of(data)),
            16: self.write,
            17: self.describe,
            18: lambda _, data: self.none(os.close(struct.unpack_from("<Q", data)[0])),
            20: lambda _, data: self.none(os.fsync(struct.unpack_from("<Q", data)[0])),
            25: lambda *_: b"",
            27: lambda *_: struct.pack("<QII", 0, 0, 0),
            28: self.list,
            29: lambda *_: b"",
            35: self.create,
            45: lambda node, data: self.rename(node, data, 16),
        }

    @staticmethod
    def none(_: None) -> bytes:
        return b""

    def below(self, node: int, name: bytes) -> str:
        return os.path.join(self.paths[node], os.fsdecode(name.split(b"\0")[0]))

    def number(self, path: str) -> int:
        with self.mutex:
            if path not in self.numbers:
                self.last += 1
                self.numbers[path], self.paths[self.last] = self.last, path
            return self.numbers[path]

    @staticmethod
    def packed(path: str) -> bytes:
        found = os.lstat(path)
        times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        return ATTRIBUTES.pack(
            *(found.st_ino, found.st_size, found.st_blocks),
            *(at // 10**9 for at in times),
            *(at % 10**9 for at in times),
            *(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0),
        )

    def attributes(self, path: str) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self.packed(path)

    def entry(self, path: str) -> bytes:
        attributes = self.packed(path)
        return struct.pack("<4QII", self.number(path), 0, 0, 0, 0, 0) + attributes

    def look_up(self, node: int, data: bytes) -> bytes:
        return self.entry(self.below(node, data))

    def change(self, node: int, data: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", data)
        mode, _, user, group = struct.unpack_from("<4I", data, 68)
        path = self.paths[node]
        if valid & 1:
            os.chmod(path, mode & 0o7777)
        if valid & 6:
            os.chown(path, user if valid & 2 else -1, group if valid & 4 else -1)
        if valid & 8:
            os.truncate(path, size)
        if valid & 0x1B0:
            os.utime(path)
        return self.attributes(path)

    def make_directory(self, node: int, data: bytes) -> bytes:
        path = self.below(node, data[8:])
        os.mkdir(path, struct.unpack_from("<I", data)[0] & 0o7777)
        return self.entry(path)

    def rename(self, node: int, data: bytes, names: int) -> bytes:
        old, new, _ = data[names:].split(b"\0", 2)
        source, target = self.below(node, old), self.below(struct.unpack_from("<Q", data)[0], new)
        os.rename(source, target)
        with self.mutex:
            for path in [path for path in self.numbers if f"{path}/".startswith(f"{target}/")]:
                self.numbers.pop(path)
            for path in [path for path in self.numbers if f"{path}/".startswith(f"{source}/")]:
                number = self.numbers.pop(path)
                self.paths[number] = target + path[len(source) :]
                self.numbers[self.paths[number]] = number
        return b""

    def open(self, node: int, data: bytes) -> bytes:
        flags = struct.unpack_from("<I", data)[0] & ~os.O_NOFOLLOW & ~os.O_APPEND
        return struct.pack("<QII", os.open(self.paths[node], flags), 0, 0)

    def create(self, node: int, data: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", data)
        path = self.below(node, data[16:])
        fd = os.open(path, flags & ~os.O_APPEND, mode & 0o7777)
        return self.entry(path) + struct.pack("<QII", fd, 0, 0)

    @staticmethod
    def range_of(data: bytes) -> tuple[int, int, int]:
        fd, offset, size = struct.unpack_from("<QQI", data)
        return fd, size, offset

    def write(self, _: int, data: bytes) -> bytes:
        fd, size, offset = self.range_of(data)
        return struct.pack("<II", os.pwrite(fd, data[40 : 40 + size], offset), 0)

    def describe(self, node: int, _: bytes) -> bytes:
        found = os.statvfs(self.paths[node])
        counts = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return struct.pack("<5Q10I", *counts, found.f_bsize, 255, found.f_frsize, 0, *[0] * 6)

    def list(self, node: int, data: bytes) -> bytes:
        _, size, first = self.range_of(data)
        if first == 0:
            self.listings[node] = sorted(os.scandir(self.paths[node]), key=lambda entry: entry.name)
        result = b""
        for number, entry in enumerate(self.listings[node][first:], first + 1):
            name = os.fsencode(entry.name)
            kind = 4 if entry.is_dir(follow_symlinks=False) else 8
            record = struct.pack("<QQII", entry.inode(), number, len(name), kind) + name
            record += bytes(-len(record) % 8)
            if len(result) + len(record) > size:
                break
            result += record
        return result

    def wait(self) -> None:
        begin = time.monotonic()
        while True:
            milliseconds = float(Path(self.control).read_text())
            left = begin + milliseconds / 1000 - time.monotonic()
            if milliseconds != FOR_EVER and left <= 0:
                return
            time.sleep(0.01 if milliseconds == FOR_EVER else min(left, 0.01))

    def answer(self, unique: int, error: int, data: bytes = b"") -> None:
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        except FileNotFoundError:  # whoever asked was killed
            pass

    def serve(self, code: int, unique: int, node: int, data: bytes) -> None:
        self.wait()
        try:
            self.answer(unique, 0, self.calls[code](node, data))
        except OSError as error:
            self.answer(unique, error.errno or 5)

    def run(self) -> None:
        """Answers until the file system is unmounted."""
        while True:
            try:
                request = os.read(self.fd, LARGEST_WRITE + 4096)
            except OSError:
                return
            _, code, unique, node, *_ = HEADER.unpack_from(request)
            data = request[HEADER.size :]
            if code == 26:  # FUSE_INIT
                limits = struct.pack("<4IHHIIHH8I", 7, 31, 0, 0, 16, 12, LARGEST_WRITE, 1, 0, 0, *[0] * 8)
                self.answer(unique, 0, limits)
            elif code in self.calls:
                os.write(self.log, b".")
                threading.Thread(target=self.serve, args=(code, unique, node, data), daemon=True).start()
            elif code not in (2, 36, 42):  # which have no answer: FORGET, INTERRUPT, BATCH_FORGET
                self.answer(unique, ENOSYS)


def serve(behind: str, at: str, control: str, log: str) -> None:
    server = Server(behind, control, log)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={server.fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    if libc.mount(b"slow", os.fsencode(at), b"fuse.slow", 0, options.encode()) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    server.run()


if __name__ == "__main__":
    serve(*sys.argv[1:])
