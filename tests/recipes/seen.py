"""What build/tests/recipes printed, and whether it saw the same as without the layer.

Needs nothing but Python's standard library: tests/gpu runs it on machines that have nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: A pipeline in a line: whether it is there, its feedback, and that of its stages.
PIPELINE = re.compile(r" (P\d)=(\w+)((?::[^\s:]+)*)")
#: Letters of creation feedback (tests/recipes/pipelines.c).
VALID, APPLICATION_HIT, NO_TIME, UNWRITTEN, NOTHING, UNKNOWN_BITS = "VH0?-!"


@dataclass
class Line:
    """What the program printed about one call."""

    name: str
    seen: str
    #: Of each pipeline with feedback, by the pipeline's slot: first of the pipeline, then of its stages.
    feedback: dict[str, list[str]]

    @classmethod
    def parse(cls, text: str) -> Line:
        name, _, rest = text.rstrip().partition(" ")
        told = {slot: re.split("[:,]", found[1:]) for slot, _, found in PIPELINE.findall(f" {rest}") if found}
        return cls(name, PIPELINE.sub(r" \1=\2", f" {rest}")[1:], told)


def parse(printed: str) -> list[Line]:
    return [Line.parse(text) for text in printed.splitlines()]


def without_hit(told: str) -> str:
    """The flag is only about the cache that the program passed, and what is found may take no time."""
    return told.replace(APPLICATION_HIT, "").replace(NO_TIME, "")


def breaks_a_rule(told: str, alone: str, own_cache: bool) -> bool:
    """Whether feedback breaks a rule of VkPipelineCreationFeedback, or is not written where the driver alone writes."""
    if told == UNWRITTEN:
        return alone != UNWRITTEN
    invalid = UNKNOWN_BITS in told or (VALID not in told and told != NOTHING)
    return invalid or (APPLICATION_HIT in told and not own_cache)


def says_otherwise(told: str, alone: str) -> bool:
    """Whether feedback on a pipeline is not the driver's, but for where it was found and that it took no time."""
    return alone != UNWRITTEN and without_hit(told) != without_hit(alone)


def difference(line: Line, alone: Line, own_cache: bool, steady: bool) -> str | None:
    """Returns what a program sees otherwise than without the layer, or None. ``steady``: the driver's feedback does not
    depend on what other threads compile. That on stages it leaves out where it finds the pipeline."""
    if (line.name, line.seen) != (alone.name, alone.seen):
        return f"{line.name} {line.seen}; alone: {alone.name} {alone.seen}"
    if line.feedback.keys() != alone.feedback.keys():
        return f"{line.name}: feedback of {sorted(line.feedback)}; alone: of {sorted(alone.feedback)}"
    own_cache = own_cache or line.name.startswith("caches.")
    for slot, flags in line.feedback.items():
        others = alone.feedback[slot]
        wrong = len(others) != len(flags) or (steady and says_otherwise(flags[0], others[0]))
        wrong = wrong or any(breaks_a_rule(one, other, own_cache) for one, other in zip(flags, others, strict=True))
        if wrong:
            return f"{line.name}: feedback {':'.join(flags)} of {slot}; alone: {':'.join(others)}"
    return None


def differences(layered: list[Line], alone: list[Line], own_cache: bool, steady: bool) -> list[str]:
    """Returns what a program sees otherwise than without the layer, in words. The order counts."""
    found = [difference(line, without, own_cache, steady) for line, without in zip(layered, alone, strict=False)]
    if len(layered) != len(alone):
        found.append(f"{len(layered)} lines; alone: {len(alone)}")
    return [one for one in found if one is not None]
