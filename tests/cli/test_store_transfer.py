"""``pylayer export`` and ``pylayer import``, of pipelines and of recordings: an import takes a whole verified file, or
nothing."""

from __future__ import annotations

import os
import re
import resource
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import disk
import pytest
import radv
import xxhash
from cli import stores
from cli.stores import GAME, IDENTITY, NOW, OLD_DRIVER, OTHER, TOOL, Store, cell
from cli.user import ON_RADV, User
from recorded_state import object_of
from unit.things import add_record, binaries, flip, program_id, record

from pylayer.cli import doctor
from pylayer.common import flat
from pylayer.common.identity import NO_IDENTITY
from pylayer.store import format, pack, portable, state
from pylayer.store.folder import MOST_RUNS, read_identity
from pylayer.store.pack import PackWriter
from pylayer.store.reader import Reader

ID = program_id(*GAME)


@pytest.fixture
def export(user: User, store: Store) -> Path:
    """An export of the game."""
    path = user.directory / "game.pylayer"
    done = user.pylayer("export", path, "--app", "game*")
    assert done.returncode == 0, done.stderr
    return path


def test_file_that_appears_meanwhile(store: Store, tmp_path: Path) -> None:
    """If somebody creates a file with the export's name during the export, that file is not changed."""
    path = tmp_path / "there.pylayer"
    work = portable.Export(store.folder, {ID: "game (The Game)"})
    with pytest.raises(FileExistsError):
        for _ in work.steps(str(path)):
            path.write_text("theirs")
    assert [(file.name, file.read_text()) for file in tmp_path.glob("there*")] == [(path.name, "theirs")]


def take(path: Path, root: Path) -> portable.Import:
    """An import in this process. Raises Refused."""
    work = portable.Import(str(path))
    list(work.steps(str(root)))
    return work


# ---- there and back --------------------------------------------------------------------------------


def test_round_trip(user: User, store: Store, export: Path, elsewhere: User) -> None:
    """One store imports what another exported: the same pipelines for the same program, none of another program's, and
    nothing that the program itself read. The export may be where everybody can write: every byte is verified."""
    export.parent.chmod(0o1777)
    done = elsewhere.says("import", export)
    assert done.startswith("Imported: 45 pipelines\n") and f"identity {IDENTITY.name}\n" in done
    other = Store(elsewhere.store)
    assert other.loaded(GAME) == store.loaded(GAME)
    (before,) = user.json("ls", "game*")["identities"]
    (after,) = elsewhere.json("ls", "game*")["identities"]
    assert before["fields"] == after["fields"]
    (game,) = after["programs"]
    assert game["program"] == "game (The Game)" and game["pipelines"] == 45
    here, there = (disk.load(one.folder, program_id(*GAME)).cells for one in (store, other))
    assert here and here == there
    assert other.loaded(TOOL) == [] and {path.suffix for path in other.files()} == {"", ".pack"}
    assert elsewhere.json("ls", "--verify")["fine"]


def test_living_writer(user: User, store: Store, elsewhere: User) -> None:
    """An export includes what a running program has stored so far, and does not change its journal."""
    journal = store.journal(OTHER, cell(700), cell(701), alive=True)
    os.truncate(journal, journal.stat().st_size - 30)
    path = user.directory / "other.pylayer"
    assert "damaged" not in user.pylayer("export", path, "--app", "other").stdout
    elsewhere.says("import", path)
    assert Store(elsewhere.store).loaded(OTHER) == [700]
    assert journal.exists()


# ---- which programs and devices --------------------------------------------------------------------


def test_several_identities(user: User, store: Store) -> None:
    """Exporting a program with pipelines under two drivers needs --identity. The message lists both."""
    Store(user.store, OLD_DRIVER).journal(GAME, cell(1, identity=OLD_DRIVER))
    path = user.directory / "x.pylayer"
    said = user.fails("export", path, "--app", "game*")
    assert IDENTITY.name[:12] in said and OLD_DRIVER.name[:12] in said and not path.exists()
    found = user.pylayer("export", path, "--app", "game*", "--identity", OLD_DRIVER.name[:6])
    assert found.stdout.startswith("Exported: 1 pipeline of game")


