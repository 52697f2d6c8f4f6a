"""Signed exports: made by one key, and taken where that key is trusted and every byte is what it signed."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli import stores
from cli.stores import GAME, TOOL, Store
from cli.user import User
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pylayer.cli.output import Failure
from pylayer.cli.transfer import read_key
from pylayer.fleet import signatures

KEY = "pylayer-ed25519:"


@dataclass
class Farm:
    """Who makes exports: a store, a key, and three exports. No test changes any of it."""

    user: User
    store: Store
    public: str

    @property
    def key(self) -> Path:
        return self.user.directory / "farm.key"

    def export(self, name: str) -> Path:
        """``game`` is signed; ``unsigned`` is the game's as well, and ``tool`` another program's."""
        return self.user.directory / name


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    user = User(tmp_path_factory.mktemp("farm"))
    store = stores.filled(user.store)
    public = user.public_key("farm.key", "--new")
    assert f"signed by {public}\n" in user.says("export", "game", "--app", "game*", "--sign", "farm.key")
    assert user.pylayer("export", "unsigned", "--app", "game*").returncode == 0
    assert user.pylayer("export", "tool", "--app", "tool*").returncode == 0
    return Farm(user, store, public)


@pytest.fixture
def signed(farm: Farm, tmp_path: Path) -> Path:
    """A copy of the signed export of the game."""
    return Path(shutil.copy(farm.export("game"), tmp_path))


def trust(user: User, *keys: str, required: bool = True) -> None:
    """The user's policy file trusts these keys."""
    listed = "".join(f"\n  - {{name: key {number}, key: '{key}'}}" for number, key in enumerate(keys)) or " []"
    user.policy_file.write_text(f"trusted_keys:{listed}\nimport: {{require_signature: {str(required).lower()}}}\n")


def refused(user: User, path: Path, *arguments: str) -> str:
    """The one line with which an import is refused; nothing was written."""
    temporary = user.home / "tmp"  # of its own: others import at the same time
    temporary.mkdir(exist_ok=True)
    said = user.fails("import", path, *arguments, TMPDIR=str(temporary))
    assert not user.store.exists() and not list(temporary.iterdir())
    return said


# ---- keys --------------------------------------------------------------------------------------------


def test_new_key(farm: Farm) -> None:
    """A key file is for its owner alone, is never overwritten, and tells its public key again."""
    assert farm.key.stat().st_mode & 0o777 == 0o600
    before = farm.key.read_bytes()
    assert "already exists" in farm.user.fails("key", farm.key, "--new") and farm.key.read_bytes() == before
    assert farm.user.pylayer("key", farm.key).stdout == f"Public key: {farm.public}\n"
    assert farm.public.startswith(KEY) and len(farm.public) == len(KEY) + 44


PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
#: Files that are no key.
NO_KEYS = {
    "text": b"no key",
    "encrypted": Ed25519PrivateKey.generate().private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"x")),
    "ed448": ed448.Ed448PrivateKey.generate().private_bytes(PEM, PKCS8, serialization.NoEncryption()),
}


@pytest.mark.parametrize("what", ["readable", "fifo", *NO_KEYS])
def test_key_that_cannot_be_used(tmp_path: Path, farm: Farm, what: str) -> None:
    """A key that others may read, or that is none, is not read, and one line says why."""
    path = tmp_path / what
    if what == "fifo":
        os.mkfifo(path, 0o600)
    else:
        path.write_bytes(NO_KEYS.get(what, farm.key.read_bytes()))
        path.chmod(0o640 if what == "readable" else 0o600)
    with pytest.raises(Failure, match="cannot be used as a key") as raised:
        read_key(str(path))
    assert "\n" not in str(raised.value)


def test_export_where_others_may_write(tmp_path: Path, farm: Farm) -> None:
    """An export goes anywhere that the user may write to, also where everybody may."""
    tmp_path.chmod(0o1777)
    assert farm.user.pylayer("export", tmp_path / "a", "--app", "game*").returncode == 0
    assert farm.user.pylayer("export", tmp_path / "b", "--app", "game*", "--sign", farm.key).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


# ---- what is taken -----------------------------------------------------------------------------------


def test_signed_by_a_trusted_key(signed: Path, farm: Farm, elsewhere: User) -> None:
    """What a trusted key signed is imported where that is required, whatever the file is called, and the key's name is
    told."""
    trust(elsewhere, farm.public)
    done = elsewhere.pylayer("import", signed.rename(signed.with_name("anything")))
    assert "Imported: 45 pipelines\n" in done.stdout and "signed by key 0\n" in done.stdout
    assert Store(elsewhere.store).loaded(GAME) == farm.store.loaded(GAME)
    assert Store(elsewhere.store).loaded(TOOL) == []
    trust(elsewhere, farm.public, required=False)
    assert "signed by key 0" in elsewhere.pylayer("import", farm.export("game")).stdout


