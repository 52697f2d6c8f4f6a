"""What is fuzzed, and what must hold for any input.

A target takes bytes and returns nothing. It raises ``Wrong``, or whatever pylayer raised that it does not document.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import random
import shutil
import signal
import struct
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import disk
import xxhash
from fuzz import exports, shapes
from fuzz.exports import require
from unit.things import record

from pylayer.common import compiled, config, file_kinds, flat, outcomes
from pylayer.common.file_kinds import FileName
from pylayer.store import (
    block_list,
    cache_history,
    compaction,
    contents,
    format,
    portable,
    reader,
    runs,
    state,
    timeline,
)
from pylayer.store.compaction import Claim
from pylayer.store.folder import Folder, folders, read_identity

#: Seconds of the processor that an input may take, and a large one for each 64 KiB: nobody's start waits longer.
SECONDS = 1.0
#: Bytes read, hashed and searched may be this many times what the input has.
WORK_FACTOR = 64
MEMORY_BYTES = 16 << 20
#: Objects of Python for bytes of a file: a record of 64 bytes becomes a tuple of 300.
MEMORY_FACTOR = 32
#: A line of 66 bytes with 32 levels becomes 32 mappings.
MEMORY_OF_TEXT = 256


class TooSlow(BaseException):
    """An input took longer than its time; not an Exception, so that nothing on the way takes it for its own."""


# ---- what is counted ---------------------------------------------------------------------------------


class Meter:
    """Bytes that the reader read, hashed and searched."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.read = self.hashed = self.searched = 0

    @property
    def work(self) -> int:
        return self.read + self.hashed + self.searched


METER = Meter()


class SearchedBytes(bytearray):
    """A buffer that counts what is searched in it, which no clock measures as exactly."""

    def find(self, what: Any, start: int = 0, end: int | None = None) -> int:
        end = len(self) if end is None else end
        found = super().find(what, start, end)
        METER.searched += max((end if found < 0 else found) - start, 0)
        return found


def _install_meter() -> None:
    real_os = os

    def hashing(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(data: Any, *seed: int) -> Any:
            METER.hashed += len(data)
            return function(data, *seed)

        return counted

    def pread(fd: int, size: int, offset: int) -> bytes:
        data = real_os.pread(fd, size, offset)
        METER.read += len(data)
        return data

    def preadv(fd: int, buffers: Any, offset: int) -> int:
        count = real_os.preadv(fd, buffers, offset)
        METER.read += count
        return count

    counting: dict[str, Any] = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
    reader.os = SimpleNamespace(**{**counting, "pread": pread, "preadv": preadv})  # type: ignore[assignment]
    hashes = ("xxh3_64_intdigest", "xxh3_128_digest")
    reader.xxhash = SimpleNamespace(  # type: ignore[assignment]
        **{name: hashing(getattr(xxhash, name)) for name in hashes}
    )
    reader.bytearray = SearchedBytes  # type: ignore[attr-defined]


_install_meter()


@contextlib.contextmanager
def bounded(size: int, with_memory: bool, factor: int = MEMORY_FACTOR) -> Iterator[None]:
    """Raises TooSlow and Wrong where an input of ``size`` bytes takes too much time or memory."""
    seconds = SECONDS * max(1, size >> 16)
    METER.reset()
    if with_memory:
        tracemalloc.start()
        seconds *= 4
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 60 * seconds)  # for what waits instead of working
    started = time.process_time()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1] if with_memory else 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if with_memory:
            tracemalloc.stop()
    took = time.process_time() - started
    if took > seconds:
        raise TooSlow(f"{took:.1f} s")
    allowed = MEMORY_BYTES + factor * size
    require(peak <= allowed, f"{peak} bytes of memory for {size}")


def on_alarm(*_: object) -> None:
    raise TooSlow("interrupted")


def linear_work(size: int, factor: int = 1) -> None:
    allowed = WORK_FACTOR * factor * size + (64 << 10)
    require(METER.work <= allowed, f"{METER.work} bytes of work for {size}: {vars(METER)}")


# ---- a store of this process -------------------------------------------------------------------------


@functools.cache
def root() -> str:
    """A store in memory, made when it is first needed."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = tempfile.mkdtemp(prefix="pylayer-fuzz-", dir=base)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def write(name: str, data: bytes) -> str:
    """A file with these bytes below the store's root."""
    path = os.path.join(root(), name)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700)
        return write(name, data)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    return path


