"""``pylayer state``: moves what programs asked for to a machine that compiles it for its own driver."""

from __future__ import annotations

import itertools
import os

import click

from ..store import state as states
from ..store.store import Store
from .key import read_key
from .output import Failure, files, human_bytes, json_option, plural, print_json, printable, progress, say
from .selection import NAMES, Names, require_one, require_store, with_recordings
from .transfer import importing, recipient_of, require_signature_option, say_signature, sign_export, unsigned


def _one_program(store: Store, app: str, file: str) -> tuple[int, str]:
    names = Names(store.root)
    found = {number: names.of(number) for number in with_recordings(store, names, app)}
    if not found:
        raise Failure(f"{file} was not written: no state is recorded of a program named {app}")
    require_one(app, found, "nothing was exported", patterns=False)
    return next(iter(found.items()))


@click.group
def state() -> None:
    """Move a program's recorded state to a machine that compiles it for its own driver.

    State is what a program asked for when it created pipelines, with its shaders. pylayer rebuild compiles it.

    \b
    Example:
      pylayer state export game.recorded --app game
      pylayer state import game.recorded && pylayer rebuild game
    """


@state.command("export", short_help="Write a program's state into one file.")
@click.argument("file", shell_complete=files, help="The file to create. It must not exist yet.")
@click.option("--app", metavar="NAME", required=True, help=f"This program, {NAMES}.")
@click.option(
    "--sign", "key", metavar="KEYFILE", shell_complete=files, help="Sign it with this private key (pylayer key new)."
)
@json_option
def export_command(file: str, app: str, key: str | None, as_json: bool) -> None:
    """Write what a program asked for when it created pipelines into one file, for machines with any driver.

    FILE is never overwritten. It has the program's shaders, and nothing of a driver.

    \b
    Example:
      pylayer state export game.recorded --app game
    """
    store = require_store()
    if os.path.lexists(file):
        raise Failure(f"{file} already exists and was not changed; name a new file")
    private = None if key is None else read_key(key)
    number, name = _one_program(store, app, file)
    path = unsigned(file, private)
    recorded = states.State(store.root, number)
    try:
        with progress("exporting", None, as_json):
            for _ in itertools.chain(recorded.reading(), states.export(recorded, path)):
                pass
        if not os.path.lexists(path):
            raise Failure(
                f"{file} was not written: nothing of what is recorded of {name} is complete (pylayer ls --verify)"
            )
        public = sign_export(path, file, private)
    except OSError as error:
        raise Failure(f"{file} was not written: {error.strerror or error}") from error
    count = len(recorded.created) - recorded.gaps
    if as_json:
        values = {"file": os.path.abspath(file), "program": name, "program_id": f"{number:016x}"}
        print_json({**values, "pipelines": count, "left_out": recorded.gaps, "signed_by": public})
        return
    say(f"Exported: the state of {plural(count, 'pipeline')} of {name}, with its shaders")
    say(f"  into {os.path.abspath(file)}, {human_bytes(os.stat(file).st_size)}")
    if public:
        say(f"  signed by {public}")
    if recorded.gaps:
        say(f"  without {plural(recorded.gaps, 'pipeline')} that lacks something or is damaged (pylayer ls --verify)")


@state.command("import", short_help="Add the state in a file to the store.")
@click.argument("file", shell_complete=files, help="A file that pylayer state export wrote.")
@click.option(
    "--for",
    "app",
    metavar="NAME",
    help=f"Give the state to this program, {NAMES}, instead of the one that it was recorded of.",
)
@require_signature_option
@json_option
def import_command(file: str, app: str | None, require_signature: bool, as_json: bool) -> None:
    """Add the state in a file to the store, for pylayer rebuild.

    Every record is verified first, and a file with any error is refused as a whole. pylayer rebuild then gives the
    file's shaders to the driver, in processes of their own. Import only files of somebody whose programs you would run.

    \b
    Example:
      pylayer state import game.recorded && pylayer rebuild game
    """
    store = require_store()
    recipient = None if app is None else recipient_of(store, app, "nothing was imported")
    with importing(file, require_signature) as (content, signature), progress("importing", None, as_json):
        found = states.foreign(content)
        for _ in states.take_over(found, store.root, recipient):
            pass
    if as_json:
        signed = None if signature is None else signature.as_json()
        values = {
            "file": os.path.realpath(file),
            "program": printable(found.application),
            "program_id": f"{found.program:016x}",
        }
        print_json({**values, "pipelines": len(found.created), "signature": signed})
        return
    say(f"Imported: the state of {plural(len(found.created), 'pipeline')} of {printable(found.application)}")
    say_signature(signature)
    say("  pylayer rebuild compiles them")
