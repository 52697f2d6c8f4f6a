"""``pylayer fleet``: pipelines that other machines compiled, from a server or object storage (docs/containers.md)."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..report.origin import used_here
from ..report.recorded import is_named
from ..report.totals import sum_known
from .fleet_access import failing, identities_here, open_backend, require_fleet, url_option
from .fleet_publish import publish, push
from .names import Names
from .output import (
    EXIT_PROBLEM,
    Failure,
    WrongUse,
    console,
    fail,
    human_bytes,
    human_time,
    json_option,
    plural,
    print_facts,
    print_json,
    printable,
    progress,
    say,
)
from .selection import NAMES, require_store

if TYPE_CHECKING:
    from ..fleet.index import Index
    from ..fleet.memory import Memory
    from ..fleet.pulling import Pull, Pulled, Wanted
    from ..store.store import Store
    from .fleet_access import Fleet


@click.group
def fleet() -> None:
    """Share compiled pipelines between machines with the same device and driver.

    Machines pull from any web server. Builders push to object storage or a directory, and one builder publishes. The
    policy file has the server and the keys (docs/containers.md). Object storage needs vk-pylayer[fleet].

    \b
    Example:
      pylayer fleet pull
      pylayer fleet status
    """


fleet.add_command(push)
fleet.add_command(publish)


# ---- pull ----------------------------------------------------------------------------------------------


def _wanted(program: str | None) -> Wanted:
    return lambda number, name: program is None or is_named(program, printable(name), int(number, 16))


def _pulls(found: Fleet, store: Store, identities: list[str], program: str | None) -> list[Pull]:
    from ..fleet.downloading import Budget
    from ..fleet.pulling import Pull

    if not found.keys:
        raise Failure("nothing was pulled: fleet.keys of the policy file lists no key, and nothing else is believed")
    backend = open_backend(found)
    budget = Budget(found.pull_seconds, found.pull_mib << 20)
    wanted = _wanted(program)
    return [Pull(backend, store, name, found.keys, budget, wanted) for name in identities]


def _pull_all(found: Fleet, store: Store, pulls: list[Pull], quiet: bool) -> list[Pulled]:
    """Pulls, and returns what was done. A problem with one identity does not keep the others from being pulled. If
    another process pulls, waits for it; what it pulled is not missing then."""
    from ..fleet.memory import turn
    from ..store.room import Room

    room, keep = Room(store.root, found.limits), {pull.result.identity for pull in pulls}
    with failing("nothing more was pulled"), turn(store.root, found.url, found.pull_seconds) as is_ours:
        if not is_ours:
            raise Failure(f"another process pulls from {found.url}, and did not end within fleet.pull_seconds")
        for _ in room.trim():
            pass
        size = sum(pull.plan() for pull in pulls)
        for _ in room.make(size, keep):
            pass
        with progress("pulling", size, quiet) as advance:
            for pull in pulls:
                for amount in pull.steps(room):
                    advance(amount)
    if room.evicted and not quiet:
        limit = human_bytes(found.limits.max_store)
        say(f"Evicted: {plural(room.evicted, 'record')}, because the store may have {limit} (max_store_mib)")
    return [pull.result for pull in pulls]


def _print_pulled(results: list[Pulled], devices: dict[str, str]) -> None:
    for result in results:
        target = f"for {printable(devices[result.identity])}, identity {result.identity}"
        if result.packs:
            amount = f"{plural(result.records, 'record')} in {plural(result.packs, 'pack')}"
            say(f"Pulled: {amount}, {human_bytes(result.bytes)}, {target}")
        elif not result.problem:
            say(f"{'Nothing is missing' if result.published else 'Nothing is published'} {target}")
        if result.problem:
            left = f"{plural(result.left, 'pack')} not pulled: " if result.left else ""
            fail(f"{left}{result.problem} ({target})")


@fleet.command(short_help="Pull what is published for this machine.")
@click.option(
    "--program",
    metavar="NAME",
    help=f"Only pipelines of this program, {NAMES}.",
)
@click.option(
    "--identity",
    metavar="IDENTITY",
    help="Pull for this driver identity, all 32 digits, although its device may not be here.",
)
@url_option
@json_option
def pull(program: str | None, identity: str | None, url: str | None, as_json: bool) -> None:
    """Pull what is published for the devices of this machine and not in its store yet.

    Everything is verified before it is in the store, which keeps within its limits. Pipelines that were pulled before
    and are not there any more are pulled again. A pull that was interrupted continues where it stopped. If it fails,
    programs start as before and compile what is missing.

    \b
    Example:
      pylayer fleet pull
      pylayer fleet pull --program blender
    """
    from ..fleet.index import is_hex

    if identity is not None and not is_hex(identity, 32):
        raise WrongUse(f"--identity {identity} is no identity, which has 32 digits from 0 to f; pylayer ls shows them")
    store, found = require_store(), require_fleet(url)
    devices = identities_here() if identity is None else {identity: "the given device"}
    results = _pull_all(found, store, _pulls(found, store, list(devices), program), as_json)
    if as_json:
        print_json({"store": store.root, "url": found.url, "identities": [asdict(result) for result in results]})
    else:
        _print_pulled(results, devices)
    if any(result.problem for result in results):
        raise click.exceptions.Exit(EXIT_PROBLEM)


# ---- status --------------------------------------------------------------------------------------------


def _index_of(found: Fleet, memory: Memory) -> tuple[Index | None, str]:
    """Returns the index that a machine has, and why it would not be believed now (empty text if it would)."""
    from ..fleet.trust import Trust, Untrusted

    if memory.index is None:
        return None, ""
    trust = Trust(found.keys, memory.identity)
    try:
        index = trust.index(memory.index, 0)
    except Untrusted as error:
        return None, str(error)
    try:
        trust.index(memory.index, time.time())
    except Untrusted as error:
        return index, str(error)
    return index, ""


def _status(found: Fleet, store: Store, memory: Memory, now: float) -> dict[str, Any]:
    shelves = store.shelves(lambda name: name == memory.identity, Names(store.root).learn)
    holdings = [holding for shelf in shelves for holding in shelf.holdings.values()]
    index, refused = _index_of(found, memory)
    return {
        "identity": memory.identity,
        "device": printable(index.device) if index else "",
        "number": index.number if index else None,
        "issued_s": index.issued if index else None,
        "expires_s": index.expires if index else None,
        "programs": len(index.programs) if index else 0,
        "packs": len(index.packs) if index else 0,
        "pulled_s": memory.pulled_at,
        "problem": memory.problem or refused,
        "pipelines": sum(holding.pipelines for holding in holdings),
        "pulled_pipelines": sum(len(holding.pulled) for holding in holdings),
        "pulled_pipelines_used": sum_known([holding.pulled_used for holding in holdings]),
    }


def _print_status(values: dict[str, Any], now: float) -> None:
    def ago(when: float) -> str:
        return f"{human_time((now - when) * 1e9)} ago"

    out = console()
    out.print(f"{values['device'] or 'unknown device'}, identity {values['identity']}", style="bold", soft_wrap=True)
    facts = [("last pull", ago(values["pulled_s"]) if values["pulled_s"] else "never")]
    if values["number"] is not None:
        left = values["expires_s"] - now
        ends = f"expires in {human_time(left * 1e9)}" if left > 0 else f"expired {ago(values['expires_s'])}"
        facts.append(("index", f"number {values['number']}, published {ago(values['issued_s'])}, {ends}"))
        facts.append(("published", f"{plural(values['packs'], 'pack')} of {plural(values['programs'], 'program')}"))
    pulled = values["pulled_pipelines"]
    here = used_here(values["pulled_pipelines_used"])
    facts.append(("pulled", f"{pulled} of the {plural(values['pipelines'], 'stored pipeline')}, {here}"))
    if values["problem"]:
        facts.append(("refused", values["problem"]))
    print_facts(out, facts)


@fleet.command(short_help="Show what is published and what came from it.")
@url_option
@json_option
def status(url: str | None, as_json: bool) -> None:
    """Show what the last pull found, how old it is, how much of it programs on this machine used, and what was refused.

    Asks no server. used here counts pipelines that a run created since they were pulled; programs record that once a
    day, and not with store: read-only in the policy file.

    \b
    Example:
      pylayer fleet status
    """
    from ..fleet.memory import folder_of, remembered

    store, found, now = require_store(), require_fleet(url), time.time()
    values = [_status(found, store, memory, now) for memory in remembered(store.root, found.url)]
    if as_json:
        print_json({"store": store.root, "url": found.url, "identities": values})
        return
    if not values:
        there = os.path.isdir(folder_of(store.root, found.url))
        click.echo(f"Nothing was pulled from {found.url} yet{'' if there else '; start with: pylayer fleet pull'}")
    for identity in values:
        _print_status(identity, now)
