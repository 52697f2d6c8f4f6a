"""What can become of data that was read: names, each with its meaning for people."""

from __future__ import annotations

#: Of the initial data of a vkCreatePipelineCache, by its header (``cache_header.judge``).
HEADER = {
    "accepted": "the header is this driver's",
    "zero-length": "a pointer to no data",
    "null": "a length without data",
    "truncated": "shorter than a pipeline cache header",
    "wrong-length": "the header's own length cannot be right",
    "wrong-version": "a header version that this Vulkan does not define",
    "wrong-vendor": "written for another vendor's device",
    "wrong-device": "written for another device",
    "wrong-uuid": "written by another driver build",
}
#: Of the same data, by what the program read before (``store/cache_history.py``). ``policy.Policy.admit_cache`` decides
#: what follows from it.
HISTORY = {
    "attested": "read back from this driver by this program, byte for byte, or passed in an earlier run",
    "stale": "read back by this program from another driver or device",
    "altered": "a damaged copy of data that this program read back from this driver",
    "unknown": "no record of it, and no damage recognised",
}
#: Why such data was passed or refused.
CACHE_DATA = {
    **HEADER,
    **HISTORY,
    "blocked": "a process died while the driver handled it",
    "driver-error": "the driver returned an error for it",
}
#: Of a file of the store, or a part of one, that cannot be used.
STORE = {
    "empty": "the file is empty",
    "zero-filled": "zeros where records should be, as after a power failure",
    "truncated": "the file ends inside a record: its writer was killed, or the end was cut off",
    "extended": "bytes after the end",
    "damaged-header": "a header that does not match its hash",
    "damaged-data": "data that does not match its hash",
    "foreign-version": "another version of the format",
    "foreign-identity": "another driver or device than the folder is for",
    "not-a-store-file": "not a file of this store",
    "impossible": "impossible lengths or offsets, under a valid hash",
    "unreadable": "the file could not be read",
    "untrusted": "another user could have written it",
}
