"""Where stored pipelines came from: from a fleet (``pylayer fleet pull``), from ``pylayer rebuild``, or from this
machine's own programs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..common.file_kinds import INDEX, OBJECTS
from ..store.store import Store
from .words import plural


def used_here(count: int | None) -> str:
    """Returns how many pulled pipelines were used here, for people. None is unknown."""
    return "? used here: programs with store: read-only do not record it" if count is None else f"{count} used here"


@dataclass(frozen=True)
class Origin:
    """What a program has stored under one identity: pipelines, those from a fleet and those that were rebuilt, each
    with how many of them were used here."""

    pipelines: int
    pulled: int
    used: int | None
    rebuilt: int
    rebuilt_used: int

    def __str__(self) -> str:
        of = f"of the {plural(self.pipelines, 'stored pipeline')}"
        parts = [f"{self.pulled} {of} from the fleet, {used_here(self.used)}"] if self.pulled else []
        parts += [f"{self.rebuilt} {of} rebuilt, {used_here(self.rebuilt_used)}"] if self.rebuilt else []
        return "; ".join(parts)


def origins(root: str) -> dict[tuple[str, int], Origin]:
    """Returns the origin of pipelines by identity and program, for programs with pipelines from a fleet or
    from a rebuild. Reads the whole store if this machine ever pulled or recorded state, and else nothing."""
    if not any(os.path.isdir(os.path.join(root, place)) for place in (INDEX.place, OBJECTS.place)):
        return {}
    return {
        (shelf.name, program): Origin(
            holding.pipelines,
            len(holding.pulled),
            holding.pulled_used,
            len(holding.rebuilt),
            holding.rebuilt_used,
        )
        for shelf in Store(root).shelves(lambda name: True, lambda number, name: None)
        for program, holding in shelf.holdings.items()
        if holding.pulled or holding.rebuilt
    }


def origin_json(origin: Origin | None) -> dict[str, int | None]:
    """Returns the numbers of an origin; zeros if there is none."""
    return {
        "pulled_pipelines": origin.pulled if origin else 0,
        "pulled_pipelines_used": origin.used if origin else 0,
        "rebuilt_pipelines": origin.rebuilt if origin else 0,
        "rebuilt_pipelines_used": origin.rebuilt_used if origin else 0,
    }
