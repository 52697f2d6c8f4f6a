"""``pylayer verify``: reads every byte of the store and names the files that cannot be used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .output import EXIT_PROBLEM, HELP, console, human_bytes, human_time, json_option, plural, print_json, progress
from .selection import Names, Selection, app_option, identity_option, require_root

if TYPE_CHECKING:
    from ..store.format import Damage

#: The most problems to list for people. --json lists all.
LISTED = 40


class Report:
    """What was verified, and what was found."""

    def __init__(self) -> None:
        self.files = 0
        self.records = 0
        self.data_bytes = 0
        self.file_bytes = 0
        self.damage: list[Damage] = []
        #: Incomplete ends of files that a process appends to, or appended to when it was killed. They are harmless.
        self.torn_ends: list[Damage] = []
        #: Files of a newer version of the format. They are harmless but cannot be used.
        self.other_versions: list[Damage] = []
        self.spent_ns = 0

    @property
    def bytes_per_s(self) -> int:
        """Returns how fast the files were read and verified."""
        return round(self.file_bytes * 1_000_000_000 / self.spent_ns) if self.spent_ns else 0


def _verify_identity(root: str, name: str, report: Report) -> None:
    """Verifies that an identity's description matches its folder's name."""
    from ..store.folder import read_identity
    from ..store.format import Damage

    path = os.path.join(root, "store", name, "identity")
    if read_identity(root, name) is None:
        missing = not os.path.lexists(path)
        detail = "it is missing" if missing else "its fields are not those of the folder"
        report.damage.append(Damage(path, "unreadable" if missing else "damaged-data", detail=detail))
    else:
        report.files += 1
        report.file_bytes += os.stat(path).st_size


def _verify_file(path: str, name: str, report: Report, advance: Callable[[int], None]) -> None:
    from ..store import checking, format

    kind = format.KIND_OF_SUFFIX[os.path.splitext(path)[1]]
    program = int(os.path.basename(path)[:16], 16)
    checked = checking.Checked(path)
    try:
        at = 0
        for part in checking.check_file(path, kind, bytes.fromhex(name), checked, program):
            advance(max(part.base - at, 0))
            at = max(part.base, at)
        advance(max(checked.file_bytes - at, 0))
    except FileNotFoundError:
        return  # folded meanwhile
    except OSError as error:
        report.damage.append(format.Damage(path, "unreadable", detail=str(error.strerror or error)))
        return
    report.files += 1
    report.records += checked.records
    report.data_bytes += checked.data_bytes
    report.file_bytes += checked.file_bytes
    for what in checked.damage:
        if what.outcome == "foreign-version":
            report.other_versions.append(what)
        elif what.is_torn_end:
            report.torn_ends.append(what)
        else:
            report.damage.append(what)


def _paths(directory: str, name: str, selection: Selection, names: Names) -> list[str]:
    """Returns the files of records in an identity's folder that the selection takes."""
    from ..store import format
    from ..store.bounds import files_of

    chosen = []
    for file in files_of(os.path.dirname(os.path.dirname(directory)), name):
        suffix = os.path.splitext(file.path)[1]
        if suffix in format.KIND_OF_SUFFIX and file.program is not None and selection.takes(file.program, names):
            chosen.append(file.path)
    return sorted(chosen)


def examine(root: str, selection: Selection, names: Names, advance: Callable[[int], None]) -> Report:
    """Verifies everything that a selection takes, including files that appear meanwhile, such as those that a fold
    writes."""
    from ..store.folder import identity_names

    report = Report()
    started = time.monotonic_ns()
    for name in identity_names(root):
        if not selection.takes_identity(name):
            continue
        directory = os.path.join(root, "store", name)
        if selection.app is None:
            _verify_identity(root, name, report)
        seen: set[str] = set()
        while new := [path for path in _paths(directory, name, selection, names) if path not in seen]:
            for path in new:
                seen.add(path)
                _verify_file(path, name, report, advance)
    report.spent_ns = time.monotonic_ns() - started
    return report