@ON_RADV
def test_identity_of_this_machine(user: User, store: Store) -> None:
    """If only one of several identities is of a driver of this machine, the export is for that one."""
    here = Store(user.store, stores.present(user.environment))
    here.journal(GAME, cell(1, identity=here.identity))
    assert f"identity {here.identity.name}\n" in user.says("export", "x", "--app", "game*")


def test_given_to_another_program(user: User, store: Store, export: Path, elsewhere: User) -> None:
    """--for gives everything in the file to one program of the store, whichever program compiled it. A compaction does
    not change that."""
    other = Store(elsewhere.store)
    other.journal(OTHER, cell(0), cell(500))
    done = elsewhere.says("import", export, "--for", "other")
    # Of the 45 pipelines it had one.
    assert done.startswith("Imported: 44 pipelines, 1 record already in the store\n")
    assert "of game (The Game)\n" in done and "given to other\n" in done
    for _ in range(2):
        assert other.loaded(OTHER) == sorted({*store.loaded(GAME), 500}) and other.loaded(GAME) == []
        assert elsewhere.json("ls", "--verify")["fine"]
        other.pack()


# ---- hostile files ---------------------------------------------------------------------------------


def small(tmp_path: Path) -> Path:
    """Writes a small export with the store's own code."""
    store = Store(tmp_path / "small")
    store.journal(GAME, *(cell(number, size=60) for number in range(3)), stores.note(), stores.used([1]))
    store.journal(TOOL, cell(2, size=60), cell(7, size=60))
    path = tmp_path / "small.pylayer"
    programs = {program_id(*program): stores.name_of(program) for program in (GAME, TOOL)}
    list(portable.Export(store.folder, programs).steps(str(path)))
    return path


def refused(path: Path, tmp_path: Path, why: str = "") -> None:
    """Nothing is imported, and nothing is left behind."""
    root = tmp_path / "root"
    with pytest.raises(portable.Refused, match=why or None):
        take(path, root)
    assert not [path for path in root.rglob("*") if path.is_file()]


def test_refused_while_a_program_stores(tmp_path: Path) -> None:
    """What a program stores for the same driver meanwhile stays usable: with the folder's description."""
    root = tmp_path / "root"
    steps = portable.Import(str(small(tmp_path))).steps(str(root))
    next(steps)
    Store(root).journal(OTHER, cell(1))
    steps.close()
    assert read_identity(str(root), IDENTITY.name) is not None


def test_every_flipped_bit(tmp_path: Path) -> None:
    """A file with one flipped bit is refused as a whole and leaves nothing behind. Only of the padding between records
    nothing is made."""
    path = small(tmp_path)
    whole = path.read_bytes()
    assert take(path, tmp_path / "fine").result.pipelines == 5
    (*parts,) = Reader(str(path), foreign=True).parts([])
    ends = [part.place(record) + 64 + record.size for part in parts for record in part.records]
    padding = {offset for end in ends for offset in range(end, end + -end % format.ALIGNMENT)}
    for offset in set(range(len(whole))) - padding:
        path.write_bytes(whole)
        flip(path, offset, 1 << offset % 8)
        refused(path, tmp_path)


def test_every_length(tmp_path: Path) -> None:
    """A file that is cut off anywhere, or that has bytes after its end, is refused."""
    path = small(tmp_path)
    whole = path.read_bytes()
    cut = [whole[:length] for length in (*range(0, len(whole), 7), len(whole) - 1)]
    for data in (*cut, whole + b"\0", whole + bytes(16), whole + b"x" * 100):
        path.write_bytes(data)
        refused(path, tmp_path)


