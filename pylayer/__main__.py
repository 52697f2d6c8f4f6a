"""The ``pylayer`` command, which is ``python -m pylayer`` too."""

from __future__ import annotations

# The module signal imports enum, and Ctrl-C meanwhile would print a traceback.
import _signal  # type: ignore[import-not-found]
import sys


def main() -> int:
    """Runs the command line and returns its exit status."""
    # Ctrl-C while the modules below are imported ends the process without a traceback. Who started it with SIGINT
    # ignored, as nohup does, meant that.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from .cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
