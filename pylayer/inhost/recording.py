"""Records what a program asks of one device when it creates pipelines (state), for `pylayer rebuild`.

store/state.py has the files; docs/internals/format.md, 'Recordings', has the objects.
"""

from __future__ import annotations

import time

import xxhash

from ..common.files import remove
from ..store import state
from ..store.folder import MOST_RUNS, read_unrecorded, unrecorded_path, write_unrecorded
from ..values import LOG_DEBUG, LOG_INFO, UNRECORDED, UNRECORDED_IDENTIFIER, UNRECORDED_ONCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.format import Damage
    from ..store.journal import Journal
    from ..values import Recorded
    from .device import Device

#: Beyond this many times `state_mib` a run records no new objects. A later run does, once a compaction has evicted
#: some.
MOST_LIMITS = 2


class _Known:
    """What is recorded of a program, as far as this process knows. All its devices share it."""

    def __init__(self, found: state.State) -> None:
        #: The files that it was read from. When they are gone, so may be what they had.
        self.paths = set(found.paths)
        self.bytes = found.bytes
        self.objects = set(found.objects)
        self.created = set(found.created)
        #: Digests of objects by how the layer names them: shaders by their identifiers, and pipelines that are made of
        #: such. An empty digest: the code is unknown.
        self.names = dict(found.identified)


#: By the store's root and the program.
_known: dict[tuple[str, int], _Known] = {}