def chosen(data: bytes, *options: Any) -> Any:
    """One of the options, always the same for the same input."""
    return options[xxhash.xxh32_intdigest(data) % len(options)]


# ---- the targets -------------------------------------------------------------------------------------


def header(data: bytes) -> None:
    """format.read_file_header: a header if and only if it is one of this version, this identity and verifies."""
    for identity in (None, shapes.IDENTITY.digest):
        found, outcome = format.read_file_header(data, identity)
        require(outcome in ((*outcomes.STORE,) if found is None else ("ok",)), f"outcome {outcome!r}")
        if found is None:
            continue
        fits = xxhash.xxh3_64_intdigest(data[:248]) == struct.unpack_from("<Q", data, 248)[0]
        require(fits and data[:12] == format.MAGIC + struct.pack("<I", format.VERSION), "not a header that is read")
        require(identity in (None, data[24:40]), "another identity")
        found.application.encode()


def check_records(part: reader.Part, size: int) -> list[tuple[Any, ...]]:
    """Every record of a part verifies and lies in the file; returns what was found."""
    found = []
    for one in part.records:
        data = bytes(part.data_of(one))
        require(len(data) == one.size, "a record outside its part")
        require(xxhash.xxh3_128_digest(data) == one.digest, "a record whose data does not match its digest")
        head = bytes(part.data[one.start - 64 : one.start - 8])
        fits = xxhash.xxh3_64_intdigest(head) == struct.unpack_from("<Q", part.data, one.start - 8)[0]
        require(fits and head[:4] == one.magic, "a record whose header does not match its hash")
        offset = part.place(one)
        require(offset >= 256 and offset % 16 == 0, "a record at an odd place")
        require(offset + 64 + one.size <= size, "a record outside the file")
        names = ("magic", "kind", "flags", "size", "create_ns", "digest", "fingerprint", "last_used")
        found.append((offset, *(getattr(one, name) for name in names)))
    return found


def check_damage(damage: list[format.Damage], size: int) -> None:
    for what in damage:
        require(what.outcome in outcomes.STORE, f"outcome {what.outcome!r}")
        str(what)
        if what.outcome in ("truncated", "impossible", "damaged-data") and what.size == 0:
            continue  # a pack's directory; says where it was said to be
        require(0 <= what.offset <= size, f"damage at {what.offset} of {size}")
        inside = what.size == -1 or what.offset + what.size <= size + 15  # with the padding of the last record
        require(inside, f"{what.size} bytes of damage at {what.offset}")


def read_all(path: str, size: int, part_bytes: int) -> tuple[list[tuple[Any, ...]], list[format.Damage]]:
    before, reader.PART_BYTES = reader.PART_BYTES, part_bytes
    damage: list[format.Damage] = []
    try:
        found = [record for part in reader.Reader(path).parts(damage) for record in check_records(part, size)]
    finally:
        reader.PART_BYTES = before
    return found, damage


def records(data: bytes) -> None:
    """Reader.parts: what verifies is found, whatever the parts are that the file is read in. Reader.verified, and
    record_at for each record that it gave."""
    header(data)
    path = write("records", data)
    whole, damage = read_all(path, len(data), 128 << 10)
    check_damage(damage, len(data))
    linear_work(len(data))
    require(len({(offset, inner) for offset, inner, *_ in whole}) == len(whole), "a record twice")
    if len(data) <= 1 << 16:
        in_parts, damage = read_all(path, len(data), chosen(data, 64, 80, 192, 1024))
        check_damage(damage, len(data))
        same = sorted(in_parts) == sorted(whole)
        require(same or has_unknown_kind(data), "other records when read in small parts")
    METER.reset()
    one = reader.Reader(path)
    damage = []
    parts = one.verified(shapes.IDENTITY.digest, damage)
    places = [place for part in parts for place, *_ in check_records(part, len(data))]
    check_damage(damage, len(data))
    linear_work(len(data), 2)
    METER.reset()
    for offset in places:
        require(one.record_at(offset) is not None, "a record that verified is not found by its place")
    linear_work(len(data), 2)


def has_unknown_kind(data: bytes) -> bool:
    """Whether a header of a record of no known kind is in a file: one is passed over where it is met in its place,
    and not searched for, so behind damage it depends on the parts whether it is met."""
    heads = (data[at : at + 64] for at in range(256, len(data) - 63, 16))
    return any(
        head[:4] not in format.MAGICS and xxhash.xxh3_64_intdigest(head[:56]) == struct.unpack_from("<Q", head, 56)[0]
        for head in heads
    )


