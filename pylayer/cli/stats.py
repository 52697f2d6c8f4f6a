"""``pylayer stats``: what the layer did, by program and driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..application_caches import GOOD
from ..cache_header import OUTCOMES as HEADER_OUTCOMES
from ..paths import store_root
from ..store.attestation import OUTCOMES as ATTESTATION_OUTCOMES
from ..store.format import OUTCOMES as DAMAGE
from . import totals
from .output import (
    EXIT_STATUSES,
    HELP,
    Failure,
    console,
    human_bytes,
    human_time,
    json_option,
    print_json,
    program_table,
    shorten,
)
from .selection import app_option

if TYPE_CHECKING:
    from rich.console import Console

    from .totals import Total

HEADINGS = ("runs", "created", "hits", "compiled", "refused", "spent", "saved", "on disk")

SUMMED = ("pipelines", "hits", "compiled", "stored_bytes")

#: What refused cache data was, in words.
OUTCOMES = {
    **HEADER_OUTCOMES,
    **ATTESTATION_OUTCOMES,
    "suspect": "a process died when the driver had it",
}

#: Numbers that are worth a line only when they are not zero.
REMARKS = {
    "adopted": "pipelines taken over from the driver's own cache",
    "plain": "pipelines created without a look into the cache first, hits among them not counted",
    "uncacheable": "pipelines that left nothing to store",
    "restored_caches": "caches that got the last good data, because the program's own was refused or not there",
    "left_out": "stored records set aside because a process died over them (see pylayer quarantine ls)",
    "load_failed": "stored records that the driver refused",
    "events_dropped": "compiled pipelines not stored, because more came than the queue holds (queue_mib)",
    "answers_late": "times that the program went on before policy answered",
    "write_errors": "failures to write to the store (see pylayer doctor)",
    "failed": "pipelines that the driver could not create",
    "binary_hits": "hits created from pipeline binaries",
    "create_info_hits": "the program's own requests for pipeline binaries, answered from the store",
    "binaries_kept": "pipelines kept as pipeline binaries",
    "binaries_captured": "pipelines compiled past the driver's own cache, to get their binaries",
    "binaries_missing": "compiled pipelines whose binaries the driver did not give",
    "binaries_evicted": "stored pipeline binaries with which the driver failed; their pipelines were created anew",
    "binaries_unindexed": "pipeline binaries that found no room in memory (binaries_mib)",
    "application_binaries": "pipeline binaries that the program brought itself",
    "binaries_altered": "the program's own pipeline binaries that are not as it read them",
    "binaries_stale": "the program's own pipeline binaries that it read from another driver or device",
    "binaries_restored": "altered pipeline binaries replaced by the stored ones",
    "binaries_refused": "calls of the program that failed for them (VK_ERROR_INITIALIZATION_FAILED)",
}


def _cells(total: Total) -> list[str]:
    numbers = total.numbers
    return [
        str(total.runs),
        str(numbers["pipelines"]),
        str(numbers["hits"]),
        str(numbers["compiled"] + numbers["plain_compiled"]),
        str(sum(total.refused.values())),
        human_time(total.spent_ns),
        "?" if total.saved_ns is None else human_time(total.saved_ns),
        human_bytes(total.disk_bytes),
    ]


def _policy_remark(total: Total) -> list[str]:
    """What became of the user's policy class, where it is worth a line."""
    policy = total.policy
    if not policy:
        return []
    counts = [
        f"{word}: {policy[key]}" for key, word in (("failures", "failures"), ("late", "late answers")) if policy[key]
    ]
    text = f"policy class {policy['class']}"
    if policy["runs_switched_off"]:
        runs = "" if total.runs == 1 else f" in {policy['runs_switched_off']} of {total.runs} runs"
        more = f" ({', '.join(counts)})" if counts else ""
        return [f"{text} was switched off{runs}: {policy['switched_off']}{more}"]
    return [f"{text}: {', '.join(counts)}"] if counts else []


