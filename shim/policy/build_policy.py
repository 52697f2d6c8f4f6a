"""cffi description of the policy library: the boundary header and the interpreter that runs beside it.

setup.py hands ``ffibuilder`` to cffi's setuptools integration. One shared object results, ``pylayer._policy``:
the layer opens it for ``pylayer_policy_run``, and the interpreter imports it as the module that holds the
boundary.
"""

from __future__ import annotations

from pathlib import Path

from cffi import FFI
from layer_tables import boundary_header
from private_python import PRIVATE_LIBRARY

SHIM = Path("shim")
MARK = "/* ---- cdef begins here ---- */"


def boundary_declarations() -> str:
    """The part of boundary.h that cffi reads, with what it includes."""
    text = (SHIM / "boundary.h").read_text().replace('#include "../build/boundary_tables.h"\n', boundary_header())
    return text.split(MARK, 1)[1].rsplit("#endif", 1)[0]


ffibuilder = FFI()
ffibuilder.cdef(boundary_declarations() + "const PylayerShim *pylayer_shim(void);")
ffibuilder.set_source(
    "pylayer._policy",
    '#include "shim/policy/interpreter.h"',
    sources=["shim/policy/interpreter.c", "shim/policy/isolation.c"],
    include_dirs=["."],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes"],
    # setup.py has made the private copy by the time the linker runs.
    extra_link_args=[str(PRIVATE_LIBRARY), "-Wl,-rpath,$ORIGIN/_private/lib", "-Wl,-z,nodelete"],
    py_limited_api=False,  # interpreter.c needs PyConfig
)
