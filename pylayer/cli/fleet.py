"""``pylayer fleet``: pipelines that other machines compiled, from a server or object storage (docs/fleets.md)."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..common.identity import Identity
from ..common.settings import Limits, top_setting
from ..report.words import human_bytes, plural, printable
from ..store.store import Store
from .devices import present_facts
from .output import EXIT_PROBLEM, Failure, WrongUse, end_if, fail, failing, files, progress
from .policy_in_force import read_policy
from .selection import require_store
from .transfer import read_key
from .warm import warm_after

if TYPE_CHECKING:
    from ..fleet.publishing import Published
    from ..fleet.pulling import Pull, Pulled

#: The longest time that a pull takes. The next one continues.
PULL_SECONDS = 600


# ---- the policy file's fleet -------------------------------------------------------------------------------


class Fleet:
    """The fleet of the policy file in force. Raises Failure if there is none, or if the policy file cannot be used: it
    says which keys are trusted."""

    def __init__(self) -> None:
        from ..fleet.storage import Unavailable, require_url

        document, problem = read_policy()
        if problem:
            raise Failure(f"nothing was done, because the policy file says which keys are trusted: {problem}")
        settings = top_setting(document, "fleet")
        self.url: str = settings["url"]
        if not self.url:
            raise Failure("the policy file names no fleet; set fleet.url in it")
        with failing("the fleet's URL cannot be used", Unavailable):
            require_url(self.url)
        #: Names of the keys that may sign indexes, and of those that may sign exports, by key.
        self.keys, self.export_keys = (
            {entry["key"]: entry["name"] for entry in listed}
            for listed in (settings["keys"], top_setting(document, "trusted_keys"))
        )
        self.limits = Limits.of(document)
        #: Whether drivers' caches get what is stored after a pull.
        self.warms = top_setting(document, "warm") == "after-pull"


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
    from ..fleet.pulling import turn
    from ..fleet.storage import Unavailable
    from ..fleet.trust import Untrusted

    signal.signal(signal.SIGALRM, _late)
    signal.alarm(PULL_SECONDS)
    with failing("nothing more was pulled", Unavailable, Untrusted, named=True), turn(store.root, found.url):
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
    from ..fleet.storage import Unavailable, open_to_read

    if identity is not None and not is_hex(identity, 32):
        raise WrongUse(f"--identity {identity} is no identity, which has 32 digits from 0 to f; pylayer ls shows them")
    store, found = require_store(), Fleet()
    devices = _identities_here() if identity is None else {identity: "the given device"}
    if not found.keys:
        raise Failure("nothing was pulled: fleet.keys of the policy file lists no key, and nothing else is believed")
    with failing("nothing was pulled", Unavailable):
        storage = open_to_read(found.url)
    results = _pull_all(found, store, [Pull(storage, store, name, found.keys) for name in devices])
    _print_pulled(results, devices, found.url)
    is_cold = found.warms and not warm_after(store)
    end_if(is_cold or any(result.problem for result in results))


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


def _end_by(number: int, frame: Any) -> NoReturn:
    raise click.exceptions.Exit(128 + number)


@contextlib.contextmanager
def ending_by_exception() -> Iterator[None]:
    """Until the end of ``with``, SIGTERM and SIGHUP end this command by an exception, so that it cleans up. The first
    process of a container gets only signals that it has a handler for."""
    ending = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _end_by) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    from ..fleet.storage import Unavailable, open_to_write
    from ..fleet.trust import Untrusted

    private, store, found = read_key(key), require_store(), Fleet()
    own = {public_of(private): key}
    keys = {**found.keys, **own}, {**found.export_keys, **own}
    with failing("nothing more was published", Unavailable, Untrusted, named=True), ending_by_exception():
        storage = open_to_write(found.url)
        with only_publisher(storage), Scratch(store.root) as root, progress("publishing", None) as advance:
            results, refused = publish(storage, root, private, keys, exports, advance)
    for text in refused:
        fail(text)
    for result in results:
        _print_published(result)
    if not results:
        click.echo(f"Nothing was published to {found.url} yet, and no export given")
    end_if(refused or any(result.problem or result.lost for result in results))
