"""The public interface of the store: all that commands and reports use of it.

Each method imports the module that does the work, so that a command loads only what it needs. A program's process does
not use this module: it loads and adds to one identity's ``Folder``.
"""

from __future__ import annotations

import os

from ..common import file_kinds
from .format import FINGERPRINTS as FINGERPRINTS
from .format import MAX_FILE_BYTES as MAX_FILE_BYTES
from .format import VERSION as VERSION
from .format import Refused as Refused
from .frames import FRAME_NS as FRAME_NS
from .frames import HISTORY as HISTORY
from .frames import PAUSE_NS as PAUSE_NS
from .frames import Usual as Usual

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import Any

    from ..common.identity import Identity
    from ..common.settings import Limits
    from .fleet_packs import Bound as Bound
    from .format import Damage as Damage
    from .holdings import Holding as Holding
    from .holdings import Learn
    from .holdings import Shelf as Shelf
    from .holdings import Stored as Stored
    from .portable import Export
    from .portable import Import as Import
    from .portable import Moved as Moved
    from .quarantine import QuarantinedFile as QuarantinedFile
    from .removal import Removal as Removal
    from .room import Room as Room
    from .timeline import Event as Event
    from .timeline import Follower
    from .timeline import Timeline as Timeline
    from .trimming import Trim as Trim
    from .verdict_words import VerdictText as VerdictText
    from .verdicts import Verdicts as Verdicts
    from .verification import Repair as Repair
    from .verification import TakesIdentity
    from .verification import Verification as Verification


