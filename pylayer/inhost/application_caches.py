"""The program's own VkPipelineCache objects on one device: a history of the data that the program read, and outcomes
for the data that it brings back."""

from __future__ import annotations

from ..common import file_kinds
from ..values import GOOD_OUTCOMES, LOG_DEBUG, LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.cache_history import Attestations
    from ..store.format import Damage
    from ..values import CacheData
    from .device import Device
    from .journal_writer import JournalWriter
    from .learning import Learning


class ApplicationCaches:
    """Compares initial data with the history. ``say_damage`` reports the damage in the list it gets, and empties it."""

    def __init__(
        self, device: Device, writer: JournalWriter, learning: Learning, say_damage: Callable[[list[Damage]], None]
    ) -> None:
        self._device = device
        self._setting: str = device.settings["application_caches"]
        self._writer = writer
        self._learning = learning
        self._say_damage = say_damage
        #: None until first used, and without a store.
        self._attestations: Attestations | None = None
        self._has_loaded = False
        #: Number of times each outcome occurred, for data that passed and for data that was refused.
        self.outcomes: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    @property
    def attestations(self) -> Attestations | None:
        """The history: what the program read from its caches in this and earlier runs. None without a store, or if
        the setting application_caches does not need it."""
        if self._setting not in ("attest", "strict", "report"):
            return None
        device, folder = self._device, self._device.folder
        if self._attestations is None and folder is not None:
            from ..store.cache_history import Attestations

            takes_passed = self._setting == "attest"  # strict believes only what was read; report tells them apart
            self._attestations = Attestations(
                folder, device.program_id, device.program.name, self._writer.syncer, takes_passed
            )
            self._say_damage(self._attestations.damage)
        return self._attestations

    def history(self, data: CacheData) -> str:
        """Returns what the history knows of initial data: one of ``outcomes.HISTORY``. Sets ``data.damage``."""
        if data.data_is_null or data.data_size == 0 or self.attestations is None:
            return "unknown"
        outcome, data.damage = self.attestations.outcome(data.digest, data.data_size, data.sketch)
        return outcome

    def note_load(self, data: CacheData, passed: bool) -> None:
        """Records that the program gave initial data to vkCreatePipelineCache, and that it passed, so that nobody asks
        about it again. Compacts a scattered history: a program that is killed each time never gets to ``close``."""
        attestations = self.attestations
        if attestations is None or data.data_is_null or self._writer.paused or self._device.read_only:
            return
        try:
            if passed and data.data_size and data.history in ("attested", "unknown"):
                attestations.note_pass(data.digest, data.data_size, data.slot)
            if not self._has_loaded:
                self._has_loaded = True
                if self._is_scattered():
                    attestations.compact()
        except OSError as error:
            self._writer.failed(error)

    def count(self, outcome: str, refused: bool) -> None:
        """Counts the outcome of initial data."""
        counts = self.refused if refused else self.outcomes
        counts[outcome] = counts.get(outcome, 0) + 1

    @staticmethod
    def describe(data: CacheData, outcome: str) -> str:
        """Returns the outcome for the log. For altered data it includes the kind of damage."""
        return f"{outcome} ({data.damage})" if outcome == "altered" else outcome

    def report(self, data: CacheData, outcome: str, log: Callable[[int, str], None]) -> None:
        """Counts and logs the outcome of initial data that passed regardless of it."""
        self.count(outcome, refused=False)
        good = outcome in GOOD_OUTCOMES
        passed = "" if good else "; the driver got it, because application_caches is report"
        log(
            LOG_DEBUG if good else LOG_WARN,
            f"application cache of {data.data_size} bytes: {self.describe(data, outcome)}{passed}",
        )

    def read(self, read: CacheData) -> None:
        """Records what the program read from one of its caches, so that data it loads later can be compared."""
        self._learning.note_returned(read.digest)
        attestations = self.attestations
        if attestations is None or self._writer.paused or self._device.read_only:
            return
        try:
            attestations.attest(read.digest, read.data_size, read.slot, read.incomplete, read.sketch)
        except OSError as error:
            self._writer.failed(error)

    @property
    def reports(self) -> bool:
        """Whether all data passes, and its outcome is only counted and logged."""
        return self._setting == "report"

    def close(self) -> None:
        """Compacts the history and closes its files. The layer adds to the history, too, in runs without policy."""
        if self._device.read_only or (self._attestations is None and not self._is_scattered()):
            return
        attestations = self.attestations
        if attestations is not None:
            try:
                attestations.compact()
            except OSError:
                pass  # a later run compacts it
            attestations.close()

    def _is_scattered(self) -> bool:
        """Returns whether so many files hold the history that the layer had policy compact them."""
        folder = self._device.folder
        files = folder.files(self._device.program_id, (file_kinds.ATTEST,)) if folder is not None else []
        return len(files) > file_kinds.MANY_ATTEST_FILES
