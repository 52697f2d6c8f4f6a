"""What people read of verdicts: sentences, and what state a verdict is in."""

from __future__ import annotations

from ..values import KIND_NAMES
from .marks import ADDED
from .verdicts import ADDED_CALL, OFF, Verdict, Verdicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..common.identity import Identity


IN_FORCE, TRIAL, EVIDENCE, ENDED = STATES = ("in force", "on trial", "evidence", "ended")


def sentence(verdicts: list[Verdict], ended: bool = False) -> str:
    """Returns what one or several verdicts of the same type and kind mean, for people."""
    one, count = verdicts[0], len(verdicts)
    be = "is" if count == 1 else "are"
    text = one.rule.end if ended else one.rule.effect
    return text.format(
        kind=KIND_NAMES[one.kind] if one.kind < len(KIND_NAMES) else "any",
        runs=one.runs,
        count=count,
        records=f"record{'s' * (count != 1)} {be}",
        pipelines=f"pipeline{'s' * (count != 1)} {be}",
        caches=f"cache{'s' * (count != 1)} {be}",
        them="it" if count == 1 else "them",
        call=ADDED.get(one.subject, "a call of the layer's"),
    )


def grouped(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Returns groups of verdicts that one sentence describes: of one type and kind, and of one death."""
    groups: dict[tuple[int, int, int, int], list[Verdict]] = {}
    for one in sorted(verdicts, key=lambda each: (each.found_ns, each.key)):
        call = one.subject if one.type == ADDED_CALL else 0
        groups.setdefault((one.found_ns, one.type, one.kind, call), []).append(one)
    return list(groups.values())


class VerdictText:
    """What people are told of one or several verdicts about a program. ``state`` is one of ``STATES``."""

    def __init__(self, identity: Identity, number: int, program: str, state: str, group: list[Verdict]) -> None:
        fields = identity.fields
        known = [str(fields[key]) for key in ("driver_name", "driver_info") if fields.get(key)]
        self.identity = identity.name
        self.driver = ", ".join(known) or "unknown driver"
        self.program = program
        self.program_id = f"{number:016x}"
        self.type = group[0].rule.name
        self.state = state
        self.switches_off = group[0].type in OFF
        self.text = sentence(group, ended=state == ENDED)
        self.since_s = max(one.decided_ns for one in group) / 1e9
        self.until_s = max(one.until_s for one in group)


def state_of(verdict: Verdict, now_s: float) -> str:
    """Returns one of ``STATES``; empty if the verdict no longer matters."""
    if not verdict.is_memorable(now_s):
        return ""
    if verdict.until_s == 0:
        return ENDED
    return IN_FORCE if verdict.holds(now_s) else TRIAL if verdict.is_on_trial(now_s) else EVIDENCE


def tell(identity: Identity, number: int, program: str, known: Verdicts) -> list[VerdictText]:
    """Returns what is decided about a program, by state and then oldest first."""
    now = known.now_s
    found = []
    for state in STATES:
        mine = [one for one in known.entries.values() if state_of(one, now) == state]
        found += [VerdictText(identity, number, program, state, group) for group in grouped(mine)]
    return found
