"""A driver whose VK_KHR_pipeline_binary fails, lies or is incomplete. The program sees what it sees without the layer.
Afterwards the store is whole and the pipelines are hits."""

from __future__ import annotations

import shutil

import pytest
from disk import compact_everything
from scripted_driver import ScriptedDriver

from pylayer.common import file_kinds

ARGUMENTS: list[str | int] = ["--count", 8, "--api", "1.3"]

FAULTS = [
    "create-binaries=error:device-lost?fetch",
    "create-binaries=error:1000999999",
    "create-binaries=missing",
    "create-binaries=missing?count@2",
    "create-binaries=incomplete",
    "create-binaries=partial:1",
    "create-binaries=partial:2?fetch@2",
    "create-binaries=error:initialization-failed?from-data",
    "create-binaries=missing?from-data",
    "create-binaries=partial:1?from-data",
    "binary-data=error:out-of-host-memory",
    "binary-data=error:not-enough-space?data",
    "binary-data=grow",
    "binary-data=garbage",
    "get-key=error:device-lost?!global",
    "get-key=error:out-of-host-memory?global",
    "get-key=zero?!global",
    "get-key=zero?global",
    "get-key=long",
    "internal-cache=no;release-captured=error:out-of-host-memory",
    "internal-cache=no;pipeline=error:out-of-device-memory?capture",
    "internal-cache=no;pipeline=null?capture",
    "create-binaries=missing?from-create-info;pipeline=error:unknown?capture",
    "create-binaries=missing?from-create-info;create-binaries=error:out-of-host-memory?from-pipeline",
    "create-binaries=missing?from-create-info;create-binaries=partial:1?from-pipeline@3",
    "prefers-internal-cache=yes",
    "precompiled-internal-cache=yes",
    "compressed-binaries=yes",
    "feedback=no",
]


@pytest.mark.parametrize("script", FAULTS)
def test_program_notices_nothing(scripted: ScriptedDriver, script: str) -> None:
    """Threads that create pipelines in batches see what they see without the layer. Once the fault is gone, every
    pipeline is a hit."""
    scripted.settings(mode="binaries")
    arguments = ["--count", 9, "--threads", 3, "--batch", 3, "--api", "1.3"]
    compiled = scripted.compiles_after(script, *arguments)
    if script == "binary-data=garbage":  # after four pipelines of a kind with garbage, the others became cells
        scripted.demo(*arguments)
        compiled = scripted.counts["compiles"]
    assert compiled == 0


def test_bad_binaries_do_not_hide_good_ones(scripted: ScriptedDriver) -> None:
    """Binaries that the driver cannot use stay in the store beside the good ones that replace them. Later runs compile
    nothing, whichever of the two is tried first."""
    scripted.settings(mode="binaries")
    scripted.demo(*ARGUMENTS, script="binary-data=garbage")
    scripted.demo(*ARGUMENTS)
    assert (scripted.counts["compiles"], scripted.world.last()["binaries_evicted"]) == (8, 8)
    for _ in range(2):
        scripted.demo(*ARGUMENTS, verify=True)
        assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 8)


def test_the_newest_binaries_are_bad(scripted: ScriptedDriver) -> None:
    """If the newest binaries under a key are bad, they are tried first and evicted, and the older good ones are used
    without compiling."""
    scripted.settings(mode="binaries")
    scripted.demo("--count", 3, *ARGUMENTS[2:])
    scripted.demo("--count", 3, *ARGUMENTS[2:], script="binary-data=garbage;pipeline=error:unknown?from-binaries")
    scripted.demo("--count", 3, *ARGUMENTS[2:])
    assert (scripted.counts["compiles"], scripted.counts["from-binaries"]) == (0, 3)
    assert scripted.world.last()["binaries_evicted"] > 0


@pytest.mark.parametrize("mode", ["auto", "binaries"])
@pytest.mark.parametrize("change", [None, 1], ids=["in each process", "once"])
def test_another_global_key(scripted: ScriptedDriver, mode: str, change: int | None) -> None:
    """ANV 26.1.6 has another global key in each process. Cells do not belong to it and are found in the second run, in
    the one identity's folder. Binaries under another key never reach the driver, although their pipelines' keys are
    equal, and those under this one are found. A run that has only binaries under another key stores cells."""
    scripted.settings(mode=mode)
    keys = [1, 2, 3] if change is None else [1, 2, 1]
    compiles = []
    for key in keys:
        scripted.application("--source", "unused", "--count", 8, script=f"global-key={key}")
        compiles.append(scripted.counts["compiles"])
        scripted.verify()
    assert compiles == ([8, 0, 0] if mode == "auto" else [8, 8, 0])
    assert len(list(scripted.world.store.glob("store/*"))) == 1


def test_binaries_and_cells_of_one_pipeline(scripted: ScriptedDriver) -> None:
    """Pipelines that are stored as binaries are no cells, in journals as in packs. Either way compiles once, and then
    finds its own, in a process without policy, too."""
    for mode, compiles in (("binaries", 8), ("cells", 8), ("binaries", 0), ("cells", 0)):
        scripted.settings(mode=mode)
        for _ in range(2):
            scripted.demo(*ARGUMENTS, verify=True)
            assert scripted.counts["compiles"] == compiles
            compiles = 0
        compact_everything(scripted.world.store).wait()
    assert scripted.world.last()["fetched"] == 8


def test_damaged_binaries(scripted: ScriptedDriver) -> None:
    """A damaged record of binaries is told and repaired, and its pipeline alone is compiled. Equal ones count once."""
    scripted.settings(mode="binaries")
    scripted.demo(*ARGUMENTS)
    (stored,) = scripted.world.stored_files(".closed")
    folder = scripted.world.folder()
    shutil.copy(stored, folder.new_path(*folder.programs(), file_kinds.CLOSED))
    scripted.demo(*ARGUMENTS)
    assert (scripted.counts["compiles"], scripted.world.last()["fetched"]) == (0, 8)
    for path in scripted.world.stored_files(".closed"):
        data = bytearray(path.read_bytes())
        if b"BINR" in data:  # another one says what was used
            data[data.index(b"BINR") + 100] ^= 1
        path.write_bytes(data)
    result = scripted.demo(*ARGUMENTS, PYLAYER_LOG="warn")
    assert scripted.counts["compiles"] == 1 and "damaged-data" in scripted.warnings(result)
    for _ in range(2):
        result = scripted.demo(*ARGUMENTS, PYLAYER_LOG="warn")
    assert scripted.counts["compiles"] == 0 and "damaged" not in scripted.warnings(result)


@pytest.mark.parametrize("compacted", [False, True], ids=["journals", "packs"])
def test_stored_binaries_need_no_interpreter(scripted: ScriptedDriver, compacted: bool) -> None:
    """The layer itself reads stored binaries, and a whole file is none that policy has to look at."""
    scripted.settings(mode="binaries")
    for _ in range(2):
        scripted.demo(*ARGUMENTS)
    if compacted:
        assert compact_everything(scripted.world.store).wait(60) == 0
    opened = [scripted.demo(*ARGUMENTS, LD_DEBUG="files").stderr for _ in range(4)]
    assert scripted.world.last()["binary_hits"] == 8
    assert not all("_policy" in files for files in opened)  # one process of 64 starts it at its end
