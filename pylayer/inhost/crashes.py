"""The file of one device's crash sentinel, where policy makes it and not the layer."""

from __future__ import annotations

from ..common.files import remove
from ..store import sentinel
from ..store.verdicts import changing_variable
from ..values import LOG_DEBUG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .device import Device


class Crashes:
    """The sentinel of one device. With a read-only store its file lies in the runtime directory, and deaths are known
    only as long as that file exists."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._live: str | None = None

    def open(self, watch: Callable[[int], int], run: str | None, began_ns: int | None) -> None:
        """Creates the sentinel's file, for the run of this name, which began to read verdicts at ``began_ns``. The
        layer maps it in ``watch(descriptor)``."""
        device = self._device
        if device.folder is None:
            return
        try:
            self._live = sentinel.open_sentinel(
                device.folder,
                device.program_id,
                device.program.name,
                watch,
                device.read_only,
                run,
                began_ns,
                changed=bool(changing_variable()),
            )
        except OSError as error:  # the store cannot be written to
            device.log(LOG_DEBUG, f"the crash sentinel cannot be created: {error.strerror or error}")

    def close(self) -> None:
        """The device is destroyed: deletes the sentinel's file."""
        if self._live is not None:
            remove(self._live)
