"""One device's part in the crash sentinel: what is suspected, what its run clears, and the file that marks stand in."""

from __future__ import annotations

from ..store import crash_notes, sentinel
from ..store.files import remove
from ..store.suspects import Suspects, describe
from ..values import LOG_DEBUG, LOG_WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.folder import Folder
    from ..values import Program


class Crashes:
    """``folder`` None: there is no store, and nothing is suspected. ``read_only``: nothing is written into it; deaths
    are seen where the sentinel's file can lie in the runtime directory, for as long as that lasts."""

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
        #: None: nobody has asked yet.
        self._known: Suspects | None = None
        #: Names of data, and fingerprints.
        self._made_anew: set[bytes | int] = set()

    @property
    def suspects(self) -> Suspects:
        """What processes died of in this driver's hands. Looks for new deaths once."""
        if self._known is None:
            self._known = Suspects()
            if self._folder is not None:
                self._known, deaths = crash_notes.review(self._folder, self._read_only)
                for death in deaths:
                    self._log(LOG_WARN, f"{describe(death)}; pylayer quarantine ls shows it")
        return self._known

    @property
    def left_out(self) -> int:
        """Stored records that were not used."""
        return len(self._known.left_out) if self._known else 0

    def open(self, watch: Callable[[int], int]) -> None:
        """Makes the sentinel; the layer maps it, ``watch(descriptor)``."""
        if self._folder is None:
            return
        try:
            self._live = sentinel.open_sentinel(
                self._folder, self._program_id, self._program.name, watch, outside=self._read_only
            )
        except OSError as error:  # a store that is only read
            self._log(LOG_DEBUG, f"no crash sentinel: {error.strerror or error}")

    def allows(self, digest: bytes, fingerprint: int) -> bool:
        """Whether what was compiled is to be stored like any other. Without anything stored, it clears its pipeline."""
        known = self._known
        if not known:
            return True
        again = digest in known.left_out
        if again or known.takes_pipeline(fingerprint):
            self._made_anew |= {digest[:8], fingerprint}
        return not again

    def given_out(self, digest: bytes) -> None:
        """The driver has just given out this snapshot, or this data of an application's cache."""
        known = self._known
        if known and (known.takes_application_data(digest) or known.takes_record(digest, 0)):
            self._made_anew.add(digest[:8])

    def close(self) -> None:
        """The device goes: nothing is in the driver any more, and what was made anew is written down."""
        if self._live is not None:
            remove(self._live)
        if self._folder is None or self._read_only or self._known is None:
            return
        try:
            crash_notes.clear(self._folder, self._program_id, self._program.name, self._known, self._made_anew)
        except OSError:
            pass  # suspected for one run more
        self._made_anew = set()
