"""Signed exports: made by one key, and taken where that key is trusted and every byte is what it signed."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli import stores
from cli.stores import GAME, TOOL, Store
from cli.user import User
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pylayer.cli import signatures

KEY = "pylayer-ed25519:"


@pytest.fixture
def store(user: User) -> Store:
    return stores.filled(user.store)


@pytest.fixture
def public(user: User) -> str:
    """The public key of ``farm.key``."""
    return str(user.json("key", "new", "farm.key")["public_key"])


@pytest.fixture
def signed(user: User, store: Store, public: str) -> Path:
    """A signed export of the game."""
    assert user.json("export", "game.pylayer", "--app", "game*", "--sign", "farm.key")["signed_by"] == public
    return user.directory / "game.pylayer"


@pytest.fixture
def elsewhere(tmp_path: Path) -> User:
    """Somebody with an empty store."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return User(directory)


def trust(user: User, *keys: str, required: bool = True) -> None:
    """The user's policy file trusts these keys."""
    path = user.home / ".config" / "pylayer" / "policy.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = "".join(f"\n  - {{name: key {number}, key: '{key}'}}" for number, key in enumerate(keys)) or " []"
    path.write_text(f"trusted_keys:{listed}\nimport: {{require_signature: {str(required).lower()}}}\n")


def refused(user: User, path: Path, *arguments: str) -> str:
    """The one line with which an import is refused; nothing was written."""
    temporary = user.home / "tmp"  # of its own: others import at the same time
    temporary.mkdir(exist_ok=True)
    done = user.pylayer("import", path, "--any-device", *arguments, TMPDIR=str(temporary))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and done.stdout == "", done.stdout + done.stderr
    assert not user.store.exists()
    assert not list(temporary.iterdir())
    return done.stderr


# ---- keys --------------------------------------------------------------------------------------------


def test_new_key(user: User, public: str) -> None:
    """A key file is for its owner alone, is never overwritten, and tells its public key again."""
    path = user.directory / "farm.key"
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    done = user.pylayer("key", "new", path)
    assert done.returncode == 1 and "there already" in done.stderr and path.read_bytes() == before
    assert user.pylayer("key", "show", path).stdout == f"Public key: {public}\n"
    assert public.startswith(KEY) and len(public) == len(KEY) + 44
    assert b"PRIVATE" not in user.pylayer("key", "show", path).stdout.encode()


