"""Builds the two shared objects, one program and two modules of vk-pylayer; everything else is in pyproject.toml.

``pylayer/libVkLayer_pylayer_pipeline_cache.so``
    the Vulkan layer: plain C, does not link libpython.
``pylayer/_policy.*.so``
    the policy library: built by cffi, links the private libpython in ``pylayer/_private``, opened by the layer.
``pylayer/pylayer-replay``
    creates recorded pipelines for ``pylayer rebuild``: plain C, a program.
``pylayer/common/policy_defaults.py``
    has the defaults of policy files: made from their JSON schema.
``pylayer/report/uplot.*``
    draw the report's page: fetched from npm's registry.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path("shim").resolve()))
sys.path.insert(0, str(Path("shim/policy").resolve()))
import freeze
import layer_tables
import page_library
import policy_defaults
import private_python

LAYER = "pylayer.libVkLayer_pylayer_pipeline_cache"
POLICY = "pylayer._policy"
REPLAY = "pylayer.pylayer-replay"
FROZEN = Path("build/frozen_modules.h")
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes"]

layer = Extension(
    LAYER,
    sources=sorted(str(path) for path in Path("shim/layer").rglob("*.c")),
    depends=[str(path) for path in [*Path("shim").rglob("*.h"), *Path("shim").rglob("*.inc")]],
    include_dirs=["shim/layer"],
    define_macros=[("PYLAYER_PRIVATE_PYTHON", f'"{private_python.SONAME}"')],
    extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", *WARNINGS],
    extra_link_args=["-Wl,--version-script=shim/layer.map", "-Wl,-z,nodelete", "-Wl,-z,defs", "-lpthread", "-ldl"],
)
replay = Extension(
    REPLAY,
    sources=sorted(str(path) for path in Path("shim/replay").glob("*.c")),
    depends=["shim/replay/replay.h", "shim/layer/state/object.h"],
    extra_compile_args=["-std=gnu11", "-O2", "-fPIE", *WARNINGS],
    extra_link_args=["-pie", "-Wl,-z,now", "-ldl"],
)


class BuildAll(build_ext):
    """Names the layer as loaders expect it, tells it the policy library's file name, and links the replayer as a
    program."""

    def get_ext_filename(self, fullname: str) -> str:
        if fullname == LAYER or fullname == LAYER.rpartition(".")[2]:
            return str(Path(*fullname.split("."))) + ".so"
        if fullname == REPLAY or fullname == REPLAY.rpartition(".")[2]:
            return str(Path(*fullname.split(".")))
        return super().get_ext_filename(fullname)

    def run(self) -> None:
        private = private_python.make()
        frozen = freeze.write(FROZEN)
        tables = layer_tables.write(FROZEN.parent)
        for extension in self.extensions:
            if extension.name == POLICY:
                extension.depends += [str(frozen), *layer.depends]
            else:
                extension.depends += map(str, tables)
        super().run()
        package = Path(self.get_ext_fullpath(POLICY)).parent
        policy_defaults.write(package / "common")
        target = package / "_private"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(private, target, ignore=shutil.ignore_patterns("complete"))
        (target / "build_id").write_text(layer_tables.build_id())

    def build_extension(self, ext: Extension) -> None:
        if ext.name == LAYER:
            policy = next(other for other in self.extensions if other.name == POLICY)
            name = Path(self.get_ext_fullpath(policy.name)).name
            ext.define_macros.append(("PYLAYER_POLICY_LIBRARY", f'"{name}"'))
        shared = self.compiler.link_shared_object
        if ext.name == REPLAY:
            self.compiler.link_shared_object = self._link_program
        try:
            super().build_extension(ext)
        finally:
            self.compiler.link_shared_object = shared
        directory = "$ORIGIN/_private/lib" if ext.name == POLICY else None
        private_python.search_only(Path(self.get_ext_fullpath(ext.name)), directory)

    def _link_program(self, objects: list[str], path: str, **options: Any) -> None:
        names = ("libraries", "library_dirs", "runtime_library_dirs", "extra_postargs", "debug")
        known = {name: options[name] for name in names if name in options}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_executable(objects, path, **known)


page_library.fetch()
setup(
    cffi_modules=["shim/policy/build_policy.py:ffibuilder"],
    ext_modules=[layer, replay],
    cmdclass={"build_ext": BuildAll},
)