def learn_names(root: str, selection: Selection) -> Names:
    """Returns names of programs. Reads those in the store's files only if the selection needs them."""
    names = Names(root)
    if selection.app is not None:
        from .inventory import Inventory

        Inventory(root, Selection(identity=selection.identity), names)
    return names


class Repaired:
    """What --repair did."""

    def __init__(self) -> None:
        self.quarantined = 0
        self.failures: list[str] = []


def _repair(root: str, report: Report, quiet: bool) -> Repaired:
    """Moves damaged files to quarantine, once the records in them that verify are in a new pack."""
    from ..store.folder import Folder, read_identity
    from ..store.maintenance import repair_whole_files
    from .policy_in_force import read_limits

    repaired = Repaired()
    compress = read_limits()[0].compress
    by_folder: dict[str, list[Damage]] = {}
    for what in report.damage:
        by_folder.setdefault(os.path.dirname(what.path), []).append(what)
    for directory, damaged in by_folder.items():
        name = os.path.basename(directory)
        _repair_description(root, damaged, repaired)
        identity = read_identity(root, name)
        if identity is None:
            repaired.failures.append(
                f"{directory} cannot be repaired without its identity file, which the next run on that driver writes"
            )
            continue
        folder = Folder(root, identity)
        repaired.quarantined += repair_whole_files(folder, damaged)
        try:
            _fold(folder, damaged, compress, quiet, repaired)
        except OSError as error:
            repaired.failures.append(f"{directory} cannot be repaired: {error.strerror or error}")
    return repaired


def _repair_description(root: str, damaged: list[Damage], repaired: Repaired) -> None:
    """Moves a damaged identity file to quarantine. The layer would never rewrite it in place."""
    from ..store import quarantine

    for what in damaged:
        if os.path.basename(what.path) == "identity" and os.path.lexists(what.path):
            try:
                quarantine.move_file(root, what.path, [what])
                repaired.quarantined += 1
            except OSError as error:
                repaired.failures.append(f"{what.path} cannot be moved: {error.strerror or error}")


def _fold(folder: Any, damaged: list[Damage], compress: bool, quiet: bool, repaired: Repaired) -> None:
    from ..store import fold

    folded = (".pack", ".journal", ".closed")
    paths = {what.path for what in damaged if what.path.endswith(folded) and what.outcome != "unreadable"}
    packs = frozenset(path for path in paths if path.endswith(".pack"))
    for program in sorted({int(os.path.basename(path)[:16], 16) for path in paths}):
        work = fold.Fold(folder, program, everything=True, compress=compress, must=packs)
        with progress("folding", None, quiet) as advance:
            for _ in work.steps():
                advance(1)
        repaired.quarantined += work.result.quarantined
        if not work.result.claimed:
            repaired.failures.append(f"{folder.path} is being folded by another process; try again when it is done")


def _damage_json(what: Damage) -> dict[str, Any]:
    return {
        "file": what.path,
        "outcome": what.outcome,
        "detail": what.detail,
        "offset": what.offset,
        "size_bytes": what.size if what.size >= 0 else None,
    }


def _json(root: str, report: Report, repaired: Repaired | None, after: Report | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "store": root,
        "fine": not report.damage,
        "files": report.files,
        "records": report.records,
        "file_bytes": report.file_bytes,
        "data_bytes": report.data_bytes,
        "spent_ns": report.spent_ns,
        "bytes_per_s": report.bytes_per_s,
        "problems": [_damage_json(what) for what in report.damage],
        "torn_ends": [_damage_json(what) for what in report.torn_ends],
        "other_versions": [_damage_json(what) for what in report.other_versions],
    }
    if repaired is not None and after is not None:
        values["repair"] = {
            "quarantined": repaired.quarantined,
            "failures": repaired.failures,
            "problems_left": [_damage_json(what) for what in after.damage],
        }
    return values


