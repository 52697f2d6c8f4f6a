"""What a fleet's URL may be, and the storage behind it."""

from __future__ import annotations

import re

from .backend import Backend

#: Neither user name nor password nor query: a URL is printed, and stands in files. ``policy.schema.json`` has the same
#: pattern.
_URL = re.compile(r"(https?|s3|gs|az|file)://[^@?#/]*(/[^?#]*)?")


def is_url(url: str) -> bool:
    """Returns whether a URL has a known scheme, and neither credentials nor a query."""
    return _URL.fullmatch(url) is not None


def open_backend(url: str, seconds: float, writes: bool = False) -> Backend:
    """Returns the storage behind a URL. What is read over HTTP ends ``seconds`` from now at the latest; with object
    storage this bounds each request. ``writes``: makes the directory of a file URL. Raises NotInstalled, and
    Unavailable for a URL that cannot be used."""
    if url.startswith("http"):
        from .web import Web

        return Web(url, seconds)
    if url.startswith("file:"):
        from .directory import Directory

        return Directory(url, writes)
    from .bucket import Bucket

    return Bucket(url, seconds)
