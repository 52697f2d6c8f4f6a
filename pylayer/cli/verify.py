"""``pylayer ls --verify``: reads every byte of the store and names the files that cannot be used."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .output import EXIT_PROBLEM, console, human_bytes, picked, plural, print_json, printable, progress
from .selection import Names, Selection

if TYPE_CHECKING:
    from ..store.store import Damage, Store
    from ..store.verification import Verification

#: The most problems to list for people. --json lists all.
LISTED = 40


def _damage_json(what: Damage) -> dict[str, Any]:
    return {
        "file": what.path,
        "outcome": what.outcome,
        "detail": what.detail,
        "offset": what.offset,
        "size_bytes": what.size if what.size >= 0 else None,
    }


def _json(root: str, report: Verification) -> dict[str, Any]:
    return {
        "store": root,
        "fine": not report.problems,
        **picked(report, "files", "records", "file_bytes", "data_bytes"),
        "problems": [_damage_json(what) for what in report.problems],
        "torn_ends": [_damage_json(what) for what in report.torn_ends],
        "other_versions": [_damage_json(what) for what in report.other_versions],
    }


def _print(report: Verification) -> None:
    out = console()
    listed = [(what, "bold red") for what in report.problems] + [(what, "yellow") for what in report.other_versions]
    listed += [(what, "dim") for what in report.torn_ends]
    for what, style in listed[:LISTED]:
        out.print(printable(str(what)), style=style, soft_wrap=True)
    if len(listed) > LISTED:
        out.print(f"and {len(listed) - LISTED} more (--json lists all)", style="dim")
    out.print(
        f"Verified: {plural(report.records, 'record')} ({human_bytes(report.data_bytes)}) in "
        f"{plural(report.files, 'file')} ({human_bytes(report.file_bytes)})."
    )
    if report.other_versions:
        others = plural(len(report.other_versions), "file")
        out.print(f"{others} of another version, left alone.", style="dim")
    if not report.problems:
        out.print("Everything is fine.", style="bold green")
        return
    out.print(f"{plural(len(report.problems), 'problem')}; a run ignores what does not verify.", style="bold red")
    out.print("A run that finds one keeps the rest of a pack or journal, and deletes what is damaged.")
    out.print("So does pylayer ls --verify --repair, at once.")


def verify(store: Store, selection: Selection, as_json: bool, repairs: bool) -> None:
    """Verifies what a selection takes, and if wanted repairs the store. Ends with status 1 if a problem is left."""
    from ..store.verification import Verification

    if not os.path.isdir(store.root) and not as_json:
        click.echo(f"Nothing is stored in {store.root} yet; start a program with: pylayer run -- APP")
        return
    names = Names(store.root)
    if selection.app is not None:
        selection.partitions(store, names)
    takes = None if selection.app is None else partial(selection.takes, names=names)

    def read() -> Verification:
        report = Verification(store.root)
        with progress("verifying", store.tree_bytes("store")[0], as_json) as advance:
            for amount in report.steps(selection.takes_identity, takes):
                advance(amount)
        return report

    report = read()
    if repairs and report.problems:
        report.repair()
        found, report = len(report.problems), read()
        if not as_json:
            repaired = f"{max(0, found - len(report.problems))} of {plural(found, 'problem')}"
            click.echo(f"Repaired: {repaired}. What verifies in these files is kept.")
    if as_json:
        print_json(_json(store.root, report))
    elif not (report.files or report.problems or report.other_versions):
        click.echo(f"Nothing of {selection} is stored in {store.root}; pylayer ls lists what is there.")
    else:
        _print(report)
    if report.problems:
        raise click.exceptions.Exit(EXIT_PROBLEM)
