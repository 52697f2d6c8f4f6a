"""Recipes that tests of more than one subject run."""

from __future__ import annotations

#: A pointer with a length of zero, which is valid, and what a program has whose file was empty.
ZERO_LENGTH = """device modules
cache C0
read D0 C0 zero
created: cache C1 data=D0
"""

#: Every way of calling each command of VK_KHR_pipeline_binary, for one small pipeline.
BINARY_CALLS = """device binaries modules
global: globalkey
captured: compute - : P0 shader=comp0 flags=capture
key: key P0
from-the-pipeline-count: binaries B0 pipeline=P0 count
from-the-pipeline-no-room: binaries B0 pipeline=P0 few
from-the-pipeline: binaries B0 pipeline=P0
release: release P0
captured-size: bindata X0 B0 query
captured-too-little-room: bindata X0 B0 less
captured-more-room: bindata X0 B0 more
captured-data: bindata X0 B0
from-the-captured-binary: compute - : P1 binaries=B0 feedback=pipeline
from-data-count: binaries B1 data=X0 count
from-data-no-room: binaries B1 data=X0 few
from-data: binaries B1 data=X0
imported-too-little-room: bindata X1 B1 less
imported-more-room: bindata X1 B1 more
imported-data: bindata X1 B1
from-the-imported-binary: compute - : P2 binaries=B1 feedback=pipeline
created: compute - : P3 shader=comp0
from-the-create-info-count: binaries B2 info=P3 count
from-the-create-info-no-room: binaries B2 info=P3 few
from-the-create-info: binaries B2 info=P3
probed-too-little-room: bindata X1 B2 less
probed-more-room: bindata X1 B2 more
probed-data: bindata X1 B2
from-the-probed-binary: compute - : P4 binaries=B2 feedback=pipeline
none: unbinaries B9
"""
