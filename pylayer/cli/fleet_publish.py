"""``pylayer fleet push`` and ``pylayer fleet publish``: what builders do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .fleet_access import failing, open_backend, require_fleet, url_option
from .key import read_key
from .output import (
    EXIT_PROBLEM,
    Failure,
    WrongUse,
    fail,
    files,
    human_bytes,
    json_option,
    picked,
    plural,
    print_json,
    progress,
    say,
)
from .selection import Names, Selection, app_option, identity_option, require_store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..fleet.backend import Backend
    from ..fleet.publishing import Published, Terms
    from ..store.store import Moved, Shelf, Store

key_option = click.option(
    "--key", metavar="KEYFILE", required=True, shell_complete=files, help="The private key to sign with."
)


def _pushed_json(shelf: Shelf, moved: Moved) -> dict[str, Any]:
    return {
        "identity": shelf.name,
        **picked(moved, "pipelines", "records", "data_bytes"),
        "suspects_left_out": moved.suspects,
        "missing_pipelines": moved.missing,
    }


@click.command(short_help="Push what this machine compiled.")
@key_option
@app_option
@identity_option
@click.option("--again", is_flag=True, help="Also what was pushed before, such as after publish --discard.")
@url_option
@json_option
def push(key: str, app: str | None, identity: str | None, again: bool, url: str | None, as_json: bool) -> None:
    """Push the pipelines that this machine compiled and did not push yet, for pylayer fleet publish to verify.

    What came from the fleet is not pushed, nor what a process died over.

    \b
    Example:
      pylayer fleet push --key builder.key
    """
    from ..fleet.pushing import Push

    private, store, found = read_key(key), require_store(), require_fleet(url)
    backend = open_backend(found, writes=True)
    selection = Selection(app, identity)
    names, pushed = Names(store.root), []
    shelves, size = selection.shelves(store, names), store.tree_bytes("store")[0]
    with failing("nothing more was pushed"), progress("pushing", size, as_json) as advance:
        for shelf in shelves:
            wanted = {number: names.of(number) for number in shelf.programs if selection.takes(number, names)}
            if shelf.identity is None or not wanted:
                continue
            work = Push(backend, store, shelf.identity, wanted, names.recorded(shelf.name)[0], again, found.keys)
            for amount in work.steps(private):
                advance(amount)
            pushed.append(_pushed_json(shelf, work.result))
            if not as_json:
                device, driver = names.device_and_driver(shelf.identity, shelf.name)
                amount_text = f"{plural(work.result.pipelines, 'pipeline')}, {human_bytes(work.result.data_bytes)},"
                say(f"{f'Pushed: {amount_text}' if work.result.paths else 'Nothing new'} for {device}, {driver}")
                if work.result.missing:
                    count = plural(work.result.missing, "known pipeline")
                    say(f"  without {count} not stored yet; another run may store them")
    if as_json:
        print_json({"store": store.root, "url": found.url, "identities": pushed})
    elif not pushed:
        say(f"Nothing to push: {store.root} stores nothing for {selection}")


def _print_published(result: Published) -> None:
    from ..fleet.index import FULL

    target = f"for identity {result.identity}"
    if result.records:
        folded = f", {plural(result.folded, 'pack')} folded" if result.folded else ""
        known = f", {plural(result.known, 'record')} already there" if result.known else ""
        amount = f"{plural(result.records, 'record')} in {plural(result.packs, 'pack')}"
        say(f"Published: {amount}{known}{folded}, index {result.number}, {target}")
    elif not result.problem:
        say(f"{f'Signed anew: index {result.number}' if result.is_new else 'Nothing new'} {target}")
    if result.suspects:
        say(f"  without {plural(result.suspects, 'record')} set aside after a crash (pylayer ls)")
    if result.repaired:
        say(f"  uploaded {plural(result.repaired, 'pack')} again")
    if result.lost:
        fail(
            f"{plural(result.lost, 'pack')} {target} left the index: the storage lost them, and there is no copy here; "
            "builders push them again with: pylayer fleet push --again"
        )
    if result.fullness >= FULL:
        fail(
            f"the index {target} takes {result.fullness:.0%} of what machines read; before it is full, give some "
            "programs a fleet with another URL, or begin anew with --discard"
        )
    if result.problem:
        fail(result.problem)
    for text in result.refused:
        fail(f"refused: {text}")


def _publish_all(backend: Backend, store: Store, key: Ed25519PrivateKey, terms: Terms, quiet: bool) -> list[Published]:
    """Publishes for each identity. A problem with one does not keep the others from being published."""
    from ..fleet.publishing import Publication, identities
    from ..fleet.trust import Untrusted

    results = []
    with progress("publishing", None, quiet) as advance:
        for identity in identities(backend):
            work = Publication(backend, store, identity, key, terms)
            try:
                for amount in work.steps():
                    advance(amount)
            except Untrusted as error:
                work.result.problem = str(error)
            results.append(work.result)
    return results


@click.command(short_help="Publish what builders pushed.")
@key_option
@click.option(
    "--valid-days",
    type=click.IntRange(1, 3650),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Machines believe the index for so long. Publish more often than that.",
)
@click.option(
    "--keep-days",
    type=click.IntRange(1, 3650),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Keep unused packs this long, for machines that have an old index, and pushed packs that were refused.",
)
@click.option("--discard", is_flag=True, help="Publish only what is pushed now, and nothing that was published before.")
@click.option("--again", is_flag=True, help="Upload all published packs again, such as after the storage damaged one.")
@click.option(
    "--retire", metavar="IDENTITY", help="First delete all that is published and pushed for this driver identity."
)
@url_option
@json_option
def publish(
    key: str,
    valid_days: int,
    keep_days: int,
    discard: bool,
    again: bool,
    retire: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Verify what builders pushed, and publish it in an index that this key signs.

    Accepts packs that are signed by this key, or by one of trusted_keys in the policy file. Run it on one trusted
    machine, such as from a timer. Two at once lose nothing.

    \b
    Example:
      pylayer fleet publish --key builder.key
    """
    from ..fleet.index import is_hex
    from ..fleet.memory import turn
    from ..fleet.publishing import Terms
    from ..fleet.publishing import retire as retired
    from ..fleet.signatures import public_of

    if retire is not None and not is_hex(retire, 32):
        raise WrongUse(
            f"--retire {retire} is no identity, which has 32 digits from 0 to f; each publication names them"
        )
    private, store, found = read_key(key), require_store(), require_fleet(url)
    backend = open_backend(found, writes=True)
    own = {public_of(private): key}
    terms = Terms({**found.keys, **own}, {**found.push_keys, **own}, valid_days, keep_days, discard, again)
    with failing("nothing more was published"), turn(store.root, found.url, found.pull_seconds) as is_ours:
        if not is_ours:
            raise Failure(f"another process publishes to {found.url}, and did not end within fleet.pull_seconds")
        if retire is not None:
            count = retired(backend, store, retire)
            if not as_json:
                say(f"Deleted: {plural(count, 'object')} for identity {retire}")
        results = _publish_all(backend, store, private, terms, as_json)
    if as_json:
        print_json({"url": found.url, "identities": [asdict(result) for result in results]})
    else:
        for result in results:
            _print_published(result)
        if not results:
            say(f"Nothing was pushed to {found.url} yet")
    if any(result.refused or result.problem or result.lost for result in results):
        raise click.exceptions.Exit(EXIT_PROBLEM)