class Forger:
    """Writes exports whose hashes verify but whose content pylayer would never write."""

    def __init__(self, path: Path, fields: dict[str, Any]) -> None:
        self.writer = pack.PackWriter(str(path), IDENTITY, kind=format.EXPORT)
        text = {"identity": fields, "fingerprints": format.FINGERPRINTS}
        self.add(format.NOTE, flat.dumps(text).encode())

    def add(self, magic: bytes, data: bytes, **fields: int) -> None:
        add_record(self.writer, data, magic, create_ns=1000, fingerprint=1, last_used=NOW, **fields)


def other_vendor(forger: Forger) -> None:
    data = bytearray(stores.cell_data(1))
    struct.pack_into("<I", data, 8, 0x10DE)
    forger.add(format.CELL, bytes(data))


def beginning(**note: Any) -> Callable[[Forger], None]:
    """Begins a program with this note."""
    return lambda forger: forger.add(format.NOTE, flat.dumps(note).encode())


#: What an export cannot hold, even with valid hashes and valid other records, and why: records, notes that begin a
#: program, and the fields of an identity that fit no device, or not the header's.
FORGERIES: list[tuple[str, Callable[[Forger], None] | dict[str, Any]]] = [
    ("of another device", other_vendor),
    ("of another driver build", lambda forger: forger.add(format.CELL, stores.cell_data(1, OLD_DRIVER))),
    ("shorter than a pipeline cache header", lambda forger: forger.add(format.CELL, b"code")),
    ("without a pipeline cache header", lambda forger: forger.add(format.CELL, bytes(100))),
    ("of an unknown kind", lambda forger: forger.add(format.CELL, stores.cell_data(1), kind=200)),
    ("a note with unknown content", lambda forger: forger.add(format.NOTE, b"plain_kind=i:99\n")),
    ("a ATST record", lambda forger: forger.add(format.ATTEST, bytes(40))),
    ("the same record twice", lambda forger: forger.add(format.CELL, stores.cell_data(5))),
    ("an impossible program, or one that appears twice", beginning(program=f"{ID:016x}", name="game")),
    ("a malformed list of uses", lambda forger: forger.add(format.USED, bytes(9))),
    ("of an unknown kind", lambda forger: forger.add(format.CELL, stores.cell_data(1), flags=8)),
    ("of an unknown kind", lambda forger: forger.add(format.BINARIES, binaries(b"x"), kind=99)),
    ("of an unknown kind", lambda forger: forger.add(format.BINARIES, binaries(b"x"), flags=4)),
    ("without a global key", lambda forger: forger.add(format.BINARIES, binaries(b"x", global_key=0))),
    ("larger than its record", lambda forger: forger.add(format.BINARIES, binaries(b"x")[:-16])),
    ("name", beginning(program="7", name="")),
    ("name", beginning(program="7", name="evil\x1b[2J")),
    ("", beginning(program="x" * 16, name="game")),
    ("", beginning(program="7")),
    ("", beginning(program="7", name="game", more=1)),
    ("", beginning(program="7", name="x" * 5000)),
    ("identity", {}),
    ("identity", {**IDENTITY.fields, "more": 1}),
    ("identity", {**IDENTITY.fields, "vendor_id": 1 << 40}),
    ("identity", {**IDENTITY.fields, "device_id": True}),
    ("identity", {**IDENTITY.fields, "pipeline_cache_uuid": "00"}),
    ("identity", {**IDENTITY.fields, "global_key": "ab" * 32}),
    ("identity", OLD_DRIVER.fields),
]


def forged(path: Path, then: Callable[[Forger], None] | dict[str, Any]) -> Path:
    """Writes an export with one good record and what ``then`` adds, or with these fields of an identity."""
    forger = Forger(path, then if isinstance(then, dict) else IDENTITY.fields)
    beginning(program=f"{ID:016x}", name="game")(forger)
    forger.add(format.CELL, stores.cell_data(5))
    if not isinstance(then, dict):
        then(forger)
    forger.writer.finish()
    return path


@pytest.mark.parametrize(("reason", "forge"), FORGERIES)
def test_forged_export(tmp_path: Path, reason: str, forge: Callable[[Forger], None] | dict[str, Any]) -> None:
    """What an export cannot hold refuses the whole file."""
    refused(forged(tmp_path / "x", forge), tmp_path, reason)


