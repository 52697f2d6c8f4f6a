"""The history of the program's own VkPipelineBinaryKHR objects on one device: what the program read in all runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.binary_history import BinaryHistory
    from ..store.format import Damage
    from ..values import BinaryRead
    from .device import Device
    from .journal_writer import JournalWriter


class ApplicationBinaries:
    """Loads and records that history. ``say_damage`` reports the damage in the list it gets, and empties the list."""

    def __init__(self, device: Device, writer: JournalWriter, say_damage: Callable[[list[Damage]], None]) -> None:
        self._device = device
        self._writer = writer
        self._say_damage = say_damage
        self._history: BinaryHistory | None = None
        self._loaded = False
        #: Number of binaries from earlier runs that the layer took.
        self.attested = 0

    @property
    def history(self) -> BinaryHistory | None:
        """The stored history. None without a store."""
        device = self._device
        if self._history is None and device.folder is not None:
            from ..store import binary_history

            self._history = binary_history.BinaryHistory(
                device.folder, device.program_id, device.program.name, binary_history.MOST_BYTES, self._writer.syncer
            )
        return self._history

    def load(self) -> None:
        """Hands the binaries of earlier runs to the layer, once: the program begins to pass data of binaries, or to
        read it. Does nothing if the layer does not check binaries."""
        device = self._device
        if self._loaded or not device.checks_binaries or self.history is None:
            return
        self._loaded = True
        for attested in self.history.load():
            self.attested += max(device.commands.load_attested(device.serial, attested), 0)
        self._say_damage(self.history.damage)

    def new(self, read: BinaryRead) -> list[bytes | memoryview]:
        """Returns the pieces to write for a binary that the program read. Empty if the binary is already known, or if
        nothing can be stored."""
        device = self._device
        if not device.checks_binaries or self.history is None or self._writer.paused or device.read_only:
            return []
        self.load()
        return self.history.new(read, device.settings["application_binaries"] == "restore")

    def write(self, parts: list[bytes | memoryview]) -> None:
        """Stores pieces that ``new`` returned, in one write."""
        if not parts or self.history is None:
            return
        try:
            self.history.write(parts)
        except OSError as error:
            self._writer.failed(error)

    def close(self) -> None:
        """Closes the history's files."""
        if self._history is not None:
            self._history.close()
