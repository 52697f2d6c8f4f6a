"""The policy thread: takes the layer's messages, has ``Policy`` decide, and stores data.

An error affects one message, or one write. The error is logged, a message without an answer means 'do nothing', and the
thread takes the next message.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from ..common import file_kinds, paths, settings
from ..common.paths import config_files, store_root
from ..common.user_policy import describe
from ..policy import Policy, choose_mode
from ..values import (
    GOOD_OUTCOMES,
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    MODE_BINARIES,
    MODE_CELLS,
    MODE_NAMES,
    MODE_OFF,
    OUTCOME_KEPT,
    VERDICT_EMPTY,
    VERDICT_PASS,
)

# Import only what the first plan needs: a program waits for it in vkCreateDevice. Session and store are imported later.
from . import boundary
from .user_output import LogStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..values import Cell, DeviceFacts, Plan, Program
    from .maintaining import Maintaining
    from .session import DeviceSession
    from .user_class import UserClass

#: While messages come or counters change, policy writes statistics this often. Cache hits send no message.
INTERVAL_NS = 1_000_000_000
#: After this time without a change policy reads the counters once more, and then sleeps until a message comes, unless
#: a device presents frames.
LAST_INTERVAL_NS = 5_000_000_000
#: Most messages whose records one system call writes.
WRITE_RECORDS = 256
#: Stack of threads that policy starts. The default is RLIMIT_STACK, which may be 64 KiB.
THREAD_STACK_BYTES = 1 << 20


class Host:
    """Policy's side of one process."""

    def __init__(self) -> None:
        self.executable = boundary.executable()
        self.root = store_root()
        self.document: dict[str, Any] = {}
        self.policy = Policy()
        self.sessions: dict[int, DeviceSession] = {}
        #: The user's policy class. None without one.
        self.user_class: UserClass | None = None
        #: What the statistics of runs say about that class. Empty without one.
        self.policy_facts: dict[str, Any] = {}
        self._dirty = False
        self._last_written = time.monotonic_ns()
        #: The last statistics written had changes.
        self._active = False
        #: Everything is written, and nothing has happened since.
        self._settled = False
        self._maintaining: Maintaining | None = None
        #: No policy class is configured, and no existing policy file was left out.
        self._plans_may_be_kept = False

    # ---- start -----------------------------------------------------------------------------------

    def configure(self) -> None:
        """Reads the policy file and imports the user's policy class. If one cannot be used, what the others
        say stays in force."""
        if self.root is None:
            boundary.log(LOG_WARN, "there is no home directory and PYLAYER_STORE is not set, so nothing is stored")
        system, user = config_files()
        self._plans_may_be_kept = True
        if system is None and user is None:
            return
        try:
            from ..common import compiled

            self.document, problems = compiled.load(system, user, self.root)
        except Exception as error:
            boundary.log(LOG_WARN, f"no policy file can be used: {describe(error)}; the defaults are in force")
            self._plans_may_be_kept = False
            return
        for problem in problems:
            # The layer already logs this of the system's file (shim/layer/policy/policy_files.c).
            if problem.path == system and isinstance(problem.error, (paths.UntrustedDirectory, PermissionError)):
                continue
            boundary.log(LOG_WARN, f"{problem}; {compiled.instead(problem, system, problems)}")
            self._plans_may_be_kept &= not paths.exists(problem.path)
        wanted = settings.top_setting(self.document, "policy")
        self._plans_may_be_kept &= not wanted
        if wanted:
            from ..common import user_policy
            from .user_class import UserClass

            self.user_class = UserClass(wanted, self.policy_facts)
            try:
                self.policy = self.user_class.run(user_policy.load, wanted, user, system)
            except BaseException as error:
                reason = describe(error)
                boundary.log(LOG_WARN, f"policy {wanted} cannot be used: {reason}; the built-in one is in force")
                self.user_class.switch_off(f"it cannot be used: {reason}")

    # ---- messages --------------------------------------------------------------------------------

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the policy. Those of the user's class get copies, and their answers become plain values."""
        if self.user_class is None or type(self.policy) is Policy:
            return getattr(self.policy, method)(*arguments)
        return self.user_class.ask(self.policy, method, *arguments)

    def _judge(self) -> None:
        """Replaces a policy class that keeps failing with the built-in policy."""
        reason = self.policy_facts.get("switched_off")
        if not reason or type(self.policy) is Policy:
            return
        self.policy = Policy()
        boundary.log(
            LOG_WARN,
            f"policy class {self.policy_facts['class']} is switched off for this process: {reason}; the built-in one "
            "is in force. Correct the class",
        )

    def plan_device(self, message: boundary.Message) -> None:
        """PLAN_DEVICE: answers with the plan first, then makes the session while the driver creates the device."""
        program = message.program(self.executable)
        facts = message.device_facts()
        if self._is_skipped(message, program):
            return  # without an answer the layer does nothing
        wanted = settings.settings_for(self.document, program, facts)
        plan = self._ask("plan_device", program, facts, wanted)
        records = plan.record_state and self._is_unrecorded(message.program_id, facts, plan)
        in_time = message.kept or message.answer_plan(plan, records)
        if not in_time:
            boundary.log(LOG_WARN, f"the plan for {facts.device_name} came too late; the device runs without the layer")
        from .session import DeviceSession

        share, state_mib = (settings.top_setting(self.document, key) for key in ("share", "state_mib"))
        device = (boundary, message.device, program, message.program_id, facts, self.root, wanted)
        session = DeviceSession(plan, share, int(state_mib), *device)
        session.policy = self.policy_facts
        mode, reason = choose_mode(wanted, facts)
        session.reason = session.plan_reason = reason if plan.mode == mode else "chosen by the policy class"
        if plan.may_be_kept and self._plans_may_be_kept:
            session.decision_key = message.decision_key
        session.is_stale = not message.kept
        session.keep_decision()  # also if the plan is late: the next run need not wait
        if not in_time:
            session.found.check_folder()  # so that the next run opens the store without policy
            return
        self.sessions[message.device] = session
        if plan.mode == MODE_OFF:
            boundary.log(LOG_INFO, f"{facts.device_name}: mode off, {session.reason}")

    def _is_unrecorded(self, program_id: int, facts: DeviceFacts, plan: Plan) -> bool:
        """Returns whether recordings of what the program will create may be missing. The program waits meanwhile, so
        this does not import the modules of the store."""
        from ..common.identity import Identity

        own = f"{program_id:016x}"
        try:
            names = [name for name in os.listdir(f"{self.root}/{file_kinds.UNRECORDED.place}") if name.startswith(own)]
        except OSError:
            names = []
        is_new = plan.mode == MODE_CELLS and not paths.exists(f"{self.root}/store/{Identity.of(facts).name}")
        return not names or f"{own}{file_kinds.UNRECORDED}" in names or is_new

    def _is_skipped(self, message: boundary.Message, program: Program) -> bool:
        """Returns whether a skip rule applies. False if the layer already decided that none does."""
        built_in = message.skip_undecided
        if built_in is None or not settings.is_skipped(self.document, program, built_in):
            return False
        boundary.log(LOG_INFO, f"a skip rule matches {program.name}; the layer does nothing for it")
        return True

    def device_created(self, message: boundary.Message) -> None:
        """DEVICE_CREATED: has the layer open the store if it has not, and notes the mode in force. The program may wait
        for that."""
        session = self.sessions.get(message.device)
        if session is None:  # plan_device failed after the plan was answered
            boundary.switch_off(message.device)
            return
        session.state = message.device_state()
        if session.state.mode != session.plan.mode and not session.state.off_by:
            binaries = session.plan.mode == MODE_BINARIES and session.state.cache_control
            feature = "VK_KHR_pipeline_binary" if binaries else "pipelineCreationCacheControl"
            session.reason = f"{feature} could not be enabled"
        self._guard(session.open_store)
        message.answer()
        self._guard(session.keep_decision)
        session.run_log.device_created(session.state, message.sent_ns)
        boundary.log(
            LOG_INFO,
            f"{session.facts.device_name}: mode {MODE_NAMES[session.state.mode]} for {session.program.name}, "
            f"{session.reason}; identity {session.identity.name}",
        )
        self._ask("device_created", session.program, session.facts, session.state)

    def admit_cache(self, message: boundary.Message) -> None:
        """ADMIT_CACHE: decides whether initial data reaches the driver, or only reports on it."""
        session = self.sessions.get(message.device)
        if session is None:
            return
        data = message.cache_data()
        data.history = session.caches.history(data)
        verdict, outcome = self._ask("admit_cache", data, session.facts, session.settings)
        meaning, reports = "", session.caches.reports
        if reports:  # the message is an event: the program does not wait, and its data has passed
            verdict = VERDICT_PASS
            if outcome not in GOOD_OUTCOMES:
                meaning = "; the driver got it, because application_caches is report"
        elif verdict != VERDICT_EMPTY and session.learning.known.takes_application_data(data.digest):
            verdict, outcome = VERDICT_EMPTY, "blocked"
        if verdict == VERDICT_EMPTY:
            meaning = "; the program gets an empty cache"
        if not reports:
            message.answer_verdict(verdict)
        session.caches.count(outcome, verdict == VERDICT_EMPTY)
        word = "emptied" if verdict == VERDICT_EMPTY else "passed"
        session.run_log.cache(message.sent_ns, word, data.slot, data.data_size, outcome, waited=not reports)
        damage = f" ({data.damage})" if outcome == "altered" else ""
        boundary.log(
            LOG_WARN if meaning else LOG_DEBUG,
            f"application cache of {data.data_size} bytes: {outcome}{damage}{meaning}",
        )

    def cache_used(self, message: boundary.Message) -> None:
        """CACHE_USED: either the program read data of a cache, which lifts a block of that data, or the driver failed
        on data that passed. With a digest of zeros the layer only waits until the store is open."""
        session = self.sessions.get(message.device)
        if session is None:
            return
        data = message.cache_data()
        if not data.result:
            session.learning.note_returned(data.digest)
            return
        session.caches.count("driver-error", refused=True)
        session.run_log.cache(message.sent_ns, "refused", data.slot, data.data_size, "driver-error")
        boundary.log(
            LOG_WARN,
            f"the driver failed ({data.result}) on an application cache of {data.data_size} bytes; "
            "the program gets an empty cache",
        )

    def admit_binary(self, message: boundary.Message) -> None:
        """ADMIT_BINARY: refuses the data of a binary that the program read from another driver."""
        session = self.sessions.get(message.device)
        if session is not None and session.caches.history(message.cache_data()) == "stale":
            message.answer_verdict(VERDICT_EMPTY)

    def store_damaged(self, message: boundary.Message) -> None:
        """STORE_DAMAGED: the layer could not use all of a file that it reads itself."""
        session = self.sessions.get(message.device)
        if session is not None:
            session.found.verify_file(message.damaged_file())

    def records(self, first: boundary.Message) -> boundary.Message | None:
        """Takes successive messages of one device that bring data, and stores all data of a type with one write.
        Returns the first message that is not one of them, or None."""
        session = self.sessions.get(first.device)
        messages: list[boundary.Message] = []
        views: list[memoryview] = []
        parts: dict[int, list[bytes | memoryview]] = {}
        message: boundary.Message | None = first
        try:
            while message is not None and message.type in BRINGS_DATA and message.device == first.device:
                messages.append(message)
                if session is not None:
                    self._guard(self._take, message, session, parts.setdefault(message.type, []), views)
                if len(messages) == WRITE_RECORDS:
                    return None
                message = boundary.next_message(0)
            return message
        finally:
            if session is not None:
                writes = {
                    boundary.CELL: session.write_pipelines,
                    boundary.STATE: session.recording.write,
                }
                for type, pieces in parts.items():
                    self._guard(writes[type], pieces)
            for view in views:
                try:
                    view.release()  # later use of the view raises an exception instead of reading freed memory
                except BufferError:
                    pass
            for taken in messages:
                taken.release()

    def _take(
        self,
        message: boundary.Message,
        session: DeviceSession,
        parts: list[bytes | memoryview],
        views: list[memoryview],
    ) -> None:
        """Adds the pieces that have to be written of a message's data to ``parts``, and the view of its memory to
        ``views``."""
        brought = getattr(message, BRINGS_DATA[message.type])()
        if isinstance(brought.data, memoryview):
            views.append(brought.data)
        if message.type == boundary.CELL:
            parts += self._new_of_cell(brought, session)
        else:
            parts += session.recording.new(brought)

    def _new_of_cell(self, cell: Cell, session: DeviceSession) -> list[bytes | memoryview]:
        new: list[bytes | memoryview] = []
        try:
            if cell.outcome == OUTCOME_KEPT and self._ask("keep_cell", cell, session.program, session.settings):
                new = session.pipelines.new(cell)
        finally:
            session.run_log.creation(cell, len(cell.data) if new else 0)
        return new

    def flush(self, message: boundary.Message) -> None:
        """FLUSH: the device is about to be destroyed, or was not created, and all its earlier messages have been
        handled. Without a device: exit() waits, called while devices exist."""
        if not message.device:
            self._flush_process(message)
            return
        session = self.sessions.pop(message.device, None)
        if session is None:
            return
        try:
            counters = self._settle(session, ends=True)
        finally:
            session.close()
        if counters:  # without them the device was never created, or the layer has written the statistics
            self._guard(self._last_words, session, counters)
        if session.state is not None:
            self._guard(self.maintaining.join, session)
            self.maintaining.after(session)

    def _flush_process(self, message: boundary.Message) -> None:
        for session in self.sessions.values():
            self._guard(session.store_large, False)  # no joining: a driver that dies of it would do so in each exit()
            self._guard(self._settle, session, True)
        for session in self.sessions.values():
            self._guard(session.close)  # before device_destroyed: exit() does not wait for a policy class that hangs
        for session in self.sessions.values():
            totals = session.read_counters()
            if totals:
                self._guard(self._last_words, session, totals)
        self._guard(lambda: self.maintaining.at_exit(self.sessions.values()))

    def _last_words(self, session: DeviceSession, totals: dict[str, int]) -> None:
        try:
            self._ask("device_destroyed", session.program, session.facts, totals)
        finally:
            if self.policy_facts:
                session.write_run()  # adds the result of the call to the statistics

    def _settle(self, session: DeviceSession, ends: bool = False) -> dict[str, int]:
        """Writes statistics, and which stored pipelines were used. Returns the last known counters, empty if
        the device was never created. ``ends``: the device's run ends now."""
        session.store_large()
        counters = session.read_counters()
        if counters:
            if ends:
                session.run_log.end()
            session.pipelines.write_uses()
            session.judge(ends)
            self._active |= session.write_run()
        return counters

    def handle(self, message: boundary.Message) -> None:
        """Handles one message of any type that is not in ``BRINGS_DATA``."""
        handler = HANDLERS.get(message.type)
        if handler is not None:
            handler(self, message)

    # ---- loop ------------------------------------------------------------------------------------

    def _guard(self, function: Any, *arguments: Any) -> None:
        """Calls a function and logs its exceptions, SystemExit and KeyboardInterrupt included, because it may run the
        user's code."""
        try:
            function(*arguments)
        except BaseException as error:
            boundary.log(LOG_INFO, f"policy failed and does nothing for this call: {describe(error)}")
        self._judge()

    def _idle(self) -> None:
        """Writes statistics and starts maintenance, while no message waits or after INTERVAL_NS."""
        self._last_written = time.monotonic_ns()
        was_active = self._active or self._dirty
        self._active = self._dirty = False
        for session in self.sessions.values():
            self._guard(self._settle, session)
            if session.wants_maintenance:
                session.writer.close()  # so that what is in it can be joined
                self.maintaining.after(session)
        self._settled = not (was_active or self._active)

    @property
    def maintaining(self) -> Maintaining:
        """Maintenance of the store, with the limits of the policy file."""
        if self._maintaining is None:
            from .maintaining import Maintaining

            self._maintaining = Maintaining(settings.Limits.of(self.document), boundary.log)
        return self._maintaining

    def _timeout(self, busy: bool) -> int:
        if busy:
            return 0
        if not self._dirty and not self.sessions:
            return -1
        if self._settled and not any(session.sees_frames for session in self.sessions.values()):
            return -1
        return INTERVAL_NS if self._dirty or self._active else LAST_INTERVAL_NS

    def loop(self) -> None:
        """Handles messages until the process ends or the mailbox is closed."""
        busy = False
        while True:
            timeout = self._timeout(busy)
            message = boundary.next_message(timeout)
            timed_out = message is None and not busy
            while message is not None:
                self._dirty, self._settled = True, False
                if message.type in BRINGS_DATA:
                    message = self.records(message)
                else:
                    try:
                        self._guard(self.handle, message)
                    finally:
                        message.release()
                    message = None
            if not boundary.is_open():
                return
            busy = False
            maintaining = self._maintaining
            if maintaining is not None and maintaining.has_work:
                self._guard(maintaining.step)
                busy = maintaining.has_work
            if timed_out or time.monotonic_ns() - self._last_written > INTERVAL_NS:
                self._guard(self._idle)


#: The methods of ``Message`` that return what a message with data to store brings. ``HANDLERS`` has the other messages.
BRINGS_DATA = {boundary.CELL: "cell", boundary.STATE: "recorded"}
HANDLERS = {
    boundary.PLAN_DEVICE: Host.plan_device,
    boundary.DEVICE_CREATED: Host.device_created,
    boundary.ADMIT_CACHE: Host.admit_cache,
    boundary.STORE_DAMAGED: Host.store_damaged,
    boundary.CACHE_USED: Host.cache_used,
    boundary.ADMIT_BINARY: Host.admit_binary,
    boundary.FLUSH: Host.flush,
}


def prepare() -> Callable[[], None]:
    """Reads the policy file and imports the class it names. Returns the function that then runs on the policy thread.
    start.run() calls this once, on that thread."""
    sys.stdout = LogStream(LOG_INFO, boundary.log)
    sys.stderr = LogStream(LOG_WARN, boundary.log)
    _thread.stack_size(THREAD_STACK_BYTES)
    host = Host()
    host.configure()
    return host.loop