class Store:
    """A store on the disk, which need not exist. The constructor does not access the disk."""

    def __init__(self, root: str) -> None:
        self.root = root

    # ---- what it holds -----------------------------------------------------------------------------------

    def identities(self) -> list[str]:
        """Returns the names of the identities, which are those of their folders."""
        from .folder import identity_names

        return identity_names(self.root)

    def identity(self, name: str) -> Identity | None:
        """Returns the identity of a folder; None if its description is missing or damaged."""
        from .folder import read_identity

        return read_identity(self.root, name)

    def total_bytes(self) -> int:
        """Returns the number of bytes in all identities' folders. Limits are about this number."""
        from .bounds import total_bytes

        return total_bytes(self.root)

    def tree_bytes(self, *folders: str) -> tuple[int, int]:
        """Returns the size in bytes and the number of all files below a folder of the store."""
        from .holdings import tree_bytes

        return tree_bytes(os.path.join(self.root, *folders))

    def shelves(self, takes: TakesIdentity, learn: Learn) -> list[Shelf]:
        """Returns what is stored under each identity that ``takes`` selects. ``learn`` gets the number and name of each
        program that a file names."""
        from . import holdings, runs

        shelves = [holdings.survey(self.root, name, learn) for name in self.identities() if takes(name)]
        pulled = [(shelf.name, held) for shelf in shelves for held in shelf.holdings.values() if held.pulled]
        unrecorded = runs.unrecorded(self.root) if pulled else set()
        for name, holding in pulled:
            holding.uses_recorded = name not in unrecorded
        return shelves

    def stored(self, fingerprint: int) -> list[Stored]:
        """Returns the stored records of a pipeline, one for each identity and program."""
        from . import holdings, runs

        found = [one for name in self.identities() for one in holdings.stored(self.root, name, fingerprint)]
        unrecorded = runs.unrecorded(self.root) if any(one.is_pulled for one in found) else set()
        for one in found:
            one.uses_recorded = not one.is_pulled or one.identity not in unrecorded
        return found

    def usable_packs(self) -> tuple[int, list[str]]:
        """Returns how many packs programs of this user can open if this is the system's store, and why they cannot open
        the others."""
        from ..common.paths import open_in_store, require_own_below
        from .folder import Folder

        count, problems = 0, []
        try:
            os.listdir(os.path.join(self.root, "store"))
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(str(error))
        for name in self.identities():
            identity = self.identity(name)
            try:
                require_own_below(self.root, "store", name)
                paths = Folder(self.root, identity).files(None, (file_kinds.PACK,)) if identity else []
            except OSError as error:
                problems.append(str(error))
                continue
            for path in paths:
                try:
                    os.close(open_in_store(path))
                    count += 1
                except OSError as error:
                    problems.append(str(error))
        return count, problems

    # ---- what can be done with it ------------------------------------------------------------------------

    def verification(self) -> Verification:
        """Returns a verification, which has not begun."""
        from .verification import Verification

        return Verification(self.root)

    def repair(self) -> Repair:
        """Returns a repair, which has not begun."""
        from .verification import Repair

        return Repair(self.root)

    def trim(self, limits: Limits, dry_run: bool) -> Trim:
        """Returns a trim, which has not begun."""
        from .trimming import Trim

        return Trim(self.root, limits, dry_run)

    def removal(self, shelf: Shelf, why: str) -> Removal:
        """Returns a removal from one identity, which removes nothing yet. ``why`` is for people."""
        from .removal import Removal

        return Removal(self.root, shelf, why)

    def copies(self) -> list[str]:
        """Returns the paths of kept plans and compiled policy files, which are made again when they are needed."""
        from .removal import copies

        return copies(self.root)

    def left_in_memory(self) -> list[str]:
        """Returns the paths of small files that programs which ended left in memory, whatever their store."""
        from .sentinel import left_in_memory

        return left_in_memory()

    def older_folders(self) -> list[str]:
        """Returns the paths of folders that an older pylayer wrote and that this version renamed."""
        from .removal import older_folders

        return older_folders(self.root)

    def export(
        self,
        identity: Identity,
        programs: dict[int, str],
        device: str,
        pushed: Container[tuple[int, bytes, int]] | None = None,
    ) -> Export:
        """Returns an export of programs, given by number with their names, which has not begun. ``pushed``: without
        these records, given by program, digest and fingerprint, and without those that came from a fleet."""
        from .folder import Folder
        from .portable import Export

        return Export(Folder(self.root, identity), programs, device, pushed)

    def import_from(self, path: str, recipient: tuple[int, str] | None, sync: bool = True) -> Import:
        """Returns an import, of which only the identity was read. Raises Refused and OSError."""
        from .portable import Import

        return Import(path, recipient, sync)

    def room(self, limits: Limits) -> Room:
        """Returns how much a pull may add, which is not known yet."""
        from .room import Room

        return Room(self.root, limits)

    # ---- what is set aside -------------------------------------------------------------------------------

    def quarantined(self) -> list[QuarantinedFile]:
        """Returns the damaged files, oldest first."""
        from .quarantine import items

        return items(self.root)

    def verdicts(self) -> list[VerdictText]:
        """Returns what makes later runs worse, and what did until lately, by identity and program. Only reads: what
        follows from a death that no later start of the layer has found is missing."""
        from . import verdict_files, verdict_words
        from .folder import Folder, read_identity

        found = []
        for name in self.identities():
            identity = read_identity(self.root, name)
            if identity is not None:
                for program, (application, known) in verdict_files.read_all(Folder(self.root, identity)).items():
                    word = (application or f"program {program:016x}") if program else "all programs"
                    found += verdict_words.tell(identity, word, known)
        return found

    def forget_verdicts(self) -> None:
        """Ends all verdicts. What cannot be deleted stays."""
        from . import verdict_files
        from .folder import Folder, read_identity

        for name in self.identities():
            identity = read_identity(self.root, name)
            if identity is not None:
                verdict_files.forget(Folder(self.root, identity))

    def empty_quarantine(self) -> int:
        """Deletes the damaged files; returns how many."""
        from . import quarantine

        return quarantine.empty(self.root)

    # ---- what programs did -------------------------------------------------------------------------------

    def runs(self) -> Iterator[dict[str, Any]]:
        """Yields the values of every run that can be read, oldest first. They are untrusted."""
        from . import runs

        return runs.read_all(self.root)

    def named_runs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields name and values of every run that can be read, oldest first."""
        from . import runs

        return runs.read_named(self.root)

    def run_files(self) -> dict[str, os.stat_result]:
        """Returns the state of each run's file, by the run's name."""
        from . import runs

        return runs.files(self.root)

    def run(self, name: str) -> dict[str, Any]:
        """Returns the values of a run. Raises OSError and ValueError."""
        from . import runs

        return runs.read(self.root, name)

    def recorded_paths(self, names: Container[str] | None) -> list[str]:
        """Returns the files that record these runs; None for all. Leaves out timelines whose writer is alive."""
        from . import runs

        return runs.recorded_paths(self.root, names)

    def timeline(self, name: str) -> Timeline | None:
        """Returns the timeline of a run; None if it has none that can be read."""
        from . import timeline

        return timeline.read(self.root, name)

    def follow(self, name: str) -> Follower:
        """Returns a reader of what a run appends to its timeline."""
        from .timeline import Follower

        return Follower(self.root, name)
