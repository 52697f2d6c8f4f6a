"""The fsync policy: when data is on the disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.folders import IDENTITY

from pylayer.common import file_kinds
from pylayer.store import format, syncing
from pylayer.store.folder import Folder
from pylayer.store.journal import Journal
from pylayer.store.syncing import Syncer

CELL = format.record_parts(format.CELL, b"data")


class Disk:
    """Records what was synced. It can be slow or broken."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.synced: list[str] = []
        self.threads: set[int] = set()
        self.hold = threading.Event()
        self.hold.set()
        self.error: OSError | None = None
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self.sync)

    def sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if self.root not in path.parents:
            return  # a thread that an earlier test began
        assert self.hold.wait(10)
        self.threads.add(threading.get_ident())
        if self.error is not None:
            raise self.error
        self.synced.append(path.suffix or path.name)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


@pytest.fixture
def failures() -> list[OSError]:
    return []


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_interval(folder: Folder, disk: Disk, failures: list[OSError], monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes within the interval wait for its end. Another thread waits for the disk."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    syncer = Syncer(5, failures.append)
    journal = Journal(folder, 7, syncer=syncer)
    journal.append(CELL)
    syncer.wait(5)
    assert disk.synced == []
    now += 6
    disk.hold.clear()
    journal.append(CELL)
    journal.append(CELL)
    disk.hold.set()
    syncer.wait(5)
    assert disk.synced == [".journal", IDENTITY.name]
    assert threading.get_ident() not in disk.threads
    syncer.start()  # what came while the first was under way
    syncer.wait(5)
    assert disk.synced == [".journal", IDENTITY.name, ".journal"]


def test_closed_within_the_interval(folder: Folder, disk: Disk, failures: list[OSError]) -> None:
    """What was written since the last sync is put on the disk when its file is closed."""
    syncer = Syncer(3600, failures.append)
    journal = Journal(folder, 7, syncer=syncer)
    journal.append(CELL)
    syncer.wait(5)
    assert disk.synced == []
    journal.close()
    syncer.wait(5)
    assert disk.synced == [file_kinds.CLOSED, IDENTITY.name] and failures == []


def test_no_thread_to_be_had(
    folder: Folder, disk: Disk, failures: list[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that cannot start more threads syncs on its own thread."""

    def fail(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(syncing._thread, "start_new_thread", fail)
    syncer = Syncer(5, failures.append)
    journal = Journal(folder, 7, syncer=syncer)
    journal.append(CELL)
    syncer.start()
    assert disk.synced == [".journal", IDENTITY.name]
    syncer.wait(0)
