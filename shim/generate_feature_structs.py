"""Write layer/feature_structs.inc from a vulkan_core.h: every feature struct and how many VkBool32 it has.

Run by hand when a newer registry should be known: generate_feature_structs.py vulkan_core.h. The result is
committed, so that building needs no newer headers than Debian bookworm's.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main(header: str) -> None:
    text = Path(header).read_text()
    rows = []
    for name, body in re.findall(r"typedef struct (VkPhysicalDevice\w*Features\w*) \{(.*?)\} \1;", text, re.S):
        members = re.findall(r"^\s*(\S+)\s*\*?\s*(\w+)(\[\d*\w*\])?;", body, re.M)
        kinds = [kind for kind, member, _ in members if member not in ("sType", "pNext")]
        if "sType" not in body or any(kind != "VkBool32" for kind in kinds):
            continue  # VkPhysicalDeviceFeatures itself, VkPhysicalDeviceFeatures2
        rows.append((name, len(kinds)))
    enums = dict(re.findall(r"\b(VK_STRUCTURE_TYPE_\w+) = (\w+)", text))
    flat = {key.removeprefix("VK_STRUCTURE_TYPE_").replace("_", ""): key for key in enums}
    lines, seen = [], set()
    for name, count in rows:
        key = flat.get(name.removeprefix("Vk").upper())
        if key is None:
            print(f"no structure type for {name}", file=sys.stderr)
            continue
        while not enums[key].isdigit():
            key = enums[key]
        if key not in seen:
            seen.add(key)
            lines.append((int(enums[key]), count, name))
    out = Path(__file__).parent / "layer" / "feature_structs.inc"
    version = re.search(r"#define VK_HEADER_VERSION (\d+)", text)[1]
    with out.open("w") as file:
        file.write(f"/* Written by generate_feature_structs.py from header version {version}. */\n")
        for value, count, name in sorted(lines):
            file.write(f"{{{value}u, {count}}}, /* {name} */\n")
    with tempfile.NamedTemporaryFile("w", suffix=".c") as probe:
        probe.write(f'#include "{Path(header).resolve()}"\n')
        for _, count, name in lines:
            probe.write(f'_Static_assert(sizeof({name}) == ((2*sizeof(void*) + 4*{count} + 7) & ~7ul), "{name}");\n')
        probe.flush()
        subprocess.run(["cc", f"-I{Path(header).parents[1]}", "-fsyntax-only", probe.name], check=True)
    print(f"{len(lines)} structs")


if __name__ == "__main__":
    main(sys.argv[1])