GOOD_PACK = [bytes([n]) * 300 for n in range(5)]
GOOD_JOURNAL = [b"in a journal", bytes(100), bytes([3]) * 300]


def _take_steps(work: compaction.Compaction) -> None:
    for _ in work.steps():
        pass


def _digests(place: Folder, program: int | None) -> set[bytes]:
    loaded = disk.load(place, program)
    for name, data in loaded.cells.items():
        require(xxhash.xxh3_128_digest(data) == name[0], "a wrong record is loaded")
    for what in loaded.damage:
        require(what.outcome in outcomes.STORE, f"outcome {what.outcome!r}")
    return {digest for digest, _ in loaded.cells}


_good: dict[str, bytes] = {}


def compactions(data: bytes) -> None:
    """A compaction of a folder in which one file is the input: what the others hold is there afterwards."""
    place = Folder(os.path.join(root(), "compaction"), shapes.IDENTITY)
    if not _good:
        place.prepare()
        cells = (record(cell) for cell in GOOD_JOURNAL)
        _good[f"{7:016x}-0000-a.pack"] = shapes.pack_bytes(GOOD_PACK)
        _good[f"{7:016x}-0001-a.closed"] = shapes.journal_bytes(*cells)
    for name in os.listdir(place.path):
        if name != "identity":
            os.unlink(os.path.join(place.path, name))
    base = os.path.relpath(place.path, root())
    for name, content in _good.items():
        write(f"{base}/{name}", content)
    name = chosen(data, "0000-0.pack", "0000-b.pack", "0000-0.closed", "0002-b.journal")
    write(f"{base}/{7:016x}-{name}", data)
    wanted = {xxhash.xxh3_128_digest(cell) for cell in (*GOOD_PACK, *GOOD_JOURNAL)}
    everything = chosen(data[:-1], True, True, False)
    for _ in range(2):
        _take_steps(compaction.Compaction(place, 7, everything=everything))
        require(wanted <= _digests(place, 7), "a record is lost")
    left = [name for name in os.listdir(place.path) if name.endswith(".tmp")]
    require(not left, f"left behind: {left}")


def attestations(data: bytes) -> None:
    """What is known of data, of which the input is a file."""
    place = Folder(os.path.join(root(), "attest"), shapes.IDENTITY)
    base = os.path.relpath(place.path, root())
    place.prepare()
    write(f"{base}/{7:016x}-0003-c.attest", data)
    history = cache_history.History(place, 7, takes_passed=True)
    require(history.outcome(b"never read once.", 5)[0] in outcomes.HISTORY, "an outcome that is none")
    linear_work(len(data))
    check_damage(history.damage, len(data))
    (path,) = place.files(7, (file_kinds.ATTEST,))
    for part in reader.parts_of(path, place.identity.digest, []):
        for known in cache_history.known_in(part):
            require(history.outcome(known.digest, known.size)[0] == "attested", "what is known is not")


def structures(data: bytes) -> None:
    """binaries.problem: nothing is wrong with exactly what its own parts, put together again, give."""
    what = contents.binaries_problem(data)
    require(isinstance(what, str), "a problem without words")
    if what:
        return
    count, key_size, global_key, key = contents.BINARIES_HEAD.unpack_from(data)
    again = contents.BINARIES_HEAD.pack(count, key_size, global_key, key[:key_size])
    place = len(again) + count * contents.BINARY.size
    content = b""
    for number in range(count):
        size, length, _, name = contents.BINARY.unpack_from(data, 48 + number * 48)
        require(0 < length <= 32, "a key of no length")
        again += contents.BINARY.pack(size, length, 0, name[:length])
        content += data[place : place + size] + bytes(-size % 16)
        place += size + -size % 16
    require(again + content == data, "other bytes than its parts")


