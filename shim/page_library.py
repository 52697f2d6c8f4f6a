"""Fetches uPlot, which draws the page of `pylayer report --html`, into pylayer/report: of a release that npm's registry
has, and that must be, byte by byte, the one whose hash stands here. A source distribution has the files already."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

NAME = "uplot-1.6.32.tgz"
URL = f"https://registry.npmjs.org/uplot/-/{NAME}"
SHA512 = "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
#: The files that the page needs, each with the licence before it.
FILES = {"uplot.js": "dist/uPlot.iife.min.js", "uplot.css": "dist/uPlot.min.css"}


def download(archive: Path, url: str = URL) -> None:
    """Writes the archive: with npm, which knows a user's mirror and proxy, or else from the registry itself."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm") if url == URL else None
    package = NAME.removesuffix(".tgz").replace("-", "@")
    if npm:
        command = [npm, "pack", "--silent", package, "--pack-destination", str(archive.parent)]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0 and archive.exists():
            return
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            archive.write_bytes(answer.read())
    except (urllib.error.URLError, OSError) as error:
        sys.exit(
            f"page_library: {url} cannot be fetched ({error}); put that file at {archive.resolve()} and build again"
        )


def unpack(archive: Path, directory: Path) -> None:
    """Writes the files. Exits if the archive is not the one that is meant."""
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != SHA512:
        sys.exit(f"page_library: {archive} has the SHA-512 {found}, not {SHA512}; delete it, and build again")
    with tarfile.open(archive) as package:

        def text(name: str) -> str:
            member = package.extractfile(f"package/{name}")
            assert member is not None
            return member.read().decode()

        said = text("LICENSE").strip()
        for name, inside in FILES.items():
            whole = directory / f"{name}.new"
            whole.write_text(f"/* uPlot\n\n{said}\n*/\n{text(inside).strip()}\n", encoding="utf-8")
            whole.replace(directory / name)


def fetch(directory: Path = Path("pylayer/report"), archive: Path = Path("build") / NAME) -> None:
    """Puts the files there, if they are not."""
    if not all((directory / name).exists() for name in FILES):
        if not archive.exists():
            download(archive)
        unpack(archive, directory)
