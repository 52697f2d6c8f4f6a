"""Recordings in ``pylayer export`` and ``pylayer import``: what a program asked for when it created pipelines, for any
driver."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from ..store import state as states
from .key import say_signature, sign_export, unsigned
from .output import Failure, human_bytes, plural, print_json, printable, progress, say
from .selection import Names, require_one, with_recordings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..fleet.signatures import Signature
    from ..store.store import Store


def _one_program(store: Store, app: str, file: str) -> tuple[int, str]:
    names = Names(store.root)
    found = {number: names.of(number) for number in with_recordings(store, names, app)}
    if not found:
        raise Failure(f"{file} was not written: nothing is recorded of a program named {app}")
    require_one(app, found, "nothing was exported", patterns=False)
    return next(iter(found.items()))


def _json(file: str, number: int, name: str, pipelines: int) -> dict[str, Any]:
    programs = [{"program": printable(name), "program_id": f"{number:016x}"}]
    return {"file": file, "recordings": True, "programs": programs, "pipelines": pipelines}


def export_recordings(store: Store, file: str, app: str, private: Ed25519PrivateKey | None, as_json: bool) -> None:
    """Writes the recordings of a program into a file. Raises Failure and WrongUse."""
    number, name = _one_program(store, app, file)
    path = unsigned(file, private)
    recorded = states.State(store.root, number)
    try:
        with progress("exporting", None, as_json):
            for _ in itertools.chain(recorded.reading(), states.export(recorded, path)):
                pass
        if not os.path.lexists(path):
            raise Failure(f"{file} was not written: no recording of {name} is complete (pylayer ls --verify)")
        public = sign_export(path, file, private)
    except OSError as error:
        raise Failure(f"{file} was not written: {error.strerror or error}") from error
    count, path = len(recorded.created) - recorded.gaps, os.path.abspath(file)
    if as_json:
        values = _json(path, number, name, count)
        print_json({**values, "missing_pipelines": recorded.gaps, "signed_by": public})
        return
    say(f"Exported: the recordings of {plural(count, 'pipeline')} of {name}, with its shaders")
    say(f"  into {path}, {human_bytes(os.stat(file).st_size)}")
    if public:
        say(f"  signed by {public}")
    if recorded.gaps:
        say(f"  without {plural(recorded.gaps, 'pipeline')} that lacks something or is damaged (pylayer ls --verify)")


def import_recordings(
    store: Store,
    found: states.State,
    file: str,
    recipient: tuple[int, str] | None,
    signature: Signature | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Adds the recordings in a file to the store. Raises Refused and OSError."""
    with progress("importing", None, as_json):
        steps = states.verified(found) if dry_run else states.take_over(found, store.root, recipient)
        for _ in steps:
            pass
    count = len(found.created)
    if as_json:
        given = None if recipient is None else {"program": recipient[1], "program_id": f"{recipient[0]:016x}"}
        about = {"dry_run": dry_run, "given_to": given, "signature": signature and signature.as_json()}
        print_json({**_json(os.path.realpath(file), found.program, found.application, count), **about})
        return
    verb = "Would import" if dry_run else "Imported"
    say(f"{verb}: the recordings of {plural(count, 'pipeline')} of {printable(found.application)}")
    say_signature(signature)
    say("  pylayer rebuild compiles them")
