"""One device's part in the crash sentinel: what is suspected, what this run clears, and the file that holds marks."""

from __future__ import annotations

from ..common.files import remove
from ..store import crash_notes, sentinel
from ..store.suspects import Suspects
from ..values import LOG_DEBUG, LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.folder import Folder
    from ..values import Program


class Crashes:
    """Suspects and the sentinel of one device. ``folder`` is None without a store; then nothing is suspected.
    ``read_only``: nothing is written to the store. The sentinel's file then lies in the runtime directory, and deaths
    are known only as long as that file exists."""

    def __init__(
        self,
        folder: Folder | None,
        program_id: int,
        program: Program,
        log: Callable[[int, str], None],
        read_only: bool = False,
    ) -> None:
        self._folder = folder
        self._program_id = program_id
        self._program = program
        self._log = log
        self._read_only = read_only
        self._live: str | None = None
        #: None until first used.
        self._known: Suspects | None = None
        #: What the driver made anew in this run: first eight bytes of digests, and fingerprints.
        self._made_anew: set[bytes | int] = set()

    @property
    def suspects(self) -> Suspects:
        """What processes died over in this driver. The first use looks for new deaths."""
        if self._known is None:
            self._known = Suspects()
            if self._folder is not None:
                self._known, deaths = crash_notes.review(self._folder, self._read_only)
                for death in deaths:
                    self._log(LOG_WARN, f"{Suspects.describe(death)}; pylayer quarantine ls shows it")
        return self._known

    @property
    def left_out(self) -> int:
        """The number of stored records that the load left out as suspects."""
        return len(self._known.left_out) if self._known else 0

    def open(self, watch: Callable[[int], int]) -> None:
        """Creates the sentinel's file. The layer maps it in ``watch(descriptor)``."""
        if self._folder is None:
            return
        try:
            self._live = sentinel.open_sentinel(
                self._folder, self._program_id, self._program.name, watch, outside=self._read_only
            )
        except OSError as error:  # the store cannot be written to
            self._log(LOG_DEBUG, f"the crash sentinel cannot be created: {error.strerror or error}")

    def allows(self, digest: bytes, fingerprint: int) -> bool:
        """Returns whether to store a record that was just compiled. False if the store has it already and the load left
        it out as a suspect. A suspected pipeline is compiled without stored data, so this compile clears it."""
        known = self._known
        if not known:
            return True
        again = digest in known.left_out
        if again or known.takes_pipeline(fingerprint):
            self._made_anew |= {digest[:8], fingerprint}
        return not again

    def given_out(self, digest: bytes) -> None:
        """Clears suspected data that the driver has just returned: a snapshot, or data of an application's cache."""
        known = self._known
        if known and (known.takes_application_data(digest) or known.takes_record(digest, 0)):
            self._made_anew.add(digest[:8])

    def close(self) -> None:
        """The device is destroyed: deletes the sentinel's file and writes a note of what was made anew."""
        if self._live is not None:
            remove(self._live)
        if self._folder is None or self._read_only or self._known is None:
            return
        try:
            crash_notes.clear(self._folder, self._program_id, self._program.name, self._known, self._made_anew)
        except OSError:
            pass  # it stays suspected for one more run
        self._made_anew = set()