def _print_damage(root: str, listed: list[Damage], style: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from ..common import outcomes
    from .output import printable

    out = console()
    base = os.path.join(root, "")
    for what in listed[:LISTED]:
        place = f" at byte {what.offset}" if what.offset or what.size >= 0 else ""
        size = f", {plural(what.size, 'byte')}" if what.size > 0 else ""
        detail = f" ({what.detail})" if what.detail else ""
        out.print(Text(printable(what.path.removeprefix(base)), style=style), soft_wrap=True)
        line = Text(f"{what.outcome}{place}{size}: {outcomes.STORE[what.outcome]}{detail}")
        out.print(Padding(line, (0, 0, 0, 2), expand=False))
    if len(listed) > LISTED:
        out.print(f"and {len(listed) - LISTED} more (--json lists all)", style="dim")


def _print(root: str, report: Report, repaired: Repaired | None, after: Report | None) -> None:
    out = console()
    _print_damage(root, report.damage, "bold red")
    _print_damage(root, report.other_versions, "yellow")
    for what in report.torn_ends:
        line = "it ends inside a record, because a program is writing it or was killed"
        out.print(f"{what.path}: {line}", style="dim", soft_wrap=True)
    speed = f", {human_bytes(report.bytes_per_s)}/s" if report.bytes_per_s else ""
    out.print(
        f"Verified: {plural(report.records, 'record')} ({human_bytes(report.data_bytes)}) in "
        f"{plural(report.files, 'file')} ({human_bytes(report.file_bytes)}); {human_time(report.spent_ns)}{speed}."
    )
    if report.other_versions:
        newer = plural(len(report.other_versions), "file")
        out.print(f"{newer} of a newer version, left alone.", style="dim")
    if not report.damage:
        out.print("Everything is fine.", style="bold green")
        return
    out.print(f"{plural(len(report.damage), 'problem')}; a run leaves out what does not verify.", style="bold red")
    if repaired is None or after is None:
        out.print("pylayer verify --repair moves the files to quarantine and keeps what verifies in them.")
        return
    out.print(f"Moved to quarantine: {plural(repaired.quarantined, 'file')} (pylayer quarantine ls).")
    for line in repaired.failures:
        out.print(line, style="red", soft_wrap=True)
    if after.damage:
        out.print(f"Problems left: {len(after.damage)}.", style="bold red")
        _print_damage(root, after.damage, "bold red")
    else:
        out.print(f"What is left is fine: {plural(after.records, 'record')}.", style="bold green")


@click.command(
    context_settings=HELP,
    epilog="Exit status: 0 everything is fine, or is after --repair; 1 a problem was found; 2 wrong use.",
)
@app_option
@identity_option
@click.option("--repair", is_flag=True, help="Move damaged files to quarantine, and keep what verifies in them.")
@json_option
def verify(app: str | None, identity: str | None, repair: bool, as_json: bool) -> None:
    """Read the whole store and say what in it cannot be used.

    Every record is unpacked and compared with its hash. A run verifies what it loads in the same way and leaves
    out what is damaged, so nothing has to be done: --repair writes what verifies anew, and moves the damaged files
    to quarantine. Files of newer versions of pylayer are listed and are no problem, and neither is a file that
    ends inside a record, because a program is writing it or was killed.

    \b
    Example:
      pylayer verify --repair
    """
    from .inventory import tree_bytes

    root = require_root()
    selection = Selection(app, identity)
    if not os.path.isdir(root) and not as_json:
        click.echo(f"Nothing is stored in {root} yet; start a program with: pylayer run -- APP")
        return
    names = learn_names(root, selection)
    size = tree_bytes(os.path.join(root, "store"))[0]
    with progress("verifying", size, as_json) as advance:
        report = examine(root, selection, names, advance)
    repaired = after = None
    if repair and report.damage:
        repaired = _repair(root, report, as_json)
        with progress("verifying again", size, as_json) as advance:
            after = examine(root, selection, names, advance)
    if as_json:
        print_json(_json(root, report, repaired, after))
    elif not (report.files or report.damage or report.other_versions):
        click.echo(f"Nothing of {selection} is stored in {root}; pylayer ls lists what is there.")
    else:
        _print(root, report, repaired, after)
    left = report if after is None else after
    if left.damage or (repaired is not None and repaired.failures):
        raise click.exceptions.Exit(EXIT_PROBLEM)
