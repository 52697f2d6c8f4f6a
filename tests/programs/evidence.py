"""Programs that nobody here wrote: without the layer, twice under it, rebuilt for another card, and without it over a
driver cache that `pylayer warm` filled. ``make evidence``.

On RADV, which compiles for a GPU that is not there (tests/radv.py), nothing is executed.
What a program draws or computes is compared on Lavapipe, without the layer and under it. As root, Debian's programs run
as nobody. What is not installed is named and left out; packages of npm are fetched to build/evidence. Words on
the command line choose programs. Exit status 1 if the last run of a program compiled something, or the one after
``pylayer rebuild`` something that was recorded, or if something differed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import radv
import recorded_state
from screen import Screen
from world import LAYER_NAME, ROOT, World

from pylayer.store import state, timeline

PROGRAMS = ROOT / "tests" / "programs"
FETCHED = ROOT / "build" / "evidence"
NOBODY = 65534
ZINK = {"MESA_LOADER_DRIVER_OVERRIDE": "zink", "LIBGL_KOPPER_DRI2": "1", "ZINK_DEBUG": "noshobj"}
CHROMIUM = "chromium --headless=new --use-angle=vulkan --ignore-gpu-blocklist --user-data-dir=$HOME/chromium --dump-dom"
SCENES = "-b build:duration=1 -b shading:shading=phong:duration=1 -b bump:duration=1"
VALIDATED = "glmark2 -s 200x200 --validate -b build -b shading:shading=phong -b bump"
DOLPHIN = "dolphin-emu-nogui -p x11 -v Vulkan -C Main.DSP.Backend=Null -e $PREPARED/loop.dol"
MPV = "mpv --no-config --no-audio --no-osc --vo=gpu-next --gpu-api=vulkan"  # refuses Lavapipe, unless it is named
CUBE = "vkcube --c 30 --suppress_popups"
#: Mesa's disk cache: off, and in a directory that is filled by runs without the layer.
OFF = {"MESA_SHADER_CACHE_DISABLE": "1"}
FILLED = {"MESA_SHADER_CACHE_DISABLE": "false"}
NEW_CARD = OFF | {"AMDGPU_GPU_ID": "navi31"}


@dataclasses.dataclass(frozen=True)
class Program:
    """``package`` names what it needs: packages of Debian (deb), of this environment (pypi) or fetched (npm), or
    the variable with a directory (built). ``command`` is a shell's. ``compared`` is what is compared on Lavapipe: what
    matches it in the output, "screen" for the last picture of the screen, or nothing. Not ``on_radv``: the program
    crashes there without the layer, too. ``beside`` is another layer, and whether it is above pylayer. A program that
    draws what time allows may compile the rest in a third run."""

    name: str
    package: str
    command: str
    compared: str = ""
    on_radv: bool = True
    prepare: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    on_lavapipe: dict[str, str] = dataclasses.field(default_factory=dict)
    beside: tuple[str, bool] = ("", False)
    status: tuple[int, ...] = (0,)


def beside(name: str, package: str, layer: str) -> list[Program]:
    """vkcube with another layer above pylayer, and below."""
    package = f"deb:vulkan-tools {package}"
    return [
        Program(f"vkcube, {name} {where}", package, CUBE, beside=(layer, where == "above"))
        for where in ("above", "below")
    ]


def script(name: str, package: str, arguments: str = "", compared: str = "") -> Program:
    interpreter = "node" if name.endswith(".mjs") else sys.executable
    return Program(Path(name).stem, package, f"{interpreter} {PROGRAMS / name} {arguments}", compared)


def zink(name: str, package: str, command: str, compared: str, **more: Any) -> Program:
    """A program of OpenGL. Zink refuses Lavapipe without the variable."""
    software = {"LIBGL_ALWAYS_SOFTWARE": "1"}
    return Program(f"{name} over zink", package, command, compared, environment=ZINK, on_lavapipe=software, **more)


TABLE = [
    Program("Chromium, WebGL", "deb:chromium", f"{CHROMIUM} file://{PROGRAMS}/webgl.html", r">pixels \d+|^sandbox: .*"),
    Program(
        "mpv, gpu-next",
        "deb:mpv",
        f"""{MPV} --vulkan-device="$({MPV} --vulkan-device=help | sed -n "s/^ *'\\(.*\\)' (GPU 0.*/\\1/p")" """
        "av://lavfi:testsrc2=s=96x64:r=1:d=2",
        "screen",
    ),
    Program(
        "SuperTuxKart, Vulkan",
        "deb:supertuxkart",
        "supertuxkart --render-driver=vulkan -N --track=lighthouse --profile-time=2 --screensize=320x200 >/dev/null",
    ),
    zink(
        "glmark2",
        "deb:glmark2-x11",
        f"if [ $LIBGL_ALWAYS_SOFTWARE ]; then {VALIDATED}; else glmark2 -s 200x200 {SCENES}; fi",
        r"Validation: \w+",
    ),
    zink(
        "glretrace",
        "deb:glmark2-x11 apitrace",
        "glretrace --snapshot-prefix=- $PREPARED/trace | sha256sum",
        r"^[0-9a-f]{64}",
        prepare=f"apitrace trace -o $PREPARED/trace glmark2 -s 200x200 {SCENES.replace('duration', 'nframes')}",
    ),
    Program("vkcube", "deb:vulkan-tools", CUBE),
    Program(
        "vkd3d, gears and a triangle",
        "deb:vkd3d-demos",
        "for one in gears triangle; do timeout 3 vkd3d-$one; done",
        status=(0, 124),
    ),
    *beside("MangoHud", "mangohud", "MangoHud.json"),
    *beside("vkBasalt", "vkbasalt", "vkBasalt.json"),
    *beside("validation", "vulkan-validationlayers", "VkLayer_khronos_validation.json"),
    Program(
        "vkcube, RenderDoc above",  # which refuses to be named like the others
        "deb:vulkan-tools renderdoc",
        CUBE,
        environment={"ENABLE_VULKAN_RENDERDOC_CAPTURE": "1"},
    ),
    *beside("GFXReconstruct", "gfxreconstruct", "VkLayer_gfxreconstruct.json"),
    Program(
        "GFXReconstruct's replay of vkcube",
        "deb:vulkan-tools gfxreconstruct",
        "gfxrecon-replay $PREPARED/capture.gfxr",
        prepare=f"VK_INSTANCE_LAYERS=VK_LAYER_LUNARG_gfxreconstruct "
        f"GFXRECON_CAPTURE_FILE=$PREPARED/capture.gfxr GFXRECON_CAPTURE_FILE_TIMESTAMP=false {CUBE}",
    ),
    script("wgpu_render.py", "pypi:wgpu"),
    script("qt_quick.py", "pypi:PySide6-Essentials"),
    # It finds a driver itself where a variable names one, past all layers (README.md).
    Program(
        "ncnn_inference",
        "pypi:ncnn",
        f"env -u VK_DRIVER_FILES -u VK_ICD_FILENAMES XDG_DATA_DIRS=$PREPARED/data {sys.executable} "
        f"{PROGRAMS}/ncnn_inference.py",
        prepare="mkdir -p $PREPARED/data/vulkan/icd.d && cp $VK_DRIVER_FILES $PREPARED/data/vulkan/icd.d",
    ),
    script("dawn.mjs", "npm:webgpu", str(FETCHED)),
    script("llama_vulkan.py", "npm:@node-llama-cpp/linux-x64-vulkan", str(FETCHED)),
    Program(
        "DXVK native, D3D9 and D3D11",
        "built:DXVK",
        "$PREPARED/dxvk",
        "^result .*",
        prepare=f"g++ -std=c++17 -w -I$N -I$N/windows -I$N/directx -o $PREPARED/dxvk {PROGRAMS}/dxvk.cpp "
        "$DXVK/build/src/d3d11/libdxvk_d3d11.so $DXVK/build/src/d3d9/libdxvk_d3d9.so -lglfw "
        "-Wl,-rpath,$DXVK/build/src/d3d11:$DXVK/build/src/d3d9:$DXVK/build/src/dxgi",
        environment={
            "N": f"{os.environ.get('DXVK')}/include/native",
            "DXVK_WSI_DRIVER": "GLFW",
            "DXVK_LOG_LEVEL": "error",
        },
    ),
    Program(
        "Dolphin, Vulkan",
        "deb:dolphin-emu",
        f"timeout 10 {DOLPHIN} >/dev/null",
        "screen",
        False,
        status=(0, 124),
    ),
    zink("Godot 3", "deb:godot3-runner", f"godot3-runner --path {PROGRAMS}/godot", "^picture .*", on_radv=False),
    zink(
        "Blender, EEVEE",
        "deb:blender",
        f"blender --factory-startup --python {PROGRAMS}/blender_cube.py",
        "^picture .*",
        on_radv=False,
    ),
]

#: A GameCube program that does nothing for ever: one section of code, at 0x80003100, `b .`.
LOOP = bytearray(0x100) + bytes.fromhex("48000000") * 8
LOOP[0:4], LOOP[0x48:0x4C], LOOP[0x90:0x94], LOOP[0xE0:0xE4] = (
    bytes.fromhex(word) for word in ("00000100", "80003100", "00000020", "80003100")
)


def fetch() -> str:
    """Fetches packages that are not there yet, and returns why some cannot be had. Nothing of npm's is executed."""
    FETCHED.mkdir(parents=True, exist_ok=True)
    names = [one.package.removeprefix("npm:") for one in TABLE if one.package.startswith("npm:")]
    npm = [name for name in names if not (FETCHED / "node_modules" / name).is_dir()]
    try:
        if npm:
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(FETCHED), *npm]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        return str(error)
    return ""


