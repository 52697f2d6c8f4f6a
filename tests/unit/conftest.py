"""Fixtures for tests of sessions, of the store, and of the policy thread."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.fake_layer import FakeBoundary, FakeMessage, Send
from unit.folders import IDENTITY
from unit.things import FakeCommands, session

import pylayer.inhost
from pylayer.inhost import journal_writer
from pylayer.inhost.session import DeviceSession
from pylayer.store.folder import Folder


@pytest.fixture(autouse=True)
def never_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SYNC_SECONDS", None)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The place of a store that does not exist yet."""
    return str(tmp_path / "root")


@pytest.fixture
def folder(root: str) -> Folder:
    """The folder of one driver in a store."""
    result = Folder(root, IDENTITY)
    result.prepare()
    return result


@pytest.fixture
def commands() -> FakeCommands:
    return FakeCommands()


@pytest.fixture
def make(root: str, commands: FakeCommands) -> Callable[..., DeviceSession]:
    """Makes sessions as processes would that run one after the other or at once."""
    return functools.partial(session, root, commands)


@pytest.fixture
def boundary(monkeypatch: pytest.MonkeyPatch, root: str, tmp_path: Path) -> FakeBoundary:
    result = FakeBoundary()
    result.variables = {"PYLAYER_STORE": root, "PYLAYER_CONFIG": str(tmp_path / "policy.yaml")}
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
def host(host_module: Any) -> Any:
    return host_module.Host()


@pytest.fixture
def send(host: Any, boundary: FakeBoundary) -> Send:
    """Runs the loop over these messages. None is a wait that ends without a message."""

    def run(*messages: FakeMessage | None) -> None:
        boundary.queue = [*messages, None, None]
        host.loop()
        assert all(message.releases == 1 for message in messages if message is not None)

    return run
