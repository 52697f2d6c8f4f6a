"""The state of a device that all parts of its session share."""

from __future__ import annotations

from ..common.identity import Identity
from ..store.folder import Folder
from ..values import MODE_BINARIES, MODE_OFF, MODES_THAT_KEEP, DeviceFacts, DeviceState, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class Device:
    """One VkDevice of the program. ``commands`` is the ``boundary`` module, or a fake in tests. ``root`` is the store's
    path, or None without a store."""

    def __init__(
        self,
        commands: ModuleType,
        serial: int,
        program: Program,
        program_id: int,
        facts: DeviceFacts,
        root: str | None,
        settings: dict[str, Any],
    ) -> None:
        self.commands = commands
        self.serial = serial
        self.program = program
        self.program_id = program_id
        self.facts = facts
        self.settings = settings
        self.identity = Identity.of(facts)
        #: Nothing in the store is added, changed or deleted, except statistics of the run.
        self.read_only: bool = settings["store"] == "read-only"
        self.folder = Folder(root, self.identity) if root else None
        #: The outcome of the plan. None until the device exists, and after the layer was switched off for it.
        self.state: DeviceState | None = None
        #: Why the device has this mode, in words.
        self.reason = ""
        #: The decision for later processes is not stored, or may be out of date.
        self.is_stale = False

    def log(self, level: int, text: str) -> None:
        """Writes one line to the log."""
        self.commands.log(level, text)

    @property
    def checks_data(self) -> bool:
        """Whether data that the program brings itself is refused if it is damaged."""
        return self.settings["application_caches"] not in ("pass", "report")

    @property
    def remembers_caches(self) -> bool:
        """Whether the layer records which data of the program's own caches is known."""
        return self.settings["application_caches"] in ("attest", "strict", "report")

    @property
    def keeps(self) -> bool:
        """Whether the mode in force stores pipelines and uses stored ones."""
        return self.state is not None and self.state.mode in MODES_THAT_KEEP

    @property
    def has_binaries(self) -> bool:
        """Whether the mode in force is binaries."""
        return self.state is not None and self.state.mode == MODE_BINARIES

    def switch_off(self, reason: str) -> None:
        """Switches the mode off for this device."""
        self.reason = reason
        self.commands.switch_off(self.serial)
        if self.state is not None:
            self.state.mode = MODE_OFF
