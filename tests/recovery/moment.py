"""Runs a program and makes one of its system calls go wrong.

    moment.py NUMBERS LOG APART [THREAD.CALL[.NAME] ACTION] -- PROGRAM [ARGUMENT]...

NUMBERS are those of system calls, from ``tracer``. Calls are counted from the moment when the program opens the layer's
library, for each thread by itself, in all threads and children. Threads have numbers in the order in which they are
made, from 0. Calls on files below the directory APART and on the standard streams do not count. LOG gets a line for
each call: the thread, the number of the call, its name, what it is about. A line 'synced' names the device and the
inode of a file that was synced.

With NAME the action happens at the first call of this name from this number on: runs of one program differ by some
calls, and half of the third argument of mprotect takes away the right to write.

    error:NAME          the call is not made and fails with this errno
    short               half of the bytes are read or written
    torn                half of the bytes are written, then the process is killed
    kill, abort, exit   SIGKILL, SIGABRT, _exit(0) in place of the call

The exit status is the program's; 128 and the signal's number if it was killed; 125 if the call never came.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Any

#: What calls are about: a path, a path below a descriptor, a descriptor, or nothing that has a name.
CALLS = {
    "path": "open stat lstat access rename mkdir rmdir unlink readlink link symlink chmod statfs execve",
    "below": "openat newfstatat statx faccessat faccessat2 renameat renameat2 mkdirat unlinkat readlinkat linkat"
    " fchmodat utimensat",
    "file": "read pread64 readv preadv write pwrite64 writev pwritev pwritev2 close fstat lseek getdents64 fcntl"
    " ftruncate fallocate fsync fdatasync syncfs sync_file_range flock fstatfs ioctl fchmod dup sendfile"
    " copy_file_range",
    "": "fork vfork memfd_create mmap mprotect mremap madvise mlock clone clone3 pipe2 eventfd2 socket getrandom"
    " prlimit64 sigaltstack",
}
ABOUT = {name: about for about, names in CALLS.items() for name in names.split()}
#: Of the processor: the words of its registers, and which are arguments, result, and the call's number.
WORDS, ARGUMENTS, RESULT, NUMBER = {"x86_64": (27, (14, 13, 12), 10, 15), "aarch64": (34, (0, 1, 2), 0, 8)}[
    os.uname().machine
]
#: linux/ptrace.h, linux/elf.h
TRACEME, PEEKDATA, POKEDATA, CONT, SYSCALL, SETOPTIONS, GETEVENTMSG = 0, 2, 5, 7, 24, 0x4200, 0x4201
GETREGSET, SETREGSET, GET_SYSCALL_INFO, SYSCALL_EXIT, PRSTATUS, ARM_SYSTEM_CALL = 0x4204, 0x4205, 0x420E, 2, 1, 0x404
#: SYSGOOD, FORK, VFORK, CLONE, EXEC, SECCOMP, EXITKILL
OPTIONS, MADE, SECCOMP = 0x10009F, (1, 2, 3), 7
WALL = 0x40000000


@functools.cache
def tracer() -> tuple[str, ...]:
    """Returns the command to which the arguments from LOG on are added. The compiler knows the numbers of calls."""
    import subprocess

    names = [*ABOUT, "exit_group"]
    text = "#include <sys/syscall.h>\n" + "".join(f"{name!r} SYS_{name}\n" for name in names)
    done = subprocess.run(["cc", "-E", "-P", "-"], input=text, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("'")]
    numbers = (f"{name[1:-1]}={number}" for name, number in lines if number.isdigit())
    return sys.executable, "-I", "-S", str(Path(__file__).resolve()), ",".join(numbers)


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


def register_set(request: int, thread: int, of: int, data: Any) -> None:
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(data), ctypes.sizeof(data))  # a struct iovec
    libc.ptrace(request, thread, of, ctypes.addressof(vector))


def text_at(thread: int, address: int) -> str:
    """Returns a string of the program."""
    found = b""
    with open(f"/proc/{thread}/mem", "rb", 0) as memory:
        while address and b"\0" not in found and len(found) < 4096:
            at = address + len(found)
            try:  # not beyond a page, which may be the last one
                found += os.pread(memory.fileno(), 256 - at % 256, at)
            except OSError:
                break
    return os.fsdecode(found.partition(b"\0")[0])


def name_of_file(thread: int, file: int) -> str:
    try:
        return os.readlink(f"/proc/{thread}/fd/{file}")
    except OSError:
        return ""


class Thread:
    """A thread that makes a call."""

    def __init__(self, id: int, number: int) -> None:
        self.id, self.number, self.calls = id, number, 0
        self.registers = (ctypes.c_ulonglong * WORDS)()
        #: What a call returns that was made and is said to have failed; whether the program dies after this call; where
        #: the length of a struct iovec is that was cut, and what it was.
        self.result, self.dies, self.cut = 0, False, (0, 0)

    def argument(self, number: int) -> int:
        return self.registers[ARGUMENTS[number]]

    def read(self) -> None:
        register_set(GETREGSET, self.id, PRSTATUS, self.registers)

    def write(self, call: int | None = None, **changed: int) -> None:
        """Changes the call, its result or an argument."""
        if call is not None and WORDS == 27:
            changed["call"] = call
        places = {"result": RESULT, "call": NUMBER, **{f"argument_{n}": at for n, at in enumerate(ARGUMENTS)}}
        for name, value in changed.items():
            self.registers[places[name]] = value & (1 << 64) - 1
        register_set(SETREGSET, self.id, PRSTATUS, self.registers)
        if call is not None and WORDS == 34:  # the program's register keeps the number
            register_set(SETREGSET, self.id, ARM_SYSTEM_CALL, ctypes.c_int(call))

    def name(self, about: str) -> str:
        """Returns what the call is about."""
        first = ctypes.c_int(self.argument(0) & 0xFFFFFFFF).value
        if about == "path":
            return text_at(self.id, self.argument(0))
        if about == "file":
            return name_of_file(self.id, first)
        path = text_at(self.id, self.argument(1)) if about else ""
        below = about and not path.startswith("/") and first >= 0
        return f"{name_of_file(self.id, first)}/{path}" if below else path

    def make_short(self, call: str) -> bool:
        """Halves the bytes of a call that reads or writes. Returns false if there are less than two."""
        amount = self.argument(2)
        if "v" not in call or amount > 1:
            if amount > 1:
                self.write(argument_2=amount // 2)
            return amount > 1
        at = self.argument(1) + 8
        full = libc.ptrace(PEEKDATA, self.id, at, None)
        self.cut = at, full
        libc.ptrace(POKEDATA, self.id, at, full // 2)
        return True


class Tracer:
    """The program and its threads. ``wanted``: a thread, a call, a name or "", what is done there."""

    def __init__(self, numbers: str, log: str, apart: str, wanted: list[str]) -> None:
        self.numbers = {name: int(number) for name, _, number in (one.partition("=") for one in numbers.split(","))}
        self.calls = {number: name for name, number in self.numbers.items() if name in ABOUT}
        self.log, self.apart = Path(log).open("w", errors="surrogateescape"), apart  # noqa: SIM115
        self.threads: dict[int, Thread] = {}
        self.counting = False
        self.wanted: tuple[int, int, str] | None = None
        self.came = not wanted
        if wanted:
            thread, call, *name = wanted[0].split(".")
            self.wanted = int(thread), int(call), "".join(name)
            self.action, _, error = wanted[1].partition(":")
            self.error = -getattr(errno, error) if error else 0
            assert self.action in ("error", "short", "torn", "kill", "abort", "exit"), f"no such moment: {wanted}"

    def thread(self, id: int) -> Thread:
        return self.threads.setdefault(id, Thread(id, len(self.threads)))

    def is_wanted(self, thread: Thread, call: str) -> bool:
        if self.came or self.wanted is None or thread.number != self.wanted[0]:
            return False
        _, number, name = self.wanted
        return (thread.calls >= number and call == name) if name else thread.calls == number

    def strike(self, thread: Thread, call: str) -> int:
        """Does what is asked for with the call that the thread is about to make. Returns how the thread goes on."""
        self.came = True
        if self.action == "error" and call == "close":
            thread.result = self.error  # the kernel closes the descriptor whatever it returns
            return SYSCALL
        if self.action in ("short", "torn"):
            thread.dies = self.action == "torn"
            return SYSCALL if thread.make_short(call) or thread.dies else CONT
        if self.action == "error":
            thread.write(call=-1, result=self.error)
        elif self.action == "exit":
            thread.write(call=self.numbers["exit_group"], argument_0=0)
        elif self.action == "abort":
            thread.write(call=-1, result=-errno.EINTR)
            libc.tgkill(self.program, thread.id, signal.SIGABRT)
        else:
            os.kill(self.program, signal.SIGKILL)
        return CONT

    def before_call(self, thread: Thread) -> int:
        thread.read()
        call = self.calls.get(thread.registers[NUMBER])
        if call is None or not (self.counting or ABOUT[call] in ("path", "below")):
            return CONT
        name = thread.name(ABOUT[call])
        self.counting = self.counting or "/libVkLayer_pylayer" in name
        standard = ABOUT[call] == "file" and thread.argument(0) & 0xFFFFFFFF <= 2
        if not self.counting or standard or name.startswith(self.apart):
            return CONT
        if call in ("fsync", "fdatasync"):
            found = os.stat(f"/proc/{thread.id}/fd/{thread.argument(0)}")
            print(f"synced {found.st_dev} {found.st_ino}", file=self.log)
        thread.calls += 1
        to_write = call == "openat" and thread.argument(2) & (os.O_ACCMODE | os.O_CREAT)
        print(f"{thread.number}.{thread.calls} {call}{'+' if to_write else ''} {name}", file=self.log)
        return self.strike(thread, call) if self.is_wanted(thread, call) else CONT

    def after_call(self, thread: Thread) -> int:
        """SYSCALL stops a thread before the call, too, after seccomp's stop: only the end of the call matters."""
        info = ctypes.create_string_buffer(128)
        libc.ptrace(GET_SYSCALL_INFO, thread.id, 128, ctypes.addressof(info))
        if info.raw[0] != SYSCALL_EXIT:
            return SYSCALL
        if thread.cut[0]:
            libc.ptrace(POKEDATA, thread.id, *thread.cut)
        thread.cut = 0, 0
        if thread.dies:
            os.kill(self.program, signal.SIGKILL)
        if thread.result:
            thread.read()
            thread.write(result=thread.result)
            thread.result = 0
        return CONT

    def filter_calls(self) -> None:
        """Has the kernel stop the process at these calls, and at no other one."""
        load, equal, answer, allow, trace = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FF00000
        count = len(self.calls)
        code = [(load, 0, 0, 0), *((equal, count - at, 0, number) for at, number in enumerate(self.calls))]
        code += [(answer, 0, 0, allow), (answer, 0, 0, trace)]
        data = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
        program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(data))
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
            os._exit(125)

    def start(self, command: list[str]) -> None:
        self.program = os.fork()
        if self.program == 0:
            libc.ptrace(TRACEME, 0, None, None)
            os.kill(os.getpid(), signal.SIGSTOP)
            self.filter_calls()
            os.execvp(command[0], command)
        os.waitpid(self.program, 0)
        self.thread(self.program)
        libc.ptrace(SETOPTIONS, self.program, None, OPTIONS)
        libc.ptrace(CONT, self.program, None, None)

    def went_on(self, id: int, status: int) -> None:
        event, stop, how, passed = status >> 16, status >> 8 & 0xFF, CONT, 0
        if event == SECCOMP:
            how = self.before_call(self.thread(id))
        elif event in MADE:
            made = ctypes.c_ulong()
            libc.ptrace(GETEVENTMSG, id, None, ctypes.addressof(made))
            self.thread(made.value)
        elif stop == signal.SIGTRAP | 0x80:
            how = self.after_call(self.thread(id))
        elif event == 0 and stop != signal.SIGSTOP:
            passed = stop
        libc.ptrace(how, id, None, passed)

    def run(self, command: list[str]) -> int:
        """Returns the exit status."""
        self.start(command)
        ended = 125
        while True:
            try:
                id, status = os.waitpid(-1, WALL)
            except ChildProcessError:
                break
            if os.WIFSTOPPED(status):
                self.went_on(id, status)
            elif id == self.program:
                ended = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self.log.close()
        return ended if self.came else 125


if __name__ == "__main__":
    at = sys.argv.index("--")
    sys.exit(Tracer(*sys.argv[1:4], sys.argv[4:at]).run(sys.argv[at + 1 :]))
