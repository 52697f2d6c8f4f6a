"""``pylayer export --recordings``: another machine compiles what a program asked for, for its own driver."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cli.marks import ON_RADV
from cli.user import User

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


def test_it_has_the_name_that_drivers_know(exported: Path) -> None:
    """An export says how the program's file is called: drivers have profiles for names."""
    found = state.foreign(str(exported))
    assert found is not None
    for _ in found.reading():
        pass
    assert found.executable == "pipelines"


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


def test_damage(exported: Path, elsewhere: User) -> None:
    """A file that is not whole is refused as a whole: cut off anywhere, longer, or with any byte changed."""
    data, chosen = exported.read_bytes(), random.Random(5)
    for _ in range(12):
        at = chosen.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << chosen.randrange(8)
        for content in (data[:at], data + data[:at], changed):
            exported.write_bytes(content)
            # Zeros between records are no part of a record, and nothing is made of them.
            if content != changed or elsewhere.pylayer("import", exported).returncode:
                assert "refused" in refused(elsewhere, exported)


def test_something_is_missing(exported: Path, elsewhere: User) -> None:
    """A file whose pipelines are made of what it does not have is refused."""
    pack = PackWriter(str(exported.with_suffix(".other")), state.NO_IDENTITY, 7, "other", format.EXPORT)
    created = state.CREATED.pack(b"p" * 16, b"d" * 16, b"i" * 16, 99, 1, 1)
    pack.add_parts(state.created_parts(state.Created(created)))
    assert "are missing" in refused(elsewhere, Path(pack.finish()))


def test_signatures(exported: Path, user: User, elsewhere: User) -> None:
    """A signed export is taken if its key is trusted or no signature is required, and never if it was changed."""
    key, signed = user.directory / "my.key", user.directory / "signed.recorded"
    public = user.public_key(key, "--new")
    done = user.pylayer("export", signed, "--app", "pipelines", "--recordings", "--sign", key)
    assert f"signed by {public}\n" in done.stdout
    required = "import: {require_signature: true}\n"
    elsewhere.policy_file.write_text(required)
    assert "not signed" in refused(elsewhere, exported)
    assert "does not list" in refused(elsewhere, signed)
    elsewhere.policy_file.write_text(f"{required}trusted_keys: [{{name: farm, key: '{public}'}}]\n")
    assert "signed by farm\n" in elsewhere.pylayer("import", signed).stdout
    data = bytearray(signed.read_bytes())
    data[len(data) // 2] ^= 1
    signed.write_bytes(data)
    assert "invalid" in refused(elsewhere, signed)


def test_what_is_left_out(exported: Path, user: User, elsewhere: User) -> None:
    """A pipeline of which something is missing is left out and counted. The others are taken."""
    (program,) = state.programs(str(user.store))
    missing = state.Created(state.CREATED.pack(b"p" * 16, b"d" * 16, b"i" * 16, 99, 1, 1))
    state.writer(str(user.store), program, "pipelines").append(state.created_parts(missing))
    path = user.directory / "rest.recorded"
    done = user.pylayer("export", path, "--app", "pipelines", "--recordings")
    assert f"{COUNT} pipelines of" in done.stdout and "without 1 pipeline that lacks something" in done.stdout
    assert f"{COUNT} pipelines of" in elsewhere.pylayer("import", path).stdout


def test_what_cannot_be_exported(exported: Path, user: User) -> None:
    """An existing file stays as it is, and a program without state has none."""
    before = exported.read_bytes()
    assert user.pylayer("export", exported, "--app", "pipelines", "--recordings").returncode == 1
    assert exported.read_bytes() == before
    done = user.pylayer("export", user.directory / "new.recorded", "--app", "nobody", "--recordings")
    assert done.returncode == 1 and "nothing is recorded" in done.stderr
    assert user.pylayer("export", "x", "--app", "pipelines", "--recordings", "--identity", "ab").returncode == 2