def test_record_before_the_first_program(tmp_path: Path) -> None:
    """A record that belongs to no program refuses the file."""
    forger = Forger(tmp_path / "x", IDENTITY.fields)
    forger.add(format.CELL, stores.cell_data(5))
    forger.writer.finish()
    refused(tmp_path / "x", tmp_path, "belongs to no program")


def test_record_that_is_too_large(tmp_path: Path, elsewhere: User) -> None:
    """A record that would fill the memory refuses the file before memory is allocated for it: here the process may have
    128 MiB."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (128 << 20, 128 << 20))

    large = stores.cell_data(5).ljust(format.MAX_FOREIGN_RECORD_BYTES + 1, b"\0")
    path = forged(tmp_path / "x", lambda forger: forger.add(format.CELL, large))
    command = elsewhere.process(("import", path))
    done = subprocess.run(**command, capture_output=True, preexec_fn=limit, timeout=120)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "impossible" in done.stderr, done.stderr


def test_damage_is_told(store: Store, export: Path, elsewhere: User) -> None:
    """For a damaged export, the command's one line names file, reason and place. A file copied out of a store is
    refused."""
    assert "a file of kind PACK, not an export" in elsewhere.fails("import", store.files("*.pack")[0])
    flip(export, 2000)
    assert re.search("was refused and nothing was imported.* at byte", elsewhere.fails("import", export))


def test_nothing_but_suspects(user: User) -> None:
    """If a process died over everything that a program has stored, no file is written and one line says why."""
    store = Store(user.store)
    store.journal(GAME, *(cell(number) for number in (1, 2)))
    store.blocked(GAME, *(xxhash.xxh3_128_digest(stores.cell_data(number)) for number in (1, 2)))
    assert "only 2 records blocked after a crash (pylayer ls)" in user.fails("export", "x.pylayer", "--app", "game*")
    assert list(user.directory.iterdir()) == []


# ---- Pipeline binaries ---------------------------------------------------------------------------


def of_pipeline(number: int, **fields: int) -> bytes:
    """Returns a record of one pipeline's binaries."""
    values = {"kind": 1, "create_ns": 2_000_000, "fingerprint": number, "last_used": stores.NOW, **fields}
    return record(binaries(b"%d" % number * 200, b"second"), format.BINARIES, **values)


@pytest.fixture
def mixed(user: User) -> Store:
    """A program with cells and binaries in a pack and a journal, and with what it read of its own."""
    store = Store(user.store, IDENTITY)
    store.journal(GAME, *(cell(n) for n in range(10)), *(of_pipeline(n) for n in range(100, 120)))
    store.pack()
    store.journal(GAME, of_pipeline(200), of_pipeline(201))
    store.file(".attest", GAME, record(format.KNOWN.pack(bytes(16), 9, stores.NOW, 0, 0), format.ATTEST))
    return store


# ---- export and import -------------------------------------------------------------------------------


def test_binaries(user: User, mixed: Store, tmp_path: Path) -> None:
    """Cells and binaries both count as pipelines, and an export carries both. What the program read itself, and what is
    damaged, is not exported."""
    path = user.directory / "x.pylayer"
    assert user.json("ls", "game*")["identities"][0]["programs"][0]["pipelines"] == 32
    mixed.journal(GAME, record(binaries(b"x")[:-16], format.BINARIES))
    done = user.pylayer("export", path, "--app", "game*")
    assert "Exported: 32 pipelines of" in done.stdout and "without 1 damaged part " in done.stdout
    root = tmp_path / "other"
    root.mkdir(mode=0o700)
    work = take(path, root)
    elsewhere = Store(root, IDENTITY)
    assert work.identity.name == IDENTITY.name and work.result.pipelines == 32
    assert len(disk.load(elsewhere.folder, ID).binaries) == 22 and elsewhere.files("*.attest") == []
    again = take(path, root).result
    assert (again.pipelines, again.known) == (0, 32)


