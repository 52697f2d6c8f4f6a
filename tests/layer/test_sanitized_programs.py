"""Programs that their developers built with a sanitizer, under the layer."""

from __future__ import annotations

import pytest
from host_steps import END, HOST
from world import PACKAGE, World

OPTIONS = {"leak": "LSAN_OPTIONS", "thread": "TSAN_OPTIONS"}


@pytest.mark.parametrize("kind", OPTIONS)
def test_sanitized_program(real: World, kind: str) -> None:
    """With the suppressions that the package has, a sanitizer reports nothing, in a run that compiles and in one that
    finds its pipelines."""
    program = HOST.with_name(f"host_{kind}")
    suppressions = PACKAGE / "data" / "config" / f"{kind}.supp"
    steps = ("instance", "device", "pipelines", "3", *END)
    for hits in (0, 3):
        done = real.run([str(program), *steps], **{OPTIONS[kind]: f"suppressions={suppressions}"})
        assert "SUMMARY" not in done.stderr
        assert real.last()["hits"] == hits