def test_where_no_signature_is_required(farm: Farm, elsewhere: User) -> None:
    """An export without a signature is imported, and so is one by a key that is not trusted, which the command says."""
    assert "signed" not in elsewhere.pylayer("import", farm.export("unsigned")).stdout
    assert f"signed by a key that is not trusted, {farm.public}" in elsewhere.says("import", farm.export("game"))


def test_signed_bytes(signed: Path, farm: Farm) -> None:
    """The bytes of docs/internals/format.md: an export, and a trailer that any Ed25519 implementation can verify."""
    data = signed.read_bytes()
    pack, trailer = data[:-128], data[-128:]
    magic, size, _when, zero, key, signature = struct.unpack("<8sQQQ32s64s", trailer)
    assert (magic, size, zero) == (b"PYLSIGN1", len(pack), 0)
    assert signatures.public_text(key) == farm.public
    message = b"pylayer pack v1\0" + trailer[:64] + hashlib.sha512(pack).digest()
    Ed25519PublicKey.from_public_bytes(key).verify(signature, message)


# ---- what is refused ---------------------------------------------------------------------------------


def why_refused(path: Path, *keys: str, required: str = "it must be") -> str:
    """Why no import gets to the file's content where these keys are trusted."""
    with (
        pytest.raises(signatures.Refused) as raised,
        signatures.verified(str(path), dict.fromkeys(keys, "a"), required),
    ):
        pass
    return str(raised.value)


def test_unsigned_and_other_keys_are_refused(farm: Farm, elsewhere: User) -> None:
    """Where a signature is required, a file without one is refused, and the line says what requires it. A key that the
    policy file does not list is as good as none, and so is any key where it lists none."""
    trust(elsewhere, signatures.public_text(bytes(32)))
    told = refused(elsewhere, farm.export("unsigned"))
    assert "it is not signed" in told and "policy.yaml" in told
    told = refused(elsewhere, farm.export("game"))
    assert farm.public in told and "does not list" in told
    assert "does not list" in why_refused(farm.export("game"))


def test_other_bytes_are_refused(farm: Farm, signed: Path, elsewhere: User) -> None:
    """A file that lost its end or a piece in front of the trailer, a trailer of another file, of the same length too,
    or behind another one, and what the key signed without the words for packs, are refused."""
    game, tool = signed.read_bytes(), farm.export("tool").read_bytes()
    head, digest = game[-128:-64], hashlib.sha512(game[:-128]).digest()
    private = signatures.read_private(str(farm.key))
    messages = head + digest, digest, game[:-128], b"pylayer pack v2\0" + head + digest
    resized = tool + game[-128:-120] + struct.pack("<Q", len(tool)) + game[-112:]
    cuts = (1, 63, 64, 127, 129, 1000)
    refusals = [
        *((game[:-cut], "it is not signed") for cut in cuts),
        *((game[: -128 - cut] + game[-128:], "signature") for cut in cuts),
        (tool + game[-128:], "signature"),
        (game + game[-128:], "signature"),
        *((game[:-64] + private.sign(message), "is invalid") for message in messages),
        (resized, "is invalid"),
    ]
    for data, why in refusals:
        signed.write_bytes(data)
        assert why in why_refused(signed, farm.public)
    trust(elsewhere, farm.public)
    assert "is invalid" in refused(elsewhere, signed)


@pytest.mark.parametrize("text", ["trusted_keys: [", "trusted_keys: 1", "import: {require_signature: maybe}", None])
def test_unusable_policy_imports_nothing(signed: Path, elsewhere: User, text: str | None) -> None:
    """Where the policy file cannot be used, or is missing where PYLAYER_CONFIG names it, a signature may be required:
    nothing is imported."""
    path = elsewhere.home / "policy.yaml"
    if text is not None:
        path.write_text(text)
    elsewhere.environment["PYLAYER_CONFIG"] = str(path)
    assert "may require signatures" in refused(elsewhere, signed)


@pytest.mark.parametrize("key", ["pylayer-ed25519:AAAA", "ssh-ed25519 AAAA", f"{KEY}{'!' * 43}="])
def test_malformed_key_in_the_policy_file(elsewhere: User, key: str) -> None:
    """A key that is none is an error of the policy file that says how one looks."""
    trust(elsewhere, key)
    said = elsewhere.fails("import", "x")
    assert "pylayer key" in said and "line 2" in said


def test_changed_while_it_is_imported(signed: Path, farm: Farm) -> None:
    """What was verified is what is imported: a file that is overwritten in between changes nothing."""
    before = signed.read_bytes()
    with signatures.verified(str(signed), {farm.public: "key"}, "it must be") as (path, key):
        signed.write_bytes(bytes(len(before)))
        assert Path(path).read_bytes() == before[:-128] and key == farm.public
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert not Path(path).exists()
