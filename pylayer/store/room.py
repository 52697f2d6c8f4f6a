"""How much a pull may add to a store, and what it evicts for that. Only the command line uses this.

Where programs only read the store, as with the preset ``fleets``, nobody else keeps it within its limits. What is
evicted to make room was pulled for drivers that nobody pulls for now, and never used here. So what a pull adds is never
at the cost of what it would add the next time.
"""

from __future__ import annotations

from . import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..common.settings import Limits


class Room:
    """The room in one store. First ``trim``, then ``make``, then ``problem`` and ``take`` for each pack."""

    def __init__(self, root: str, limits: Limits) -> None:
        self.evicted = 0
        self._root = root
        self._limits = limits
        self._sizes: dict[int | None, int] = {}

    def trim(self) -> Iterator[None]:
        """Brings the store within its limits, in steps. Raises OSError."""
        limits = self._limits
        if bounds.is_exceeded(self._root, limits.max_store, limits.max_program):
            yield from self._enforce(limits.max_store, limits.max_program, None)

    def make(self, needed: int, keep: set[str]) -> Iterator[None]:
        """Makes room for so many bytes under the identities ``keep``, in steps. Raises OSError."""
        if bounds.total_bytes(self._root) + needed > self._limits.max_store:
            yield from self._enforce(max(self._limits.max_store - needed, 0), 1 << 62, keep)
        self._sizes = bounds.sizes(self._root)

    def _enforce(self, max_store: int, max_program: int, keep: set[str] | None) -> Iterator[None]:
        trimmed = bounds.Trimmed()
        yield from bounds.enforce(self._root, max_store, max_program, trimmed, keep=keep)
        self.evicted += trimmed.records

    def problem(self, program: int, size: int) -> str:
        """Returns why a pack does not fit; empty if it does."""
        if sum(self._sizes.values()) + size > self._limits.max_store:
            return "the store has no room for it (max_store_mib)"
        if self._sizes.get(program, 0) + size > self._limits.max_program:
            return "the store has no room for more of its program (max_store_mib)"
        return ""

    def take(self, program: int, size: int) -> None:
        """Counts a pack that was added."""
        self._sizes[program] = self._sizes.get(program, 0) + size
