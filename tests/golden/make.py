"""Makes store.tar.xz: a store of the last format with every kind of file that a program leaves, by the layer of this
build and the scripted driver. A new format version needs a new one::

    PYTHONPATH=tests .venv/bin/python tests/golden/make.py
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from scripted_driver import ScriptedDriver

ARCHIVE = Path(__file__).with_name("store.tar.xz")
SCRIPT = "payload=64;binaries=yes"
#: Pipelines of the demo program: so many that vkDestroyDevice joins them to chunks (seed 1), and binaries (seed 2).
CHUNKS, BINARIES = 260, 3
#: Those of a program with recordings, of which the last is in the journal of a run that was killed.
RECORDED = 6
BEGIN, END = ("instance", "device", "pipelines"), ("destroy-device", "destroy-instance")


def fill(driver: ScriptedDriver) -> None:
    """Fills a store."""
    driver.settings(record_state=False)
    driver.demo("--count", CHUNKS, script=SCRIPT)
    own = driver.directory / "own.cache"
    for _ in range(2):
        driver.demo("--count", BINARIES, "--cache", own, "--cache-save", own, script=SCRIPT)
    for _ in range(3):
        driver.application("--source", "plain", script=f"{SCRIPT};pipeline=ignore")
    driver.settings(record_state=False, mode="binaries")
    driver.demo("--count", BINARIES, "--seed", 2, "--api", "1.3", script=SCRIPT)
    driver.settings()
    driver.program("host", *BEGIN, RECORDED - 3, *END, script=SCRIPT)
    driver.world.pylayer("trim")
    driver.program("host", *BEGIN, RECORDED - 1, *END, script=SCRIPT)
    killed = f"{SCRIPT};pipeline=kill?compile@2"
    last = "await-journal", 1, "pipelines", RECORDED + 1
    driver.program("host", *BEGIN, RECORDED, *last, script=killed, check=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        driver = ScriptedDriver(Path(directory))
        fill(driver)
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(driver.world.store, "store")