def test_umask_opens_no_key(user: User) -> None:
    """Whatever the umask, nobody else can read a new key."""
    before = os.umask(0)
    try:
        user.pylayer("key", "new", "open.key")
    finally:
        os.umask(before)
    assert (user.directory / "open.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("what", ["readable", "missing", "text", "fifo", "directory", "encrypted", "ed448", "empty"])
def test_key_that_cannot_be_used(user: User, store: Store, public: str, what: str) -> None:
    """A key that others may read, or that is none, signs nothing: one line says why, and no file is made."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed448

    path = user.directory / what
    if what == "readable":
        path.write_bytes((user.directory / "farm.key").read_bytes())
        path.chmod(0o640)
    elif what == "fifo":
        os.mkfifo(path, 0o600)
    elif what == "directory":
        path.mkdir(0o700)
    elif what in ("encrypted", "ed448"):
        key: Any = Ed25519PrivateKey.generate() if what == "encrypted" else ed448.Ed448PrivateKey.generate()
        hidden: Any = (
            serialization.BestAvailableEncryption(b"x") if what == "encrypted" else serialization.NoEncryption()
        )
        data = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        path.write_bytes(data)
        path.chmod(0o600)
    elif what != "missing":
        path.write_text("no key" if what == "text" else "")
        path.chmod(0o600)
    for arguments in (("export", "x.pylayer", "--app", "game*", "--sign", what), ("key", "show", what)):
        done = user.pylayer(*arguments)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and "cannot be used as a key" in done.stderr
    assert sorted(path.name for path in user.directory.iterdir()) == sorted({"farm.key", what} - {"missing"})


def test_failed_export_leaves_nothing(user: User, store: Store, public: str) -> None:
    """An export of nothing makes no file, signed or not."""
    assert user.pylayer("export", "x", "--app", "nobody", "--sign", "farm.key").returncode == 1
    assert [path.name for path in user.directory.iterdir()] == ["farm.key"]


def test_export_where_others_may_write(user: User, store: Store, public: str) -> None:
    """An export goes anywhere that the user may write to, also where everybody may."""
    shared = user.directory / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert user.pylayer("export", shared / "a", "--app", "game*").returncode == 0
    assert user.pylayer("export", shared / "b", "--app", "game*", "--sign", "farm.key").returncode == 0
    assert sorted(path.name for path in shared.iterdir()) == ["a", "b"]


# ---- what is taken -----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [(), ("--require-signature",)])
def test_signed_by_a_trusted_key(signed: Path, public: str, store: Store, elsewhere: User, option: Any) -> None:
    """What a trusted key signed is taken over where that is required, and the key's name is told."""
    trust(elsewhere, public, required=not option)
    done = elsewhere.json("import", signed, "--any-device", *option)
    assert done["pipelines"] == 45
    signature = done["signature"]
    assert (signature["key"], signature["name"], signature["trusted"]) == (public, "key 0", True)
    assert signature["time"] > 1_700_000_000
    assert Store(elsewhere.store).loaded(GAME) == store.loaded(GAME)
    assert "signed by key 0" in elsewhere.pylayer("import", signed, "--any-device").stdout


def test_unsigned_where_none_is_required(user: User, store: Store, elsewhere: User) -> None:
    """Exports without a signature are taken as ever."""
    user.pylayer("export", "x", "--app", "game*")
    assert elsewhere.json("import", user.directory / "x", "--any-device")["signature"] is None


def test_unknown_key_where_none_is_required(signed: Path, public: str, elsewhere: User) -> None:
    """A signature by a key that is not trusted is worth as much as none, and the command says so."""
    done = elsewhere.pylayer("import", signed, "--any-device")
    assert done.returncode == 0 and f"signed by a key that is not trusted, {public}" in done.stdout


def test_dry_run(signed: Path, public: str, elsewhere: User) -> None:
    """--dry-run verifies the signature and writes nothing."""
    trust(elsewhere, public)
    assert elsewhere.json("import", signed, "--any-device", "--dry-run")["signature"]["trusted"]
    assert not elsewhere.store.exists()


def test_name_does_not_matter(signed: Path, public: str, elsewhere: User) -> None:
    """The signature is of the content: a file under another name is still what it was."""
    trust(elsewhere, public)
    other = signed.rename(signed.with_name("anything"))
    assert elsewhere.pylayer("import", other, "--any-device").returncode == 0


def test_signed_bytes(signed: Path, public: str) -> None:
    """The bytes of docs/format.md: an export, and a trailer that any Ed25519 implementation can verify."""
    data = signed.read_bytes()
    pack, trailer = data[:-128], data[-128:]
    magic, size, _when, zero, key, signature = struct.unpack("<8sQQQ32s64s", trailer)
    assert (magic, size, zero) == (b"PYLSIGN1", len(pack), 0)
    assert signatures.public_text(key) == public
    message = b"pylayer pack v1\0" + trailer[:64] + hashlib.sha512(pack).digest()
    Ed25519PublicKey.from_public_bytes(key).verify(signature, message)


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [(), ("--require-signature",)])
def test_unsigned_is_refused(user: User, store: Store, elsewhere: User, public: str, option: Any) -> None:
    """Where a signature is required, a file without one is refused, and the line says what requires it."""
    user.pylayer("export", "x", "--app", "game*")
    trust(elsewhere, public, required=not option)
    told = refused(elsewhere, user.directory / "x", *option)
    assert "it is not signed" in told and ("--require-signature" if option else "policy.yaml") in told


def test_other_key_is_refused(user: User, signed: Path, public: str, elsewhere: User) -> None:
    """A key that the policy file does not list is as good as none."""
    other = user.json("key", "new", "other.key")["public_key"]
    for keys in ((), (other,)):
        trust(elsewhere, *keys)
        told = refused(elsewhere, signed)
        assert public in told and "does not list" in told


def test_every_altered_byte_is_refused(signed: Path, public: str) -> None:
    """Any bit of the file that is another, in the pack or in the trailer, refuses it, required or not."""
    whole = signed.read_bytes()
    places = [*range(0, 256, 5), *random.Random(1).sample(range(len(whole)), 200), *range(len(whole) - 128, len(whole))]
    for required in ("it must be", ""):
        for at in places:
            changed = bytearray(whole)
            changed[at] ^= 1 << at % 8
            signed.write_bytes(changed)
            if not required and at < len(whole) - 128 + 8 and at >= len(whole) - 128:
                continue  # without its magic it is no trailer; the pack's own end refuses it, below
            with pytest.raises(signatures.Refused), signatures.verified(str(signed), {public: "key"}, required):
                pass


def test_damaged_magic_is_refused(signed: Path, elsewhere: User) -> None:
    """A trailer that is none any more leaves bytes behind the pack, which refuse it where no signature is required."""
    data = bytearray(signed.read_bytes())
    data[-128] ^= 1
    signed.write_bytes(data)
    assert "refused" in refused(elsewhere, signed)


