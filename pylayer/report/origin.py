"""Where stored pipelines came from: from a fleet (``pylayer fleet pull``), or from this machine's own programs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..store.store import Store
from .words import plural


def used_here(count: int | None) -> str:
    """Returns how many pulled pipelines were used here, for people. None is unknown."""
    return "? used here: programs with store: read-only do not record it" if count is None else f"{count} used here"


@dataclass(frozen=True)
class Origin:
    """What a program has stored under one identity: pipelines, those from a fleet, and those of them used here."""

    pipelines: int
    pulled: int
    used: int | None

    def __str__(self) -> str:
        return (
            f"{self.pulled} of the {plural(self.pipelines, 'stored pipeline')} from the fleet, {used_here(self.used)}"
        )


def origins(root: str) -> dict[tuple[str, int], Origin]:
    """Returns the origin of pipelines by identity and program, for programs with pipelines from a fleet. Reads the
    whole store if this machine ever pulled, and else nothing."""
    if not os.path.isdir(os.path.join(root, "fleet")):
        return {}
    return {
        (shelf.name, program): Origin(holding.pipelines, len(holding.pulled), holding.pulled_used)
        for shelf in Store(root).shelves(lambda name: True, lambda number, name: None)
        for program, holding in shelf.holdings.items()
        if holding.pulled
    }
