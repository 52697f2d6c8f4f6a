"""How commands show blocks, which make later runs of a program worse: since when, until when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..report.words import MINUTE, moment
from .output import console, printable

if TYPE_CHECKING:
    from ..store.store import BlockText


def line(block: BlockText) -> str:
    """Returns a line about a block."""
    after = {
        "in force": f"; until {moment(block.until_s, MINUTE)}",
        "on trial": f"; this ended {moment(block.until_s, MINUTE)} and is tried again",
        "evidence": "; this is not decided yet",
    }
    return f"{moment(block.since_s, MINUTE)}  {block.program}: {block.text}{after.get(block.state, '')}"


def in_force(root: str | None, program: str | None = None) -> list[BlockText]:
    """Returns the blocks in force: all, or those about a program and those about all programs."""
    from ..store.store import EVERY, Store

    found = Store(root).block_list() if root else []
    return [one for one in found if one.state == "in force" and (program is None or one.program in (program, EVERY))]


def print_blocks(found: list[BlockText]) -> None:
    """Prints a line for each block, below the driver that it is about."""
    out, identity = console(), ""
    for one in found:
        if identity != one.identity:
            identity = one.identity
            out.print(f"{printable(one.driver)}; identity {identity}", style="bold", soft_wrap=True)
        out.print(f"  {printable(line(one))}", soft_wrap=True)
