"""``pylayer export`` and ``pylayer import``: move pipelines between machines with the same device and driver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..common.files import TEMPORARY, rename_to_new, unique_name
from ..common.settings import top_setting
from ..store.store import Refused
from .complete import files, programs
from .devices import described, is_of, present_facts
from .key import read_key
from .names import numbered
from .output import (
    Failure,
    human_bytes,
    json_option,
    picked,
    plural,
    print_json,
    printable,
    progress,
    reason,
    say,
    usual_mode,
)
from .policy_in_force import policies_in_force, read_policy
from .selection import NAMES, Names, Selection, dry_run_option, identity_option, require_one, require_store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..fleet.signatures import Signature
    from ..store.store import Import, Moved, Shelf, Store


def _one_shelf(store: Store, names: Names, app: str, identity: str | None) -> tuple[Shelf, dict[int, str]]:
    """Returns the single identity under which the programs have something stored, and those programs. Raises Failure if
    there is none, or several."""
    candidates = []
    for shelf in Selection(identity=identity).shelves(store, names):
        programs = {number: names.of(number) for number in shelf.programs if names.matches(number, app)}
        if programs:
            candidates.append((shelf, programs))
    if not candidates:
        under = f" under identity {identity}" if identity else ""
        raise Failure(f"{store.root} stores nothing for a program named {app}{under}; pylayer ls lists what is there")
    if len(candidates) > 1:
        listed = "; ".join(
            f"{shelf.name[:12]} ({', '.join(names.device_and_driver(shelf.identity, shelf.name))})"
            for shelf, _ in candidates
        )
        raise Failure(f"{app} has pipelines under {len(candidates)} identities: {listed}; choose one with --identity")
    shelf, programs = candidates[0]
    require_one(app, programs, "nothing was exported")
    if shelf.identity is None:
        raise Failure(f"the identity file of {shelf.path} is missing or damaged, so nobody could import the export")
    return shelf, programs


@click.command("export")
@click.argument("file", shell_complete=files, help="The file to create. It must not exist yet.")
@click.option(
    "--app",
    metavar="NAME",
    required=True,
    shell_complete=programs,
    help=f"This program, {NAMES}.",
)
@identity_option
@click.option(
    "--sign", metavar="KEYFILE", shell_complete=files, help="Sign it with this private key (pylayer key new makes one)."
)
@json_option
def export_command(file: str, app: str, identity: str | None, sign: str | None, as_json: bool) -> None:
    """Write a program's pipelines into one file, for machines with the same device and driver.

    FILE is never overwritten. It holds the pipelines of one driver identity and what is known of their use. It holds
    nothing that the program itself read or wrote.

    \b
    Example:
      pylayer export blender.pylayer --app blender
    """
    store = require_store()
    if os.path.lexists(file):
        raise Failure(f"{file} already exists and was not changed; name a new file")
    private = None
    if sign is not None:
        private = read_key(sign)
    names = Names(store.root)
    shelf, programs = _one_shelf(store, names, app, identity)
    assert shelf.identity is not None
    device, driver = names.device_and_driver(shelf.identity, shelf.name)
    export = store.export(shelf.identity, programs, names.recorded(shelf.name)[0])
    path = unsigned(file, private)
    try:
        with progress("exporting", shelf.bytes, as_json) as advance:
            for amount in export.steps(path):
                advance(amount)
        public = sign_export(path, file, private) if export.result.paths else None
    except OSError as error:
        raise Failure(f"{file} was not written: {error.strerror or error}") from error
    result = export.result
    if not result.paths:
        there = f"only {_suspects(result)}" if result.suspects else "no pipelines"
        raise Failure(f"{file} was not written: {app} has {there}")
    os.chmod(file, usual_mode())  # others may read it, as any file that the user writes
    if as_json:
        values = {"file": os.path.abspath(file), **_moved_json(result, shelf.name, device, driver)}
        print_json(
            {**values, "suspects_left_out": result.suspects, "missing_pipelines": result.missing, "signed_by": public}
        )
    else:
        _print_export(file, result, f"{device}, {driver}; identity {shelf.name}", public)


def _suspects(result: Moved) -> str:
    return f"{plural(result.suspects, 'record')} set aside after a crash (pylayer quarantine ls)"


def _print_export(file: str, result: Moved, target: str, public: str | None) -> None:
    say(f"Exported: {plural(result.pipelines, 'pipeline')} of {', '.join(result.programs.values())}")
    say(f"  for {target}")
    say(f"  into {os.path.abspath(file)}, {human_bytes(os.stat(file).st_size)}")
    if public:
        say(f"  signed by {public}")
    if result.missing:
        say(f"  without {plural(result.missing, 'known pipeline')} not stored yet; another run may store them")
    if result.suspects:
        say(f"  without {_suspects(result)}")
    if result.damage:
        say(f"  without {plural(len(result.damage), 'damaged part')} (pylayer verify)")


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


def _moved_json(result: Moved, identity: str, device: str, driver: str) -> dict[str, Any]:
    return {
        "identity": identity,
        "device": device,
        "driver": driver,
        "programs": [
            {"program": printable(name), "program_id": f"{number:016x}"} for number, name in result.programs.items()
        ],
        **picked(result, "records", "pipelines", "data_bytes"),
        "known_records": result.known,
        "damaged_parts": len(result.damage),
    }


def _require_device(wanted: Import) -> None:
    """Raises Failure if no driver of this machine would use the file's pipelines."""
    fields = wanted.identity.fields
    name = printable(wanted.device) or numbered(fields)
    theirs = f"{name}, {printable(str(fields['driver_name']))} {printable(str(fields['driver_info']))}"
    present, problem = present_facts()
    if problem:
        raise Failure(f"nothing was imported: {problem}, so it is not known if {theirs} is here; see --any-device")
    if not any(is_of(wanted.identity, facts) for facts in present):
        here = "; ".join(map(described, present))
        raise Failure(
            f"nothing was imported: the file is for {theirs} ({fields['abi']}), and this machine has {here}; "
            "--any-device imports it for a device that is not here"
        )


