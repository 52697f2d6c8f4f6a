"""``pylayer export --recordings``: another machine compiles what a program asked for, for its own driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli.marks import ON_RADV
from cli.user import User
from recorded_state import object_of

from pylayer.cli import doctor
from pylayer.common import flat
from pylayer.common.identity import NO_IDENTITY
from pylayer.store import format, state
from pylayer.store.pack import PackWriter

NEW_CARD = {"RADV_FORCE_FAMILY": "navi31"}
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


def state_of(user: User) -> list[Path]:
    return list((user.store / "state").glob("*")) if (user.store / "state").exists() else []


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
    """An export says how the program's file is called: drivers have profiles for names."""
    assert elsewhere.pylayer("import", exported).returncode == 0
    (program,) = state.programs(str(elsewhere.store))
    assert state.read(str(elsewhere.store), program).executable == "pipelines"


def test_only_the_user_reads_it(exported: Path) -> None:
    """It has the program's shaders in it."""
    assert exported.stat().st_mode & 0o77 == 0


def test_it_is_given_to_another_program(exported: Path, elsewhere: User) -> None:
    """--for names a program of this store, which gets the state."""
    elsewhere.demo(2)
    assert "given to pipelines\n" in elsewhere.pylayer("import", exported, "--for", "pipelines").stdout
    assert elsewhere.pylayer("import", exported, "--for", "nobody").returncode == 1


def refused(user: User, path: Path, *words: str) -> str:
    """Why the file was refused. Nothing was imported then."""
    before = state_of(user)
    done = user.pylayer("import", path, *words)
    assert done.returncode == 1 and state_of(user) == before
    return done.stderr


WHOLE = object_of(bytes(96), 11, [(8, 16)], [(24, 17, bytes(16))])
#: Records that no export of recordings has, and why.
FORGERIES = {
    "too short": format.record_parts(format.OBJECT, bytes(8)),
    "impossible lengths": format.record_parts(format.OBJECT, bytes(96)),
    "lengths, or of another version": format.record_parts(format.OBJECT, WHOLE[:-8]),
    "without its objects": format.record_parts(format.CREATED, bytes(40)),
    "name of a shader": format.record_parts(format.IDENTIFIED, bytes(31)),
    "is not exported": format.record_parts(format.CELL, bytes(100)),
}


@pytest.mark.parametrize("why", FORGERIES)
def test_forgeries(user: User, why: str) -> None:
    """A file with a record that nobody writes is refused, even if its hashes verify."""
    path = user.directory / "forged"
    writer = PackWriter(str(path), NO_IDENTITY, kind=format.EXPORT)
    for note in ({"fingerprints": format.FINGERPRINTS}, {"program": "7", "name": "game"}):
        writer.add_parts(format.record_parts(format.NOTE, flat.dumps(note).encode()))
    for parts in (state.object_parts(object_of(bytes(96), 11)), FORGERIES[why]):
        writer.add_parts(parts)
    writer.finish()
    assert why in refused(user, path)


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


def test_what_cannot_be_exported(exported: Path, user: User) -> None:
    """An existing file stays as it is, and a program without state has none."""
    before = exported.read_bytes()
    assert user.pylayer("export", exported, "--app", "pipelines", "--recordings").returncode == 1
    assert exported.read_bytes() == before
    done = user.pylayer("export", user.directory / "new.recorded", "--app", "nobody", "--recordings")
    assert done.returncode == 1 and "nothing is recorded" in done.stderr
    assert user.pylayer("export", "x", "--app", "pipelines", "--recordings", "--identity", "ab").returncode == 2


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


@pytest.fixture
def importer(user: User, elsewhere: User) -> User:
    """A machine that ran the program once, and then imported all of its pipelines."""
    return with_imported(user, elsewhere, 1)


def rebuilt(user: User, **environment: str) -> tuple[int, int, int]:
    """Returns how many pipelines of the program rebuild wants and compiles, and how many are not recorded."""
    said = user.pylayer("rebuild", **environment).stdout
    done, wanted = map(int, re.findall(r"Rebuilt: (\d+) of (\d+) pipelines? for ", said)[0])
    return wanted, done, sum(map(int, re.findall(r"  without (\d+) stored pipeline", said)))


def recordings(user: User) -> str:
    """Returns what ``doctor pipelines`` says of the program's recordings; empty text if all are there."""
    return "".join(check.found for check in doctor.check_recordings(str(user.store), "pipelines"))


@ON_RADV
@pytest.mark.parametrize("runs", [[COUNT], [2, COUNT], [1, 1, 4, 4, 4, COUNT]], ids=str)
def test_imported_pipelines_are_recorded(importer: User, runs: list[int]) -> None:
    """What a program finds in the store and nobody recorded is recorded then, whichever run creates it. Until then
    doctor and rebuild say how many there are."""
    lacks = f"{COUNT - 1} of {COUNT} pipelines of pipelines are stored without a recording"
    assert recordings(importer) == lacks
    for count in runs:
        importer.demo(count)
    assert importer.json("stats", "--last")["programs"][0]["compiled"] == 0
    assert recordings(importer) == "" and not list((importer.store / "state").glob("*.unrecorded"))
    assert rebuilt(importer, **NEW_CARD) == (COUNT, COUNT, 0)


@ON_RADV
def test_imported_before_the_first_run(user: User, elsewhere: User) -> None:
    """The first run on a machine that imported the pipelines records what it creates, and the next ones the rest."""
    importer = with_imported(user, elsewhere, 0)
    for count in (2, COUNT):
        importer.demo(count)
    assert rebuilt(importer, **NEW_CARD) == (COUNT, COUNT, 0)


@ON_RADV
def test_recording_has_a_budget(importer: User) -> None:
    """Runs that create none of the pipelines do not record for ever. rebuild says what is missing, and has the next
    runs record again."""
    for _ in range(state.MOST_RUNS):
        assert list((importer.store / "state").glob("*.unrecorded"))
        importer.demo(1)
    assert not list((importer.store / "state").glob("*.unrecorded"))
    importer.demo(COUNT)
    assert recordings(importer).startswith(f"{COUNT - 1} of {COUNT} pipelines")
    said = importer.pylayer("rebuild").stdout
    assert f"without {COUNT - 1} stored pipelines of which no recording is there: the next runs record those" in said
    importer.demo(COUNT)
    assert rebuilt(importer, **NEW_CARD) == (COUNT, COUNT, 0)