def version(kind: str, name: str) -> str:
    """The version of an installed package, or nothing."""
    with contextlib.suppress(OSError, KeyError, importlib.metadata.PackageNotFoundError):
        if kind == "built":
            return re.findall(r"version : '([\d.]+)'", Path(os.environ[name], "meson.build").read_text())[0]
        if kind == "npm":
            return str(json.loads((FETCHED / "node_modules" / name / "package.json").read_text())["version"])
        if kind == "pypi":
            return importlib.metadata.version(name)
        query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", name]
        installed = subprocess.run(query, capture_output=True, text=True).stdout
        return installed[3:] if installed.startswith("ii") else ""
    return ""


class Result(NamedTuple):
    """What a program printed and showed."""

    output: str
    pictures: list[str]


class Runner:
    """Runs one program again and again, in one world."""

    def __init__(self, program: Program, directory: Path, driver: str, screen: Screen) -> None:
        self.program, self.screen, self.driver = program, screen, driver
        self.world = World(directory, driver)
        if driver == "radv":
            self.world.environment = self.world.environment_with(radv.gpu_with_queues("navi21"))
        (directory / "loop.dol").write_bytes(LOOP)
        self.nobody = os.geteuid() == 0 and program.package.startswith("deb:")
        self.world.environment |= {"DISPLAY": screen.name, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games"}
        self.world.environment |= {"PREPARED": str(directory), "ALSA_CONFIG_PATH": "/dev/null"} | program.environment
        self.world.environment |= program.on_lavapipe if driver == "lavapipe" else {}
        self.other = self.other_layer()
        if program.prepare:
            self.shell(program.prepare, self.layers(pylayer=False))

    def other_layer(self) -> str:
        """Makes the other layer an explicit one, whose place is said by VK_INSTANCE_LAYERS."""
        file, _ = self.program.beside
        if not file:
            return ""
        (found,) = Path("/usr/share/vulkan").glob(f"*_layer.d/{file}")
        manifest = json.loads(found.read_text())
        layer = manifest.get("layer") or manifest["layers"][0]
        for key in ("enable_environment", "disable_environment"):
            layer.pop(key, None)
        if "/" in layer["library_path"] and not layer["library_path"].startswith("/"):
            layer["library_path"] = str(found.parent / layer["library_path"])
        (self.world.manifests / file).write_text(json.dumps({"file_format_version": "1.1.2", "layer": layer}))
        return str(layer["name"])

    def layers(self, pylayer: bool) -> str:
        chosen = [LAYER_NAME] if pylayer else []
        if self.other:
            chosen.insert(0 if self.program.beside[1] else 1, self.other)
        return ":".join(chosen)

    def run(self, pylayer: bool, cache: dict[str, str]) -> Result:
        return self.shell(self.program.command, self.layers(pylayer), cache)

    def counted(self, environment: dict[str, str]) -> tuple[Result, Counter[str]]:
        """Runs the program under the layer. Returns what its processes counted, too."""
        before = len(self.world.runs())
        result = self.run(True, environment)
        return result, sum((Counter(run["counters"]) for run in self.world.runs()[before:]), Counter())

    def shell(self, command: str, layers: str, cache: dict[str, str] = OFF) -> Result:
        """Runs a command to its end, or for two minutes. Nothing of it is left."""
        environment = {**self.world.environment, "VK_INSTANCE_LAYERS": layers, **cache}
        environment["MESA_SHADER_CACHE_DIR"] = str(self.world.directory / "mesa")
        # Under the layer as without it, a program's own caches are empty in its first run.
        home = self.world.directory / ("home-under" if LAYER_NAME in layers else "home")
        home.mkdir(exist_ok=True)
        environment |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
        if self.nobody:
            own(self.world.directory, NOBODY)
        pictures = [""]
        process = subprocess.Popen(
            ["sh", "-c", command],
            env=environment,
            cwd=environment["HOME"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            user=NOBODY if self.nobody else None,
            group=NOBODY if self.nobody else None,
            extra_groups=[] if self.nobody else None,
        )
        done = threading.Event()
        watchers = [threading.Thread(target=watch, args=(done, process.pid, self.screen, pictures))]
        watchers.append(threading.Timer(120, os.killpg, (process.pid, signal.SIGKILL)))
        for one in watchers:
            one.start()
        output, _ = process.communicate()
        done.set()
        watchers[1].cancel()  # type: ignore[attr-defined]
        for one in watchers:
            one.join()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if self.nobody:
            own(self.world.directory, 0)
        if process.returncode not in self.program.status:
            raise RuntimeError(f"exit status {process.returncode} with layers {layers}: {output[-300:]}")
        return Result(output + (f"\n{pictures[0]}" if pictures[0] else ""), pictures[1:])


def own(directory: Path, user: int) -> None:
    subprocess.run(["chown", "-R", f"{user}:{user}", str(directory)], check=True)


def watch(done: threading.Event, session: int, screen: Screen, seen: list[str]) -> None:
    """Appends each new picture of the screen, and puts what confines a GPU process of this session into the first."""
    while not done.wait(0.05):
        picture = screen.picture()
        if picture and picture != seen[-1]:
            seen.append(picture)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getsid(int(process.name)) == session and b"gpu-process" in (process / "cmdline").read_bytes():
                    seen[0] = sandbox(process)


def sandbox(process: Path) -> str:
    status = dict(re.findall(r"^(\w+):\s*(.*)$", (process / "status").read_text(), re.MULTILINE))
    kinds = ("pid", "net", "user")
    own = [kind for kind in kinds if (process / "ns" / kind).readlink() != Path("/proc/self/ns", kind).readlink()]
    return f"sandbox: seccomp {status['Seccomp']}, no new privileges {status['NoNewPrivs']}, namespaces {own}"


def looks(program: Program, result: Result) -> list[str]:
    if program.compared == "screen":
        return result.pictures[-1:]
    return re.findall(program.compared, result.output, re.MULTILINE)


@contextlib.contextmanager
def runner(program: Program, driver: str, screen: Screen) -> Iterator[Runner]:
    with tempfile.TemporaryDirectory(prefix="pylayer-evidence-") as directory:
        os.chmod(directory, 0o755)
        yield Runner(program, Path(directory), driver, screen)


def compare(program: Program, screen: Screen) -> str:
    """Whether the program draws or computes the same on Lavapipe without the layer and under it."""
    with runner(program, "lavapipe", screen) as running:
        without, under = (looks(program, running.run(pylayer, OFF)) for pylayer in (False, True))
        if not without or not running.world.runs():
            return "nothing was drawn, or the layer was not loaded"
    return "same" if without == under else f"different: {without} {under}"


def compile_twice(program: Program, screen: Screen) -> tuple[list[str], bool]:
    """Two columns: pipelines, and how many each run compiled; and whether something was compiled again."""
    with runner(program, "radv", screen) as running:
        counters = [running.counted(OFF)[1] for _ in range(2)]
        if counters[-1]["compiled"]:
            counters.append(running.counted(OFF)[1])
    last = counters[-1]
    again = bool(last["compiled"] or last["failed"] or last["hits"] != last["pipelines"])
    return [str(last["pipelines"]), ", ".join(str(one["compiled"]) for one in counters)], again


def recorded(world: World) -> set[tuple[int, bytes]]:
    """Returns fingerprint and digest of each pipeline whose state is recorded."""
    root = str(world.store)
    found = [it for program in state.programs(root) for it in state.read(root, program).created.values()]
    return {(it.fingerprint, it.pipeline) for it in found}


def compiled_since(world: World, since: int) -> set[int]:
    """Fingerprints of what these runs compiled."""
    names = sorted(path.stem for path in world.store.glob("runs/*.run"))[since:]
    timelines = [timeline.read(str(world.store), name) for name in names]
    events = [event for one in timelines if one for event in one.events if event.type == "pipeline"]
    return {event.fingerprint for event in events if event.outcome in timeline.COMPILES}


def rebuild_for_another_card(program: Program, screen: Screen) -> tuple[list[str], bool]:
    """Three columns: what is compiled on another card, without a rebuild and with it; what of the latter was recorded
    before, and not only asked for there; what was rebuilt. And whether something was compiled again."""
    with runner(program, "radv", screen) as running:
        _, without = running.counted(NEW_CARD)
    with runner(program, "radv", screen) as running:
        running.run(True, OFF)
        environment = {**NEW_CARD, "VK_INSTANCE_LAYERS": "", **dict.fromkeys(program.environment)}
        command = [sys.executable, "-m", "pylayer", "rebuild"]
        works = recorded_state.rebuilds(running.world.run(command, check=False, **environment).stdout)
        before, runs = recorded(running.world), len(running.world.runs())
        _, after = running.counted(NEW_CARD)
        again = {it for it, _ in before} & compiled_since(running.world, runs)
        if again:  # the next run records what that one compiled: pipelines that differ may share a fingerprint
            running.run(True, NEW_CARD)
            again -= {it for it, _ in recorded(running.world) - before}
    numbers = {key: sum(work[key] for work in works) for key in ("wanted", "rebuilt", "without_data")}
    reasons = Counter[str]()
    for work in works:
        reasons.update(work["not_rebuilt"])
        reasons.update({f"not recorded: {why}": count for why, count in work["not_recorded"].items()})
    said = [f"{numbers['rebuilt']} of {numbers['wanted'] - numbers['without_data']}"]
    said += [f"{count} {why}" for why, count in reasons.items()]
    columns = [f"{without['compiled']}, {after['compiled']}", str(len(again)), "; ".join(said)]
    return columns, bool(again)


def entries(cache: Path) -> int:
    """How many entries Mesa's disk cache has: 20 bytes each, behind 20 bytes of a file's own."""
    return sum(max(path.stat().st_size - 20, 0) // 20 for path in cache.rglob("mesa_cache.idx"))


def warm_driver_cache(program: Program, screen: Screen) -> tuple[str, bool]:
    """A column: entries that the driver adds to its disk cache without the layer, because it compiled them: if the
    cache was empty, and if `pylayer warm` filled it. Those are the driver's own that it adds under the layer, too, with
    all of the program's pipelines found. And whether anything else was compiled after warm."""
    with runner(program, "radv", screen) as running:
        mesa, environment = running.world.directory / "mesa", {**FILLED, **dict.fromkeys(program.environment)}

        def added(pylayer: bool, to: int = 0) -> int:
            running.run(pylayer, FILLED)
            return entries(mesa) - to

        cold = added(False)
        for path in (mesa, running.world.directory / "home"):  # the program's own caches, too
            shutil.rmtree(path)
        for _ in range(2):
            running.run(True, OFF)
        under = added(True)
        shutil.rmtree(mesa)
        environment |= {"VK_INSTANCE_LAYERS": "", "MESA_SHADER_CACHE_DIR": str(mesa)}
        done = running.world.run([sys.executable, "-m", "pylayer", "warm"], check=False, **environment)
        given = entries(mesa)
        again, own = added(False, given), under - given
    said = f"; {' '.join((done.stdout + done.stderr).split())[:300]}" if done.returncode or not given else ""
    again = max(again, own)  # under the layer the driver may add more of its own
    column = f"{cold} of which {own} are the driver's own, {again - own} after {given} were given{said}"
    return column, again != own or bool(said)


def row(program: Program, screen: Screen) -> tuple[str, bool]:
    """The program's line, and whether something is wrong."""
    columns, rebuilt, warmed, again, look = ["-"] * 2, ["-"] * 3, "-", False, "-"
    try:
        if program.on_radv:
            columns, again = compile_twice(program, screen)
            rebuilt, left = rebuild_for_another_card(program, screen)
            warmed, cold = warm_driver_cache(program, screen)
            again |= left or cold
        if program.compared:
            look = compare(program, screen)
    except RuntimeError as error:
        return str(error), True
    return " | ".join([*columns, *rebuilt, warmed, look]), again or look not in ("-", "same")


def main() -> None:
    missing = fetch()
    screen = Screen()
    wrong = []
    print(
        "program | version | pipelines | compiled | "
        "compiled on another card, without a rebuild and with it | of that recorded | rebuilt | "
        "compiled into an empty driver cache, and into one that warm filled | looks"
    )
    try:
        for program in TABLE:
            if sys.argv[1:] and not any(word in program.name for word in sys.argv[1:]):
                continue
            kind, names = program.package.split(":", 1)
            versions = [version(kind, name) for name in names.split()]
            if not all(versions):
                print(f"{program.name}: left out, not installed: {names} ({kind.rstrip('+')}) {missing}", flush=True)
                continue
            text, bad = row(program, screen)
            wrong += [program.name] if bad else []
            print(f"{program.name} | {versions[-1]} | {text}", flush=True)
    finally:
        screen.close()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
