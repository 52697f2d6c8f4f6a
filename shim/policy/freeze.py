"""Modules that the interpreter needs before the first device exists, as code inside the policy library.

Finding, opening and reading a module's file costs 0.2 ms (measured), and the program waits for the first
plan; two dozen modules were a third of the interpreter's start. Everything else is imported from files.
"""

from __future__ import annotations

import importlib.util
import marshal
from pathlib import Path

import policy_defaults

#: The standard library's part of the start. Names as imported.
OUTSIDE = ["__future__", "encodings", "encodings.aliases", "encodings.utf_8", "struct"]

#: Made from the schema of policy files.
GENERATED = "pylayer.common.policy_defaults"
#: Modules of this package that a program's process always imports, before its first device or at its end, where exit()
#: waits. ``config`` is not among them.
INSIDE = [
    "pylayer",
    "pylayer.common",
    "pylayer.common.outcomes",
    "pylayer.common.file_kinds",
    "pylayer.common.files",
    "pylayer.common.flat",
    "pylayer.common.identity",
    "pylayer.common.owner",
    "pylayer.common.paths",
    GENERATED,
    "pylayer.common.settings",
    "pylayer.common.user_policy",
    "pylayer.inhost",
    "pylayer.inhost.session",
    "pylayer.inhost.boundary",
    "pylayer.inhost.device",
    "pylayer.inhost.host",
    "pylayer.inhost.pipelines",
    "pylayer.inhost.learning",
    "pylayer.inhost.found_damage",
    "pylayer.inhost.maintaining",
    "pylayer.inhost.recording",
    "pylayer.inhost.run_log",
    "pylayer.inhost.start",
    "pylayer.inhost.journal_writer",
    "pylayer.inhost.user_class",
    "pylayer.inhost.user_output",
    "pylayer.policy",
    "pylayer.store",
    "pylayer.store.cache_history",
    "pylayer.store.contents",
    "pylayer.store.bounds",
    "pylayer.store.compaction",
    "pylayer.store.deaths",
    "pylayer.store.decisions",
    "pylayer.store.folder",
    "pylayer.store.format",
    "pylayer.store.timeline",
    "pylayer.store.journal",
    "pylayer.store.maintenance",
    "pylayer.store.pack",
    "pylayer.store.reader",
    "pylayer.store.runs",
    "pylayer.store.crash_marker",
    "pylayer.store.sketch",
    "pylayer.store.state",
    "pylayer.store.block_files",
    "pylayer.store.block_list",
    "pylayer.values",
]


def source_of(name: str) -> tuple[bytes, bool]:
    """The source of a module, and whether it is a package. This package's are taken from the tree being built."""
    if name == GENERATED:
        return policy_defaults.source().encode(), False
    if name in INSIDE:
        path = Path(*name.split("."))
        return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_bytes(), path.is_dir()
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise SystemExit(f"the build needs the source of the module {name}")
    return Path(spec.origin).read_bytes(), spec.submodule_search_locations is not None


def c_array(name: str, code: bytes) -> str:
    rows = [", ".join(str(byte) for byte in code[at : at + 24]) for at in range(0, len(code), 24)]
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(rows) + "};\n"


def header() -> str:
    """C source of the table that PyImport_FrozenModules is set to."""
    arrays, rows = [], []
    for index, name in enumerate([*OUTSIDE, *INSIDE]):
        source, is_package = source_of(name)
        # Without docstrings and asserts: less to unmarshal.
        code = marshal.dumps(compile(source, f"{name}.py", "exec", dont_inherit=True, optimize=2))
        arrays.append(c_array(f"frozen_{index}", code))
        row = f'.name = "{name}", .code = frozen_{index}, .size = {len(code)}, .is_package = {int(is_package)}'
        rows.append(f"    {{{row}}},")
    table = "static const struct _frozen frozen_modules[] = {\n" + "\n".join(rows) + "\n    {.name = NULL},\n};\n"
    return "\n".join([*arrays, table])


def write(target: Path) -> Path:
    """Writes the header where it changed, so that nothing is compiled again for nothing."""
    text = header()
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
    return target
