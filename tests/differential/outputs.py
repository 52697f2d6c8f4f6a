"""What the interpreter printed, as values that can be compared one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


def parse(call: Call, text: str) -> dict[str, str]:
    """The parts of an output line. Of pipelines by element: ``0``, ``0.feedback``, ``0.stages``."""
    values: dict[str, str] = {}
    number = 0
    if text.startswith("skip"):
        return {"skip": text[5:]}
    for position, word in enumerate(text.split()):
        key, equals, value = word.partition("=")
        if call.name in POINTS and equals and SLOT.fullmatch(key):
            state, *feedback = value.split(":")
            values[str(number)] = state
            if feedback:
                values[f"{number}.feedback"] = feedback[0]
            for stage, flags in enumerate(feedback[1].split(",") if len(feedback) > 1 else ()):
                values[f"{number}.stage{stage}"] = flags
            number += 1
        elif equals:
            values[key] = value
        else:
            values[str(position)] = word
    return values
