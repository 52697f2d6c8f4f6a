"""The crash marker: what the driver was working on when a process died, and in which call that the layer added.

    <root>/store/<identity>/<program>-<unique>.live    one device of one process, while it runs

The file has a file header, which identifies its process; marks, one for each call to the driver that runs now
(PylayerMark in shim/boundary.h), which the layer writes into mapped memory; and what the run counts (``runs``).
``<program>-<unique>`` is the run's name. The file is deleted when the device is destroyed. If the process ended
without that, the next start of the identity reads the file and decides what follows (``deaths.review``). On file
systems where a write to a mapped file may fail for lack of disk space, and on those of several machines, the files are
in the runtime directory instead.
"""

from __future__ import annotations

import os
import struct
import time

from ..common import file_kinds, owner, paths
from ..common.files import names_in, read_small
from ..common.identity import Identity
from ..values import Value
from . import format
from .folder import Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: LiveFile of shim/layer/store/store.h, which gets the first two from here, and PylayerMark of shim/boundary.h, which a
#: test compares.
BYTES = 24576
RUN_OFFSET = 8192
OFFSET = format.FILE_HEADER.size
MARK = struct.Struct("<IHHQ13QQ")

#: PylayerMarkedCall, of which the build makes an enumeration for shim/boundary.h. TAKEN: the mark is being filled in.
#: RECORDS: vkCreatePipelineCache and vkMergePipelineCaches with stored records. APPLICATION: vkCreatePipelineCache with
#: the program's data. MERGE: vkMergePipelineCaches by the program, with caches created from its data. PIPELINES:
#: vkCreate*Pipelines with a cache or binaries that contain stored data. COMPILE: the same, but the driver may compile,
#: which can take seconds.
NONE, TAKEN, RECORDS, APPLICATION, MERGE, PIPELINES, COMPILE = 0, 1, 2, 3, 4, 5, 6
#: Calls that the layer adds, without stored data. After a death in one, later processes do not make it for that kind of
#: pipeline. Without one of the first four a pipeline is created with cells; without PROBE, CELL or CELL_MERGE as the
#: program asked, and not kept. Without COPY the layer's cache is not merged into the program's, without IDENTIFIER
#: fingerprints use the shaders' code, without CHUNK cells are not joined.
KEY, BINARIES, BINARY_DATA, CAPTURE, PROBE, CELL, CELL_MERGE = 7, 8, 9, 10, 11, 13, 14
COPY, IDENTIFIER, CHUNK = 15, 17, 18
#: How people know them. Stored data is no cause of a death in one. The last four concern no kind of pipeline. Older
#: versions had 12 and 16.
ADDED = {
    KEY: "vkGetPipelineKeyKHR",
    BINARIES: "vkCreatePipelineBinariesKHR",
    BINARY_DATA: "vkGetPipelineBinaryDataKHR",
    CAPTURE: "a creation with VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR",
    PROBE: "a creation with VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT",
    CELL: "vkGetPipelineCacheData of a compiled pipeline",
    CELL_MERGE: "vkMergePipelineCaches of a compiled pipeline",
    COPY: "vkMergePipelineCaches of two caches in use",
    IDENTIFIER: "vkGetShaderModuleIdentifierEXT",
    CHUNK: "vkMergePipelineCaches of stored pipelines",
}
#: Calls that are useless without another one. The layer asks whether that one is off.
TOGETHER = {BINARIES: KEY, BINARY_DATA: KEY, CELL_MERGE: CELL}


class Mark(Value):
    """One call to the driver that never returned. ``ids`` are those of PylayerMark. ``call`` may be one of ADDED."""

    call: int
    kind: int
    cache: int
    ids: tuple[int, ...]


class Death(Value):
    """A process that ended without destroying its device, and what the driver was working on then. ``marks`` may be
    empty."""

    path: str
    program: int
    application: str
    #: When it began to read what is decided, in nanoseconds since 1970: seconds as a float are 238 ns apart.
    began_ns: int
    marks: list[Mark]
    #: A variable was set that changes what the driver gives.
    changed: bool = False
    #: How many pipelines the driver had created with stored data before, without harm.
    used: int = 0


