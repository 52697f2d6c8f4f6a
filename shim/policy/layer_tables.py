"""What the layer's C has to know of policy, as headers: the built-in skip rules, so that it needs no interpreter to
leave a process alone; how policy's compiled copy of a policy file is named; and which build this is.
"""

from __future__ import annotations

import hashlib
import re
import runpy
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import store_numbers


def text(value: str) -> str:
    """A C string."""
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in value.encode())
    return f'"{escaped}"'


def constant(path: str, name: str) -> str:
    """A module's constant, without importing it."""
    found = re.search(rf"^{name} = (.+)$", Path(path).read_text(encoding="utf-8"), re.M)
    assert found, f"{path} has no {name}"
    return found[1].strip('"')


def skip_rules() -> list[str]:
    """Each as skip_line in pylayer/common/compiled.py writes it."""
    import yaml

    conditions = ("executable", "application", "engine")
    rules = yaml.safe_load(Path("config/default.yaml").read_text(encoding="utf-8"))["skip"]
    assert all(rule and set(rule) <= set(conditions) for rule in rules), rules
    return [text("s" + "".join(f"{rule.get(name, '*')}\0" for name in conditions)) for rule in rules]


def header() -> str:
    version, number = (
        constant("pylayer/__init__.py", "__version__"),
        constant("pylayer/common/compiled.py", "SCHEMA_VERSION"),
    )
    lines = [
        "/* Written by shim/policy/layer_tables.py. */",
        f'#define COPY_NAME_SUFFIX "\\0" "{version}" "\\0" "{number}"',
        "#define BUILT_IN_RULES " + " ".join(skip_rules()),
    ]
    return "\n".join(lines) + "\n"


def counters() -> dict[str, str]:
    """What the layer counts, and what it means: the table of pylayer/report/counters.py."""
    tables = runpy.run_path("pylayer/report/counters.py")
    return {name: one.meaning for table in ("COUNTERS", "NOT_SHOWN") for name, one in tables[table].items()}


#: Constants of pylayer/store/crash_marker.py that are not in PylayerMarkedCall.
NO_MARKS = ("BYTES", "RUN_OFFSET")
#: Enumerations whose values are the constants of pylayer/values.py that begin so, and those that are named in a tuple.
BY_CONSTANTS = {
    "LogLevel": "LOG",
    "Mode": "MODE",
    "Verdict": "VERDICT",
    "CellFlags": "CELL",
    "Unit": "UNIT",
    "Unrecorded": "UNRECORDED",
}
BY_NAMES = {"PipelineKind": ("KIND", "KIND_NAMES"), "Outcome": ("OUTCOME", "OUTCOME_NAMES")}


def names_in(constant: str) -> list[str]:
    """The texts of a tuple of pylayer/values.py."""
    found = re.search(rf"^{constant} = \((.+?)\)$", Path("pylayer/values.py").read_text(), re.M | re.S)
    assert found
    return re.findall(r'"([^"]+)"', found[1])


def enumerations() -> Iterator[str]:
    """What shim/boundary.h and pylayer/ both know, as C."""
    values = store_numbers.numbers("pylayer/values.py")
    marks = store_numbers.numbers("pylayer/store/crash_marker.py")
    enums = {"MarkedCall": {f"MARK_{name}": number for name, number in marks.items() if name not in NO_MARKS}}
    for enum, beginning in BY_CONSTANTS.items():
        enums[enum] = {name: number for name, number in values.items() if name.startswith(f"{beginning}_")}
    for enum, (beginning, constant) in BY_NAMES.items():
        names = (re.sub(r"\W+", "_", name).upper() for name in names_in(constant))
        enums[enum] = {f"{beginning}_{name}": number for number, name in enumerate(names)}
    for enum, numbers in enums.items():
        assert numbers, enum
        lines = "".join(f"    PYLAYER_{name} = {number},\n" for name, number in numbers.items())
        yield f"enum Pylayer{enum} {{\n{lines}}};\n"
    yield f"#define PYLAYER_KIND_COUNT {len(names_in('KIND_NAMES'))}\n"
    yield f"#define PYLAYER_MARK_ADDED {marks['KEY']}\n"
    yield f"#define PYLAYER_ADDED_CALLS {max(enums['MarkedCall'].values()) + 1 - marks['KEY']}\n"


