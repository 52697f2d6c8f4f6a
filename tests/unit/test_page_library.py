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


def test_files_have_their_licence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive from elsewhere, with the pinned hash, is unpacked; each file begins with the licence. Files that are
    there are not fetched again."""
    served = archive_of(tmp_path)
    archive = tmp_path / "build" / page_library.NAME
    page_library.download(archive, served.as_uri())
    digest = page_library.base64.b64encode(page_library.hashlib.sha512(served.read_bytes()).digest()).decode()
    monkeypatch.setattr(page_library, "SHA512", digest)
    page_library.fetch(tmp_path, archive)
    assert (tmp_path / "uplot.js").read_text() == "/* uPlot\n\ndo what you like\n*/\ndraw()\n"
    assert ".u {}" in (tmp_path / "uplot.css").read_text()
    archive.unlink()
    page_library.fetch(tmp_path, archive)
    assert not archive.exists()


def test_no_network_says_what_to_do(tmp_path: Path) -> None:
    """If the archive cannot be fetched, the build stops with the address and the place for the file."""
    with pytest.raises(SystemExit, match=r"nowhere/x.tgz cannot be fetched .*put that file at .*/build/"):
        page_library.download(tmp_path / "build" / "x.tgz", (tmp_path / "nowhere" / "x.tgz").as_uri())
