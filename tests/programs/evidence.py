"""Programs that nobody here wrote, each twice under the layer: ``make evidence``.

Fetches Dawn and llama.cpp from the npm registry to build/evidence. RADV compiles for a GPU that is not there, over the
test layer of tests/null_hardware, and nothing is executed. Exit status 1 when a second run compiled something."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from world import LAYER_NAME, NULL_HARDWARE, ROOT, World

PROGRAMS = ROOT / "tests" / "programs"
FETCHED = ROOT / "build" / "evidence"
PYPI = {"wgpu_compute.py": "wgpu", "wgpu_render.py": "wgpu", "qt_quick.py": "PySide6-Essentials"}
NPM = {"webgpu": "dawn.mjs", "@node-llama-cpp/linux-x64-vulkan": "llama_vulkan.py"}


def fetch() -> None:
    """Fetches what is not there yet. Nothing of the packages is executed meanwhile."""
    FETCHED.mkdir(parents=True, exist_ok=True)
    missing = [name for name in NPM if not (FETCHED / "node_modules" / name).is_dir()]
    if missing and not shutil.which("npm"):
        sys.exit("evidence: npm and node are missing (packages nodejs and npm); they fetch and run two of the programs")
    if missing:
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(FETCHED), *missing]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def commands() -> dict[str, list[str]]:
    """Each program's name and version, and its command."""
    found = {}
    for script, package in PYPI.items():
        name = f"{Path(script).stem} ({package} {importlib.metadata.version(package)})"
        found[name] = ["xvfb-run", "-a", sys.executable, str(PROGRAMS / script)]
    for package, script in NPM.items():
        version = json.loads((FETCHED / "node_modules" / package / "package.json").read_text())["version"]
        interpreter = "node" if script.endswith(".mjs") else sys.executable
        found[f"{Path(script).stem} ({package} {version})"] = [interpreter, str(PROGRAMS / script), str(FETCHED)]
    return found


def main() -> None:
    fetch()
    failed = False
    print("program | pipelines | compiled in the first run | compiled in the second")
    for name, command in commands().items():
        with tempfile.TemporaryDirectory(prefix="pylayer-evidence-") as directory:
            world = World(Path(directory))
            for _ in range(2):
                world.run(command, VK_INSTANCE_LAYERS=f"{LAYER_NAME}:{NULL_HARDWARE}")
            first, second = (run["counters"] for run in world.runs())
        failed |= second["compiled"] > 0 or second["hits"] != second["pipelines"]
        print(f"{name} | {second['pipelines']} | {first['compiled']} | {second['compiled']}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
