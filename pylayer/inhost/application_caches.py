"""The program's own VkPipelineCache objects on one device: outcomes for the data that it passes and that the layer does
not know."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.cache_history import History
    from ..store.format import Damage
    from ..values import CacheData
    from .device import Device


class ApplicationCaches:
    """Compares initial data with what is known. ``say_damage`` reports the damage in the list it gets, and empties
    it."""

    def __init__(self, device: Device, say_damage: Callable[[list[Damage]], None]) -> None:
        self._device = device
        self._setting: str = device.settings["application_caches"]
        self._say_damage = say_damage
        #: None until first used.
        self._history: History | None = None
        #: Number of times each outcome occurred, for data that passed and for data that was refused.
        self.outcomes: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    def history(self, data: CacheData) -> str:
        """Returns what is known of initial data: one of ``outcomes.HISTORY``. Sets ``data.damage``."""
        device = self._device
        if data.data_is_null or data.data_size == 0 or device.folder is None or not device.remembers_caches:
            return "unknown"
        if self._history is None:
            from ..store.cache_history import History

            takes_passed = self._setting == "attest"  # strict believes only what was read
            self._history = History(device.folder, device.program_id, takes_passed)
        outcome, data.damage = self._history.outcome(data.digest, data.data_size, data.sketch)
        self._say_damage(self._history.damage)
        return outcome

    def count(self, outcome: str, refused: bool) -> None:
        """Counts the outcome of initial data."""
        counts = self.refused if refused else self.outcomes
        counts[outcome] = counts.get(outcome, 0) + 1

    @property
    def reports(self) -> bool:
        """Whether all data passes, and its outcome is only counted and logged."""
        return self._setting == "report"
