"""``pylayer export`` and ``pylayer import``: move pipelines between machines with the same device and driver, and
recordings to any."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..common.settings import top_setting
from ..store.state import foreign
from ..store.store import Refused
from .devices import described, is_of, present_facts
from .fleet import failing, require_fleet, url_option
from .key import read_key, say_signature
from .key import sign_export as sign_export
from .key import unsigned as unsigned
from .names import numbered
from .output import (
    Failure,
    WrongUse,
    files,
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
@click.argument("file", required=False, shell_complete=files, help="The file to create. It must not exist yet.")
@click.option(
    "--app",
    metavar="NAME",
    help=f"This program, {NAMES}. Required with FILE.",
)
@identity_option
@click.option(
    "--sign",
    metavar="KEYFILE",
    shell_complete=files,
    help="Sign it with this private key (pylayer key).",
)
@click.option(
    "--recordings", is_flag=True, help="Instead, what the program asked for, with its shaders (pylayer rebuild)."
)
@url_option
@json_option
def export_command(
    file: str | None,
    app: str | None,
    identity: str | None,
    sign: str | None,
    recordings: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Write a program's pipelines into one file, for machines with the same device and driver.

    FILE is never overwritten. It holds the pipelines of one driver identity and what is known of their use. It holds
    nothing that the program itself read or wrote. With --recordings it holds what the program asked for when it created
    pipelines, for machines with any driver.

    Without FILE, what this machine compiled goes to a fleet, for pylayer fleet publish: that of the policy file, or
    --url.

    \b
    Example:
      pylayer export blender.pylayer --app blender
      pylayer export blender.recorded --app blender --recordings
      pylayer export --sign builder.key
    """
    if file is not None and app is None:
        raise WrongUse("nothing was exported: add --app NAME, which says whose pipelines the file gets")
    if file is not None and url is not None:
        raise WrongUse("nothing was exported: --url is for an export to a fleet, which has no FILE")
    if recordings and (identity or file is None):
        raise WrongUse("nothing was exported: --recordings needs a file, and recordings are of no driver (--identity)")
    store = require_store()
    if file is not None and os.path.lexists(file):
        raise Failure(f"{file} already exists and was not changed; name a new file")
    private = None if sign is None else read_key(sign)
    if recordings and file is not None and app is not None:
        from .recordings import export_recordings

        export_recordings(store, file, app, private, as_json)
        return
    names = Names(store.root)
    if file is None or app is None:
        _export_to_fleet(store, names, Selection(app, identity), (url, private), as_json)
        return
    _export_to_file(store, names, file, (app, identity), private, as_json)


def _export_to_fleet(
    store: Store, names: Names, selection: Selection, to: tuple[str | None, Ed25519PrivateKey | None], as_json: bool
) -> None:
    from ..fleet.publishing import upload
    from ..fleet.signatures import public_of
    from ..fleet.storage import open_to_write

    url, private = to
    if private is None:
        raise WrongUse("nothing was exported: name a file; or add --sign KEYFILE, because a fleet takes signed exports")
    found, exported = require_fleet(url), []
    shelves, size = selection.shelves(store, names), store.tree_bytes("store")[0]
    with failing("nothing more was exported"), progress("exporting", size, as_json) as advance:
        storage = open_to_write(found.url)
        for shelf in shelves:
            wanted = {number: names.of(number) for number in shelf.programs if selection.takes(number, names)}
            if shelf.identity is None or not wanted:
                continue
            device, driver = names.device_and_driver(shelf.identity, shelf.name)
            export = store.export(shelf.identity, wanted, names.recorded(shelf.name)[0], own=True)
            for amount in upload(storage, store.root, export, shelf.name, private):
                advance(amount)
            if export.result.paths:
                exported.append(_export_json(export.result, (shelf.name, device, driver), public_of(private)))
                if not as_json:
                    _print_export(found.url, export.result, f"{device}, {driver}; identity {shelf.name}", None)
    if as_json:
        print_json({"url": found.url, "exports": exported})
    elif not exported:
        say(f"Nothing to export: {store.root} has nothing of {selection} that was compiled here")


def _export_to_file(
    store: Store,
    names: Names,
    file: str,
    selected: tuple[str, str | None],
    private: Ed25519PrivateKey | None,
    as_json: bool,
) -> None:
    app, identity = selected
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
        about = {"file": os.path.abspath(file), "recordings": False}
        print_json(about | _export_json(result, (shelf.name, device, driver), public))
    else:
        into = f"{os.path.abspath(file)}, {human_bytes(os.stat(file).st_size)}"
        _print_export(into, result, f"{device}, {driver}; identity {shelf.name}", public)


def _export_json(result: Moved, target: tuple[str, str, str], public: str | None) -> dict[str, Any]:
    about = {"suspects_left_out": result.suspects, "missing_pipelines": result.missing, "signed_by": public}
    return _moved_json(result, *target) | about


def _suspects(result: Moved) -> str:
    return f"{plural(result.suspects, 'record')} set aside after a crash (pylayer ls)"


def _print_export(into: str, result: Moved, target: str, public: str | None) -> None:
    say(f"Exported: {plural(result.pipelines, 'pipeline')} of {', '.join(result.programs.values())}")
    say(f"  for {target}")
    say(f"  into {into}")
    if public:
        say(f"  signed by {public}")
    if result.missing:
        say(f"  without {plural(result.missing, 'known pipeline')} not stored yet; another run may store them")
    if result.suspects:
        say(f"  without {_suspects(result)}")
    if result.damage:
        say(f"  without {plural(len(result.damage), 'damaged part')} (pylayer ls --verify)")


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


@click.command("import")
@click.argument("file", shell_complete=files, help="A file that pylayer export wrote.")
@click.option("--any-device", is_flag=True, help="Also import pipelines that no driver of this machine would use.")
@click.option(
    "--for",
    "app",
    metavar="NAME",
    help=f"Give the pipelines to this program, {NAMES}, instead of the one that compiled them.",
)
@require_signature_option
@dry_run_option
@json_option
def import_command(
    file: str, any_device: bool, app: str | None, require_signature: bool, dry_run: bool, as_json: bool
) -> None:
    """Import pipelines or recordings that pylayer export wrote on another machine.

    Before anything is stored, every record is verified, and each pipeline's header must name this device and driver.
    A file with any error is refused as a whole. Hashes show damage. They do not show who made a file; a signature
    does. Import only files of somebody whose programs you would run. An invalid signature is always refused.

    pylayer rebuild compiles recordings. It gives the file's shaders to the driver, in processes of their own.

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
        found = foreign(content)
        if found is not None:
            from .recordings import import_recordings

            import_recordings(store, found, file, recipient, signature, dry_run, as_json)
            return
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
        about = {
            "file": path,
            "recordings": False,
            "dry_run": dry_run,
            "packs": result.paths,
            **values,
            "given_to": given,
        }
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
