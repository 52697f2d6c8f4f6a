"""The layer reads stored pipelines itself, when the program creates them: with a plan that an earlier run kept."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from pathlib import Path

import pytest
from disk import FailingDisk
from host_steps import END, run_host
from scripted_driver import ScriptedDriver
from world import World, repeated, said

from pylayer.store import format
from pylayer.store.maintenance import EXIT_BYTES
from pylayer.store.pack import PackWriter
from pylayer.store.reader import Reader

#: More records than one read of a journal brings.
MANY = 5000


PYLAYER = str(Path(sys.executable).parent / "pylayer")


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def change_table(path: Path, entries: list[tuple[int, int]] | None = None) -> list[tuple[int, int]]:
    """Returns a pack's table, after replacing it by one of the same length that verifies."""
    reader = Reader(str(path))
    data = bytearray(path.read_bytes())
    (place,) = struct.unpack_from("<Q", data, 136)
    size = format.RECORD_HEADER.unpack_from(data, place)[3]
    content = data[place + 64 : place + 64 + size]
    if entries is not None:
        new = format.table_of(entries)
        assert len(new) == size
        record = format.seal(format.record_parts(format.TABLE, new), reader.salt)
        data[place : place + 64 + size] = b"".join(map(bytes, record))[: 64 + size]
        path.write_bytes(data)
    return list(format.TABLE_ENTRY.iter_unpack(content))


