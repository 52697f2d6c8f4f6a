"""What others do with a store meanwhile, over and over until told to stop: `beside.py WHAT PLACE`.

It prints a line when it has begun, and ends when its standard input does. WHAT: trim (which compacts), rm, verify,
pull (from what ``publish`` published), program (the demo program, with other pipelines).
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleet.fleets import Machine
from world import BUILD

from pylayer.common.files import Scratch
from pylayer.fleet.publishing import publish as publish_exports
from pylayer.fleet.signatures import append_signature, public_of
from pylayer.fleet.storage import open_to_write
from pylayer.store.folder import identity_names, read_identity
from pylayer.store.store import Store

#: Of which others is told what they do.
COMMANDS = {"trim": ["trim"], "rm": ["rm", "--pipelines", "--all", "--yes"], "verify": ["ls", "--verify"]}
OTHERS = ("pull", "program", *COMMANDS)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEYS = {public_of(KEY): "builder"}


def publish(store: Path, www: Path) -> None:
    """Publishes what is in a store."""
    face = Store(str(store))
    (name,) = identity_names(str(store))
    identity = read_identity(str(store), name)
    assert identity is not None
    storage = open_to_write(f"file://{www}")
    programs = {int(path.name[:16], 16): "pipelines" for path in store.glob("store/*/*.closed")}
    with Scratch(str(store)) as work:
        export = f"{work}/all.pylayer"
        list(face.export(identity, programs, "A device").steps(export))
        append_signature(export, KEY)
        publish_exports(storage, work, KEY, (KEYS, KEYS), [export])


def pull(place: Path) -> None:
    """Pulls everything that is published."""
    for name in [path.name for path in (place.parent / "www" / "v1").iterdir()]:
        identity = read_identity(str(place / "store"), name)
        if identity is not None:
            Machine(place / "store", KEYS, identity).pull(f"file://{place.parent / 'www'}")


def action_of(what: str, place: Path) -> Callable[[], Any]:
    """What is to be done over and over."""
    if what == "pull":
        return lambda: pull(place)
    if what == "program":
        command = [str(BUILD / "demo" / "pipelines"), "--json", "--count", "8", "--seed", "7"]
        return lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    from pylayer.cli.main import main as command

    return lambda: command(COMMANDS[what])


def main() -> None:
    what, place = sys.argv[1], Path(sys.argv[2])
    action = action_of(what, place)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    out.write("begun\n")
    out.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            action()
        except OSError:
            pass  # the store is another's just now
    sys.exit(0)


if __name__ == "__main__":
    main()
