"""``pylayer warm``: gives what the store has to the driver's own disk cache, so that programs find it there without the
layer.

Mesa's drivers write what a VkPipelineCache is created with into their disk cache. Others, such as NVIDIA's, write only
what they created. So the data is loaded; if the driver then does not find the pipelines, they are created from it, too.
All that happens in processes of the replayer, which run under the program's name and without the layer.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from ..common.identity import Identity
from ..common.paths import system_store_root
from ..report.words import human_bytes, plural, printable
from ..store import state as states
from ..store.portable import Piece, pieces
from ..store.state import Created, State, Unusable
from ..store.store import Store
from ..values import DeviceFacts
from . import driver_caches
from .devices import device_row, listed, probe
from .driver_caches import Warmed, cache_files
from .environment import without_layer
from .output import Failure, WrongUse, end_if, json_option, picked, print_json, progress
from .replaying import CREATE, LOOK_UP, Ended, NoDevice, Replayer, replayer_for, require_replayer, room
from .selection import NAMES, Names, Selection, require_store, with_recordings

Advance = Callable[[int], None]
Roots = tuple[bytes, bytes]


#: How many pipelines are looked up before and after. They are spread over all, the ones waited for longest first.
SAMPLE = 64
#: Seconds after which a replayer that does not answer is given up.
SECONDS = 120.0
#: A driver writes what it got until its process ends, at least so many bytes a second.
BYTES_A_SECOND = 256 << 10
#: What a replayer may use.
MEMORY_BYTES = 4 << 30


@dataclass
class Warming:
    """Warms the disk cache of one driver for one program. ``environment``: that of the program."""

    state: State
    facts: DeviceFacts
    name: str
    environment: Mapping[str, str]
    #: The libraries of all drivers.
    drivers: list[str]
    #: Pipelines that are stored and recorded, the one that was waited for longest first.
    created: list[Created] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    #: Numbers of stored pipelines that have no recording, and of those that are stored as pipeline binaries.
    without_recording: int = 0
    binaries: int = 0
    given_bytes: int = 0
    looked_up: int = 0
    found_before: int = 0
    found: int = 0
    #: Whether files of the driver's cache changed meanwhile: then it is known where that is.
    is_seen: bool = False
    #: Whether something did not fit.
    is_cut: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether the driver finds all that were looked up."""
        return self.found == self.looked_up

    def read(self, roots: list[str]) -> None:
        """Finds what is stored and may be given to the driver: what programs waited for longest comes first."""
        identity = Identity.of(self.facts)
        known = {created.fingerprint: created for created in self.state.created.values()}
        others: set[int] = set()
        for root in roots:
            self.pieces += pieces(root, identity, self.state.program, others)
        stored = {fingerprint for piece in self.pieces for fingerprint in piece.fingerprints}

        def worth(fingerprints: Iterable[int]) -> tuple[int, int]:
            found = [known[it] for it in fingerprints if it in known]
            return max([(it.stall_ns, it.last_use) for it in found], default=(0, 0))

        self.pieces.sort(key=lambda piece: worth(piece.fingerprints), reverse=True)
        self.created = [it for it in self.state.created.values() if it.fingerprint in stored]
        self.created.sort(key=lambda created: (created.stall_ns, created.last_use), reverse=True)
        self.without_recording = len(stored - known.keys() - {0})
        self.binaries = len(others - stored - {0})

    def run(self, scratch: str, most_bytes: int, anyway: bool) -> None:
        """Gives the driver at most so many bytes, unless it finds the sample already and not ``anyway``. Raises
        OSError."""
        path = replayer_for(self.state, scratch)
        step = max(1, len(self.created) // SAMPLE)
        sample = self.created[::step][:SAMPLE]
        self.looked_up = len(sample)
        self.found_before = self.found = self._look_up(path, sample)
        self._limit(most_bytes)
        if not self.pieces or (self.created and self.is_done and not anyway):
            return
        key = (self.created[0].instance, self.created[0].device) if self.created else (bytes(16), b"")  # a plain device
        with progress("giving stored data", len(self.pieces)) as advance:
            self._replay(path, key, [], CREATE, advance)
        self.found = self._look_up(path, sample)
        if self.is_done:
            return
        given = {fingerprint for piece in self.pieces for fingerprint in piece.fingerprints}
        groups = _groups([it for it in self.created if it.fingerprint in given])
        total = len(groups) * len(self.pieces) + sum(map(len, groups.values()))
        with progress("creating pipelines", total) as advance:
            for key, group in groups.items():
                self._replay(path, key, group, CREATE, advance)
        self.found = self._look_up(path, sample)

    def _limit(self, most_bytes: int) -> None:
        """Leaves out what does not fit. Were it created without its data, the driver would compile it."""
        ends = itertools.accumulate(piece.size for piece in self.pieces)
        fits = sum(end <= most_bytes for end in ends)
        self.is_cut = fits < len(self.pieces)
        del self.pieces[fits:]

    def _begin(self, path: str, instance: bytes, device: bytes) -> Replayer | None:
        replayer = Replayer(path, self.facts, dict(self.environment), MEMORY_BYTES)
        try:
            replayer.begin(self.state, instance, device, SECONDS)
        except (NoDevice, Ended, Unusable) as error:
            self._note(f"a device of the program cannot be created: {error}")
            replayer.close(SECONDS)
            return None
        return replayer

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _look_up(self, path: str, sample: list[Created]) -> int:
        """Returns how many of these pipelines the driver finds by itself, in a new process."""
        return sum(self._replay(path, key, group, LOOK_UP) for key, group in _groups(sample).items())

    def _replay(
        self, path: str, key: Roots, group: list[Created], wish: int, advance: Advance = lambda amount: None
    ) -> int:
        """Gives the driver the stored data on one device, and creates pipelines from it; or looks these up. Returns how
        many there were without a failure. If a process dies, another one goes on without what it died over."""
        count, rest = 0, list(reversed(group))
        while (replayer := self._begin(path, *key)) is not None:
            try:
                if wish == CREATE and not self._load(replayer, advance):
                    continue
                while rest:
                    created = rest.pop()
                    count += not replayer.create(self.state, created, SECONDS, wish)
                    advance(1)
            except (Ended, Unusable) as error:
                self._note(f"a pipeline was left out: {error}")
            finally:
                replayer.close(SECONDS + self.given_bytes / BYTES_A_SECOND)
            if not rest:
                break
        return count

    def _load(self, replayer: Replayer, advance: Advance) -> bool:
        """Gives the driver the stored data, what was waited for longest first. Returns False if the process died."""
        self.given_bytes = 0
        for piece in list(self.pieces):
            advance(1)
            try:
                if data := piece.read():
                    replayer.load(data, SECONDS)
                    self.given_bytes += piece.size
            except OSError:
                continue
            except Ended as error:
                self._note(f"stored data was left out: {error}")
                self.pieces.remove(piece)
                return False
        return True


def _groups(pipelines: list[Created]) -> dict[Roots, list[Created]]:
    """Returns pipelines by the instance and device that they were created with."""
    groups: dict[Roots, list[Created]] = {}
    for created in pipelines:
        groups.setdefault((created.instance, created.device), []).append(created)
    return groups


# ---- the command ---------------------------------------------------------------------------------------


def warm_all(
    store: Store,
    programs: tuple[str, ...],
    environment: Mapping[str, str],
    scratch: str,
    quiet: bool = False,
    anyway: bool = False,
) -> list[Warming]:
    """Fills the caches that programs with this environment use, and says what was done. ``anyway``: gives all of it,
    also if the driver finds what is looked up. Raises Failure."""
    if why := driver_caches.problem(environment):
        raise Failure(f"nothing was warmed: {why}; unset it")
    most, limit = driver_caches.most_bytes(environment)
    works = _warmings(store, programs, environment)
    for work in works:
        size = sum(piece.size for piece in work.pieces)
        if size > most and not quiet:
            click.echo(f"{work.name} has {human_bytes(size)}, of which {human_bytes(most)} fit ({limit})")
        before = cache_files(environment)
        work.run(scratch, most, anyway)
        work.is_seen = cache_files(environment) != before
        if not quiet:
            _print(_as_json(work), f"the driver finds {work.found} of {work.looked_up} that were looked up")
    return works


def _warmings(store: Store, programs: tuple[str, ...], environment: Mapping[str, str]) -> list[Warming]:
    """Returns the work: one for each program and device that have something stored. Raises Failure."""
    names = Names(store.root)
    recorded = with_recordings(store, names, None)
    stored = [number for partition in Selection().partitions(store, names) for number in partition.holdings]
    chosen = {it for it in (*recorded, *stored) if not programs or any(names.matches(it, name) for name in programs)}
    environment = without_layer(environment)
    outcome = probe("devices", environment=environment)
    present, why = listed(outcome)
    if why:
        raise Failure(f"nothing was warmed: {why}")
    found = []
    for program in sorted(chosen):
        state = states.read(store.root, program)
        for facts in present:
            work = Warming(state, facts, names.of(program), environment, outcome.found["files"])
            work.read([store.root, system_store_root()])
            if work.pieces or work.binaries:
                found.append(work)
    return found


def _print(work: dict[str, Any], tried: str) -> None:
    total = plural(work["pipelines"], "pipeline")
    if not work["given_bytes"] and work["found"] == work["looked_up"]:
        click.echo(f"Nothing to do for {work['program']}, {total}: {tried}")
    else:
        given = f"{total} of {work['program']}, {human_bytes(work['given_bytes'])}"
        done = "Warmed" if work["found"] > work["found_before"] or work["found"] == work["looked_up"] else "Not warmed"
        click.echo(f"{done}: {given}: {tried}, {work['found_before']} before")
    click.echo(f"  {printable(' '.join((work['device'] + ',', work['driver'], work['driver_info'])))}")
    if work["without_recording"]:
        count = plural(work["without_recording"], "pipeline")
        given = "given and not looked up: Mesa's drivers keep that, NVIDIA's does not"
        click.echo(f"  {count} without a recording, {given}")
    if work["binaries"]:
        count = plural(work["binaries"], "pipeline")
        click.echo(f"  {count} left out: they are pipeline binaries, which no driver's cache takes")
    for problem in work["problems"]:
        click.echo(f"  {printable(problem)}")


def _environment(cache_dir: str | None, steam: int | None, like: int | None) -> Mapping[str, str]:
    """Returns the environment of the programs whose driver cache is filled. Raises Failure."""
    if like is not None:
        return driver_caches.of_process(like)
    if steam is not None:
        return driver_caches.of_steam(steam)
    return os.environ if cache_dir is None else driver_caches.of_directory(cache_dir)


def _fill(store: Store, programs: tuple[str, ...], environment: Mapping[str, str], quiet: bool) -> list[dict[str, Any]]:
    """Fills the caches that programs with this environment use. Returns what was done; what was done before, if nothing
    has changed since. Raises Failure."""
    warmed = Warmed(store, programs, environment)
    if works := warmed.works():
        for work in [] if quiet else works:
            found = f"the driver found {work['found']} of {work['looked_up']} that were looked up"
            _print(work, f"{found}, and nothing has changed since")
        return works
    with _room(store) as scratch:
        done = warm_all(store, programs, environment, scratch, quiet, anyway=warmed.cache_lost_files)
    works = [_as_json(work) for work in done]
    if done and all(work.is_done and not (work.problems or work.is_cut) for work in done):
        names = [(Identity.of(work.facts).name, work.is_seen) for work in done]
        kept = [work | {"found_before": work["found"], "given_bytes": 0} for work in works]
        seen = {name for name, is_seen in names if is_seen}
        warmed.keep(kept, done[0].drivers, {name for name, _ in names}, seen)
    return works


def warm_after(store: Store, programs: Iterable[str] = (), quiet: bool = False) -> bool:
    """Fills the caches of this user, after something was stored. Returns whether the drivers find all that was looked
    up. Raises Failure."""
    require_replayer()
    return all(work["found"] == work["looked_up"] for work in _fill(store, tuple(programs), os.environ, quiet))


def _room(store: Store) -> contextlib.AbstractContextManager[str]:
    """Returns a directory, unless there is nothing to do."""
    is_filled = states.programs(store.root) or store.identities()
    return room(store, "nothing was warmed") if is_filled else contextlib.nullcontext("")


@click.command
@click.argument("programs", metavar="[PROGRAM...]", nargs=-1, help=f"Only these programs, {NAMES}. Default: all.")
@click.option("--cache-dir", metavar="DIR", help="What the program has as XDG_CACHE_HOME, such as ~/.var/app/ID/cache.")
@click.option("--steam", type=int, metavar="NUMBER", help="Fill the cache that Steam gives this game.")
@click.option("--like", type=int, metavar="PID", help="Fill the cache that this running program uses.")
@click.option(
    "--database", metavar="FILE", help="Write a read-only database for Mesa's drivers instead, such as base.foz."
)
@json_option
def warm(
    programs: tuple[str, ...],
    cache_dir: str | None,
    steam: int | None,
    like: int | None,
    database: str | None,
    as_json: bool,
) -> None:
    """Give what is stored to the driver's own disk cache, for programs that run without the layer.

    The driver then finds these pipelines by itself, until it drops them or is updated. After an update, run pylayer
    rebuild first. Unlike the layer, drivers hardly verify what their caches give them.

    \b
    Example:
      pylayer warm game
      pylayer warm game --like "$(pidof game)"
    """
    if sum(option is not None for option in (cache_dir, steam, like, database)) > 1:
        raise WrongUse("--cache-dir, --steam, --like and --database exclude each other; give one of them")
    store = require_store()
    require_replayer()
    variables: list[str] = []
    if database is None:
        works = _fill(store, programs, _environment(cache_dir, steam, like), as_json)
    else:
        with _room(store) as scratch:
            place = os.path.join(scratch, "driver")
            environment = os.environ | {"MESA_SHADER_CACHE_DIR": place, "MESA_DISK_CACHE_SINGLE_FILE": "1"}
            works = [_as_json(work) for work in warm_all(store, programs, environment, scratch, as_json)]
            if works:
                variables = driver_caches.take_database(scratch, database)
    if as_json:
        print_json({"store": store.root, "warmed": works, "variables": variables})
    elif not works:
        click.echo("Nothing to warm: nothing is stored for the drivers that are here.")
    elif variables:
        click.echo(f"Written: {database}. Mesa reads it in programs that have in their environment:")
        for variable in variables:
            click.echo(f"  {variable}")
    end_if(not all(work["found"] == work["looked_up"] for work in works))


def _as_json(work: Warming) -> dict[str, Any]:
    done = ("given_bytes", "looked_up", "found_before", "found", "without_recording", "binaries", "problems")
    program = {"program": work.name, "program_id": f"{work.state.program:016x}"}
    return {**program, **device_row(work.facts), "pipelines": len(work.created), **picked(work, *done)}