class Recording:
    """Writes objects that the store does not have yet, and which pipelines the program created from them."""

    def __init__(self, device: Device, limit: int, say: Callable[[list[Damage]], None]) -> None:
        """``say``: called with damage."""
        self._device = device
        self._say = say
        self._limit = limit * MOST_LIMITS
        self._journal: Journal | None = None
        self._known: _Known
        #: The device and the instance that all pipelines are created with, by the kind of object.
        self._roots: dict[int, bytes] = {}
        #: There was no room for one of them, so no pipeline can be recorded.
        self._lacks_root = False
        #: Pipelines that came before them: digest, fingerprint, nanoseconds.
        self._early: list[tuple[bytes, int, int]] = []
        #: Something could not be written: nothing more is, and the next run records it.
        self._lost = False
        #: Something was not recorded that the next run may record.
        self._incomplete = False
        #: ``state/<program>.unrecorded`` was written.
        self._marked = False
        #: Pipelines that the store got without their recordings, in how many more runs they are waited for, and whether
        #: one of them was recorded.
        self._stored: set[int] = set()
        self._runs = 0
        self._gained = False
        self.recorded = 0
        #: How many pipelines are not recorded, by reason.
        self.unrecorded: dict[str, int] = {}

    def new(self, recorded: Recorded) -> list[bytes | memoryview]:
        """Returns the pieces to write for an object, for the pipeline that was created from it, and for pipelines that
        came before the device's own object."""
        folder = self._device.folder
        if folder is None or self._device.read_only:
            return []
        if recorded.unrecorded:
            self._note_unrecorded(recorded)
            return []
        if self._journal is None and not self._lost:
            self._mark()
            self._open(folder.root)
        if self._lost:
            return []
        is_pipeline = recorded.fingerprint and recorded.kind != state.SHADER_MODULE
        data, digest = self._named(recorded.data)
        if data is None:
            self._count(UNRECORDED[UNRECORDED_IDENTIFIER])
            return []
        parts: list[bytes | memoryview] = []
        if digest not in self._known.objects:
            if self._known.bytes > self._limit:
                if is_pipeline:
                    self._count("state_mib reached")
                self._lacks_root |= recorded.kind in state.ROOTS
                self._incomplete |= bool(is_pipeline) or self._lacks_root
                return []
            self._known.objects.add(digest)
            parts += state.object_parts(data)
        if recorded.kind in state.ROOTS:
            self._roots[recorded.kind] = digest
        if is_pipeline and self._lacks_root:
            self._count("state_mib reached")
        elif is_pipeline:
            self._early.append((digest, recorded.fingerprint, recorded.wait_ns))
        elif recorded.fingerprint:
            parts += self._identify(recorded.fingerprint, digest)
        if len(self._roots) == len(state.ROOTS):
            early, self._early = self._early, []
            for one in early:
                parts += self._create(*one)
        if parts:
            self._mark()
        return parts

    def _note_unrecorded(self, recorded: Recorded) -> None:
        name = UNRECORDED[recorded.unrecorded]
        self._count(f"{name} {recorded.structure}" if recorded.structure else name)
        if recorded.unrecorded in UNRECORDED_ONCE:
            self._incomplete = True
            self._mark()

    def _named(self, data: memoryview) -> tuple[bytes | memoryview | None, bytes]:
        """Returns an object that names only other objects, and its digest. None: one of them is not known."""
        digest = xxhash.xxh3_128_digest(data)
        named = state.with_digests(data, self._known.names)
        if named is data:
            return data, digest
        self._known.names[digest] = b"" if named is None else xxhash.xxh3_128_digest(named)
        return named, self._known.names[digest]

    def _identify(self, identifier: int, module: bytes) -> list[bytes | memoryview]:
        name = state.NAME.pack(identifier, state.IS_NAME)
        if self._known.names.get(name) == module:
            return []
        self._known.names[name] = module
        return state.identified_parts(name, module)

    def _create(self, pipeline: bytes, fingerprint: int, wait_ns: int) -> list[bytes | memoryview]:
        instance, device = (self._roots[kind] for kind in state.ROOTS)
        key = pipeline, device, instance, fingerprint
        self.recorded += 1
        if key in self._known.created:
            return []
        self._known.created.add(key)
        self._gained |= fingerprint in self._stored
        self._stored.discard(fingerprint)
        return state.created_parts(state.Created(state.CREATED.pack(*key), wait_ns, int(time.time())))

    def _count(self, reason: str) -> None:
        self.unrecorded[reason] = self.unrecorded.get(reason, 0) + 1

    def _open(self, root: str) -> None:
        device, key = self._device, (root, self._device.program_id)
        known, paths = _known.get(key), state.folder(root).files(device.program_id)
        self._journal = state.writer(root, device.program_id, device.program.name)
        self._stored, self._runs = read_unrecorded(root, device.program_id)
        if known is not None and paths and known.paths.issubset(paths):
            self._known = known
        else:
            found = state.read(root, device.program_id)
            self._known = _known[key] = _Known(found)
            if not found.created and device.folder is not None:  # nothing was recorded when they came
                self._stored |= state.in_packs(device.folder, device.program_id)
            # A power cut leaves an empty file. It holds nothing, and the next compaction deletes it.
            self._say([what for what in found.damage if not what.is_torn_end and what.outcome != "empty"])
            if found.executable != device.program.executable:
                self.write(state.note_parts(device.program.executable))
        self._stored -= {fingerprint for *_, fingerprint in self._known.created}

    def _fail(self, error: OSError) -> None:
        if self._lost:
            return
        self._lost = True
        _known.clear()  # it may have what was not written
        text = error.strerror or error
        self._device.log(LOG_INFO, f"what pipelines are made of cannot be recorded: {text}")

    def write(self, parts: list[bytes | memoryview]) -> None:
        """Stores pieces that ``new`` returned, in one write."""
        if not parts or self._journal is None or self._lost:
            return
        try:
            self._journal.append(parts)
            self._known.bytes += sum(map(len, parts))
        except OSError as error:
            self._fail(error)

    def settle(self) -> None:
        """Notes, if that is so, that nothing is left that another run could record. The next run then records nothing,
        and holds no shaders' code."""
        is_all = self._journal is not None and not (self._lost or self._incomplete)
        complete = is_all and self._known in _known.values()  # otherwise another device could not write something
        if not self._marked or not complete or self._device.folder is None:
            return
        self._marked = False
        root, program = self._device.folder.root, self._device.program_id
        runs = MOST_RUNS if self._gained else self._runs - 1
        if not self._stored or runs <= 0:
            remove(unrecorded_path(root, program))
            return
        try:
            write_unrecorded(root, program, self._stored, runs)
        except OSError as error:
            self._fail(error)

    def missed(self) -> None:
        """Notes that a pipeline was compiled. If this run records nothing, the next one does."""
        device = self._device
        if device.state is not None and not device.state.records_state and device.settings["record_state"]:
            self._mark()

    def _mark(self) -> None:
        """Has the next run record, unless ``settle`` comes before: the program may be killed until all is written."""
        folder = self._device.folder
        if not self._marked and folder is not None and not self._device.read_only:
            self._marked = True
            try:
                state.record_again(folder.root, self._device.program_id)
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """Closes the journal."""
        self.settle()  # if the device has gone, nobody else does
        if self._journal is not None:
            self._journal.close()
        if self._lost or self._incomplete:
            self._marked = False  # another device of the program may have settled meanwhile
            self._mark()
        for reason, count in self.unrecorded.items():
            self._device.log(LOG_DEBUG, f"{count} pipelines were not recorded: {reason}")