def swap_fingerprints(world: World) -> None:
    """Gives each stored pipeline the fingerprint of another one, far away in its pack."""
    world.pylayer("trim")
    (path,) = world.stored_files(".pack")
    reader, identity = Reader(str(path)), world.folder().identity
    header, _ = reader.header(identity.digest)
    assert header is not None
    records = [
        (record, bytes(part.data_of(record)))
        for part in reader.verified(identity.digest, [])
        for record in part.records
        if record.magic == format.CELL
    ]
    writer = PackWriter(str(path), identity, header.program, header.application)
    for at, (record, data) in enumerate(records):
        other = records[at - len(records) // 2][0].fingerprint
        parts = format.record_parts(format.CELL, data, record.digest, record.kind, 0, 1, other, record.last_used)
        writer.add_parts(parts, (other,))
    writer.finish()


def test_one_linked_pipeline(real: World) -> None:
    """A run that links one of many pipelines reads its libraries and links, and few others: at most 16 records."""
    real.demo("--count", 60, "--gpl")
    stored = real.last()["compiled"]
    real.demo("--count", 1, "--gpl")
    real.pylayer("trim")
    real.demo("--count", 1, "--gpl")
    counters = real.last()
    assert counters["compiled"] == 0
    assert 4 <= counters["fetched"] <= format.CHUNK_CELLS < stored / 4


@pytest.mark.parametrize("compacted", [False, True], ids=["journals", "packs"])
def test_records_without_fingerprints_in_slices(scripted: ScriptedDriver, compacted: bool) -> None:
    """A pipeline that may be in any of many records without a fingerprint waits for some of them, at most as long as a
    compile takes. Later pipelines get the rest."""
    rays = ["--ray-tracing", "--batch", 9, "--deferred", 1]  # more than are stored under their fingerprints
    scripted.demo(*rays, "--count", 360)
    scripted.demo(*rays, "--count", 360)
    if compacted:
        scripted.world.pylayer("trim")
    script = "create-cache=slow:2?data"
    scripted.demo("--ray-tracing", "--count", 1, script=script)
    last = scripted.world.last()
    assert last["pipelines"] == 1 and last["fetched"] < 30
    scripted.demo(*rays, "--count", 360, script=script)
    last = scripted.world.last()
    assert last["pipelines"] == 360 and last["fetched"] == 40


def store_many(scripted: ScriptedDriver) -> None:
    """Runs a program until all of its MANY pipelines are stored, and their state recorded: on a busy machine it ends
    before policy has written them."""
    repeated(lambda: scripted.demo("--count", MANY) and not scripted.counts["compiles"])


@pytest.mark.parametrize("compacted", [False, True], ids=["journals", "packs"])
def test_many_records(scripted: ScriptedDriver, compacted: bool) -> None:
    """Every one of several thousand pipelines is found, in journals and in packs."""
    store_many(scripted)
    if compacted:
        scripted.world.pylayer("trim")
    for threads in (1, 4):
        scripted.demo("--count", MANY, "--threads", threads)
        assert scripted.counts["compiles"] == 0
        assert scripted.world.last()["fetched"] == MANY


def test_a_large_journal(scripted: ScriptedDriver) -> None:
    """A large journal does not start policy in each run. A compaction at the end of a run may not read a journal so
    large."""
    large, never_idle = "payload=100000", scripted.world.never_idle()

    def is_large() -> bool:  # on a busy machine the program ends before policy has written all
        shutil.rmtree(scripted.world.store, ignore_errors=True)
        scripted.demo("--count", 200, script=large, **never_idle)
        return any(path.stat().st_size > EXIT_BYTES for path in scripted.world.stored_files(".closed"))

    repeated(is_large)
    scripted.settings()
    for _ in range(5):
        scripted.demo("--count", 1, script=large)
    assert scripted.world.without_policy(4)


@pytest.mark.parametrize(("mode", "cut"), [("cells", 8), ("cells", -8), ("binaries", 8)])
def test_torn_end(scripted: ScriptedDriver, mode: str, cut: int) -> None:
    """The torn end of a journal, in the data or the header of its last record, starts no policy: its writer is still
    writing, or was killed."""
    scripted.settings(mode=mode)
    for _ in range(2):
        scripted.demo("--count", 4, "--api", "1.3")
    for path in scripted.world.stored_files(".closed"):
        last = max(part.place(record) for part in Reader(str(path)).parts([]) for record in part.records)
        os.truncate(path, last + format.RECORD_HEADER.size + cut)
    for _ in range(4):
        scripted.demo("--count", 3, "--api", "1.3")
    assert scripted.world.last()["hits"] == 3 and scripted.world.without_policy(4)


#: What becomes of the files while a program runs: a compaction deletes them, or a backup is restored.
REPLACED = {
    "compacted": f"{PYLAYER} trim >/dev/null",
    "restored": "for file in {folder}/*; do cp -p $file {folder}/copy; mv {folder}/copy $file; done",
}


@pytest.mark.parametrize("how", REPLACED)
def test_replaced_while_the_program_runs(world: World, how: str) -> None:
    """If a file that the layer knows is deleted or gets another inode, the layer finds the records in the new file."""
    run_host(world, "instance", "device", "pipelines", 200, *END)
    if how == "restored":
        world.pylayer("trim")
    run_host(world, "instance", "device", "pipelines", 1, *END)
    command = REPLACED[how].format(folder=world.stored_files()[0].parent)
    run_host(world, "instance", "device", "pipelines", 2, "spawn", command, "again", 200, *END)
    assert world.stored_files(".pack") and world.last()["compiled"] == 0


def test_wrong_tables(scripted: ScriptedDriver) -> None:
    """A table that names wrong places, or the places of other pipelines, costs compiles and nothing else. The witness
    in the driver would see bytes that it never returned."""
    scripted.demo("--count", 40)
    scripted.demo("--count", 1)
    scripted.world.pylayer("trim")
    (path,) = scripted.world.stored_files(".pack")
    good = change_table(path)
    places = [offset for _, offset in good]
    wrong = {
        "swapped": [(fingerprint, place) for (fingerprint, _), place in zip(good, reversed(places), strict=True)],
        "beyond": [(fingerprint, 1 << 45) for fingerprint, _ in good],
        "negative": [(fingerprint, (1 << 64) - 16) for fingerprint, _ in good],
        "between": [(fingerprint, place + 16) for fingerprint, place in good],
        "one": [(good[-1][0], places[-1])] * len(good),
        "unsorted": list(reversed(good)),
    }
    whole = path.read_bytes()
    for entries in wrong.values():
        path.write_bytes(whole)
        change_table(path, entries)
        for journal in scripted.world.stored_files(".journal", ".closed"):
            journal.unlink()
        result = scripted.demo("--count", 40, verify=False)
        assert result["created"] == 40 and not scripted.violations
    path.write_bytes(whole)
    scripted.demo("--count", 40)
    assert scripted.counts["compiles"] == 0


@pytest.mark.parametrize("compacted", [False, True], ids=["two files", "one pack"])
def test_fingerprints_of_other_pipelines(real: World, compacted: bool) -> None:
    """If stored pipelines have each other's fingerprints, as in a pack whose signer changed them, up to three runs
    compile some and store them under their own. Later runs compile nothing and store nothing."""
    real.demo("--count", 64, "--no-destroy", **real.never_idle())  # so that its cells are not joined
    swap_fingerprints(real)
    compiled = []
    while not compiled or compiled[-1]:  # the third one those that were found with other pipelines' data before
        real.demo("--count", 64)
        compiled.append(real.last()["compiled"])
        assert compiled[-1] == real.runs()[-1]["stored_records"]
    assert 1 < len(compiled) <= 4
    if compacted:
        real.pylayer("trim")
    for _ in range(2):
        real.demo("--count", 64)
        assert (real.last()["hits"], real.last()["compiled"], real.runs()[-1]["stored_records"]) == (64, 0, 0)


@pytest.mark.parametrize("error", ["EMFILE", "ENFILE", "ESTALE"])
@pytest.mark.parametrize("call", [1, 2])
def test_one_moment_without_descriptors(scripted: ScriptedDriver, error: str, call: int) -> None:
    """A file of the store that cannot be opened for a moment costs nothing where the device begins, and later the
    pipeline that wanted it: the others are found in this run, and that one by the next creation."""
    count = 24
    steps = ("instance", "device", "pipelines", count, "again", count, *END)
    for _ in range(2):
        run_host(scripted.world, *steps, **scripted.environment(""))
    scripted.world.pylayer("trim")
    run_host(scripted.world, *steps, **scripted.environment(""))
    disk = FailingDisk(scripted.world, f"open:{error}:path=.pack:nth={call}")
    result = run_host(scripted.world, *steps, **disk.environment, **scripted.environment(""))
    assert len(disk.struck) == 1 and scripted.world.last()["compiled"] == call - 1 and not said(result.stderr, "warn")
    run_host(scripted.world, *steps, **scripted.environment(""))
    assert scripted.world.last()["compiled"] == 0


@pytest.mark.parametrize("error", ["EIO", "EACCES"])
def test_one_file_that_cannot_be_opened(scripted: ScriptedDriver, error: str) -> None:
    """If one file cannot be opened any more, as on a failing disk, only its pipelines are compiled. Those of other
    files are found in the same run."""
    store_many(scripted)
    scripted.world.pylayer("trim")
    (large,) = scripted.world.stored_files(".pack")
    scripted.demo("--count", 20, "--seed", 2)
    in_others = scripted.world.last()["compiled"]
    scripted.demo("--count", 20, "--seed", 2)  # its plan is kept
    disk = FailingDisk(scripted.world, f"open:{error}:path={large.name}:from=2")
    result = scripted.demo("--count", 20, "--seed", 2, **disk.environment)
    assert result["created"] == 20 and disk.struck
    assert scripted.world.last()["fetched"] == in_others >= 15
    assert scripted.counts["compiles"] == 20 - in_others
