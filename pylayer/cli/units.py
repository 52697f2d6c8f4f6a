"""The units of systemd with which ``pylayer rebuild`` runs while nobody needs the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..common.files import replace_file
from .installed import make_directory

NAME = "pylayer-rebuild"

SERVICE = """[Unit]
Description=Compile the Vulkan pipelines that a new driver lacks (pylayer rebuild)
ConditionACPower=true

[Service]
Type=oneshot
ExecStart="{python}" -P -m pylayer rebuild --warm
# Some pipelines cannot be rebuilt, and some drivers keep nothing.
SuccessExitStatus=1
CPUSchedulingPolicy=idle
IOSchedulingClass=idle
Nice=19
"""

TIMER = f"""[Unit]
Description=Look every day whether a driver was updated ({NAME}.service)

[Timer]
OnStartupSec=10min
OnUnitInactiveSec=1d

[Install]
WantedBy=timers.target
"""


def _wants(base: Path) -> Path:
    return base / "systemd" / "user" / "timers.target.wants" / f"{NAME}.timer"


def found(base: Path) -> list[Path]:
    """Returns the paths of the units below a data directory, and of the link that enables them."""
    directory = base / "systemd" / "user"
    paths = (_wants(base), directory / f"{NAME}.timer", directory / f"{NAME}.service")
    return [path for path in paths if os.path.lexists(path)]


def write(base: Path, system: bool) -> list[Path]:
    """Writes and enables the units below a data directory, where systemd looks for them. Raises OSError."""
    directory = base / "systemd" / "user"
    make_directory(_wants(base).parent, system)
    service = SERVICE.format(python=sys.executable.replace("%", "%%"))
    for suffix, text in (("service", service), ("timer", TIMER)):
        replace_file(str(directory / f"{NAME}.{suffix}"), text.encode(), anywhere=True, mode=0o644)
    _wants(base).unlink(missing_ok=True)
    _wants(base).symlink_to(f"../{NAME}.timer")
    return found(base)
