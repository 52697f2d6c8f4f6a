"""Repairs and compacts a whole store and brings it within its limits at once. Only the command line uses this."""

from __future__ import annotations

from functools import partial

from ..common.files import FULL
from . import bounds, maintenance, state
from .folder import folders, identity_names
from .verification import Verification

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..common.settings import Limits
    from .compaction import Compacted
    from .folder import Folder
    from .format import Damage


class Trim:
    """One trim, and what it did."""

    def __init__(self, root: str, limits: Limits) -> None:
        self.bytes_before = self.bytes_after = bounds.total_bytes(root)
        self.evicted = bounds.Eviction(root, limits.max_store, by_files=True)
        #: Damaged parts of files, which are dropped.
        self.damaged: list[Damage] = []
        #: Identities that could not be compacted, by name, each with the reason.
        self.skipped: list[tuple[str, str]] = []
        self._root = root
        self._limits = limits
        #: A compaction failed because the disk is full.
        self._is_full = False

    def compaction_steps(self) -> Iterator[None]:
        """Compacts the journals of each program, with its small packs, into one pack. Prunes runs and left-over files
        first, because that frees space. Reads the whole store, and so repairs what no compaction reads, too."""
        maintenance.prune(self._root)
        found = Verification(self._root)
        for _ in found.steps(lambda identity: True, None):
            yield
        self.damaged = found.problems
        yield from self._compaction_all()
        yield from state.evict(self._root, self._limits.state)

    def _compaction_all(self) -> Iterator[None]:
        known = {folder.identity.name: folder for folder in folders(self._root)}
        unknown = [name for name in identity_names(self._root) if name not in known]
        self.skipped = [(name, "its identity file is missing or damaged") for name in unknown]
        self._is_full = False
        for folder in (*known.values(), state.folder(self._root)):
            try:
                yield from maintenance.tidy(folder, self.damaged, partial(self._done, folder), everything=True)
            except OSError as error:
                self._is_full |= error.errno in FULL
                self.skipped.append((folder.identity.name, str(error.strerror or error)))

    def _done(self, folder: Folder, result: Compacted) -> None:
        if not result.claimed:
            self.skipped.append((folder.identity.name, "another process is compacting it"))

    def evict_steps(self) -> Iterator[None]:
        """Evicts what was used least recently until the store is within its limits. If the disk was too full to
        compact, compacts again afterwards. Raises OSError; nothing is half done then."""
        yield from self.evicted.steps()
        if self._is_full:
            yield from self._compaction_all()
            yield from self.evicted.steps()
        self.bytes_after = bounds.total_bytes(self._root)
