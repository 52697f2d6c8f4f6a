"""``pylayer key``: the keys that sign exports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

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