@pytest.mark.parametrize("cut", [1, 63, 64, 127, 129, 1000])
def test_truncated_is_refused(signed: Path, public: str, elsewhere: User, cut: int) -> None:
    """A file that lost its end, or a piece in front of the trailer, is refused."""
    trust(elsewhere, public)
    whole = signed.read_bytes()
    signed.write_bytes(whole[:-cut])
    refused(elsewhere, signed)
    signed.write_bytes(whole[: -128 - cut] + whole[-128:])
    assert "signature" in refused(elsewhere, signed)


def test_signature_of_another_file_is_refused(user: User, signed: Path, public: str, elsewhere: User) -> None:
    """A trailer that was taken from another file, of the same length too, is refused; so is one put behind another."""
    user.pylayer("export", "tool.pylayer", "--app", "tool*")
    tool = (user.directory / "tool.pylayer").read_bytes()
    game = signed.read_bytes()
    trust(elsewhere, public)
    signed.write_bytes(tool + game[-128:])
    assert "signature" in refused(elsewhere, signed)
    size = struct.pack("<Q", len(tool))
    signed.write_bytes(tool + game[-128:-120] + size + game[-112:])
    assert "does not fit" in refused(elsewhere, signed)
    signed.write_bytes(game + game[-128:])
    assert "signature" in refused(elsewhere, signed)


def test_signature_for_another_purpose_is_refused(user: User, signed: Path, public: str, elsewhere: User) -> None:
    """What the key signed without the words for packs in front is no signature of a pack."""
    private = signatures.read_private(str(user.directory / "farm.key"))
    data = signed.read_bytes()
    head, digest = data[-128:-64], hashlib.sha512(data[:-128]).digest()
    trust(elsewhere, public)
    for message in (head + digest, digest, data[:-128], b"pylayer pack v2\0" + head + digest):
        signed.write_bytes(data[:-64] + private.sign(message))
        assert "does not fit" in refused(elsewhere, signed)


def test_signed_and_hostile_is_refused(user: User, public: str, elsewhere: User) -> None:
    """A signature makes nothing right that is not: what a trusted key signed is verified like all else."""
    path = user.directory / "x"
    path.write_bytes(b"PYLCACHE" + bytes(1000))
    signatures.append_signature(str(path), signatures.read_private(str(user.directory / "farm.key")))
    trust(elsewhere, public)
    assert "refused" in refused(elsewhere, path)


@pytest.mark.parametrize("text", ["trusted_keys: [", "trusted_keys: 1", "import: {require_signature: maybe}", None])
def test_unusable_policy_imports_nothing(signed: Path, elsewhere: User, text: str | None) -> None:
    """Where the policy file cannot be used, or is missing where PYLAYER_CONFIG names it, a signature may be required:
    nothing is imported."""
    path = elsewhere.home / "policy.yaml"
    if text is not None:
        path.write_text(text)
    elsewhere.environment["PYLAYER_CONFIG"] = str(path)
    assert "signatures may be required" in refused(elsewhere, signed)


@pytest.mark.parametrize("key", ["pylayer-ed25519:AAAA", "ssh-ed25519 AAAA", f"{KEY}{'!' * 43}="])
def test_malformed_key_in_the_policy_file(user: User, elsewhere: User, key: str) -> None:
    """A key that is none is an error of the policy file that says how one looks."""
    trust(elsewhere, key)
    done = elsewhere.pylayer("import", "x")
    assert done.returncode == 1 and "pylayer key show" in done.stderr and "line 2" in done.stderr


def test_changed_while_it_is_imported(signed: Path, public: str) -> None:
    """What was verified is what is imported: a file that is overwritten in between changes nothing."""
    before = signed.read_bytes()
    with signatures.verified(str(signed), {public: "key"}, "it must be") as (path, signature):
        signed.write_bytes(bytes(len(before)))
        assert Path(path).read_bytes() == before[:-128] and signature is not None
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert not Path(path).exists()


def test_memory_is_bounded(user: User, elsewhere: User) -> None:
    """A large signed file is read piece by piece: it is refused by a process that may not have as much memory."""
    path = user.directory / "huge"
    with path.open("wb") as file:
        file.truncate(256 << 20)
        file.seek((256 << 20) - 128)
        file.write(signatures.SIGNED_PART.pack(signatures.MAGIC, (256 << 20) - 128, 0, 0, bytes(32)) + bytes(64))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (128 << 20, 128 << 20))

    done = subprocess.run(
        **elsewhere.process(("import", path, "--any-device")), capture_output=True, preexec_fn=limit, timeout=120
    )
    assert done.returncode == 1 and "does not fit" in done.stderr, done.stderr


def test_tool_is_not_the_game(signed: Path, public: str, elsewhere: User) -> None:
    """A signed export holds what was asked for and nothing else."""
    trust(elsewhere, public)
    elsewhere.pylayer("import", signed, "--any-device")
    assert Store(elsewhere.store).loaded(TOOL) == []
