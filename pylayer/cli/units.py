"""The units of systemd with which ``pylayer rebuild`` runs while nobody needs the machine."""

from __future__ import annotations

import os
from pathlib import Path

from . import tree

NAME = "pylayer-rebuild"

SERVICE = """[Unit]
Description=Compile the Vulkan pipelines that a new driver lacks (pylayer rebuild)
ConditionACPower=true

[Service]
Type=oneshot
ExecStart={command} rebuild --quiet
# Some pipelines cannot be rebuilt.
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


def write(base: Path, command: Path, system: bool) -> list[Path]:
    """Writes and enables the units below a data directory, where systemd looks for them. Raises OSError."""
    directory = base / "systemd" / "user"
    tree.make_directory(_wants(base).parent, system)
    quoted = str(command).replace("%", "%%")
    for suffix, text in (("service", SERVICE.format(command=f'"{quoted}"')), ("timer", TIMER)):
        path = directory / f"{NAME}.{suffix}"
        path.write_text(text, encoding="utf-8")
        path.chmod(tree.FILE_MODE)
    tree.replace_link(_wants(base), f"../{NAME}.timer")
    return found(base)
