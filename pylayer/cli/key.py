"""``pylayer key``: the keys that sign exports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ..common.files import TEMPORARY, rename_to_new, unique_name
from .output import Failure, files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def read_key(file: str) -> Ed25519PrivateKey:
    """Reads the private key in a file. Raises Failure if it cannot be used."""
    from ..fleet.signatures import KeyFileError, read_private

    try:
        return read_private(file)
    except KeyFileError as error:
        raise Failure(f"{file} cannot be used as a key: {error}") from error
    except OSError as error:
        raise Failure(f"{file} cannot be used as a key: {error.strerror or error}") from error


def unsigned(file: str, private: Ed25519PrivateKey | None) -> str:
    """Returns the path to write the export to. An export to be signed gets a temporary name first, so that a file with
    its final name is always complete and signed."""
    path = os.path.abspath(file)
    return path if private is None else f"{path}.{unique_name()}{TEMPORARY}"


def sign_export(path: str, file: str, private: Ed25519PrivateKey | None) -> str | None:
    """Signs the export in ``path``, which ``unsigned`` named, renames it to its final name, and returns the public key.
    Does nothing without a private key. Raises OSError."""
    if private is None:
        return None
    from ..fleet.signatures import append_signature

    try:
        public = append_signature(path, private)
        rename_to_new(path, os.path.abspath(file))
    except BaseException:
        os.unlink(path)
        raise
    return public


@click.command
@click.argument("file", shell_complete=files, help="A private key.")
@click.option("--new", is_flag=True, help="Create FILE, which must not exist yet.")
def key(file: str, new: bool) -> None:
    """Print the public key of a private key, or create one with --new.

    Such Ed25519 keys sign exports (pylayer export --sign). Whoever imports them lists the public key in trusted_keys of
    the policy file. With --new, FILE is readable by you alone, and never overwritten. Whoever has it can sign in your
    name: keep it where exports are made, and nowhere else.

    \b
    Example:
      pylayer key farm.key --new
      pylayer export blender.pylayer --app blender --sign farm.key
    """
    from ..fleet.signatures import new_key, public_text

    if new:
        try:
            public = new_key(file)
        except FileExistsError as error:
            raise Failure(f"{file} already exists and was not changed; name a new file") from error
        except OSError as error:
            raise Failure(f"{file} was not written: {error.strerror or error}") from error
    else:
        public = public_text(read_key(file).public_key().public_bytes_raw())
    if new:
        click.echo(f"Private key: {os.path.abspath(file)}, for you alone")
    click.echo(f"Public key: {public}")