def remarks(total: Total) -> list[str]:
    """What is worth a line beside the numbers."""
    observed = total.newest.texts["carrier"] == "observe"
    texts = [
        f"{text}: {total.numbers[key]}"
        for key, text in REMARKS.items()
        if total.numbers[key] and not (observed and key == "plain")
    ]
    for outcome, count in total.damage.items():
        if outcome != "truncated":  # the ends of journals whose programs were killed
            texts.append(f"parts of the store left out as {outcome} ({DAMAGE.get(outcome, 'unknown')}): {count}")
    for outcome, count in total.refused.items():
        meaning = f" ({OUTCOMES[outcome]})" if outcome in OUTCOMES else ""
        texts.append(f"cache data refused as {outcome}{meaning}: {count}")
    for outcome, count in total.outcomes.items():
        if outcome not in GOOD:
            meaning = f" ({OUTCOMES[outcome]})" if outcome in OUTCOMES else ""
            texts.append(f"cache data that the driver was given although {outcome}{meaning}: {count}")
    texts += _policy_remark(total)
    if total.newest.texts["carrier"] == "off":
        texts.append(f"nothing is stored: {total.newest.texts['reason']}")
    if observed:
        texts.append(
            "observed only: what the driver compiled is known where the program's device has creation feedback"
        )
    return texts


def _print_identity(out: Console, group: list[Total]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    texts = group[0].newest.texts
    driver = ", ".join(text for text in (texts["driver"], texts["driver_info"]) if text)
    out.print(Text(texts["device"] or "unknown device", style="bold"))
    out.print(Text(f"{driver or 'unknown driver'}; identity {group[0].newest.identity}", style="dim"))
    rows = [_cells(total) for total in group]
    table, name_width = program_table(out, HEADINGS, rows)
    for total, row in zip(group, rows, strict=True):
        table.add_row(Text(shorten(total.name, name_width)), *row)
    out.print(table)
    for total in group:
        for remark in remarks(total):
            out.print(Padding(Text(f"{shorten(total.name, 32)}: {remark}", style="yellow"), (0, 0, 0, 2)))


def print_tables(found: list[Total], stderr: bool = False) -> None:
    """One table for each driver identity."""
    out = console(stderr)
    identities: dict[str, list[Total]] = {}
    for total in found:
        identities.setdefault(total.newest.identity, []).append(total)
    for number, group in enumerate(identities.values()):
        if number:
            out.print()
        _print_identity(out, group)


def _sum(found: list[Total]) -> dict[str, Any]:
    """The same over all programs; an estimate that is not known counts as nothing."""
    return {
        "runs": sum(total.runs for total in found),
        **{key: sum(total.numbers[key] for total in found) for key in SUMMED},
        "refused_caches": sum(sum(total.refused.values()) for total in found),
        "spent_ns": sum(total.spent_ns for total in found),
        "saved_estimate_ns": sum(total.saved_ns or 0 for total in found),
        "disk_bytes": sum(total.disk_bytes for total in found),
    }


@click.command(context_settings=HELP, epilog=EXIT_STATUSES)
@app_option
@click.option("--last", is_flag=True, help="Only the newest run of each program.")
@json_option
def stats(app: str | None, last: bool, as_json: bool) -> None:
    """Show what the layer did, for each driver and program.

    spent is the time that creating pipelines took under the layer, waiting for the store included. saved is an
    estimate: the hits, one for each stored pipeline and run, times what compiling one took on average, less the
    time of the hits. refused counts cache data of the programs themselves that was not theirs to use here. on disk
    is what the store holds now for the program, what it shares with others included.

    \b
    Example:
      pylayer stats --app "blender*" --last
    """
    root = store_root()
    if root is None:
        raise Failure("neither HOME, XDG_CACHE_HOME nor PYLAYER_STORE is set, so there is no store to read; set one")
    found = totals.add_up(root, (run for run in totals.read_runs(root) if app is None or run.matches(app)), last)
    if as_json:
        print_json({"store": root, "programs": [total.as_json() for total in found], "total": _sum(found)})
        return
    if not found:
        name = f"No run of a program named {app}" if app else "Nothing"
        click.echo(f"{name} is recorded in {root} yet; start one with: pylayer run -- APP")
        return
    print_tables(found)
    total = _sum(found)
    out = console()
    written, on_disk = human_bytes(total["stored_bytes"]), human_bytes(total["disk_bytes"])
    out.print(f"\n{written} written by these runs, {on_disk} on disk; saved is an estimate (--help).", style="dim")
    out.print(f"Store: {root}", style="dim", soft_wrap=True)
