"""``pylayer rm``: removes what the store has of a program, of a driver, of drivers that are gone, or of all."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import click

from ..common import file_kinds
from ..report import recorded
from ..report.recorded import is_pattern
from ..report.words import human_bytes, plural
from ..store import state
from ..store.removal import FolderRemoval, Removal, folder_of, leftovers
from ..store.runs import recorded_paths
from ..store.store import BlockText, Partition, Store
from .devices import described, is_of, present_facts
from .output import Failure, WrongUse, end_if, print_blocks
from .selection import NAMES, Names, Selection, identity_option, meant, require_one, require_store, with_recordings

#: What can be removed, and what the help says of it.
KINDS = {
    "pipelines": "Only stored pipelines.",
    "history": "Only recorded runs, their numbers and their timelines.",
    "recordings": "Only what pylayer rebuild needs, shaders included.",
    "blocks": "Only what is blocked or switched off (pylayer doctor), so that it is used again.",
}


@dataclass
class Removing:
    """What one call removes, and what it keeps."""

    store: Store
    names: Names
    #: The driver in words, or empty text; what is removed of it, in words; and its files.
    parts: list[tuple[str, str, Removal]] = field(default_factory=list)
    blocks: list[BlockText] = field(default_factory=list)
    #: What is selected and stays, and why.
    kept: list[str] = field(default_factory=list)
    #: Programs that a name stands for, by number.
    programs: dict[int, str] = field(default_factory=dict)

    # ---- what to remove ----------------------------------------------------------------------------------

    def _add(self, target: str, what: str, removal: Removal) -> None:
        self.parts += [(target, what, removal)] * bool(removal.paths or removal.in_use)

    def add_pipelines(self, selection: Selection, with_blocks: bool) -> None:
        """Adds stored pipelines: of the selected program, or all under the selected identities."""
        for partition in selection.partitions(self.store, self.names):
            taken = self.names.named(partition.holdings, selection.app)
            self._add_partition(partition, taken if selection.app else None, with_blocks)

    def _add_partition(self, partition: Partition, programs: dict[int, str] | None, with_blocks: bool) -> None:
        removal = FolderRemoval(folder_of(self.store.root, partition), programs, with_blocks)
        what = "the whole identity" if programs is None else ", ".join(programs.values())
        self._add(self.names.target(removal.folder.identity, partition.name), what, removal)

    def add_stale(self) -> None:
        """Adds the pipelines that no driver of this machine would use. Raises Failure."""
        present, problem = present_facts()
        if problem:
            why = f"{problem}, so it is not known which drivers are here; see pylayer doctor"
            raise Failure(f"nothing was deleted: {why}")
        click.echo(f"Devices here: {'; '.join(map(described, present))}")
        for partition in Selection().partitions(self.store, self.names):
            if partition.identity is None:
                self.kept.append(f"identity {partition.name}, because its identity file is missing or damaged")
            elif not any(is_of(partition.identity, facts) for facts in present):
                self._add_partition(partition, None, True)

    def add_leftovers(self) -> None:
        """Adds what is made again."""
        self._add("", "decisions and compiled policies", Removal(leftovers(self.store.root)))

    def add_history(self, selection: Selection) -> None:
        """Adds recorded runs and their timelines. Files that nobody can read are added if all are selected."""
        everything = selection.app is None and selection.identity is None
        runs = list(filter(selection.takes_run, recorded.read(self.store.root)))
        running = {run.name for run in runs if run.state == "running"}
        if running:
            self.kept.append(f"{plural(len(running), 'run')} of programs that are running")
        found = recorded_paths(self.store.root, None if everything else {run.name for run in runs} - running)
        kept = {name + file_kinds.RUN for name in running}
        paths = [path for path in found if os.path.basename(path) not in kept]
        self._add("", "recorded runs and timelines", Removal(paths))

    def add_recordings(self, app: str | None) -> None:
        """Adds what is recorded for pylayer rebuild."""
        programs = with_recordings(self.store, self.names, app)
        removal = FolderRemoval(state.folder(self.store.root), None if app is None else programs)
        self._add("", "recordings for pylayer rebuild", removal)

    def add_blocks(self, selection: Selection) -> None:
        """Adds what is blocked or switched off."""
        for one in self.store.block_list():
            number = int(one.program_id, 16)
            self.names.learn(number, one.program)
            if selection.takes_identity(one.identity) and selection.takes(number, self.names):
                self.blocks.append(one)

    # ---- removing ----------------------------------------------------------------------------------------

    @property
    def sizes(self) -> list[int]:
        """The sizes of all files to remove."""
        return [size for *_, one in self.parts for size in one.paths.values()]

    def print(self, verb: str) -> None:
        """Prints what is removed."""
        of = f" of {', '.join(sorted(set(self.programs.values())))}" if self.programs else ""
        for target, what, one in self.parts:
            size = f"{plural(len(one.paths), 'file')}, {human_bytes(sum(one.paths.values()))}"
            if one.paths and target:
                click.echo(f"{target}\n  {verb} {what}: {size}")
            elif one.paths:
                click.echo(f"{verb.capitalize()} {what}{of}: {size}")
        if self.blocks:
            click.echo(f"{verb.capitalize()} {plural(len(self.blocks), 'block')}:")
            print_blocks(self.blocks)

    def remove(self) -> None:
        """Removes it."""
        for *_, one in self.parts:
            one.remove()
        self.store.forget(self.blocks)


def _planned(store: Store, selection: Selection, stale: bool, kinds: set[str]) -> Removing:
    """Returns what to remove. Raises Failure and WrongUse."""
    work = Removing(store, Names(store.root))
    if stale:
        work.add_stale()
        work.add_leftovers()
        return work
    if "pipelines" in kinds:
        work.add_pipelines(selection, "blocks" in kinds)
        if not (selection.app or selection.identity):
            work.add_leftovers()
    if "history" in kinds:
        work.add_history(selection)
    if "recordings" in kinds and not selection.identity:
        work.add_recordings(selection.app)
    if "blocks" in kinds:
        work.add_blocks(selection)
    if selection.app:
        work.programs = work.names.known(selection.app)
        require_one(selection.app, work.programs, "nothing was deleted")
        if not work.programs and not is_pattern(selection.app):
            there = "pylayer ls and pylayer stats list what is there"
            raise Failure(f"nothing was deleted: {store.root} has nothing of {selection}; {there}")
    return work


def _one_identity(store: Store, prefix: str) -> str:
    """Returns the single identity with this prefix. Raises Failure if there is none and WrongUse if there are
    several."""
    selection = Selection(identity=prefix)
    found = [name for name in store.identities() if selection.takes_identity(name)]
    if not found:
        raise Failure(f"no identity in {store.root} begins with {prefix}; pylayer ls lists them")
    if len(found) > 1:
        listed = ", ".join(name[:12] for name in found)
        raise WrongUse(f"{len(found)} identities begin with {prefix} ({listed}); give more characters")
    return found[0]


def _confirm(question: str, yes: bool) -> None:
    """Returns only with the user's consent: --yes, or a yes on a terminal. Raises WrongUse without a terminal, Failure
    after a no."""
    if yes:
        return
    if not os.isatty(0):
        raise WrongUse(
            "nothing was deleted: there is no terminal to ask on; add --yes, or --dry-run to see what would go"
        )
    if not click.confirm(question, err=True):
        raise Failure("nothing was deleted")


@click.command
@click.argument("name", required=False, help=f"This program, {NAMES}; or the identity that begins with this.")
@identity_option
@click.option("--stale", is_flag=True, help="Pipelines that no driver of this machine would use.")
@click.option("--all", "everything", is_flag=True, help="Of all programs and drivers.")
@click.option("--pipelines", "kinds", flag_value="pipelines", multiple=True, help=KINDS["pipelines"])
@click.option("--history", "kinds", flag_value="history", multiple=True, help=KINDS["history"])
@click.option("--recordings", "kinds", flag_value="recordings", multiple=True, help=KINDS["recordings"])
@click.option("--blocks", "kinds", flag_value="blocks", multiple=True, help=KINDS["blocks"])
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def rm(
    name: str | None,
    identity: str | None,
    stale: bool,
    everything: bool,
    kinds: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove what the store has of a program or a driver.

    That is stored pipelines, recorded runs, what pylayer rebuild needs, and what is blocked. Options choose among
    these. Programs compile removed pipelines again. If the driver crashed on what is blocked, it will again.

    Files that a running program is writing to are kept. --stale asks the drivers which devices there are, in the
    environment of this command (VK_DRIVER_FILES). A device that is not plugged in counts as gone.

    \b
    Example:
      pylayer rm game --dry-run
      pylayer rm --stale
      pylayer rm --all --blocks
    """
    if bool(name or identity) + stale + everything != 1 or (stale and set(kinds) - {"pipelines"}):
        raise WrongUse("say what to remove: a NAME or --identity, or --stale, or --all; see pylayer rm --help")
    store = require_store()
    selection = meant(name, identity, store.identities())
    if selection.identity and not selection.app:
        selection = Selection(identity=_one_identity(store, selection.identity))
    before = store.total_bytes()
    work = _planned(store, selection, stale, set(kinds or KINDS))
    work.print("would remove" if dry_run else "remove")
    is_empty = not (work.sizes or work.blocks)
    if not (dry_run or is_empty):
        _confirm(f"Remove {human_bytes(sum(work.sizes))}?", yes)
        work.remove()
    for *_, one in work.parts:
        why = "because a running program may write to it. Remove it when that has ended"
        work.kept += [f"{path}, {why}" for path in one.in_use]
        work.kept += [one.failure] * bool(one.failure)
    for line in work.kept:
        click.echo(f"Kept: {line}.")
    if is_empty:
        what = "nothing stale" if stale else "nothing" if everything else f"nothing of {selection}"
        other = "There is nothing else to remove."
        click.echo(other if work.kept else f"Nothing to remove: there is {what} in {store.root}.")
    elif before != (after := store.total_bytes()):
        click.echo(f"The store was {human_bytes(before)} and is {human_bytes(after)}.")
    end_if(not dry_run and any(one.in_use or one.failure for *_, one in work.parts))
