"""``pylayer fleet``: pipelines that other machines compiled, from a server or object storage (docs/fleets.md)."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..common.identity import Identity
from ..common.settings import Limits, top_setting
from .devices import present_facts
from .key import read_key
from .output import EXIT_PROBLEM, Failure, WrongUse, fail, files, human_bytes, plural, printable, progress, reason
from .policy_in_force import read_policy
from .process import ending_by_exception
from .selection import require_store
from .warm import warm_after

if TYPE_CHECKING:
    from ..fleet.publishing import Published
    from ..fleet.pulling import Pull, Pulled
    from ..store.store import Store

#: The longest time that a pull takes. The next one continues.
PULL_SECONDS = 600


# ---- the policy file's fleet -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fleet:
    """The fleet of a policy file. ``keys`` may sign indexes, ``export_keys`` exports: names by key."""

    url: str
    keys: dict[str, str]
    export_keys: dict[str, str]
    limits: Limits
    #: Whether drivers' caches get what is stored after a pull.
    warms: bool


def _require_fleet() -> Fleet:
    """Returns the fleet of the policy file in force. Raises Failure if there is none, or if the policy file cannot be
    used: it says which keys are trusted."""
    from ..fleet.storage import Unavailable, require_url

    document, problem = read_policy()
    if problem:
        raise Failure(f"nothing was done, because the policy file says which keys are trusted: {problem}")
    settings = top_setting(document, "fleet")
    url = settings["url"]
    if not url:
        raise Failure("the policy file names no fleet; set fleet.url in it")
    try:
        require_url(url)
    except Unavailable as error:
        raise Failure(f"the fleet's URL cannot be used: {error}") from error
    keys, export_keys = (
        {entry["key"]: entry["name"] for entry in listed}
        for listed in (settings["keys"], top_setting(document, "trusted_keys"))
    )
    return Fleet(url, keys, export_keys, Limits.of(document), top_setting(document, "warm") == "after-pull")


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    """Turns what a fleet's storage, its files or this machine's disk do wrong into a Failure that begins with
    ``what``."""
    from ..fleet.storage import Unavailable
    from ..fleet.trust import Untrusted

    try:
        yield
    except (Unavailable, Untrusted) as error:
        raise Failure(f"{what}: {error}") from error
    except OSError as error:
        raise Failure(f"{what}: {reason(error)}") from error


def _identities_here() -> dict[str, str]:
    """Returns the identities of this machine's devices, each with a name for people. Raises Failure if the drivers do
    not list their devices."""
    present, problem = present_facts()
    if problem:
        raise Failure(f"nothing was pulled: {problem}, so it is not known which pipelines fit; see --identity")
    return {Identity.of(facts).name: facts.device_name for facts in present}


@click.group
def fleet() -> None:
    """Share compiled pipelines between machines with the same device and driver.

    Machines pull from any web server. One machine publishes what builders export (pylayer export), in object storage or
    a directory. The policy file has the server and the keys (docs/fleets.md). Everything but a web server needs
    vk-pylayer[fleet].

    \b
    Example:
      pylayer fleet pull
    """


# ---- pull --------------------------------------------------------------------------------------------------


def _late(number: int, frame: Any) -> NoReturn:
    """Ends a pull that has lasted for too long, whatever a server does. It may end at any moment."""
    fail(f"the pull took longer than {PULL_SECONDS} s; the next one continues")
    raise click.exceptions.Exit(EXIT_PROBLEM)


def _pull_all(found: Fleet, store: Store, pulls: list[Pull]) -> list[Pulled]:
    """Pulls, and returns what was done. A problem with one identity does not keep the others from being pulled. If
    another process pulls, waits for it; what it pulled is not missing then."""
    from ..fleet.folder import turn

    signal.signal(signal.SIGALRM, _late)
    signal.alarm(PULL_SECONDS)
    with _failing("nothing more was pulled"), turn(store.root, found.url):
        size = sum(pull.plan() for pull in pulls)
        with progress("pulling", size) as advance:
            for pull in pulls:
                for amount in pull.steps(found.limits.max_store):
                    advance(amount)
    signal.alarm(0)
    return [pull.result for pull in pulls]


def _print_pulled(results: list[Pulled], devices: dict[str, str], url: str) -> None:
    for result in results:
        target = f"for {printable(devices[result.identity])}, identity {result.identity}"
        if result.packs:
            amount = f"{plural(result.records, 'record')} in {plural(result.packs, 'pack')}"
            click.echo(f"Pulled: {amount}, {human_bytes(result.bytes)}, {target}")
        elif not result.problem:
            click.echo(f"{'Nothing is missing' if result.published else f'{url} has nothing'} {target}")
        if result.problem:
            left = f"{plural(result.left, 'pack')} not pulled: " if result.left else ""
            fail(f"{left}{result.problem} ({target})")


@fleet.command(short_help="Pull what is published for this machine.")
@click.option(
    "--identity",
    metavar="IDENTITY",
    help="Pull for this driver identity, all 32 digits, although its device may not be here.",
)
def pull(identity: str | None) -> None:
    """Pull what is published for the devices of this machine and not in its store yet.

    Everything is verified before it is in the store, which keeps within its limits. Packs that were pulled before and
    are not there any more are pulled again. If it fails, programs start as before and compile what is missing. With
    warm: after-pull in the policy file, it then does what pylayer warm does.

    \b
    Example:
      pylayer fleet pull
    """
    from ..fleet.index import is_hex
    from ..fleet.pulling import Pull
    from ..fleet.storage import open_to_read

    if identity is not None and not is_hex(identity, 32):
        raise WrongUse(f"--identity {identity} is no identity, which has 32 digits from 0 to f; pylayer ls shows them")
    store, found = require_store(), _require_fleet()
    devices = _identities_here() if identity is None else {identity: "the given device"}
    if not found.keys:
        raise Failure("nothing was pulled: fleet.keys of the policy file lists no key, and nothing else is believed")
    with _failing("nothing was pulled"):
        storage = open_to_read(found.url)
    results = _pull_all(found, store, [Pull(storage, store, name, found.keys) for name in devices])
    _print_pulled(results, devices, found.url)
    is_cold = found.warms and not warm_after(store)
    if is_cold or any(result.problem for result in results):
        raise click.exceptions.Exit(EXIT_PROBLEM)


# ---- publish -----------------------------------------------------------------------------------------------


def _print_published(result: Published) -> None:
    target = f"for identity {result.identity}"
    if not result.problem:
        amount = f"{plural(result.records, 'new record')} in {plural(result.packs, 'pack')}"
        click.echo(f"Published: {amount}, index {result.number}, {target}")
    if result.lost:
        fail(f"the storage lost {plural(result.lost, 'pack')} {target}; publish the exports again")
    if result.problem:
        fail(result.problem)


@fleet.command("publish", short_help="Publish what builders exported.")
@click.argument("exports", metavar="[FILE]...", nargs=-1, shell_complete=files, help="Signed exports (pylayer export).")
@click.option("--key", metavar="KEYFILE", required=True, shell_complete=files, help="The private key to sign with.")
def publish_command(exports: tuple[str, ...], key: str) -> None:
    """Verify signed exports, upload to the fleet what is new, and sign its index for 30 days.

    Accepts exports that are signed by this key, or by one of trusted_keys in the policy file. Run it on one trusted
    machine, at least every two weeks, such as from a timer; without FILE it signs the index anew. If somebody else
    publishes just now, it does nothing and says so.

    \b
    Example:
      pylayer fleet publish builder-1.pylayer builder-2.pylayer --key builder.key
    """
    from ..common.files import Scratch
    from ..fleet.publishing import only_publisher, publish
    from ..fleet.signatures import public_of
    from ..fleet.storage import open_to_write

    private, store, found = read_key(key), require_store(), _require_fleet()
    own = {public_of(private): key}
    keys = {**found.keys, **own}, {**found.export_keys, **own}
    with _failing("nothing more was published"), ending_by_exception():
        storage = open_to_write(found.url)
        with only_publisher(storage), Scratch(store.root) as root, progress("publishing", None) as advance:
            results, refused = publish(storage, root, private, keys, exports, advance)
    for text in refused:
        fail(text)
    for result in results:
        _print_published(result)
    if not results:
        click.echo(f"Nothing was published to {found.url} yet, and no export given")
    if refused or any(result.problem or result.lost for result in results):
        raise click.exceptions.Exit(EXIT_PROBLEM)