def notes(data: bytes) -> None:
    """USED and VRDT records' data."""
    known = block_list.BlockList()
    for fields in block_list.ENTRY.iter_unpack(data[: len(data) // block_list.ENTRY.size * block_list.ENTRY.size]):
        known.add(block_list.Block(*fields))
    require(len(known.memorable()) <= block_list.MAX_ENTRIES, "too many verdicts")
    block_list.tell(shapes.IDENTITY, 1, "a program", known)
    when = chosen(data, 0, int(time.time()), 1 << 63, (1 << 64) - 1)
    uses = contents.Uses()
    uses.note(contents.fingerprints_of(data), when)
    uses.last_use((1,), 5)


def flat_text(data: bytes) -> None:
    """flat.loads: a mapping that dumps can write again, or ValueError."""
    try:
        value = flat.loads(data.decode())
    except ValueError:
        return
    require(isinstance(value, dict), "not a mapping")
    again = flat.dumps(value)
    if again.count(".") < 32:
        require(repr(flat.loads(again)) == repr(value), "another mapping after dumps")


def compiled_copy(data: bytes) -> None:
    """compiled.read_copy, with a digest that fits and with one that does not."""
    for content in (xxhash.xxh3_128_digest(data) + data, data):
        value = compiled.read_copy(write("policy/copy.flat", content))
        require(value is None or isinstance(value, dict), "neither a document nor None")


def run_files(data: bytes) -> None:
    """runs.read_all: the good file is read, the input too or not."""
    write("runs/0001.run", data)
    timeline.RunFile(root(), "0002", shapes.IDENTITY).note({"good": True})
    found = list(runs.read_all(root()))
    require(found and found[-1]["good"] is True and all(isinstance(one, dict) for one in found), "a run is missing")


def timelines(data: bytes) -> None:
    """timeline.read: events of known types and outcomes, never more than there are bytes for."""
    write("runs/0001.run", data)
    line = timeline.read(root(), "0001")
    if line is None:  # it is whole and has no events
        return
    require(line.outcome == "ok" or line.outcome in outcomes.STORE, f"outcome {line.outcome!r}")
    require(len(line.events) <= len(data) // timeline.EVENT.size, "events from nothing")
    for event in line.events:
        require(event.type in timeline.TYPES and len(event.text) <= timeline.MAX_TEXT, "an event that cannot be")
    require(len(line.threads) <= timeline.MAX_TEXTS, "threads without end")
    runs.prune(root())
    linear_work(len(data), 2)


def imports(data: bytes) -> None:
    """An import of any file, with a signature that is required and without: taken whole or Refused, and as signed only
    what the seed's key signed."""
    exports.take(write("export", data), os.path.join(root(), "import"), SIGNED)


def states(data: bytes) -> None:
    """An import of any file as recordings: taken whole or Refused. The same bytes as a file of the store: a compaction
    loses nothing of what is complete."""
    store, taken = os.path.join(root(), "recorded"), 0
    with contextlib.suppress(format.Refused):
        work = portable.Import(write("export", data))
        for _ in work.steps(store):
            pass
        taken = len(work.result.paths)
    written = [path for folder in (*folders(store), state.folder(store)) for path in folder.files(None)]
    require(len(written) == taken, "part of a file")
    for path in written:
        os.unlink(path)
    name = str(FileName(7, "0" * 16 + "-" + "1" * 16, file_kinds.CLOSED))
    write(os.path.join("recorded", "state", name), data)
    before = _complete(store, 7)
    _take_steps(compaction.Compaction(state.folder(store), 7, everything=True))
    require(_complete(store, 7) == before, "a compaction lost something")
    shutil.rmtree(store)


def _complete(store: str, program: int) -> set[tuple[bytes, bytes, bytes, int]]:
    """The pipelines of which everything is there."""
    there, found = state.read(store, program), set()
    for key in there.created:
        with contextlib.suppress(state.Unusable):
            for digest in key[:3]:
                there.with_inputs(digest, ())
            found.add(key)
    return found


def fleet_packs(data: bytes) -> None:
    """Store.admit: a pack of which every record verifies and belongs to the device, or Refused."""
    exports.admit(write("fleet/arrived", data), os.path.join(root(), "fleet"), data)
    linear_work(len(data), 2)


def claims(data: bytes) -> None:
    """The name of the process that compacts: a claim is taken or it is not."""
    place = Folder(os.path.join(root(), "claim"), shapes.IDENTITY)
    place.prepare()
    name = data[:200].replace(b"/", b"-").replace(b"\0", b"-")
    held = os.path.join(os.fsencode(place.path), b"compacting." + name + b".tmp")
    with open(held, "wb"):
        pass
    if chosen(data, True, False):
        os.utime(held, (1, 1))
    claim = Claim(place)
    if claim.acquire():
        claim.release()
    left = [name for name in os.listdir(os.fsencode(place.path)) if name.startswith(b"compacting")]
    require(left in ([], [os.path.basename(held)]), "a claim that was dropped is there")
    for name in left:
        os.unlink(os.path.join(os.fsencode(place.path), name))
    with open(os.path.join(place.path, "identity"), "wb") as file:
        file.write(data)
    require(read_identity(place.root, shapes.IDENTITY.name) is None or data, "an identity from nothing")
    os.unlink(os.path.join(place.path, "identity"))


FACTS = SimpleNamespace(vendor_id=0x1002, device_id=0x73BF, pipeline_cache_uuid=bytes(range(16)))


def judgements(data: bytes) -> None:
    """outcomes.judge: accepted only what begins with this driver's header."""
    for size in (len(data), 0, 1 << 63):
        facts = SimpleNamespace(data_is_null=False, data_size=size, header=data[:32])
        outcome = outcomes.judge(facts, FACTS)  # type: ignore[arg-type]
        require(outcome in outcomes.BY_HEADER, f"outcome {outcome!r}")
        if outcome == "accepted":
            length, *rest = struct.unpack_from("<IIII16s", data)
            require(rest == [1, 0x1002, 0x73BF, bytes(range(16))] and 32 <= length <= size, "another driver's header")


def _all_problems(data: bytes) -> None:
    """What `pylayer policy check` finds: each problem in a line of the file, or in none."""
    try:
        text = config.decode(data, "policy.yaml")
        config.Source("policy.yaml", text)
    except config.PolicyFileError as error:
        lines = data.count(b"\n") + data.count(b"\r") + 3 * data.count(b"\xc2\x85") + 3 * data.count(b"\xe2\x80") + 1
        for problem in error.problems:
            require(0 <= problem.line <= lines and problem.column >= 0, "a place outside of the file")
        require(0 < len(error.problems) <= 20, "no problem, or too many")
        return
    require(False, "an error that vanishes when all are looked for")


def policies(data: bytes) -> None:
    """config.Source: a document, or PolicyFileError."""
    try:
        document = config.Source("policy.yaml", config.decode(data, "policy.yaml")).document
    except config.PolicyFileError as error:
        require("policy.yaml" in str(error) and len(str(error)) < 4000, "an error that says nothing, or too much")
        _all_problems(data)
        return
    require(isinstance(document, dict), "a document that is none")
    flat.dumps(document).encode()


class Target(NamedTuple):
    """A parser, and how its inputs are made. ``cost``: its share of a run, the slower the smaller."""

    run: Callable[[bytes], None]
    mutate: Callable[[random.Random, bytes], bytes]
    cost: float
    large: str = ""
    memory: int = MEMORY_FACTOR


#: What the key of exports signed, once.
SIGNED = shapes.seeds()["export"]["plain"]

_flat = shapes.mutate_bytes(shapes.FLAT_WORDS)
TARGETS = {
    "records": Target(records, shapes.mutate_store, 8, "store"),
    "compaction": Target(compactions, shapes.mutate_store, 200, "store"),
    "attest": Target(attestations, shapes.mutate_store, 10, "store"),
    "binaries": Target(structures, shapes.mutate_binaries, 1),
    "notes": Target(notes, _flat, 1),
    "flat": Target(flat_text, _flat, 1, "flat", MEMORY_OF_TEXT),
    "compiled": Target(compiled_copy, _flat, 4, "flat", MEMORY_OF_TEXT),
    "runs": Target(run_files, _flat, 4, "flat", MEMORY_OF_TEXT),
    "timeline": Target(timelines, shapes.mutate_store, 8, "store"),
    "export": Target(imports, exports.mutate(shapes.mutate_store), 40, "store"),
    "state": Target(states, shapes.mutate_store, 60, "store"),
    "fleet-index": Target(exports.read_index, exports.mutate_json(shapes.mutate_bytes(shapes.JSON_WORDS)), 2, "", 256),
    "fleet-signature": Target(exports.believe, exports.mutate(shapes.mutate_raw), 4),
    "fleet-pack": Target(fleet_packs, shapes.mutate_store, 20, "store"),
    "claim": Target(claims, _flat, 8),
    "judge": Target(judgements, shapes.mutate_raw, 1),
    "policy": Target(policies, shapes.mutate_bytes(shapes.YAML_WORDS), 40),
}