def _outside(folder: str) -> str:
    """Returns the directory for a folder's crash markers in the runtime directory, whose files are in memory: for
    stores on disks where a mapped file may become unwritable."""
    import xxhash

    number = xxhash.xxh3_64_hexdigest(os.path.realpath(folder).encode("utf-8", "surrogateescape"))
    base = paths.getenv("XDG_RUNTIME_DIR", "")
    in_memory = f"{base}/pylayer-live" if base.startswith("/") else f"/dev/shm/pylayer-live-{os.geteuid()}"
    return f"{in_memory}-{number}"


def files(folder: str) -> Iterator[str]:
    """Yields the path of each crash marker of an identity's folder, wherever it is."""
    for directory in (folder, _outside(folder)):
        for name in names_in(directory):
            if name.endswith(file_kinds.LIVE):
                yield os.path.join(directory, name)


def header_template(identity: Identity, application: str, began_ns: int = 0) -> bytes:
    """Returns the file header of a crash marker without what the layer fills in (shim/layer/crash/crash_marker.c): the
    process and its program's number, and where ``began_ns`` is 0, when the run began to read what is decided."""
    head = bytearray(format.file_header(file_kinds.LIVE.magic, identity, 0, application, salt=0, created_ns=1))
    head[120:128] = began_ns.to_bytes(8, "little")
    head[144:176], head[248:256] = bytes(32), bytes(8)
    return bytes(head)


def _state_of_mapping(fd: int) -> str:
    """Returns whether the process that mapped the file is alive, as ``owner.state``. The kernel grants a lease only
    while nobody has the file open for writing. The mapping of a living process keeps the file open, whatever
    descriptors the program closes, and in any container. The lease ends with the descriptor."""
    import fcntl
    import signal

    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # programs ignore it; whoever breaks the lease sends it
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return owner.ALIVE
    except OSError:
        return owner.ELSEWHERE
    return owner.DEAD


def is_alive(path: str) -> bool:
    """Returns whether the process of a crash marker may be alive. Raises OSError."""
    fd = paths.open_in_store(path)
    try:
        header = format.read_file_header(os.read(fd, format.FILE_HEADER.size))[0]
        state = owner.state(header.process) if header is not None else owner.ELSEWHERE
        if state == owner.ELSEWHERE:
            state = _state_of_mapping(fd)
        if state == owner.ELSEWHERE:
            return time.time() - os.fstat(fd).st_mtime <= owner.FOREIGN_SECONDS
        return state == owner.ALIVE
    finally:
        os.close(fd)


def _read(path: str, folder: Folder) -> Death | None:
    """Returns None while the file's process may be alive. Raises OSError."""
    when_ns = os.stat(path, follow_symlinks=False).st_mtime_ns
    if is_alive(path):
        return None
    data = read_small(path, BYTES)
    header, outcome = format.read_file_header(data, folder.identity.digest)
    if header is None or header.kind != file_kinds.LIVE.magic:
        # Either the writer died over it, or we may not read it.
        return None if outcome in ("foreign-version", "foreign-identity") else Death(path, 0, "", when_ns, [])
    marks, used = [], 0
    if len(data) >= RUN_OFFSET:
        for call, kind, count, cache, *ids, created in MARK.iter_unpack(data[OFFSET:RUN_OFFSET]):
            used += created
            if RECORDS <= call <= COMPILE or call in ADDED:
                marks.append(Mark(call, kind, cache, tuple(ids[: min(count, len(ids))])))
    changed = bool(header.flags & format.CHANGED_DRIVER)
    return Death(path, header.program, header.application, header.created_ns, marks, changed, used)


def deaths(folder: Folder) -> list[Death]:
    """Returns what processes left that ended without destroying their device. Delete ``path`` once the death is
    recorded."""
    found = []
    for path in files(folder.path):
        try:
            death = _read(path, folder)
        except OSError:
            continue  # another process has handled and deleted it
        if death is not None:
            found.append(death)
    return found
