"""Runs the probes of ``probe.py`` in child processes, so that a crash or a hang ends only the child and can be
reported."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from .environment import without_layer

#: Timeout of one probe. The slowest probe starts an interpreter and a driver with its compilers.
TIMEOUT_SECONDS = 60


class Outcome(NamedTuple):
    """What a probe reported before it ended, and why it ended early (empty text if it did not)."""

    found: dict[str, Any]
    failure: str


def _findings(output: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in (output or b"").split(b"\n"):
        try:
            found.update(json.loads(line))
        except ValueError:
            continue  # a line that a crash cut off
    return found


def probe(*arguments: str, environment: Mapping[str, str] | None = None) -> Outcome:
    """Runs one probe. The layer is kept out unless ``environment`` switches it on."""
    import subprocess

    command = [sys.executable, "-P", os.path.join(os.path.dirname(__file__), "probe.py"), *arguments]
    try:
        child = subprocess.run(
            command,
            env=without_layer(os.environ) if environment is None else environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(_findings(error.stdout), f"did not end within {TIMEOUT_SECONDS} s")
    except OSError as error:
        return Outcome({}, f"{sys.executable} could not be started: {error.strerror or error}")
    found = _findings(child.stdout)
    if child.returncode == 0:
        return Outcome(found, "")
    if child.returncode < 0:
        names = {one.value: one.name for one in signal.Signals}
        return Outcome(found, f"crashed with {names.get(-child.returncode, f'signal {-child.returncode}')}")
    lines = [line for line in child.stderr.decode("utf-8", "replace").split("\n") if line.strip()]
    return Outcome(found, lines[-1].strip() if lines else f"ended with exit status {child.returncode}")
