"""The claim: one process at a time compacts, and nobody removes the claim of a running one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from unit.folders import IDENTITY, put, run
from unit.things import run_python

from pylayer.common import flat, owner
from pylayer.store import compaction
from pylayer.store.compaction import Claim
from pylayer.store.folder import Folder
from pylayer.store.pack import PackWriter

START = """
import os, sys
from pylayer.common import flat
from pylayer.common.identity import Identity
from pylayer.store.compaction import Claim
from pylayer.store.folder import Folder
from pylayer.store.pack import PackWriter
folder = Folder(sys.argv[1], Identity(flat.loads(sys.argv[2])))
"""
#: The process ends when half a pack is written.
DIES = "Claim(folder).acquire(); PackWriter(f'{folder.path}/1.pack', folder.identity); os._exit(0)"
#: Waits for the others, reports whether it has the claim, and keeps it until all have reported.
RACES = "input(); print(Claim(folder).acquire(), flush=True); sys.stdin.read()"


def abandon(folder: Folder) -> None:
    """Takes the claim in a process that dies in the middle of a pack."""
    run_python(START + DIES, folder.root, flat.dumps(IDENTITY.fields))
    assert any(name.startswith("compacting.") for name in os.listdir(folder.path))


def test_slow_taker_leaves_the_claim_of_a_fast_one(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two processes find a claim abandoned, only the faster one gets it, and the slower one does not remove the pack
    that the faster one has begun."""
    abandon(folder)
    known, writers = owner.has_ended, []

    def has_ended(process: owner.Process, idle_seconds: float, limit: float) -> bool:
        ended = known(process, idle_seconds, limit)
        if ended and not writers:
            monkeypatch.setattr(owner, "has_ended", known)
            assert Claim(folder).acquire()
            writers.append(PackWriter(os.path.join(folder.path, "2.pack"), IDENTITY))
        return ended

    monkeypatch.setattr(owner, "has_ended", has_ended)
    assert not Claim(folder).acquire()
    assert os.path.exists(writers[0].finish())


@pytest.mark.parametrize("abandoned", [False, True])
def test_one_of_many_processes_gets_the_claim(folder: Folder, abandoned: bool) -> None:
    """If eight processes want a claim at once, at most one gets it, whether the claim was free or abandoned. The next
    one that wants it does."""
    if abandoned:
        abandon(folder)
    command = [sys.executable, "-I", "-c", START + RACES, folder.root, flat.dumps(IDENTITY.fields)]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(8)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
    answers = [racer.stdout.readline() for racer in racers if racer.stdout is not None]
    for racer in racers:
        racer.communicate()
    assert answers.count("True\n") <= 1 and len(answers) == 8
    assert Claim(folder).acquire()


def test_pack_of_a_living_writer_stays(folder: Folder) -> None:
    """A compaction removes the half pack of a dead process, but not a file that another process writes without a claim,
    such as an import."""
    put(folder, 1, range(3))
    abandon(folder)
    writer = PackWriter(os.path.join(folder.path, "2.pack"), IDENTITY)
    run(compaction.Compaction(folder, 1))
    assert len([name for name in os.listdir(folder.path) if name.endswith(".tmp")]) == 1
    assert os.path.exists(writer.finish())
