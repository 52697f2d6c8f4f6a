"""Fixtures for tests of the policy thread."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.fake_layer import FakeBoundary, FakeMessage, Send

import pylayer.inhost


@pytest.fixture
def boundary(monkeypatch: pytest.MonkeyPatch) -> FakeBoundary:
    result = FakeBoundary()
    monkeypatch.setitem(sys.modules, "pylayer.inhost.boundary", result)
    monkeypatch.setattr(pylayer.inhost, "boundary", result, raising=False)
    return result


@pytest.fixture
def host_module(boundary: FakeBoundary, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports pylayer.inhost.host over the fake boundary, and removes it afterwards."""
    from pylayer.common import paths

    monkeypatch.delitem(sys.modules, "pylayer.inhost.host", raising=False)
    monkeypatch.setattr(paths, "getenv", boundary.environment)
    streams = sys.stdout, sys.stderr
    yield importlib.import_module("pylayer.inhost.host")
    sys.stdout, sys.stderr = streams
    sys.modules.pop("pylayer.inhost.host", None)
    if hasattr(pylayer.inhost, "host"):
        del pylayer.inhost.host


@pytest.fixture
def root(tmp_path: Path, boundary: FakeBoundary) -> str:
    boundary.variables = {"PYLAYER_STORE": str(tmp_path / "root"), "PYLAYER_CONFIG": str(tmp_path / "policy.yaml")}
    return str(tmp_path / "root")


@pytest.fixture
def host(host_module: Any, root: str) -> Any:
    return host_module.Host()


@pytest.fixture
def send(host: Any, boundary: FakeBoundary) -> Send:
    """Runs the loop over these messages. None is a wait that ends without a message."""

    def run(*messages: FakeMessage | None) -> None:
        boundary.queue = [*messages, None, None]
        host.loop()
        assert all(message.releases == 1 for message in messages if message is not None)

    return run
