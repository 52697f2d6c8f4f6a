"""Parses sizes on the command line: bytes, such as 500M, 2GiB or 1000000. Units are powers of 1024."""

from __future__ import annotations

import re

import click

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Called by click for an option."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value.strip())
    if not found:
        raise click.BadParameter(f"{value!r} is not a size; write it like 500M or 2GiB")
    return int(float(found[1]) * (1 << _SHIFTS[found[2].lower()]))