# ---- Recordings ----------------------------------------------------------------------------------


NEW_CARD = radv.gpu("navi31")
COUNT = 6


@pytest.fixture
def exported(user: User) -> Path:
    """The state of a program that ran on one machine."""
    user.demo(COUNT)
    path = user.directory / "demo.recorded"
    done = user.pylayer("export", path, "--app", "pipelines", "--recordings")
    assert done.stdout.startswith(f"Exported: the recordings of {COUNT} pipelines of pipelines\n")
    assert "  signed" not in done.stdout and "  without" not in done.stdout
    return path


@ON_RADV
def test_a_builder_without_the_program(exported: Path, elsewhere: User, user: User) -> None:
    """A machine that never ran the program compiles its pipelines for a card that the program's machine does not have.
    With these the program compiles nothing there."""
    assert f"Imported: the recordings of {COUNT} pipelines of" in elsewhere.pylayer("import", exported).stdout
    assert f"Rebuilt: {COUNT} of {COUNT} pipelines" in elsewhere.pylayer("rebuild", "pipelines", **NEW_CARD).stdout
    packs = elsewhere.directory / "built.pylayer"
    assert elsewhere.pylayer("export", packs, "--app", "pipelines").returncode == 0
    assert f"Imported: {COUNT} pipelines" in user.pylayer("import", packs).stdout
    user.demo(COUNT, **NEW_CARD)
    (last,) = (it for it in user.json("stats", "--last")["programs"] if "NAVI31" in it["device"])
    assert (last["hits"], last["compiled"]) == (COUNT, 0)


def test_it_has_the_name_that_drivers_know(exported: Path, elsewhere: User) -> None:
    """An export says how the program's file is called: drivers have profiles for names. Only the user reads it: it has
    the program's shaders in it. --for names a program of this store, which gets the state."""
    assert exported.stat().st_mode & 0o77 == 0
    assert elsewhere.pylayer("import", exported).returncode == 0
    (program,) = state.programs(str(elsewhere.store))
    assert state.read(str(elsewhere.store), program).executable == "pipelines"
    elsewhere.demo(2)
    assert "given to pipelines\n" in elsewhere.pylayer("import", exported, "--for", "pipelines").stdout
    assert elsewhere.pylayer("import", exported, "--for", "nobody").returncode == 1


WHOLE = object_of(bytes(96), 11, [(8, 16)], [(24, 17, bytes(16))])
#: Records that no export of recordings has, and why.
FORGED_RECORDINGS = {
    "too short": format.record_parts(format.OBJECT, bytes(8)),
    "impossible lengths": format.record_parts(format.OBJECT, bytes(96)),
    "lengths, or of another version": format.record_parts(format.OBJECT, WHOLE[:-8]),
    "without its objects": format.record_parts(format.CREATED, bytes(40)),
    "name of a shader": format.record_parts(format.IDENTIFIED, bytes(31)),
    "is not exported": format.record_parts(format.CELL, bytes(100)),
}


@pytest.mark.parametrize("why", FORGED_RECORDINGS)
def test_forgeries(user: User, why: str) -> None:
    """A file with a record that nobody writes is refused, even if its hashes verify."""
    path = user.directory / "forged"
    writer = PackWriter(str(path), NO_IDENTITY, kind=format.EXPORT)
    for note in ({"fingerprints": format.FINGERPRINTS}, {"program": "7", "name": "game"}):
        writer.add_parts(format.record_parts(format.NOTE, flat.dumps(note).encode()))
    for parts in (state.object_parts(object_of(bytes(96), 11)), FORGED_RECORDINGS[why]):
        writer.add_parts(parts)
    writer.finish()
    assert why in user.fails("import", path) and not list(user.store.glob("state/*"))


