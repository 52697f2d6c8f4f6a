"""Creates pipelines again, in processes of their own. ``prewarm`` runs fossilize-replay under the layer, ``rebuild``
runs pylayer's replayer (shim/replay) under it, and ``warm`` runs that without it. What the layer stored for the first
two is imported.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator

from ..common.files import Scratch
from ..common.identity import Identity
from ..report.recorded import without_loader
from ..store.state import HEADER, MAGIC, ROOTS, VERSION, Created, State
from ..store.store import Import, Partition, Store
from ..values import DeviceFacts
from . import manifests
from .environment import DISABLE, with_layer
from .output import Failure, failing
from .selection import Names

REPLAYER = "pylayer-replay"
#: How often the command checks a replayer that does not answer.
POLL_SECONDS = 0.25
#: The longest line of an answer, in bytes.
MOST_LINE = 1 << 17
FRAME = struct.Struct("<II16s")
#: A recorded instance and device that enable nothing: create infos with sType and nothing else.
PLAIN_ROOTS = [
    HEADER.pack(MAGIC, VERSION, kind, 0, size, 0, 0, 0, 0, 0) + structure.to_bytes(4, "little").ljust(size, b"\0")
    for kind, structure, size in zip(ROOTS, (1, 3), (64, 72), strict=True)
]
#: What the replayer does with a frame (shim/replay/replay.c).
KEEP, CREATE, LOOK_UP, LOAD_CACHE = range(4)
#: Signals of a process that does something wrong. Others come from outside.
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS)
#: Results that say nothing about a pipeline: there is no memory, or the device is lost.
TRANSIENT = ("-1", "-2", "-4")


# ---- a room: a directory with stores for replayers -----------------------------------------------------


@contextlib.contextmanager
def room(store: Store, undone: str) -> Iterator[str]:
    """Yields a directory for the stores of replayers. Raises Failure if DISABLE_PYLAYER is set, or if the store cannot
    be used, or a replayer cannot be started; ``undone`` tells the user what was not done then."""
    if DISABLE in os.environ:
        raise Failure(f"{DISABLE} is set, which keeps the layer out of every program; unset it")
    with failing(f"{store.root} cannot be used", hint=f"; {undone}"), Scratch(store.root) as scratch:
        yield scratch


def scratch_environment(root: str, identified: bool) -> dict[str, str]:
    """Returns the environment of a program that runs under the layer with the store ``root`` and no other.
    ``identified``: the program that gets the pipelines uses VK_EXT_shader_module_identifier. Replayers may enable that
    even if it does not, and its fingerprints must not depend on it then."""
    own = {"PYLAYER_STORE": root, "PYLAYER_SYSTEM_STORE": os.path.join(root, "none")}
    if not identified:
        own["PYLAYER_SHADER_IDENTIFIERS"] = "ignore"
    return with_layer({**os.environ, **own})


def partitions_of(root: str) -> list[Partition]:
    """Returns everything that a store holds under known identities."""
    found = Store(root).partitions(lambda name: True, lambda number, name: None)
    return [partition for partition in found if partition.identity is not None]


def import_all(
    replayed: str, store: Store, recipient: tuple[int, str] | None, rebuilt: bool = False
) -> tuple[list[Import], set[int]]:
    """Imports all pipelines of the store at ``replayed`` into ``store``: for the program ``recipient``; with None for
    each program that has them at ``replayed``. Returns an import for each identity, and the fingerprints of all
    pipelines at ``replayed``. Raises OSError."""
    imports: list[Import] = []
    fingerprints: set[int] = set()
    for partition in partitions_of(replayed):
        assert partition.identity is not None
        fingerprints.update(*(holding.fingerprints for holding in partition.holdings.values()))
        imports += import_of(partition.identity, replayed, partition.holdings, store, recipient, rebuilt)
    return imports, fingerprints


def import_of(
    identity: Identity,
    replayed: str,
    programs: Iterable[int],
    store: Store,
    recipient: tuple[int, str] | None,
    rebuilt: bool = False,
) -> list[Import]:
    """Imports what these programs of the store at ``replayed`` have under an identity, as ``import_all`` does. Returns
    the import, if there was anything. Raises OSError."""
    path = os.path.join(replayed, f"{identity.name}.pylayer")
    names = Names(replayed)
    export = Store(replayed).export(identity, names.named(programs), "")
    for _ in export.steps(path):
        pass
    if not export.result.paths:
        return []
    work = store.import_from(path, recipient, rebuilt=rebuilt)
    for _ in work.steps(store.root):
        pass
    return [work]


# ---- one replayer --------------------------------------------------------------------------------------


class Ended(Exception):
    """The replayer ended, was killed, or should not go on. The text says why. ``again``: the pipeline may not be the
    cause, so a later rebuild tries it again."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


class NoDevice(Exception):
    """There is no such device, or it cannot be created. The text says why."""


