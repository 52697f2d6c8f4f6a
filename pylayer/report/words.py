"""Formats numbers, names and moments for people, the same way for every command and page."""

from __future__ import annotations

import time
from typing import Any


def one_line(text: object) -> str:
    """Returns a message without the line ends that a library put into it."""
    return " ".join(str(text).split())


def printable(text: str) -> str:
    """Returns a name from an untrusted file, without characters that a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


#: Forms of moments, for strftime(3).
SECOND, MINUTE, DAY, SHORT = "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%m-%d %H:%M"


def moment(seconds: float, form: str = SECOND) -> str:
    """Returns the local time of a moment; ``?`` if there is no such moment."""
    try:
        return time.strftime(form, time.localtime(seconds)) if seconds > 0 else "?"
    except (OverflowError, ValueError, OSError):
        return "?"


def plural(count: int, noun: str) -> str:
    """Returns a number and the noun that it counts."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{count} {noun}s"


def shorten(text: str, width: int) -> str:
    """Returns ``text`` in at most ``width`` columns. Keeps both ends, which tell more of a program's name than its
    middle."""
    if len(text) <= width:
        return text
    if width < 2:
        return text[:width]
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def human_bytes(count: int) -> str:
    """Returns a size in at most 8 characters."""
    if count < 1024:
        return f"{count} B"
    size, units = count / 1024, ["KiB", "MiB", "GiB"]
    while size >= 1000 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}" if size < 100 else f"{size:.0f} {units[0]}"


def human_time(nanoseconds: float) -> str:
    """Returns a duration in at most 8 characters, in milliseconds where they are readable."""
    milliseconds = nanoseconds / 1e6
    if 0 < abs(milliseconds) < 1:
        return f"{milliseconds:.2f} ms"
    if abs(milliseconds) < 1000:
        return f"{milliseconds:.1f} ms" if abs(milliseconds) < 100 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if abs(seconds) < 600:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if abs(minutes) < 600 else f"{minutes / 60:.0f} h"


def cell(values: dict[str, Any], key: str) -> str:
    """Returns a value for a table, a number by the unit at the end of its key; ``?`` if it is unknown."""
    value = values[key]
    if isinstance(value, str):
        return value
    units = {"ns": human_time, "bytes": human_bytes}
    return "?" if value is None else units.get(key.rpartition("_")[2], str)(value)
