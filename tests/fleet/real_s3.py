"""Builders on a real S3 server, Ceph's radosgw: ``make fleet-s3``."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import obstore
import pytest
from fleet import radosgw
from fleet.fleets import Builder, Machine
from obstore.store import from_url

from pylayer.fleet.publishing import only_publisher
from pylayer.fleet.storage import Unavailable, open_to_write


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[radosgw.Server]:
    assert not radosgw.missing(), f"not installed: {radosgw.missing()}; .ci/system-packages s3 installs it"
    with radosgw.serving(tmp_path_factory.mktemp("ceph")) as served:
        yield served


@pytest.fixture
def bucket(server: radosgw.Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The URL of a folder in a new bucket."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    name = request.node.name.replace("_", "-")
    new = obstore.sign(from_url(f"s3://{name}", client_options={"allow_http": True}), "PUT", "", timedelta(minutes=5))
    urllib.request.urlopen(urllib.request.Request(new, method="PUT", data=b"")).close()
    return f"s3://{name}/pipelines"


def on_s3(directory: Path, url: str) -> Builder:
    builder = Builder(directory)
    builder.url = url
    return builder


def test_there_and_back(tmp_path: Path, bucket: str) -> None:
    """A builder exports and publishes to S3, a machine pulls, and a second publication adds what is new."""
    builder, machine = on_s3(tmp_path, bucket), Machine(tmp_path / "machine", {})
    machine.keys = builder.keys
    assert builder.publish(*range(20)).records == 20
    assert machine.pull(bucket).records == 20
    assert builder.publish(*range(15, 30)).records == 10
    assert machine.pull(bucket).records == 10 and machine.numbers() == list(range(30))
    assert machine.pull(bucket).bytes == 0


def test_two_publishers(bucket: str) -> None:
    """The server creates an object only if there is none, by which a second publisher knows of the first."""
    storage = open_to_write(bucket)
    with only_publisher(storage), pytest.raises(Unavailable, match="another publisher began 0 minutes ago"):
        only_publisher(storage).__enter__()
    assert storage.items("") == []


def test_wrong_credentials(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With credentials that the server does not know, nothing is published, and the line has the server's words."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(Unavailable, match="403"):
        on_s3(tmp_path, bucket).publish(1)
