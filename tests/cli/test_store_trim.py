"""``pylayer trim`` on a full disk, and what its --dry-run announces."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli import stores
from cli.stores import DAY, GAME, NOW, TOOL, Store, cell
from cli.user import User


def aged(store: Store, first: int, count: int, days: int) -> Path:
    """Writes a journal of a run that compiled these pipelines so many days ago."""
    numbers = range(first, first + count)
    return store.journal(GAME, *(cell(number, 0) for number in numbers), stores.used(list(numbers), NOW - days * DAY))


def test_dry_run_is_what_happens(user: User) -> None:
    """--dry-run announces as many evictions as then happen, also where journals wait to be folded: the uses that they
    record count, and what two of them hold counts once."""
    store = Store(user.store)
    for run in range(1, 11):
        aged(store, 10 * run, 12, 100 - run)
    store.blob(TOOL, bytes(3000))
    size = str(len(range(10, 112)) * 1000 * 9 // 10)
    planned = user.json("trim", "--max-size", size, "--dry-run")
    done = user.json("trim", "--max-size", size)
    assert 5 < done["records_removed"] < 40 and done["files_removed"] == 0
    assert (planned["records_removed"], planned["files_removed"]) == (done["records_removed"], 0)
    assert store.loaded(GAME) == list(range(10 + done["records_removed"], 112))


#: Fills a disk that has the store, and runs commands there. Prints the output of each as JSON.
FULL_DISK = """
mount -t tmpfs -o size=$SIZE,mode=0700 none "$DISK" || exit 77
cp -r "$STORE/." "$DISK/" || exit 77
dd if=/dev/zero of="$DISK/filler" bs=1k 2>/dev/null
dd if=/dev/zero of="$DISK/filler2" bs=1 count=4096 2>/dev/null
export PYLAYER_STORE="$DISK"
"$PYTHON" -m pylayer trim --max-size "$LIMIT" --json; echo ","
"$PYTHON" -m pylayer verify --json; echo ","
"$PYTHON" -m pylayer ls --json
"""


def on_a_full_disk(user: User, tmp_path: Path, size: str, limit: str) -> list[dict[str, Any]]:
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
    found: list[dict[str, Any]] = json.loads(f"[{done.stdout}]")
    return found


def test_full_disk(user: User, tmp_path: Path) -> None:
    """On a disk without a free block trim deletes what is evicted as a whole, and then has the space to fold the rest.
    What was used last stays."""
    store = Store(user.store)
    for run in range(1, 21):
        aged(store, 20 * run, 20, 100 - run)
    trimmed, verified, listed = on_a_full_disk(user, tmp_path, "600k", "200K")
    assert trimmed["bytes_after"] <= 200 << 10 and trimmed["skipped"] == []
    assert verified["fine"]
    (program,) = listed["identities"][0]["programs"]
    assert 100 < program["pipelines"] < 200 and program["journals"] == 0 and program["packs"] == 1


def test_full_disk_with_one_pack(user: User, tmp_path: Path) -> None:
    """If there is nothing but one pack, and no space to write it without what is evicted, it is deleted: the user asked
    for the space."""
    store = Store(user.store)
    store.journal(GAME, *(cell(number, NOW - number) for number in range(300)))
    store.pack()
    trimmed, verified, listed = on_a_full_disk(user, tmp_path, "400k", "200K")
    assert trimmed["bytes_after"] <= 200 << 10 and trimmed["records_removed"] == 300
    assert verified["fine"] and listed["identities"][0]["programs"] == []


def test_disk_with_room(user: User, tmp_path: Path) -> None:
    """With a little space the same pack is rewritten, and keeps what was used last."""
    store = Store(user.store)
    store.journal(GAME, *(cell(number, NOW - number) for number in range(300)))
    store.journal(TOOL, *(cell(number, NOW - 100 * DAY) for number in range(300, 500)))
    store.pack()
    trimmed, verified, listed = on_a_full_disk(user, tmp_path, "600k", "200K")
    assert trimmed["bytes_after"] <= 200 << 10 and verified["fine"]
    (program,) = listed["identities"][0]["programs"]
    assert program["program"] == stores.name_of(GAME) and 150 < program["pipelines"] < 200