require_signature_option = click.option(
    "--require-signature", is_flag=True, help="Only if a key of trusted_keys in the policy file signed it."
)


@contextlib.contextmanager
def importing(file: str, require_signature: bool) -> Iterator[tuple[str, Signature | None]]:
    """Yields the path of what is in the file without its signature, and the signature. Raises Failure if it is refused
    or cannot be read, also by what the block does with it."""
    from ..fleet.signatures import verified

    trusted, required = _trust(require_signature)
    try:
        with verified(os.path.realpath(file), trusted, required) as found:
            yield found
    except Refused as error:
        raise Failure(f"{file} was refused and nothing was imported: {error}") from error
    except OSError as error:
        raise Failure(f"nothing was imported from {file}: {reason(error)}") from error


def say_signature(signature: Signature | None) -> None:
    """Prints who signed an import."""
    if signature is not None:
        name = f"a key that is not trusted, {signature.key}" if signature.name is None else printable(signature.name)
        say(f"  signed by {name}")


@click.command("import")
@click.argument("file", shell_complete=files, help="A file that pylayer export wrote.")
@click.option("--any-device", is_flag=True, help="Also import pipelines that no driver of this machine would use.")
@click.option(
    "--for",
    "app",
    metavar="NAME",
    shell_complete=programs,
    help=f"Give the pipelines to this program, {NAMES}, instead of the one that compiled them.",
)
@require_signature_option
@dry_run_option
@json_option
def import_command(
    file: str, any_device: bool, app: str | None, require_signature: bool, dry_run: bool, as_json: bool
) -> None:
    """Import pipelines that pylayer export wrote on another machine.

    Before anything is stored, every record is verified, and each pipeline's header must name this device and driver.
    A file with any error is refused as a whole. Hashes show damage. They do not show who made a file; a signature
    does. Import only files of somebody whose programs you would run. An invalid signature is always refused.

    A program loads what it compiled itself. --for names one program of this store, which then also loads what another
    one compiled, such as fossilize-replay or another version of itself.

    \b
    Example:
      pylayer import blender.pylayer --dry-run
      pylayer import replayed.pylayer --for game
    """
    store = require_store()
    recipient = None if app is None else recipient_of(store, app, "nothing was imported")
    path = os.path.realpath(file)
    with importing(file, require_signature) as (content, signature):
        work = store.import_from(content, recipient)
        if not any_device:
            _require_device(work)
        with progress("importing", os.stat(content).st_size, as_json) as advance:
            for amount in work.steps(store.root, dry_run):
                advance(amount)
    result = work.result
    names = Names(store.root)
    device, driver = names.device_and_driver(work.identity, work.identity.name)
    device = names.recorded(work.identity.name)[0] or printable(work.device) or device
    if as_json:
        values = _moved_json(result, work.identity.name, device, driver)
        signed = None if signature is None else signature.as_json()
        given = None if recipient is None else {"program": recipient[1], "program_id": f"{recipient[0]:016x}"}
        about = {"file": path, "dry_run": dry_run, "packs": result.paths, **values, "given_to": given}
        print_json({**about, "signature": signed})
        return
    _print_import(result, f"{device}, {driver}; identity {work.identity.name}", recipient, signature, dry_run)


def _print_import(
    result: Moved, target: str, recipient: tuple[int, str] | None, signature: Signature | None, dry_run: bool
) -> None:
    verb = "Would import" if dry_run else "Imported"
    known = f", {plural(result.known, 'record')} already in the store" if result.known else ""
    say(f"{verb}: {plural(result.pipelines, 'pipeline')}{known}")
    say(f"  of {printable(', '.join(result.programs.values()))}")
    if recipient is not None:
        say(f"  given to {recipient[1]}")
    say(f"  for {target}")
    say_signature(signature)


def recipient_of(store: Store, app: str, undone: str) -> tuple[int, str]:
    """Returns number and name of the single program of this store that ``--for`` selects. Raises Failure if it selects
    none, and WrongUse if several; ``undone`` says what was not done."""
    names = Names(store.root)
    Selection().shelves(store, names)
    found = names.known(app)
    if not found:
        raise Failure(
            f"{undone}: this store knows no program named {app}. Start it once under pylayer, so that its "
            "name is known; pylayer ls and pylayer stats list programs"
        )
    require_one(app, {number: names.of(number) for number in found}, undone, patterns=False)
    return found[0], names.of(found[0])


def _trust(require_signature: bool) -> tuple[dict[str, str], str]:
    """Returns the names of the keys that the policy file trusts, by key, and why a signature by one of them is required
    (empty text if it is not). Raises Failure if the policy file cannot be used, because it may require one."""
    document, problem = read_policy()
    if problem:
        raise Failure(f"nothing was imported, because the policy file may require signatures: {problem}")
    trusted = {entry["key"]: entry["name"] for entry in top_setting(document, "trusted_keys")}
    if require_signature:
        return trusted, "--require-signature was given"
    required = top_setting(document, "import")["require_signature"]
    files = " over ".join(file for file in reversed(policies_in_force()) if file)
    return trusted, f"{files} requires a signature" if required else ""