def test_what_is_left_out(exported: Path, user: User, elsewhere: User) -> None:
    """What is damaged is left out and counted. The rest is taken, and what a pipeline then lacks is said when it is
    compiled. Why pipelines were not rebuilt here is known of no other driver."""
    (program,) = state.programs(str(user.store))
    found = state.read(str(user.store), program)
    created = next(iter(found.created.values()))
    found.fail(created.pipeline, b"i" * 16, "why")
    file = Path(found.paths[0])
    data = bytearray(file.read_bytes())
    data[data.index(found.data(created.pipeline)) + 60] ^= 1
    file.write_bytes(data)
    path = user.directory / "rest.recorded"
    done = user.pylayer("export", path, "--app", "pipelines", "--recordings")
    assert f"{COUNT} pipelines of" in done.stdout and "without 1 damaged part" in done.stdout
    assert f"{COUNT} pipelines of" in elsewhere.pylayer("import", path).stdout
    assert not state.read(str(elsewhere.store), program).failed
    assert f"Rebuilt: {COUNT - 1} of {COUNT} pipelines" in elsewhere.pylayer("rebuild").stdout


# ---- pipelines that came without their recordings ----------------------------------------------------


def with_imported(user: User, elsewhere: User, before: int) -> User:
    """Returns a machine that created so many pipelines, and then imported all that the program creates on another."""
    user.demo(COUNT)
    packs = user.directory / "demo.pylayer"
    assert user.pylayer("export", packs, "--app", "pipelines").returncode == 0
    if before:
        elsewhere.demo(before)
    assert f"Imported: {COUNT - before} pipelines" in elsewhere.pylayer("import", packs).stdout
    return elsewhere


def rebuilt(user: User, **environment: str) -> tuple[int, int, int]:
    """Returns how many pipelines of the program rebuild wants and compiles, and how many are not recorded."""
    said = user.pylayer("rebuild", **environment).stdout
    done, wanted = map(int, re.findall(r"Rebuilt: (\d+) of (\d+) pipelines? for ", said)[0])
    return wanted, done, sum(map(int, re.findall(r"  without (\d+) stored pipeline", said)))


def recordings(user: User) -> str:
    """Returns what ``doctor pipelines`` says of the program's recordings; empty text if all are there."""
    return "".join(check.found for check in doctor.check_recordings(str(user.store), "pipelines"))


@ON_RADV
@pytest.mark.parametrize(
    ("before", "runs"), [(1, [COUNT]), (1, [2, COUNT]), (1, [1, 1, 4, 4, 4, COUNT]), (0, [2, COUNT])], ids=str
)
def test_imported_pipelines_are_recorded(user: User, elsewhere: User, before: int, runs: list[int]) -> None:
    """What a program finds in the store and nobody recorded is recorded then, whichever run creates it, the first on a
    machine too. Until then doctor and rebuild say how many there are."""
    importer = with_imported(user, elsewhere, before)
    if before:
        assert recordings(importer) == f"{COUNT - 1} of {COUNT} pipelines of pipelines are stored without a recording"
    for count in runs:
        importer.demo(count)
    assert importer.json("stats", "--last")["programs"][0]["compiled"] == 0
    assert recordings(importer) == "" and not list((importer.store / "state").glob("*.unrecorded"))
    assert rebuilt(importer, **NEW_CARD) == (COUNT, COUNT, 0)


@ON_RADV
def test_recording_has_a_budget(user: User, elsewhere: User) -> None:
    """Runs that create none of the pipelines do not record for ever. rebuild says what is missing, and has the next
    runs record again."""
    importer = with_imported(user, elsewhere, 1)
    for _ in range(MOST_RUNS):
        assert list((importer.store / "state").glob("*.unrecorded"))
        importer.demo(1)
    assert not list((importer.store / "state").glob("*.unrecorded"))
    importer.demo(COUNT)
    assert recordings(importer).startswith(f"{COUNT - 1} of {COUNT} pipelines")
    said = importer.pylayer("rebuild").stdout
    assert f"without {COUNT - 1} stored pipelines of which no recording is there: the next runs record those" in said
    importer.demo(COUNT)
    assert rebuilt(importer, **NEW_CARD) == (COUNT, COUNT, 0)
