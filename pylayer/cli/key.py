"""``pylayer key``: the keys that sign exports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .output import Failure, files, json_option, print_json

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


@click.group
def key() -> None:
    """Create and show the Ed25519 keys that sign exports (pylayer export --sign).

    Whoever imports them lists the public key in trusted_keys of the policy file.

    \b
    Example:
      pylayer key new farm.key
      pylayer export blender.pylayer --app blender --sign farm.key
    """


@key.command(short_help="Create a private key and print its public key.")
@click.argument("file", shell_complete=files, help="The file to create. It must not exist yet.")
@json_option
def new(file: str, as_json: bool) -> None:
    """Create a private key in FILE, readable by you alone, and print its public key.

    FILE is never overwritten. Whoever has it can sign in your name: keep it where exports are made, and nowhere else.

    \b
    Example:
      pylayer key new farm.key
    """
    from ..fleet.signatures import new_key

    try:
        public = new_key(file)
    except FileExistsError as error:
        raise Failure(f"{file} already exists and was not changed; name a new file") from error
    except OSError as error:
        raise Failure(f"{file} was not written: {error.strerror or error}") from error
    _print(file, public, as_json, f"Private key: {os.path.abspath(file)}, for you alone\n")


@key.command(short_help="Print the public key of a private key.")
@click.argument("file", shell_complete=files, help="A file that pylayer key new created.")
@json_option
def show(file: str, as_json: bool) -> None:
    """Print the public key that belongs to the private key in FILE.

    \b
    Example:
      pylayer key show farm.key
    """
    from ..fleet.signatures import public_text

    private = read_key(file)
    _print(file, public_text(private.public_key().public_bytes_raw()), as_json, "")


def _print(file: str, public: str, as_json: bool, first: str) -> None:
    if as_json:
        print_json({"file": os.path.abspath(file), "public_key": public})
        return
    click.echo(f"{first}Public key: {public}")