class Replayer:
    """One process of the replayer. Raises OSError if it cannot be started."""

    def __init__(self, path: str, facts: DeviceFacts, environment: dict[str, str], most_bytes: int) -> None:
        #: Features and extensions that its device lacks.
        self.lacks: list[str] = []
        #: Digests of the objects that were sent to it with pipelines.
        self.has: set[bytes] = set()
        self._most = most_bytes
        self._received = b""
        device = f"{facts.vendor_id:x}-{facts.device_id:x}-{facts.pipeline_cache_uuid.hex()}"
        self._process = subprocess.Popen(
            [path, device],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # so that Ctrl-C reaches only the command, which lets the replayer finish its pipeline
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)

    def begin(self, state: State, instance: bytes, device: bytes, seconds: float) -> None:
        """Creates instance and device. If ``device`` is empty, they enable nothing. Raises NoDevice, Ended, Unusable
        and OSError."""
        roots = [state.with_inputs(digest, ())[0] for digest in (instance, device)] if device else PLAIN_ROOTS
        frames = (_frame(digest, root) for digest, root in zip((instance, device), roots, strict=True))
        word, rest = self._exchange(b"".join(frames), seconds)
        if word != "ready":
            raise NoDevice(rest)

    def load(self, data: bytes, seconds: float) -> bool:
        """Loads ``data`` into the VkPipelineCache with which all later pipelines are created. Raises Ended and
        OSError."""
        return self._exchange(_frame(bytes(16), data, LOAD_CACHE), seconds) == ("done", "0")

    def create(self, state: State, created: Created, seconds: float, wish: int = CREATE) -> str:
        """Creates a pipeline, or looks it up (``wish``). Returns why that failed; empty text if it did not. Raises
        Unusable, OSError, and Ended, also for a result in ``TRANSIENT``."""
        data, inputs = state.with_inputs(created.pipeline, self.has)
        self.has.update(inputs)
        frames = [_frame(*one) for one in inputs.items()]
        word, rest = self._exchange(b"".join(frames) + _frame(created.pipeline, data, wish), seconds)
        if word != "done":
            return rest or "the replayer gave no answer"
        why = f"the driver returned {rest[:20] or 'nothing'}{self._lacking}"
        if rest in TRANSIENT:
            raise Ended(why, again=True)
        return "" if rest == "0" else why

    @property
    def _lacking(self) -> str:
        """What the device does not support, which may be the reason for a failure."""
        return f" (without {', '.join(self.lacks[:3])})" if self.lacks else ""

    def _exchange(self, data: bytes, seconds: float) -> tuple[str, str]:
        """Sends ``data`` and returns the first word of the answer, and the rest."""
        rest, end = memoryview(data), self._clock() + seconds
        while True:
            line, newline, after = self._received.partition(b"\n")
            if newline:
                self._received = after
                word, _, more = line.decode("utf-8", "replace").partition(" ")
                if word != "lacks":
                    return word, more
                self.lacks.append(more)
                continue
            reading, writing, _ = select.select([self._from], [self._to] if rest else [], [], POLL_SECONDS)
            if writing:
                try:
                    rest = rest[os.write(self._to, rest[: 1 << 16]) :]
                except BrokenPipeError:
                    rest = rest[:0]
            if reading:
                piece = os.read(self._from, 1 << 16)
                if not piece:
                    raise self._how_it_ended()
                self._received += piece
            if self._clock() > end or len(self._received) > MOST_LINE:
                raise self._kill(f"no answer within {seconds:.0f} s")
            if not reading and self.resident_bytes > self._most:
                raise self._kill(f"it needs more than {self._most >> 20} MiB")

    def _clock(self) -> float:
        """Returns seconds, less the time that the replayer's first thread waited for a processor. So on a busy machine
        it is not taken for hung."""
        return time.monotonic() - _second_number(f"/proc/{self._process.pid}/schedstat") / 1e9

    @property
    def resident_bytes(self) -> int:
        """Memory that the process uses now; 0 if it has ended."""
        return _second_number(f"/proc/{self._process.pid}/statm") * os.sysconf("SC_PAGE_SIZE")

    def _kill(self, why: str) -> Ended:
        self._process.kill()
        return Ended(why)

    def _how_it_ended(self) -> Ended:
        status = self._process.wait()
        if status >= 0:
            return Ended(f"the driver ended the process with status {status}")
        name = signal.Signals(-status).name
        if -status in CRASHES:
            return Ended(f"the driver crashed ({name}){self._lacking}")
        return Ended(f"the process was killed ({name})", again=True)

    def close(self, seconds: float) -> bool:
        """Lets the process end, so that a layer in it writes what it has. Returns False if the process ends with an
        error, or is killed because time is up."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            return self._process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False


def _second_number(path: str) -> int:
    """Returns the second number in a file of /proc; 0 if the process has ended."""
    try:
        with open(path, "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def _frame(digest: bytes, data: bytes, wish: int = KEEP) -> bytes:
    return FRAME.pack(len(data), wish, digest) + data + bytes(-len(data) % 8)


def _file_name(executable: str) -> str:
    """Returns the file name by which drivers know a program: for a script its interpreter's, under Wine the Windows
    program's."""
    executable = without_loader(executable)
    interpreter = executable.partition(" ")[0]
    is_script = interpreter.startswith(("python", "pypy")) and not executable.lower().endswith(".exe")
    return os.path.basename(interpreter if is_script else executable).lstrip(".")


def replayer_for(state: State, scratch: str) -> str:
    """Returns the path of a copy of the replayer under the program's name: drivers and policy rules know programs by
    the names of their files. Raises OSError."""
    path = os.path.join(scratch, _file_name(state.executable) or REPLAYER)
    if not os.path.exists(path):
        shutil.copyfile(manifests.package_directory() / REPLAYER, path)
        os.chmod(path, 0o700)
    return path


def require_replayer() -> None:
    """Raises Failure if the installation lacks the replayer."""
    path = manifests.package_directory() / REPLAYER
    if not path.is_file():
        raise Failure(f"{path} is missing, so nothing can be rebuilt; install vk-pylayer again")