def plan() -> str:
    """PylayerPlan: the fields of values.Plan."""
    found = re.search(r"^class Plan\(Value\):\n(.+?)\n\n\n", Path("pylayer/values.py").read_text(), re.M | re.S)
    assert found
    members = re.findall(r"^    (\w+): (?:bool|int)\b", found[1], re.M)
    return "typedef struct PylayerPlan {\n" + "".join(f"    uint8_t {name};\n" for name in members) + "} PylayerPlan;\n"


def boundary_header() -> str:
    """What shim/boundary.h includes. Counters are totals of one device since its creation; times are nanoseconds."""
    members = "".join(f"    uint64_t {name}; /* {meaning} */\n" for name, meaning in counters().items())
    members += "    uint64_t kind_hits[PYLAYER_KIND_COUNT]; /* hits by PylayerPipelineKind */\n"
    members += "    uint64_t untold; /* creations of which policy was not told, because the queue was full */\n"
    declared = "".join(enumerations()) + plan() + f"typedef struct PylayerCounters {{\n{members}}} PylayerCounters;\n"
    version = zlib.crc32((Path("shim/boundary.h").read_text() + declared).encode()) >> 1
    return (
        "/* Written by shim/policy/layer_tables.py. */\n" + declared + f"#define PYLAYER_BOUNDARY_VERSION {version}\n"
    )


#: THREAD_SLOTS and CACHE_LINE_BYTES of shim/layer/process/spread_lock.h. The compiler compares them.
GROUPS, LINE = 16, 64


def run_names_header() -> str:
    """What shim/layer/store/run_file.c includes: how the text begins in which a crash marker says what it counts."""
    names, kinds = list(counters()), names_in("KIND_NAMES")
    distance = -(-8 * (len(names) + len(kinds) + 1) // LINE) * LINE  # the last one is PylayerCounters::untold
    at = store_numbers.numbers("pylayer/store/crash_marker.py")["BYTES"] - GROUPS * distance
    counted = f"layout=s:{at} {GROUPS} {distance}\ncounted=s:{' '.join(names)}\ncounted_kinds=s:{';'.join(kinds)}\n"
    return (
        f"/* Written by shim/policy/layer_tables.py. */\n#define COUNTED {text(counted)}\n"
        f"#define COUNTED_AT {at}\n#define COUNTED_GROUPS {GROUPS}\n#define COUNTED_BYTES {distance}\n"
    )


def driver_variables() -> dict[str, list[str]]:
    """CHANGING and HARMLESS of pylayer/store/block_list.py."""
    source = Path("pylayer/store/block_list.py").read_text()
    found = {name: re.search(rf"^{name} = \((.+?)\)", source, re.M | re.S) for name in ("CHANGING", "HARMLESS")}
    return {name: re.findall(r'"([^"]+)"', match[1]) for name, match in found.items() if match}


def driver_variables_header() -> str:
    """What shim/layer/crash/crash_marker.c includes."""
    lines = ["/* Written by shim/policy/layer_tables.py. */"]
    for name, names in driver_variables().items():
        lines.append(f"static const char *const {name.lower()}_variables[] = {{")
        lines += [*(f"    {text(one)}," for one in names), "};"]
    return "\n".join(lines) + "\n"


#: Everything that a plan of policy's may depend on, and that comes with pylayer.
SOURCES = ("pylayer/**/*.py", "pylayer/**/*.json", "shim/**/*.[chip]*", "config/*.yaml", "setup.py")


def build_id(root: Path = Path()) -> str:
    """32 digits that differ from those of every other build: a digest of its sources and of the Python in it. The same
    build has the same digits on every file system and in every container."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern) if path.is_file()}):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def build_header() -> str:
    """What shim/layer/policy/decisions.c includes."""
    return f'/* Written by shim/policy/layer_tables.py. */\n#define PYLAYER_BUILD_ID "{build_id()}"\n'


#: What makes each header.
HEADERS = {
    "layer_tables.h": header,
    "boundary_tables.h": boundary_header,
    "run_names.h": run_names_header,
    "store_numbers.h": store_numbers.header,
    "driver_variables.h": driver_variables_header,
    "build_id.h": build_header,
}


def write(directory: Path, names: Iterable[str] = HEADERS) -> list[Path]:
    """Writes the headers where they changed, so that nothing is compiled again for nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        target, content = directory / name, HEADERS[name]()
        if not target.exists() or target.read_text() != content:
            target.write_text(content)
    return [directory / name for name in names]


# Some of the tests' programs include sources of the layer, and are built before pylayer is and without its packages.
if __name__ == "__main__":
    write(Path("build"), sys.argv[1:])
