"""What a program may see of the layer: what the interpreter printed, one table, and the comparison that it decides.

Everything that differs between the driver alone and the layer, and that no row of ALLOWED explains, is a bug.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from recipes.seen import PIPELINE

# ---- what was asked and printed ------------------------------------------------------------------------

POINTS = ("compute", "graphics", "rays")
#: The object that a line makes is its first word; pipelines have one an element.
MAKERS = ("cache", "read", "binaries", "bindata")
SLOT = re.compile(r"\b[PCDBX]\d\b")
#: Words of an element that tell roughly which code it compiles.
CODE = ("shader", "vert", "frag", "shaders", "part", "spec", "link")
#: What a library of one part of the pipeline does not look at.
NOT_IN_PART = {
    "input": ("vert", "frag"),
    "vertex": ("frag",),
    "fragment": ("vert",),
    "output": ("vert", "frag"),
}


@dataclass(frozen=True)
class Element:
    """One pipeline of a call, as the script asks for it."""

    point: str
    words: tuple[str, ...]

    @property
    def slot(self) -> str:
        return self.words[0] if self.words else ""

    def value(self, key: str) -> str | None:
        for word in self.words:
            name, _, value = word.partition("=")
            if name == key:
                return value
        return None

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple((self.value("flags") or "").split(","))

    @property
    def code(self) -> tuple[str, ...]:
        """Equal for pipelines that one cache entry may answer; sometimes for others too."""
        linked = self.value("link") is not None and self.point == "graphics"
        unused = NOT_IN_PART.get(self.value("part") or "", ())
        values = (f"{key}={self.value(key)}" for key in CODE if self.value(key) is not None and key not in unused)
        return (self.point, *(("link", str("lto" in self.flags)) if linked else values))


class Call:
    """One line of a script."""

    def __init__(self, line: str) -> None:
        self.line = line
        head, _, tail = line.partition(":")
        self.words = tuple(head.split())
        self.name = self.words[0] if self.words else ""
        self.elements = tuple(
            Element(self.name, tuple(part.split())) for part in (tail.split("/") if self.name in POINTS else ())
        )
        self.cache = self.words[1] if self.name in POINTS and len(self.words) > 1 else "-"
        self.slots = frozenset(SLOT.findall(line))

    @property
    def made(self) -> frozenset[str]:
        """The slots that hold something else behind this line."""
        if self.name in POINTS:
            return frozenset(element.slot for element in self.elements)
        keeps = self.name in ("read", "binaries") and ("query" in self.words or "count" in self.words)
        return frozenset(self.words[1:2]) if self.name in MAKERS and not keeps else frozenset()

    @property
    def unmade(self) -> frozenset[str]:
        """The slots that hold nothing behind this line."""
        return frozenset(self.words[1:2]) if self.name.startswith("un") else frozenset()


def parse(text: str) -> dict[str, str]:
    """The parts of an output line. Of pipelines by element: ``0``, ``0.feedback``, ``0.stage0``."""
    if text.startswith("skip"):
        return {"skip": text[5:]}
    values: dict[str, str] = {}
    for number, (_, state, feedback) in enumerate(PIPELINE.findall(f" {text}")):
        values[f"{number}"] = state
        names = ("feedback", *(f"stage{stage}" for stage in range(feedback.count(",") + 1)))
        flags = re.split("[:,]", feedback[1:]) if feedback else []
        values |= {f"{number}.{name}": value for name, value in zip(names, flags, strict=False)}
    for position, word in enumerate(PIPELINE.sub("", f" {text}").split()):
        key, equals, value = word.partition("=")
        values[key if equals else f"word {position}"] = value if equals else word
    return values


# ---- what may differ -----------------------------------------------------------------------------------

COMPILE_REQUIRED = "1000297000"
#: Words of lines that read or give data that is not all.
PARTIAL = {"half", "less", "header", "zero", "form=truncated", "form=below", "form=header"}


class History:
    """What came before a line, as far as the table asks."""

    def __init__(self) -> None:
        #: Slots that hold something else than without the layer, as a row allowed.
        self.tainted: set[str] = set()
        #: Caches, and data read from them, that lack what policy refused.
        self.emptied: set[str] = set()
        #: Code of pipelines that the layer has created in this program.
        self.compiled: set[tuple[str, ...]] = set()
        #: The program keeps binaries itself: it has asked for a pipeline's key, or for binaries by create info.
        self.keeps_binaries = False

    def follow(self, call: Call, layer: dict[str, str], differ: bool) -> None:
        """What a line that was not skipped leaves."""
        inputs = call.slots - call.made
        if call.unmade:
            self.tainted -= call.unmade
        elif differ or inputs & self.tainted:
            self.tainted |= call.made
        else:
            self.tainted -= call.made
        for index, element in enumerate(call.elements):
            if layer.get(str(index)) == "set":
                self.compiled.add(element.code)
        self.keeps_binaries |= asks_internal_cache(call) or call.name == "key"
        self._follow_data(call, inputs)

    def _follow_data(self, call: Call, inputs: frozenset[str]) -> None:
        """From data that is not whole to caches made of it, what these are merged into, and what is read of them."""
        if call.name == "merge" and inputs & self.emptied:
            self.emptied.add(call.words[1])
        elif call.name in ("cache", "read"):
            partial = not PARTIAL.isdisjoint(call.words)
            self.emptied -= call.made
            self.emptied |= call.made if partial or inputs & self.emptied else frozenset()


@dataclass
class Sight:
    """One value of one line that differs, and what came before it."""

    call: Call
    key: str
    driver: dict[str, str]
    layer: dict[str, str]
    warm: bool
    history: History

    @property
    def values(self) -> tuple[str, str]:
        """Without the layer, with it; "" where there is none."""
        return self.driver.get(self.key, ""), self.layer.get(self.key, "")

    @property
    def index(self) -> int:
        """Of the element that the value belongs to; -1 where it belongs to the call."""
        number = self.key.partition(".")[0]
        return int(number) if self.call.name in POINTS and number.isdigit() else -1

    @property
    def element(self) -> Element:
        return self.call.elements[self.index]

    @property
    def stored(self) -> bool:
        """Whether the layer may know the pipeline: from an earlier run, or from before in this one, be it in the same
        call. Libraries without shaders are the same in all programs."""
        shaderless = self.element.value("part") in ("input", "output")
        before = any(
            element.code == self.element.code and self.layer.get(str(index)) == "set"
            for index, element in enumerate(self.call.elements[: self.index])
        )
        return self.warm or shaderless or before or self.element.code in self.history.compiled


def answered(sight: Sight) -> bool:
    """A pipeline with FAIL_ON_PIPELINE_COMPILE_REQUIRED is created where the driver alone has to compile it.

    This pipeline, or one in front of it that would have ended the call, is in the store, or the program had it
    compiled before. Vulkan, vkCreateGraphicsPipelines: 'An implicit cache may be provided by the implementation or
    a layer'; elements behind it are then created, too.
    """
    index = sight.index
    if index < 0 or "." in sight.key or sight.values != ("null", "set"):
        return False
    if "fail" in sight.element.flags and sight.stored:
        return True
    return any(
        "early" in sight.call.elements[i].flags and sight.driver[str(i)] == "null" and sight.layer[str(i)] == "set"
        for i in range(index)
    )


def result_of_answers(sight: Sight) -> bool:
    """VK_SUCCESS instead of VK_PIPELINE_COMPILE_REQUIRED where such a pipeline was the only one missing.

    Vulkan, 'Multiple Pipeline Creation': the result tells of the pipelines that were not created.
    """
    states = [sight.layer[str(i)] for i in range(len(sight.call.elements)) if str(i) in sight.layer]
    expected = COMPILE_REQUIRED if "null" in states else "0"
    differ = any(sight.driver.get(str(i)) != sight.layer.get(str(i)) for i in range(len(states)))
    return sight.key == "result" and bool(states) and differ and sight.layer["result"] == expected


def is_feedback(sight: Sight) -> bool:
    return sight.index >= 0 and "." in sight.key


def feedback_cleared(sight: Sight) -> bool:
    """Feedback that the driver leaves unwritten has no VALID bit instead of what the program's memory held.

    Vulkan, VkPipelineCreationFeedbackCreateInfo: an implementation must set or clear it.
    """
    return is_feedback(sight) and sight.values == ("?", "-")


def feedback_of_answered(sight: Sight) -> bool:
    """Feedback of a pipeline that the driver alone does not create.

    Follows from ``answered``.
    """
    state = str(sight.index)
    return (
        is_feedback(sight)
        and (sight.driver[state], sight.layer[state]) == ("null", "set")
        and sight.values[1].startswith(("V", "-"))
        and ("H" not in sight.values[1] or sight.call.cache != "-")
    )


def found_in_seeded_cache(sight: Sight) -> bool:
    """APPLICATION_PIPELINE_CACHE_HIT where the program passed a cache that the store's pipelines were merged into.

    The pipeline is in that cache: Vulkan, VkPipelineCreationFeedbackFlagBits.
    """
    driver, layer = sight.values
    return is_feedback(sight) and sight.call.cache != "-" and sight.stored and layer == driver.replace("?", "V") + "H"


def stages_not_compiled(sight: Sight) -> bool:
    """No valid feedback of the stages of a pipeline that was found.

    Drivers say nothing of stages that they did not compile; an implementation may leave VALID out.
    """
    return ".stage" in sight.key and sight.values == ("V", "-") and sight.stored


def seeded_data(sight: Sight) -> bool:
    """vkGetPipelineCacheData has pipelines where without the layer there were none.

    Stored pipelines were merged into the cache; the size is the implementation's affair.
    """
    if sight.call.name != "read" or sight.layer.get("beyond", "0") != "0":
        return False
    if (sight.driver.get("size"), sight.layer.get("size")) == ("empty", "filled"):
        return True
    # Part of the data, when there is more of it.
    return not {"half", "less"}.isdisjoint(sight.call.words) and sight.key in ("got", "header")


def emptied_cache(sight: Sight) -> bool:
    """A cache made from data that is not all that the program read lacks what a driver would take of it.

    Policy refuses such data. Vulkan, VUID-VkPipelineCacheCreateInfo-initialDataSize-00769: it is invalid; what does
    not fit the driver is no error, the cache is empty then.
    """
    if sight.call.name == "read":
        return bool(sight.call.slots & sight.history.emptied) and sight.layer.get("beyond", "0") == "0"
    return (
        is_feedback(sight) and sight.call.cache in sight.history.emptied and sight.values in (("VH", "V"), ("H", "-"))
    )


def follows(sight: Sight) -> bool:
    """Calls on an object that only one of the two runs has, for a reason above.

    Follows from the call that made it.
    """
    return bool(sight.call.slots & sight.history.tainted)


def asks_internal_cache(call: Call) -> bool:
    return call.name == "binaries" and any("info=" in word for word in call.words)


def other_binaries(sight: Sight) -> bool:
    """VK_PIPELINE_BINARY_MISSING_KHR, or binaries, from pPipelineCreateInfo where the driver alone has the other.

    Vulkan, vkCreatePipelineBinariesKHR: MISSING 'may be returned for any reason'. With the layer pipelines are
    compiled into a VkPipelineCache, which the driver's internal cache then lacks.
    """
    return asks_internal_cache(sight.call)


def compiled_again(sight: Sight) -> bool:
    """Feedback of the stages of a pipeline that the driver alone finds in its internal cache.

    A program that keeps binaries itself gets them from there, so the layer no longer adds a cache. What went
    through a cache of the layer's before is not there.
    """
    stage = ".stage" in sight.key and sight.values in (("-", "V"), ("?", "V"))
    return stage and sight.call.cache == "-" and sight.history.keeps_binaries


#: The ways in which programs may see the layer. For users: docs/internals/coverage.md, "What a program may notice".
ALLOWED: tuple[Callable[[Sight], bool], ...] = (
    answered, result_of_answers, feedback_cleared, feedback_of_answered, found_in_seeded_cache, stages_not_compiled,
    seeded_data, emptied_cache, other_binaries, compiled_again, follows,
)  # fmt: skip


def differing(driver: dict[str, str], layer: dict[str, str]) -> list[str]:
    """The values of a line that are not the same; of one that only one run skipped, just that."""
    if ("skip" in driver) != ("skip" in layer):
        return ["skip"]
    return [key for key in dict.fromkeys((*driver, *layer)) if driver.get(key) != layer.get(key)]


def contradicts_itself(call: Call, values: dict[str, str]) -> bool:
    """Whether VK_SUCCESS comes with a pipeline that is not there, or anything else with all of them."""
    states = [values[str(i)] for i in range(len(call.elements)) if str(i) in values]
    return bool(states) and (values.get("result") == "0") != ("null" not in states)


def compare(lines: list[str], driver: list[str], layer: list[str], name: str, rows: Counter[str]) -> Iterable[str]:
    """Returns what no row of the table explains between the outputs of one program without the layer and with it.
    ``rows`` counts how often each row explained something."""

    def said(number: int, line: str, key: str, alone: str, under: str) -> str:
        return f"{name}, line {number}: {line}\n  {key}: {alone!r} without the layer, {under!r} with it"

    history = History()
    # The report of the allocation callbacks is a line more.
    calls = [Call(line) for line in [*lines, *["allocator"] * (len(driver) - len(lines))]]
    if len(driver) != len(layer):
        yield said(len(layer), "", "lines", str(len(driver)), str(len(layer)))
    for number, (call, before, after) in enumerate(zip(calls, driver, layer, strict=False)):
        old, new = parse(before), parse(after)
        different = differing(old, new)
        for key in different:
            sight = Sight(call, key, old, new, name.endswith("warm"), history)
            row = next((rule.__name__ for rule in ALLOWED if rule(sight)), None)
            if row is None:
                yield said(number, call.line, key, *sight.values)
            else:
                rows[row] += 1
        if contradicts_itself(call, new):
            yield said(number, call.line, "result", before, after)
        if "skip" not in old or "skip" not in new:
            history.follow(call, new, bool(different))
