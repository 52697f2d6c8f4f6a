"""The disk that a program saves by keeping identifiers of its shaders instead of SPIR-V: part of `make bench`.

The demo program's shaders (VK_EXT_shader_module_identifier). Under pylayer the second run has no SPIR-V: every pipeline
that it creates from identifiers alone was stored by the first.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from world import BUILD, World


def kept(directory: Path, suffix: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.glob(f"*.{suffix}"))]


def measure(count: int) -> dict[str, float]:
    """Bytes of the files of a program with either, and pipelines that its second run had from identifiers."""
    with tempfile.TemporaryDirectory(prefix="pylayer-bench-") as name:
        world, directory = World(Path(name)), Path(name) / "shaders"
        directory.mkdir()
        program = str(BUILD / "bench" / "identifiers")
        world.run([program, "record", str(directory), str(count)])
        code, identifiers = kept(directory, "spv"), kept(directory, "identifier")
        compressed = lzma.compress(b"".join(code))  # as a program that minds its disk would
        for path in directory.glob("*.spv"):
            path.unlink()
        second = json.loads(world.run([program, "replay", str(directory), str(count)]).stdout)
    sizes = {
        "spirv": sum(map(len, code)),
        "spirv_compressed": len(compressed),
        "identifiers": sum(map(len, identifiers)),
    }
    return {
        "shaders": len(code),
        "pipelines": 2 * count,
        "from_identifiers": second["created"],
        **{f"{what}_bytes": size for what, size in sizes.items()},
        "saved_percent": 100 * (1 - sizes["identifiers"] / sizes["spirv"]),
        "saved_percent_of_compressed": 100 * (1 - sizes["identifiers"] / sizes["spirv_compressed"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=100, help="compute and as many graphics pipelines (default 100)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure(options.count)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(
            f"{found['shaders']} shaders: {found['spirv_bytes']} bytes of SPIR-V, {found['spirv_compressed_bytes']} "
            f"compressed, {found['identifiers_bytes']} bytes of identifiers: {found['saved_percent']:.1f} % saved, "
            f"{found['saved_percent_of_compressed']:.1f} % of compressed SPIR-V"
        )
        print(f"{found['from_identifiers']} of {found['pipelines']} pipelines created from identifiers alone")
    return 0 if found["from_identifiers"] == found["pipelines"] else 1


if __name__ == "__main__":
    sys.exit(main())
