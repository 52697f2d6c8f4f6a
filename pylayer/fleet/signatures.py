"""Signatures of exports and of a fleet's indexes: Ed25519, in a trailer behind what is signed
(docs/internals/format.md, 'Signed exports').

Only the command line uses this module, never a program's process. ``cryptography`` is imported by the functions that
need it, because a file without a signature needs none.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..common.files import open_foreign
from ..store.store import MAX_FILE_BYTES
from ..store.store import Refused as Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: Prefixes of the signed message, so that a signature made for another purpose never fits.
DOMAIN = b"pylayer pack v1\0"
INDEX_DOMAIN = b"pylayer index v1\0"
MAGIC = b"PYLSIGN1"
#: Magic, bytes before the trailer, seconds since 1970, 0, public key. The signature follows.
SIGNED_PART = struct.Struct("<8sQQQ32s")
SIGNATURE_BYTES = 64
TRAILER_BYTES = SIGNED_PART.size + SIGNATURE_BYTES

#: Prefix of a public key in text. The base64 of its 32 bytes follows.
PREFIX = "pylayer-ed25519:"
#: Private keys in PEM have 119 bytes.
MAX_KEY_FILE_BYTES = 4096
_COPY_BYTES = 1 << 20


# ---- keys --------------------------------------------------------------------------------------------


def public_text(key: bytes) -> str:
    """Returns a public key in the form that policy files and commands use."""
    return PREFIX + base64.b64encode(key).decode()


def new_key(path: str) -> str:
    """Creates a private key in a file that only its owner can read, and returns the public key. Raises OSError; this is
    FileExistsError if the file exists."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
    except BaseException:
        os.unlink(path)
        raise
    return public_of(key)


def read_private(path: str) -> Ed25519PrivateKey:
    """Reads the private key in a file that only its owner can read. Raises Refused and OSError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("it is not a regular file")
        if status.st_uid not in (os.geteuid(), 0):
            raise Refused(f"it belongs to user {status.st_uid}")
        if status.st_mode & 0o077:
            raise Refused(f"other users have access to it (chmod 600 {path})")
        data = file.read(MAX_KEY_FILE_BYTES)
    try:
        key = load_pem_private_key(data, None)
    except TypeError as error:
        raise Refused("it is encrypted, and pylayer does not ask for passphrases") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Refused("it holds no private key in PEM format (pylayer key --new makes one)") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Refused("its key is not an Ed25519 key (pylayer key --new makes one)")
    return key


# ---- signing -----------------------------------------------------------------------------------------


def _trailer(key: Ed25519PrivateKey, size: int, digest: bytes, domain: bytes) -> bytes:
    """Returns the trailer behind so many bytes with this SHA-512."""
    head = SIGNED_PART.pack(MAGIC, size, int(time.time()), 0, key.public_key().public_bytes_raw())
    return head + key.sign(domain + head + digest)


def public_of(key: Ed25519PrivateKey) -> str:
    """Returns the public key of a private one, as text."""
    return public_text(key.public_key().public_bytes_raw())


def signed_index(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """Returns the payload of a fleet's index with its trailer."""
    return payload + _trailer(key, len(payload), hashlib.sha512(payload).digest(), INDEX_DOMAIN)


def append_signature(path: str, key: Ed25519PrivateKey) -> str:
    """Signs a whole file, flushes it to the disk, and returns the public key. Raises OSError."""
    with open(path, "r+b") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
        file.write(_trailer(key, file.seek(0, os.SEEK_END), digest, DOMAIN))
        file.flush()
        os.fsync(file.fileno())
    return public_of(key)


def sha256_of(path: str) -> str:
    """Returns the SHA-256 of a file, by which packs are named. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- verifying ---------------------------------------------------------------------------------------


def _fits(trailer: bytes, size: int, digest: bytes, domain: bytes) -> bool:
    """Returns whether a trailer is valid behind so many bytes with this SHA-512."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    _, covered, _, zero, public = SIGNED_PART.unpack_from(trailer)
    try:
        message = domain + trailer[: SIGNED_PART.size] + digest
        Ed25519PublicKey.from_public_bytes(public).verify(trailer[SIGNED_PART.size :], message)
    except (InvalidSignature, ValueError):
        return False
    return (covered, zero) == (size, 0)


def _key_of(trailer: bytes) -> str:
    """Returns the key that a trailer names; empty text if it is no trailer."""
    is_one = len(trailer) == TRAILER_BYTES and trailer.startswith(MAGIC)
    return public_text(SIGNED_PART.unpack_from(trailer)[4]) if is_one else ""


def index_payload(data: bytes) -> tuple[bytes, str]:
    """Returns the payload of a fleet's index and the key that signed it. Raises Refused unless the signature fits."""
    payload, trailer = data[:-TRAILER_BYTES], data[-TRAILER_BYTES:]
    key = _key_of(trailer)
    if not key:
        raise Refused("it is not signed")
    if not _fits(trailer, len(payload), hashlib.sha512(payload).digest(), INDEX_DOMAIN):
        raise Refused(f"its signature by {key} is invalid")
    return payload, key


def _copy(fd: int, size: int, target: str) -> bytes:
    """Copies the first ``size`` bytes of a file and returns their SHA-512. Raises OSError, and Refused if the file
    became shorter."""
    hashed = hashlib.sha512()
    with open(target, "xb") as file:
        at = 0
        while at < size:
            data = os.pread(fd, min(_COPY_BYTES, size - at), at)
            if not data:
                raise Refused("it became shorter while it was read")
            hashed.update(data)
            file.write(data)
            at += len(data)
    return hashed.digest()


@contextlib.contextmanager
def verified(path: str, trusted: dict[str, str], required: str, within: str | None = None) -> Iterator[tuple[str, str]]:
    """Yields the path of the file to import, and the key that signed it; empty text for an export without a signature.

    ``trusted`` has names by public key. ``required`` says why a signature by one of these keys is required; it is empty
    if none is. The signed part is first copied for the time of the import, so that exactly the verified bytes are
    imported even if somebody changes the file meanwhile. ``within``: the directory for the copy, by default that for
    temporary files. Raises Refused and OSError.
    """
    fd = open_foreign(path)
    try:
        size = os.fstat(fd).st_size
        if size > MAX_FILE_BYTES:
            raise Refused(f"it has {size} bytes, more than an export can have")
        covered = max(size - TRAILER_BYTES, 0)
        trailer = os.pread(fd, TRAILER_BYTES, covered)
        key = _key_of(trailer)
        if not key:
            if required:
                raise Refused(f"it is not signed, and {required}")
            yield path, ""
            return
        if required and key not in trusted:
            raise Refused(f"it is signed by {key}, which trusted_keys does not list, and {required}")
        with tempfile.TemporaryDirectory(prefix="pylayer-import-", dir=within) as directory:
            copy = os.path.join(directory, "export")
            if not _fits(trailer, covered, _copy(fd, covered, copy), DOMAIN):
                raise Refused(f"its signature by {key} is invalid: the file was changed after it was signed")
            yield copy, key
    finally:
        os.close(fd)
