"""Compacts, repairs and limits the folders that this process wrote to, when the policy thread is idle."""

from __future__ import annotations

import time

from ..values import LOG_INFO, MODES_THAT_KEEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from ..common.settings import Limits
    from .session import DeviceSession


#: A process prunes for the first of so many devices: it may create hundreds, and the work grows with the store.
DEVICES = 64


def _adds_to_store(session: DeviceSession) -> bool:
    adds = session.plan.mode in MODES_THAT_KEEP or session.remembers_caches
    return adds and not session.read_only


class Maintaining:
    """Maintenance of the store, in small steps. ``limits``: as in the policy file."""

    def __init__(self, limits: Limits, log: Callable[[int, str], None]) -> None:
        self._limits = limits
        self._log = log
        self._work: Generator[None, None, None] | None = None
        #: Sessions by identity, so that several devices of one driver maintain their folder once.
        self._waiting: dict[str, DeviceSession] = {}
        #: The session that ``_work`` is for.
        self._session: DeviceSession | None = None
        self._devices = 0
        #: What is beside the pipelines is to be pruned, too.
        self._prunes = False

    @property
    def has_work(self) -> bool:
        """Whether ``step`` has anything to do. Do not call ``step`` otherwise."""
        return self._work is not None or bool(self._waiting)

    def after(self, session: DeviceSession) -> None:
        """Queues the folder of a session for maintenance."""
        session.maintained_at = session.pipelines.stored_bytes
        if session.folder is None:
            return
        self._prunes |= self._devices % DEVICES == 0
        self._devices += 1
        if not (self._prunes or session.pipelines.stored_bytes or session.found.damage):
            return
        if _adds_to_store(session) or session.identity.name not in self._waiting:
            self._waiting[session.identity.name] = session

    def step(self) -> None:
        """Does a piece of work of about a millisecond."""
        if self._work is None:
            self._session = self._waiting.pop(next(iter(self._waiting)))
            self._work = self._work_for(self._session)
        try:
            next(self._work)
        except StopIteration:
            self._work = None

    def _interrupt(self) -> None:
        """Stops the work in progress, which begins anew when its turn comes."""
        if self._work is not None:
            self._work.close()
            self._work = None
            assert self._session is not None
            self._waiting.setdefault(self._session.identity.name, self._session)

    def join(self, session: DeviceSession) -> None:
        """Has the driver join the cells that the session or a killed run stored, while vkDestroyDevice waits."""
        from ..store import journal, maintenance

        folder, program = session.folder, session.program_id
        if folder is None or not session.joins:
            return
        journal.close_ended_journals(folder, program)  # a run that was killed left its cells in one
        if not maintenance.worth_compacting(folder, program, True, maintenance.JOIN_BYTES):
            return
        self._interrupt()  # it may be compacting the same folder
        maintenance.join(folder, program, session.join)

    def at_exit(self, alive: Iterable[DeviceSession]) -> None:
        """Does what keeps short runs from adding ever more files, and no more, because exit() waits. ``alive``:
        sessions whose device still exists."""
        self._interrupt()
        sessions = {session.identity.name: session for session in alive} | self._waiting
        self._waiting = {}
        from ..store.maintenance import EXIT_SECONDS

        end = time.monotonic() + EXIT_SECONDS
        for session in sessions.values():
            if session.folder is None:
                continue
            for _ in self._work_for(session, at_exit=True):
                if time.monotonic() > end:
                    return

    def _work_for(self, session: DeviceSession, at_exit: bool = False) -> Generator[None, None, None]:
        try:
            yield from self._steps(session, at_exit)
        except OSError as error:
            self._log(LOG_INFO, f"maintenance of the store failed: {error}")

    def _steps(self, session: DeviceSession, at_exit: bool) -> Generator[None, None, None]:
        from ..store import compaction, maintenance, runs

        folder = session.folder
        assert folder is not None
        if at_exit:
            runs.prune(folder.root)
        if _adds_to_store(session):
            merge = session.join if session.joins and not at_exit else None
            # At exit nothing is joined. The next run can join what this one stored, but each run may be this short.
            leaves = at_exit and session.pipelines.stored_bytes > 0
            yield from maintenance.maintain(
                folder,
                session.found.damage,
                self._limits,
                lambda text: self._log(LOG_INFO, text),
                at_exit,
                merge,
                compaction.WORTH_BYTES if leaves else maintenance.JOIN_BYTES,
            )
        if self._prunes and not at_exit:
            self._prunes = False
            maintenance.prune(folder.root)
