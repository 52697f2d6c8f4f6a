"""Builders on a real S3 server, Ceph's radosgw: ``make fleet-s3``."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import obstore
import pytest
from fleet import radosgw
from fleet.fleets import Builder, Machine
from obstore.store import from_url

from pylayer.fleet.backend import Unavailable
from pylayer.fleet.urls import open_backend


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
    """A builder pushes and publishes to S3, a machine pulls, and a second publication adds what is new."""
    builder, machine = on_s3(tmp_path, bucket), Machine(tmp_path / "machine", {})
    machine.keys = builder.keys
    assert builder.publish(*range(20)).records == 20
    assert machine.pull(bucket).records == 20
    assert builder.publish(*range(15, 30)).records == 10
    assert machine.pull(bucket).records == 10 and machine.numbers() == list(range(30))
    assert machine.pull(bucket).bytes == 0
    assert builder.backend.items("incoming") == []


def test_large_pack(tmp_path: Path, bucket: str) -> None:
    """A pack that is uploaded in several parts arrives."""
    builder = on_s3(tmp_path, bucket)
    builder.push(*range(30), size=400_000)
    assert builder.publish().records == 30
    machine = Machine(tmp_path / "machine", builder.keys)
    assert machine.pull(bucket).bytes > 12_000_000 and machine.numbers() == list(range(30))


def test_creating_twice(bucket: str) -> None:
    """The server creates an object only if there is none, which publishers rely on."""
    backend = open_backend(bucket, 60)
    assert backend.create("v1/x/1.index", b"first")
    assert not backend.create("v1/x/1.index", b"second")
    assert backend.read("v1/x/1.index", 99)[0] == b"first"


def test_publishers_at_once(tmp_path: Path, bucket: str) -> None:
    """Four publishers with one key that publish at the same time, again and again, lose nothing."""
    builders = [on_s3(tmp_path / str(number), bucket) for number in range(4)]
    for builder in builders:
        builder.key, builder.keys, builder.terms = builders[0].key, builders[0].keys, builders[0].terms

    def work(number: int) -> None:
        for turn in range(5):
            builders[number].publish(number * 100 + turn)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()
    machine = Machine(tmp_path / "machine", builders[0].keys)
    assert machine.pull(bucket).problem == ""
    assert machine.numbers() == sorted(number * 100 + turn for number in range(4) for turn in range(5))


def test_wrong_credentials(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With credentials that the server does not know, nothing is pushed, and the line has the server's words."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(Unavailable, match="403"):
        on_s3(tmp_path, bucket).push(1)
