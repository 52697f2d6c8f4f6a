"""What a fleet's URL may be, and the storage behind it."""

from __future__ import annotations

import re

from ..common.policy_errors import schema
from .backend import Backend, Unavailable


def require_url(url: str) -> None:
    """Raises Unavailable unless a URL has a known scheme, and neither credentials nor a query: it is printed, and
    stands in files. The text does not have the URL, which may hold a password."""
    allowed = schema()["properties"]["fleet"]["properties"]["url"]
    if not re.search(allowed["pattern"], url) or "\n" in url:
        raise Unavailable(f"it is not {allowed['patternDescription']}")


def open_backend(url: str, seconds: float, writes: bool = False) -> Backend:
    """Returns the storage behind a URL. What is read over HTTP ends ``seconds`` from now at the latest; with object
    storage this bounds each request. ``writes``: makes the directory of a file URL. Raises Unavailable for a URL that
    cannot be used, also because a library is missing."""
    if url.startswith("http"):
        from .web import Web

        return Web(url, seconds)
    if url.startswith("file:"):
        from .directory import Directory

        return Directory(url, writes)
    from .bucket import Bucket

    return Bucket(url, seconds)
