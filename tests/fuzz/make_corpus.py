"""Writes the seeds in corpus/ anew: ``python tests/fuzz/make_corpus.py``. The same bytes each time."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from fuzz import shapes  # noqa: E402


def main() -> None:
    for target, files in shapes.seeds().items():
        directory = HERE / "corpus" / target
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            old.unlink()
        for name, data in files.items():
            (directory / name).write_bytes(data)


if __name__ == "__main__":
    main()
