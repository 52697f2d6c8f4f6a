"""The members of structures, as registry.inc has them for the walk (layer/vulkan/walk.h)."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from registry_rules import FACTS, NEITHER, NOT_HASHED, NOT_RECORDED, QUICK, RULES, TOGETHER, Rule

if TYPE_CHECKING:
    from generate_registry import Registry

#: `Member.when` without a condition, and `Member.value` for any value but 0.
NO_MEMBER, ANY_VALUE = 0xFFFF, 0xFF
COUNTINGS = {"uint32_t": "UINT32", "size_t": "UINT64", "uint64_t": "UINT64"}
#: What counts of elements can be other than a number or a member: the member in it, how it counts, and the bytes of an
#: element if they are not those of its type. A number of words of code is told by its bytes.
EXPRESSIONS = {
    "codeSize / 4": ("codeSize", "UINT64", 1),
    "(rasterizationSamples + 31) / 32": ("rasterizationSamples", "BITS", None),
}

Names = tuple[str, ...]
#: need, never, any, all and moot of a rule, whether it has a condition, and valid.
RuleKey = tuple[Names, Names, Names, Names, Names, bool, bool]


@dataclass(frozen=True)
class Member:
    """An entry of the table. `name` is for people."""

    name: str
    kind: str
    offset: int
    size: int = 0
    target: int = 0
    counting: str = "HERE"
    count: int = 0
    rule: int = 0
    when: int = NO_MEMBER
    value: int = ANY_VALUE

    def continues(self, other: Member) -> bool:
        """Returns whether both are bytes that follow each other, under the same rule."""
        mine, others = replace(self, name="", offset=0, size=0), replace(other, name="", offset=0, size=0)
        return (
            (self.kind, self.counting) == ("PLAIN", "HERE")
            and mine == others
            and other.offset + other.size == self.offset
        )

    def line(self) -> str:
        number = f"{self.offset}, {self.size}, {self.target}, {self.count}, {self.when}"
        first, *others = self.name.split()
        name = f"{first} to {others[-1]}" if others else first
        return f"    {{{number}, {self.kind}, {self.counting}, {self.rule}, {self.value}}}, /* {name} */"


def both(one: Rule, other: Rule) -> Rule:
    return replace(one, need=tuple(sorted({*one.need, *other.need})), never=tuple(sorted({*one.never, *other.never})))


def place_of(own: list[Member], members: list[Member]) -> int:
    """Returns where these rows are in the table, after adding them if they are not."""
    unnamed = [replace(one, name="") for one in own]
    for place in range(len(members) - len(own) + 1):
        if [replace(one, name="") for one in members[place : place + len(own)]] == unnamed:
            return place
    members += own
    return len(members) - len(own)


class Members:
    """All of them, with the rules and the structures."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.rules: dict[RuleKey, int] = {}
        self.rule_number(Rule())
        used = {state for rules in RULES.values() for rule in rules.values() for state in (*rule.any, *rule.all)}
        used |= {state for rules in RULES.values() for rule in rules.values() for state in rule.moot}
        alone = used - {state for group in TOGETHER for state in group}
        self.bits = {state: bit for bit, state in enumerate(sorted(alone))}
        self.bits |= {state: len(alone) + bit for bit, group in enumerate(TOGETHER) for state in group}
        self.indexes = {one.name: index for index, one in enumerate(registry.structures)}
        self.structures = [one for one in registry.structures if not self.is_plain(one.name)]
        self.indexes = {one.name: index for index, one in enumerate(self.structures)}

    def rule_number(self, rule: Rule) -> int:
        """Rule 0 is that of members that always count."""
        return self.rules.setdefault(
            (rule.need, rule.never, rule.any, rule.all, rule.moot, bool(rule.when), rule.valid), len(self.rules)
        )

    def category(self, type_name: str) -> str:
        return self.registry.types[self.registry.real_name(type_name)].get("category", "")

    def offsets(self, structure: str) -> dict[str, int]:
        return {name: offset for name, offset, _ in self.registry.placed(structure)}

    def is_plain(self, structure: str) -> bool:
        """Returns whether all bytes of a structure are members that always count: a walk needs no row of it."""
        size = self.registry.layout(structure).size
        parts = [(one.kind, one.counting, one.size, one.rule) for one in self.of(structure, False)]
        return parts == [("PLAIN", "HERE", size, 0)]

    def of(self, structure: str, quick: bool) -> list[Member]:
        """The members that the walk visits, or those of them that a fingerprint is made of, without sType and pNext."""
        chosen = QUICK.get(structure, {}) if quick else None
        found: list[Member] = []
        for name, offset, element in self.registry.placed(structure):
            if name in ("sType", "pNext") or (chosen is not None and name not in chosen):
                continue
            rule = RULES.get(structure, {}).get(name)
            if chosen and name in chosen:
                rule = both(rule or Rule(), chosen[name])
            for one in self.entries(structure, name, offset, element, rule):
                if found and one.continues(found[-1]):
                    found[-1] = replace(found[-1], name=f"{found[-1].name} {name}", size=found[-1].size + one.size)
                else:
                    found.append(one)
        return found

    def entries(
        self, structure: str, name: str, offset: int, element: xml.Element, rule: Rule | None
    ) -> Iterator[Member]:
        """The entries of one member: several where its meaning depends on another."""
        if element.get("selector"):
            selector = self.offsets(structure)[element.attrib["selector"]]
            for choice in self.registry.members(element.findtext("type", "")):
                value = self.registry.values[choice.attrib["selection"]]
                one = self.one(structure, choice.findtext("name", ""), offset, choice, False)
                number = self.rule_number(replace(rule or Rule(), when="selector"))
                if one:
                    yield replace(one, when=selector, value=value, rule=number)
            return
        one = self.one(structure, name, offset, element, rule is not None)
        if one and rule:
            when = self.offsets(structure)[rule.when] if rule.when else NO_MEMBER
            for value in rule.values or (ANY_VALUE,):
                yield replace(one, rule=self.rule_number(rule), when=when, value=value)
        elif one:
            yield one

    def never(self, structure: str) -> int:
        """Returns the facts with which its sType does not count. Then a chain passes over the structure."""
        rules = RULES.get(structure, {})
        texts = {name: self.registry.declaration(member) for name, _, member in self.registry.placed(structure)}
        texts = {name: text for name, text in texts.items() if name not in ("sType", "pNext")}
        results = any("*" in text and not text.startswith("const ") for text in texts.values())
        if results or structure in NOT_RECORDED:
            return self.facts(NEITHER.never)
        decides = any(rules.get(name) != NOT_HASHED for name in texts)
        decides &= "structextends" in self.registry.types[structure].attrib
        return 0 if decides else self.facts(NOT_HASHED.never)

    def one(self, structure: str, name: str, offset: int, element: xml.Element, has_rule: bool) -> Member | None:
        text = self.registry.declaration(element)
        type_name = self.registry.real_name(element.findtext("type", ""))
        category = self.category(type_name)
        if "*" in text:
            followed = text.startswith("const ") and (has_rule or element.get("noautovalidity") != "true")
            return self.pointer(structure, name, offset, element, type_name) if followed else None
        size = self.registry.member_layout(element).size
        if category == "handle":
            return Member(name, "HANDLES", offset, *self.object_type(type_name))
        if category == "funcpointer":
            return None
        if category == "union" and any(
            "*" in self.registry.declaration(one) for one in self.registry.members(type_name)
        ):
            raise ValueError(f"{structure}: {text}: a union of pointers without a selector")
        if category == "struct" and not self.is_plain(type_name):
            if size != self.registry.layout(type_name).size:
                raise ValueError(f"{structure}: {text}: an array of structures")
            return Member(name, "STRUCTURES", offset, target=self.indexes[type_name])
        return Member(name, "PLAIN", offset, size)

    def pointer(self, structure: str, name: str, offset: int, element: xml.Element, type_name: str) -> Member | None:
        lengths = (element.get("altlen") or element.get("len") or "1").split(",")
        category = self.category(type_name)
        if lengths[-1] == "null-terminated" and len(lengths) == 1:
            return Member(name, "STRINGS", offset)
        counting, count, size = self.count(structure, lengths[0])
        common = Member(name, "PLAIN", offset, counting=counting, count=count)
        if lengths[-1] == "null-terminated":
            return replace(common, kind="STRINGS")
        if len(lengths) > 1:
            raise ValueError(f"{structure}.{name}: an array of pointers")
        if (structure, name) == ("VkSpecializationInfo", "pData"):
            return replace(common, kind="CONSTANTS", size=1)
        if type_name == "void":
            return replace(common, size=1) if element.get("len") else None
        if category == "handle":
            low, high = self.object_type(type_name)
            return replace(common, kind="HANDLES", size=low, target=high)
        if category == "struct" and not self.is_plain(type_name):
            return replace(common, kind="STRUCTURES", target=self.indexes[type_name])
        return replace(common, size=size or self.registry.layout(type_name).size)

    def count(self, structure: str, length: str) -> tuple[str, int, int | None]:
        """Returns how many elements there are, as `Member` has it, and the bytes of one if the type does not say it."""
        if length == "1":
            return "ONE", 0, None
        if length in EXPRESSIONS:
            counted, counting, size = EXPRESSIONS[length]
            return counting, self.offsets(structure)[counted], size
        member = next(one for one in self.registry.members(structure) if one.findtext("name") == length)
        return COUNTINGS[member.findtext("type", "")], self.offsets(structure)[length], None

    def object_type(self, handle: str) -> tuple[int, int]:
        """The lower and the upper half of a VkObjectType, which `size` and `target` of a handle have."""
        value = self.registry.values[self.registry.types[handle].attrib["objtypeenum"]]
        return value & 0xFFFF, value >> 16

    def lines(self) -> Iterator[str]:
        """The tables of registry.inc."""
        members: list[Member] = []
        yield from ("", "/* In the order of their sType; structures without one come last. */")
        yield "static const Structure structures[] = {"
        for structure in self.structures:
            every, quick = self.of(structure.name, False), self.of(structure.name, True)
            places = f"{place_of(every, members)}, {place_of(quick, members)}, {len(every)}, {len(quick)}"
            never = self.never(structure.name)
            quick_type = never == 0 and QUICK.get(structure.name, {}) is None
            row = f"{structure.type}u, {self.registry.layout(structure.name).size}, {places}, {never:#x}"
            yield f"    {{{row}, {quick_type:d}}}, /* {structure.name} */"
        yield from ("};", "", "/* Structures share equal rows. The names are those of the first structure. */")
        yield from ("static const Member members[] = {", *(one.line() for one in members), "};")
        yield from ("", "static const Rule rules[] = {")
        for need, never, any_of, all_of, moot, _, valid in self.rules:
            facts = ", ".join(f"{self.facts(names):#x}" for names in (need, never))
            dynamic = ", ".join(f"{self.dynamic(names):#x}" for names in (any_of, all_of or self.bits, moot))
            yield f"    {{{facts}, {dynamic}, {valid:d}}},"
        yield from ("};", "", "#define DYNAMIC_STATES \\")
        rows = [f"    DYNAMIC_STATE({self.dynamic_value(state)}, {bit})" for state, bit in self.bits.items()]
        yield " \\\n".join(rows)

    def dynamic_value(self, state: str) -> int:
        return self.registry.values[f"VK_DYNAMIC_STATE_{state}"]

    def facts(self, names: Iterable[str]) -> int:
        return sum(1 << list(FACTS).index(name) for name in names)

    def dynamic(self, names: Iterable[str]) -> int:
        return sum({1 << self.bits[name] for name in names})
