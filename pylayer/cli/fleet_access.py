"""What the commands of ``pylayer fleet`` share: the policy file's fleet, its storage, the devices of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..common.identity import Identity
from ..common.settings import Limits, top_setting
from .devices import present_facts
from .output import Failure, reason
from .policy_in_force import read_policy

if TYPE_CHECKING:
    from ..fleet.backend import Backend

url_option = click.option(
    "--url", metavar="URL", help="The server or object storage, instead of fleet.url in the policy file."
)


@dataclass(frozen=True)
class Fleet:
    """The fleet of a policy file. Keys are names by key."""

    url: str
    #: Keys that may sign indexes, and keys that may sign pushed packs.
    keys: dict[str, str]
    push_keys: dict[str, str]
    pull_seconds: int
    pull_mib: int
    limits: Limits


def _names(keys: list[dict[str, str]]) -> dict[str, str]:
    return {entry["key"]: entry["name"] for entry in keys}


def fleet_of(document: dict[str, Any], url: str | None = None) -> Fleet | None:
    """Returns the fleet of a policy document; None if it has no URL and ``url`` gives none."""
    settings = top_setting(document, "fleet")
    url = url or settings["url"]
    if not url:
        return None
    keys, push_keys = _names(settings["keys"]), _names(top_setting(document, "trusted_keys"))
    return Fleet(url, keys, push_keys, settings["pull_seconds"], settings["pull_mib"], Limits.of(document))


def require_fleet(url: str | None) -> Fleet:
    """Returns the fleet of the policy file in force. Raises Failure if there is none, or if the policy file cannot be
    used: it says which keys are trusted."""
    from ..fleet.backend import Unavailable
    from ..fleet.urls import require_url

    document, problem = read_policy()
    if problem:
        raise Failure(f"nothing was done, because the policy file says which keys are trusted: {problem}")
    found = fleet_of(document, url)
    if found is None:
        raise Failure("the policy file names no fleet; set fleet.url in it, or use --url")
    try:
        require_url(found.url)
    except Unavailable as error:
        raise Failure(f"the fleet's URL cannot be used: {error}") from error
    return found


def open_backend(found: Fleet, writes: bool = False) -> Backend:
    """Returns the storage of a fleet. Raises Failure if it cannot be used."""
    from ..fleet import urls
    from ..fleet.backend import Unavailable

    try:
        return urls.open_backend(found.url, found.pull_seconds, writes)
    except Unavailable as error:
        raise Failure(f"the fleet's URL cannot be used: {error}") from error


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Turns what a fleet's storage, its files or this machine's disk do wrong into a Failure that begins with
    ``what``."""
    from ..fleet.backend import Unavailable
    from ..fleet.trust import Untrusted

    try:
        yield
    except (Unavailable, Untrusted) as error:
        raise Failure(f"{what}: {error}") from error
    except OSError as error:
        raise Failure(f"{what}: {reason(error)}") from error


def identities_here() -> dict[str, str]:
    """Returns the identities of this machine's devices, each with a name for people. Raises Failure if the drivers do
    not list their devices."""
    present, problem = present_facts()
    if problem:
        raise Failure(f"nothing was pulled: {problem}, so it is not known which pipelines fit; see --identity")
    return {Identity.of(facts).name: facts.device_name for facts in present}
