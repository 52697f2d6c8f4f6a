"""``pylayer export`` and ``pylayer import`` move pipelines between machines with the same device and driver, and
recordings to any. ``pylayer key`` makes the keys that sign them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ..common.files import TEMPORARY, remove, rename_to_new, unique_name
from ..common.identity import NO_IDENTITY
from ..common.paths import config_files
from ..common.settings import top_setting
from ..report.words import human_bytes, plural, printable
from ..store.store import Partition, Refused, Store
from .devices import is_of, present_facts
from .output import Failure, WrongUse, failing, files, json_option, print_json, usual_mode, work_through
from .policy_in_force import read_policy
from .selection import NAMES, Names, Selection, identity_option, require_one, require_store, with_recordings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def read_key(file: str) -> Ed25519PrivateKey:
    """Reads the private key in a file. Raises Failure if it cannot be used."""
    from ..fleet.signatures import read_private

    with failing(f"{file} cannot be used as a key", Refused):
        return read_private(file)


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
    from ..fleet.signatures import new_key, public_of

    if new:
        if os.path.lexists(file):
            raise Failure(f"{file} already exists and was not changed; name a new file")
        with failing(f"{file} was not written"):
            public = new_key(file)
    else:
        public = public_of(read_key(file))
    if new:
        click.echo(f"Private key: {os.path.abspath(file)}, for you alone")
    click.echo(f"Public key: {public}")


def _one_partition(store: Store, names: Names, app: str, identity: str | None) -> tuple[Partition, dict[int, str]]:
    """Returns the single identity under which the programs have something stored, and those programs. Raises Failure if
    there is none, or several."""
    candidates = []
    for partition in Selection(identity=identity).partitions(store, names):
        if programs := names.named(partition.holdings, app):
            candidates.append((partition, programs))
    if not candidates:
        under = f" under identity {identity}" if identity else ""
        raise Failure(f"{store.root} stores nothing for a program named {app}{under}; pylayer ls lists what is there")
    if len(candidates) > 1:  # after an update of the driver, what is of an older one is not asked for
        here = present_facts()[0]
        used = [one for one in candidates if one[0].identity and any(is_of(one[0].identity, it) for it in here)]
        candidates = used if len(used) == 1 else candidates
    if len(candidates) > 1:
        listed = "; ".join(
            f"{partition.name[:12]} ({', '.join(names.device_and_driver(partition.identity, partition.name))})"
            for partition, _ in candidates
        )
        raise Failure(f"{app} has pipelines under {len(candidates)} identities: {listed}; choose one with --identity")
    partition, programs = candidates[0]
    require_one(app, programs, "nothing was exported")
    if partition.identity is None:
        raise Failure(f"the identity file of {partition.path} is missing or damaged, so nobody could import the export")
    return partition, programs


@click.command("export")
@click.argument("file", shell_complete=files, help="The file to create. It must not exist yet.")
@click.option("--app", metavar="NAME", required=True, help=f"This program, {NAMES}.")
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
@json_option
def export_command(
    file: str, app: str, identity: str | None, sign: str | None, recordings: bool, as_json: bool
) -> None:
    """Write a program's pipelines into one file, for machines with the same device and driver.

    FILE is never overwritten. It holds the pipelines of one driver identity and what is known of their use. It holds
    nothing that the program itself read or wrote. With --recordings it holds what the program asked for when it created
    pipelines, for machines with any driver. A fleet takes signed exports (pylayer fleet publish).

    \b
    Example:
      pylayer export blender.pylayer --app blender
      pylayer export blender.recorded --app blender --recordings
      pylayer export all.pylayer --app '*' --sign builder.key
    """
    from ..fleet.signatures import append_signature

    if recordings and identity:
        raise WrongUse("nothing was exported: recordings are of no driver, so --identity selects nothing")
    store = require_store()
    if os.path.lexists(file):
        raise Failure(f"{file} already exists and was not changed; name a new file")
    private = None if sign is None else read_key(sign)
    final = os.path.abspath(file)
    path = f"{final}.{unique_name()}{TEMPORARY}"  # a file with its final name is always complete and signed
    try:
        with failing(f"{file} was not written"):
            count, lines = _export(store, app, identity, recordings, path)
            if not os.path.lexists(path):
                raise Failure(f"{file} was not written: {lines[0]}")
            signed = [] if private is None else [f"signed by {append_signature(path, private)}"]
            if not recordings:  # which have the program's shaders
                os.chmod(path, usual_mode())
            rename_to_new(path, final)
    finally:
        remove(path)
    what, *more = lines
    into = f"into {final}, {human_bytes(os.stat(file).st_size)}"
    _tell("Exported", final, count, [what, into, *signed, *more], as_json)


def _tell(done: str, file: str, count: int, lines: list[str], as_json: bool) -> None:
    """Prints what was done with a file and so many pipelines."""
    if as_json:
        print_json({"file": file, "pipelines": count, "text": lines})
    else:
        click.echo("\n  ".join([f"{done}: {lines[0]}", *lines[1:]]))


def _export(store: Store, app: str, identity: str | None, recordings: bool, path: str) -> tuple[int, list[str]]:
    """Exports what the store has of a program under one identity, or its recordings. Returns how many pipelines were
    exported, and what to say of them; or why none were. Raises Failure and OSError."""
    names = Names(store.root)
    if recordings:
        found, size = NO_IDENTITY, None
        programs = with_recordings(store, names, app)
        if not programs:
            raise Failure(f"nothing was exported: nothing is recorded of a program named {app}")
        require_one(app, programs, "nothing was exported")
    else:
        partition, programs = _one_partition(store, names, app, identity)
        assert partition.identity is not None
        found, size = partition.identity, partition.bytes
    export = store.export(found, programs, names.recorded(found.name)[0])
    work_through("exporting", size, export.steps(path))
    result = export.result
    blocked = f"{plural(result.blocked, 'record')} blocked after a crash (pylayer ls)"
    if not result.paths:
        return 0, [f"{app} has {f'only {blocked}' if result.blocked else 'no pipelines'}"]
    what = f"{plural(result.pipelines, 'pipeline')} of {', '.join(result.programs.values())}"
    lines = [f"the recordings of {what}"] if recordings else [what, f"for {names.target(found, found.name)}"]
    if result.blocked:
        lines.append(f"without {blocked}")
    if result.damage:
        lines.append(f"without {plural(len(result.damage), 'damaged part')} (pylayer ls --verify)")
    return result.pipelines, lines


@click.command("import")
@click.argument("file", shell_complete=files, help="A file that pylayer export wrote.")
@click.option(
    "--for",
    "app",
    metavar="NAME",
    help=f"Give the pipelines to this program, {NAMES}, instead of the one that compiled them.",
)
@json_option
def import_command(file: str, app: str | None, as_json: bool) -> None:
    """Import pipelines or recordings that pylayer export wrote on another machine.

    Before anything is stored, every record is verified, and each pipeline's header must name the device and driver that
    the file is for. Only programs on this device with this driver use them. A file with any error is refused as a
    whole. Hashes show damage. They do not show who made a file; a signature does. Import only files of somebody whose
    programs you would run. An invalid signature is always refused, and with import.require_signature in the policy file
    also a missing or unknown one.

    pylayer rebuild compiles recordings. It gives the file's shaders to the driver, in processes of their own.

    A program loads what it compiled itself. --for names one program of this store, which then also loads what another
    one compiled, such as fossilize-replay or another version of itself.

    \b
    Example:
      pylayer import blender.pylayer
      pylayer import replayed.pylayer --for game
    """
    from ..fleet.signatures import verified

    store = require_store()
    recipient = None if app is None else recipient_of(store, app, "nothing was imported")
    trusted, required = _trust()
    with (
        failing(f"{file} was refused and nothing was imported", Refused),
        failing(f"nothing was imported from {file}", named=True),
        verified(os.path.realpath(file), trusted, required) as (content, key),
    ):
        count, lines = _import(store, content, recipient)
    what, *more = lines
    given = [f"given to {recipient[1]}"] if recipient else []
    name = printable(trusted[key]) if key in trusted else f"a key that is not trusted, {key}"
    signed = [f"signed by {name}"] if key else []
    _tell("Imported", os.path.realpath(file), count, [what, *given, *signed, *more], as_json)


def _import(store: Store, content: str, recipient: tuple[int, str] | None) -> tuple[int, list[str]]:
    """Imports a file. Returns how many pipelines were new, and what to say of them. Raises Failure, Refused and
    OSError."""
    work = store.import_from(content, recipient)
    work_through("importing", os.stat(content).st_size, work.steps(store.root))
    result, names = work.result, Names(store.root)
    known = f", {plural(result.known, 'record')} already in the store" if result.known else ""
    what, of = plural(result.pipelines, "pipeline"), f"of {printable(', '.join(result.programs.values()))}"
    if not work.identity.fields:
        return result.pipelines, [f"the recordings of {what} {of}{known}", "pylayer rebuild compiles them"]
    device, driver = names.device_and_driver(work.identity, work.identity.name)
    device = names.recorded(work.identity.name)[0] or printable(work.device) or device
    return result.pipelines, [f"{what}{known}", of, f"for {device}, {driver}; identity {work.identity.name}"]


def recipient_of(store: Store, app: str, undone: str) -> tuple[int, str]:
    """Returns number and name of the single program of this store that ``--for`` selects. Raises Failure if it selects
    none, and WrongUse if several; ``undone`` says what was not done."""
    names = Names(store.root)
    Selection().partitions(store, names)
    found = names.known(app)
    if not found:
        raise Failure(
            f"{undone}: this store knows no program named {app}. Start it once under pylayer, so that its "
            "name is known; pylayer ls and pylayer stats list programs"
        )
    require_one(app, found, undone, patterns=False)
    return next(iter(found.items()))


def _trust() -> tuple[dict[str, str], str]:
    """Returns the names of the keys that the policy file trusts, by key, and why a signature by one of them is required
    (empty text if it is not). Raises Failure if the policy file cannot be used, because it may require one."""
    document, problem = read_policy()
    if problem:
        raise Failure(f"nothing was imported, because the policy file may require signatures: {problem}")
    trusted = {entry["key"]: entry["name"] for entry in top_setting(document, "trusted_keys")}
    required = top_setting(document, "import")["require_signature"]
    files = " over ".join(file for file in reversed(config_files()) if file)
    return trusted, f"{files} requires a signature" if required else ""
