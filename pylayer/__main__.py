"""The ``pylayer`` command, which is ``python -m pylayer`` too."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Runs the command line and returns its exit status."""
    # Ctrl-C while the modules below are imported ends the process without a traceback. Who started it with SIGINT
    # ignored, as nohup does, meant that.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
