"""shim/page_library.py: what a build fetches for the report's page."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest
from world import ROOT

sys.path.insert(0, str(ROOT / "shim"))
import page_library

INSIDE = {"LICENSE": b"do what you like\n", "dist/uPlot.iife.min.js": b"draw()\n", "dist/uPlot.min.css": b".u {}\n"}


def archive_of(directory: Path) -> Path:
    """A release that is not the one that is meant."""
    path = directory / page_library.NAME
    with tarfile.open(path, "w:gz") as package:
        for name, data in INSIDE.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            package.addfile(member, io.BytesIO(data))
    return path


def test_another_archive_is_refused(tmp_path: Path) -> None:
    """If the archive's hash is not the pinned one, nothing is written and the message names both."""
    with pytest.raises(SystemExit, match=f"SHA-512 .*, not {page_library.SHA512[:20]}"):
        page_library.fetch(tmp_path, archive_of(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [page_library.NAME]
