"""zstd, which compresses packs. It is imported when the first compressed block is read or written.

A program's process loads only the extension module of python-zstandard, which takes 0.7 ms to import; the package
around it imports typing and platform. The extension behind Python 3.14's own compression.zstd cannot unpack into
existing memory, and is half as fast (measured: 0.6 and 1.4 GB/s; into fresh memory for each block 1.2, because of page
faults).
"""

from __future__ import annotations

import zstandard.backend_c as backend_c

#: RADV's cells in blocks of 256 KiB shrink to 0.26 of their size at level 3 and to 0.34 at this level, and unpack at
#: 1.7 and 3.0 GB/s (measured). At level 3 a load of compressed packs would take a third longer, and a program waits for
#: it.
LEVEL = -1

_decompressor = backend_c.ZstdDecompressor()


def compress(data: bytes | bytearray | memoryview) -> bytes:
    """Returns one frame, whose header has the size of its content."""
    return backend_c.ZstdCompressor(level=LEVEL).compress(data)  # type: ignore[no-any-return]


def decompress_into(buffer: bytearray, data: bytes | bytearray | memoryview, size: int) -> bool:
    """Unpacks a frame that holds exactly ``size`` bytes to the start of ``buffer``, which has at least that size.
    Returns False for any other data; the content of the buffer is then undefined."""
    try:
        if backend_c.frame_content_size(data) != size:
            return False
        with _decompressor.stream_reader(data) as reader:
            return bool(reader.readinto(memoryview(buffer)[:size]) == size and not reader.read(1))
    except backend_c.ZstdError:
        return False
