"""``pylayer trim``, also on a full disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli import stores
from cli.stores import DAY, GAME, NOW, TOOL, Store, cell
from cli.user import User

from pylayer.common import owner


def aged(store: Store, first: int, count: int, days: int) -> Path:
    """Writes a journal of a run that compiled these pipelines so many days ago."""
    numbers = range(first, first + count)
    return store.journal(GAME, *(cell(number, 0) for number in numbers), stores.used(list(numbers), NOW - days * DAY))


def test_least_recently_used(user: User) -> None:
    """trim --max-size evicts what was used least recently, also where journals wait to be compacted: the uses that they
    record count."""
    store = Store(user.store)
    for run in range(1, 11):
        aged(store, 10 * run, 12, 100 - run)
    store.know(TOOL, b"what the tool read")
    size = str(len(range(10, 112)) * 1000 * 9 // 10)
    evicted = re.search(r"Evicted: (\d+) records and 0 files\.", user.pylayer("trim", "--max-size", size).stdout)
    assert evicted and 5 < int(evicted[1]) < 40
    assert store.loaded(GAME) == list(range(10 + int(evicted[1]), 112))


#: Fills a disk that has the store, and runs commands there. Prints what the first says to standard error. In a user
#: namespace the user is root, whose group is nobody's private one (umask 002).
FULL_DISK = """
mount -t tmpfs -o size=$SIZE,mode=0700 none "$DISK" || exit 77
cp -r "$STORE/." "$DISK/" && chmod -R go-w "$DISK" || exit 77
dd if=/dev/zero of="$DISK/filler" bs=1k 2>/dev/null
dd if=/dev/zero of="$DISK/filler2" bs=1 count=4096 2>/dev/null
export PYLAYER_STORE="$DISK"
"$PYTHON" -m pylayer trim --max-size "$LIMIT" >&2
"$PYTHON" -m pylayer ls --verify --json; echo ","
"$PYTHON" -m pylayer ls --json
"""


def on_a_full_disk(user: User, tmp_path: Path, size: str, limit: str) -> tuple[str, Any, Any]:
    """Copies the store to a disk, fills that, and returns what `trim`, `verify` and `ls` print there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    variables = {"SIZE": size, "LIMIT": limit, "DISK": str(disk), "STORE": str(user.store), "PYTHON": sys.executable}
    started = user.process((), **variables)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", FULL_DISK],
        env=started["env"],
        cwd=started["cwd"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    assert "Traceback" not in done.stderr
    return (done.stderr, *json.loads(f"[{done.stdout}]"))


def test_full_disk(user: User, tmp_path: Path) -> None:
    """On a disk without a free block trim deletes what is evicted as a whole, and then has the space to compact the
    rest. What was used last stays."""
    store = Store(user.store)
    for run in range(1, 21):
        aged(store, 20 * run, 20, 100 - run)
    trimmed, verified, listed = on_a_full_disk(user, tmp_path, "600k", "200K")
    assert "Not compacted" not in trimmed and "That is more than" not in trimmed
    assert verified["fine"]
    (program,) = listed["identities"][0]["programs"]
    assert 100 < program["pipelines"] < 200 and program["files"] == 1


def test_full_disk_with_one_pack(user: User, tmp_path: Path) -> None:
    """If there is nothing but one pack, and no space to write it without what is evicted, it is deleted: the user asked
    for the space."""
    store = Store(user.store)
    store.journal(GAME, *(cell(number, NOW - number) for number in range(300)))
    store.pack()
    trimmed, verified, listed = on_a_full_disk(user, tmp_path, "400k", "200K")
    assert "Evicted: 300 records" in trimmed and "That is more than" not in trimmed
    assert verified["fine"] and listed["identities"][0]["programs"] == []


# ---- what is beside the pipelines ------------------------------------------------------------------


def test_everything_has_a_bound(user: User) -> None:
    """trim deletes what killed commands left, compiled policy files and plans beyond their limits, and what is
    remembered of fleets that nobody asked for half a year. ls shows all of it, and rm --all removes the copies."""
    Store(user.store)
    for folder, suffix, count in (("policy", ".flat", 70), ("plans", ".plan", 1001)):
        (user.store / folder).mkdir(mode=0o700)
        for number in range(count):
            path = user.store / folder / f"{number:032x}{suffix}"
            path.write_bytes(b"x")
            os.utime(path, (NOW - DAY + number, NOW - DAY + number))
    dead = f"{owner._MAKER.pack(*owner.this_process()[:1], 1 << 22, *owner.this_process()[2:]).hex()}-{'0' * 16}.tmp"
    for path in (
        user.store / f"scratch.{dead}" / "store" / "x.pack",
        user.store / "fleet" / ("0" * 16) / f"{'1' * 32}.index",
    ):
        path.parent.mkdir(parents=True, mode=0o700)
        path.write_bytes(bytes(5000))
    for path in (user.store / "fleet").rglob("*"):
        os.utime(path, (NOW - 200 * DAY, NOW - 200 * DAY))
    (user.store / "mine.tmp").touch()
    shown = user.pylayer("ls").stdout
    assert all(folder in shown for folder in ("plans", "policy", "fleet"))
    assert user.pylayer("trim").returncode == 0
    left = {folder: len(os.listdir(user.store / folder)) for folder in ("policy", "plans", "fleet")}
    assert left == {"policy": 48, "plans": 750, "fleet": 0}
    assert (user.store / "policy" / f"{69:032x}.flat").exists() and (user.store / "mine.tmp").exists()
    assert not list(user.store.glob(f"*.{dead}"))
    removed = user.pylayer("rm", "--pipelines", "--all", "--yes").stdout
    assert "Remove decisions and compiled policies: 798 files, " in removed
    assert os.listdir(user.store / "policy") == os.listdir(user.store / "plans") == []
