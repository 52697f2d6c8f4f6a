"""zstd, which compresses packs: imported when the first compressed block is met or made.

Of python-zstandard only the extension module is in a program's process, 0.7 ms to import: the package around it
imports typing and platform. It allocates a result once and keeps its context; the extension behind Python 3.14's own
compression.zstd makes both anew for each block and is half as fast (measured: 1.25 and 0.6 GB/s).
"""

from __future__ import annotations

import zstandard.backend_c as backend_c

#: Above it little is gained (measured on RADV's cells in blocks of 256 KiB: ratios 3.8, 4.2, 4.3 at levels 1, 3, 6).
LEVEL = 3

_decompressor = backend_c.ZstdDecompressor()


def compress(data: bytes | bytearray | memoryview) -> bytes:
    """One frame, which says how large its content is."""
    return backend_c.ZstdCompressor(level=LEVEL).compress(data)  # type: ignore[no-any-return]


def decompress(data: bytes | bytearray | memoryview, size: int) -> bytes | None:
    """The ``size`` bytes that one whole frame holds, None for anything else; nothing larger is allocated."""
    try:
        if backend_c.frame_content_size(data) != size:
            return None
        result: bytes = _decompressor.decompress(data, allow_extra_data=False)
    except backend_c.ZstdError:
        return None
    return result if len(result) == size else None
