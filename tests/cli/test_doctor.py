"""``pylayer doctor``: finds and names each thing that can be wrong, and says what to do about it; containers, and what
it says of one program."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import disk
import pytest
from cli.stores import NOW, Store, verdict
from cli.test_stats import write_run
from cli.user import DEMO, ON_RADV, User
from world import PACKAGE, until

from pylayer import LAYER_NAME
from pylayer.cli import devices, environment, manifests, run, status
from pylayer.cli import doctor as checking
from pylayer.cli import probe as probing
from pylayer.cli.devices import probe
from pylayer.cli.doctor import OK, WARNING
from pylayer.cli.environment import container
from pylayer.cli.manifests import LIBRARY_NAME
from pylayer.store.block_list import DAY, LAYER_OFF
from pylayer.store.runs import read_all


def doctor(user: User, status: int = 0, **environment: str) -> tuple[dict[str, dict[str, str]], list[dict[str, Any]]]:
    """Returns the checks by name, and the devices."""
    found = user.json("doctor", status=status, **environment)
    assert found["works"] is (status == 0)
    return {check["name"]: check for check in found["checks"]}, found["devices"]


# ---- drivers ---------------------------------------------------------------------------------------


@ON_RADV
def test_radv(user: User) -> None:
    """On RADV everything is fine: a program's second run finds its pipeline. Identity and mode are those of other
    programs. The user's policy file decides the mode."""
    checks, devices = doctor(user)
    # In a container without a lasting store, doctor warns: test_inside_a_container.
    assert {check["status"] for name, check in checks.items() if name != "container"} == {"ok"}
    (device,) = devices
    assert device["status"] == "ok" and device["driver"] == "radv"
    assert device["mode"] == "cells" and "pipelineCreationCacheControl" in device["reason"]
    assert "its second run found it in the store" in device["tried"]
    user.demo(4)
    (run,) = read_all(str(user.store))
    assert (device["identity"], device["name"], device["mode"]) == (run["identity"], run["device"], run["mode"])
    user.policy_file.write_text('rules: [{match: {vendor: 0x1002}, set: {mode: "off"}}]\n')
    checks, (device,) = doctor(user)
    assert str(user.policy_file) in checks["policy"]["found"]
    assert device["mode"] == "off" and "policy file" in device["reason"]


@pytest.mark.parametrize("user", ["lavapipe"], indirect=True)
def test_lavapipe(user: User) -> None:
    """On Lavapipe the layer works but has nothing to store. doctor names the stub cache."""
    checks, devices = doctor(user)
    assert checks["layer"]["status"] == "ok" and checks["devices"]["status"] == "warning"
    (device,) = devices
    assert device["mode"] == "off" and "Lavapipe" in device["reason"] and "stub" in device["reason"]
    assert device["status"] == "warning" and "nothing is stored" in device["tried"]
    text = user.pylayer("doctor").stdout
    assert text.endswith("nothing to do: no device has pipelines to store.\n") and "works" not in text


def test_leaves_no_trace_in_statistics(user: User) -> None:
    """doctor starts the real layer, but its runs do not appear in the user's statistics."""
    doctor(user)
    assert list(read_all(str(user.store))) == []
    assert not user.store.exists() or not list(user.store.iterdir())


def test_no_driver_that_works(user: User) -> None:
    """Without a driver the layer cannot work. doctor shows the loader's answer and what to do, or how the driver
    crashes."""
    environment = {"VK_DRIVER_FILES": "/nonexistent.json", "VK_ICD_FILENAMES": "/nonexistent.json"}
    checks, devices = doctor(user, 1, **environment)
    assert checks["devices"]["status"] == "problem" and "river" in checks["devices"]["found"]
    assert checks["layer"]["status"] == "skipped" and devices == []
    checks, _ = doctor(user, 1, PYLAYER_TEST_DRIVER="create-instance=abort")
    assert "SIGABRT" in checks["devices"]["found"]


# ---- the installation ------------------------------------------------------------------------------


def for_newer_c_library(data: bytes) -> bytes:
    return data.replace(b"GLIBC_2.34\0", b"GLIBC_9.34\0")


#: Files of the package and what becomes of their bytes, or None if they are gone; what doctor says of the layer.
DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes] | None, str]] = {
    "library removed": (LIBRARY_NAME, None, "missing"),
    "library broken": (LIBRARY_NAME, lambda data: b"no library" * 1000, "ELF"),
    # As an installation that was interrupted leaves it: the probe crashes, and doctor does not.
    "library cut off": (LIBRARY_NAME, lambda data: data[: len(data) // 20], "does not load"),
    "another library": (LIBRARY_NAME, lambda data: disk.LIBRARY.read_bytes(), "not a Vulkan layer"),
    "library for a newer C library": (LIBRARY_NAME, for_newer_c_library, "GLIBC_9.34"),
    "Python for a newer C library": ("_private/lib/*", for_newer_c_library, "GLIBC_9.34"),
    # Without these the layer would silently do nothing.
    "interpreter removed": ("_private/lib", None, ""),
    "policy library removed": ("_policy*.so", None, "_policy"),
    "modules removed": ("_private/site", None, ""),
}


@pytest.mark.parametrize(("name", "change", "says"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_package(
    user: User, tmp_path: Path, name: str, change: Callable[[bytes], bytes] | None, says: str
) -> None:
    """A package that is damaged or was built for another system is a problem of the layer, with the reason."""
    package = tmp_path / "copy" / "pylayer"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in package.glob(name):
        if change:
            path.write_bytes(change(path.read_bytes()))
        else:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    checks, _ = doctor(user, 1, PYTHONPATH=str(package.parent))
    layer = checks["layer"]
    assert layer["status"] == "problem" and says in layer["found"] + layer.get("advice", "")
    if says == "missing":
        assert "install vk-pylayer again" in layer["found"] and checks["devices"]["status"] == "skipped"


# ---- the user's things -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "variables", "check", "says"),
    [
        ("settings:\n  mode: cell\n", {}, "policy", ("policy.yaml, line 2", "defaults")),
        ("", {"PYLAYER_CONFIG": "/nonexistent.yaml"}, "policy", ("PYLAYER_CONFIG",)),
        ("policy: nowhere:Nothing\n", {}, "layer", ("nowhere",)),
        ("policy: mine:Mine\n", {}, "policy", ("SyntaxError",)),
        ("", {"DISABLE_PYLAYER": "1"}, "environment", ("DISABLE_PYLAYER",)),
        ("", {"ENABLE_PYLAYER": "true"}, "environment", ("ENABLE_PYLAYER=true",)),
        ("", {"PYLAYER_LOG": "loud"}, "environment", ("loud",)),
    ],
)
def test_warnings(user: User, text: str, variables: dict[str, str], check: str, says: tuple[str, ...]) -> None:
    """A policy file or class that cannot be used, and a variable that keeps the layer from working or has no meaning,
    are warnings that name them. Everything else is checked as without them."""
    user.policy_file.write_text(text)
    (user.policy_file.parent / "mine.py").write_text("this is no Python\n")
    checks, (device,) = doctor(user, **variables)
    told = checks[check]
    assert told["status"] == "warning" and all(word in told["found"] + told.get("advice", "") for word in says)
    assert checks["layer"]["status"] == ("ok" if check == "environment" else "warning")
    assert device["status"] == "ok"


def test_layer_disabled(user: User) -> None:
    """VK_LOADER_LAYERS_DISABLE keeps the layer out. The loader does not list the layer, and doctor names the
    variable."""
    checks, _ = doctor(user, 1, VK_LOADER_LAYERS_DISABLE="*PYLAYER*")
    assert checks["layer"]["status"] == "problem"
    assert checks["environment"]["status"] == "warning" and "VK_LOADER_LAYERS_DISABLE" in checks["environment"]["found"]


def test_store_unusable(user: User) -> None:
    """A store that cannot be written to, or that others may write to, is a problem, but doctor still checks everything
    else."""
    (user.home / "file").write_text("")
    checks, devices = doctor(user, 1, PYLAYER_STORE=str(user.home / "file" / "store"))
    assert checks["store"]["status"] == "problem"
    assert checks["layer"]["status"] == "ok" and len(devices) == 1
    user.store.mkdir(parents=True)
    user.store.chmod(0o777)
    checks, _ = doctor(user, 1)
    assert checks["store"]["status"] == "problem" and "chmod go-w" in checks["store"]["found"]


def test_installed_manifest_stale(user: User) -> None:
    """An installed manifest is a warning if its library is gone."""
    user.pylayer("install")
    manifest = user.data / "vulkan" / "explicit_layer.d" / "VkLayer_pylayer_pipeline_cache.json"
    manifest.write_text(manifest.read_text().replace(str(PACKAGE), "/nonexistent"))
    checks, _ = doctor(user)
    assert checks["installed"]["status"] == "warning" and "/nonexistent" in checks["installed"]["found"]


def test_no_loader(user: User, tmp_path: Path) -> None:
    """If the vulkan package cannot open a loader, doctor says what to install and skips the checks that need a
    loader."""
    fake = tmp_path / "fake" / "vulkan"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text('raise OSError("Cannot find Vulkan SDK version")\n')
    checks, devices = doctor(user, 1, PYTHONPATH=str(fake.parent))
    assert checks["loader"]["status"] == "problem" and "libvulkan1" in checks["loader"]["advice"]
    assert checks["devices"]["status"] == "skipped" and devices == []


def test_probe_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that never returns costs its time limit and becomes a sentence."""
    source, library = tmp_path / "hang.c", tmp_path / "libhang.so"
    source.write_text("#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { pause(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(devices, "TIMEOUT_SECONDS", 1)
    assert devices.probe("open", str(library)).failure == "did not end within 1 s"


def test_threads_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ends while the probe looks for policy's is no failure."""
    monkeypatch.setattr(Path, "glob", lambda *_: [Path("/proc/self/task/0/comm")])
    assert not probing.has_policy()


# ---- Containers ----------------------------------------------------------------------------------


def test_inside_a_container(user: User) -> None:
    """In a container, doctor says which one it is and whether the store outlives it."""
    check = doctor(user, container="lilypond")[0]["container"]
    lost = user.home.stat().st_dev == Path("/").stat().st_dev
    assert check["status"] == (WARNING if lost else OK)
    assert str(user.store) in check["found"] if lost else "not in the container's own" in check["found"]


@pytest.mark.parametrize(
    ("name", "place", "found"),
    [("docker", "/no/such/store", [WARNING]), ("docker", "/proc/self/store", [OK]), ("", "/store", [])],
)
def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, name: str, place: str, found: list[str]) -> None:
    """A store in the container's own file system is a warning, even if it does not exist yet. One on a volume is not.
    Outside of containers, doctor has no line about them."""
    monkeypatch.setattr(checking, "container", lambda environment: name)
    checks = checking.check_container(place)
    assert [check.status for check in checks] == found
    assert all(place in check.found and "PYLAYER_STORE" in check.advice for check in checks if check.status == WARNING)


@pytest.mark.parametrize(
    ("file", "text", "environment", "name"),
    [
        (".flatpak-info", "", {}, "flatpak"),
        ("run/host/container-manager", "pressure-vessel\n", {}, "pressure-vessel"),
        ("file", "", {"SNAP": "/snap/game/1"}, "snap"),
        ("file", "", {}, ""),
    ],
)
def test_which_container(tmp_path: Path, file: str, text: str, environment: dict[str, str], name: str) -> None:
    """A process's root directory and environment tell which container it is in."""
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert container(environment, str(tmp_path)) == name


def test_installed_in_usr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steam's containers show /usr at another path. If a manifest of the loader's own directories leads to a package
    there, pylayer run names no other one."""
    package = Path("/usr/lib/pylayer")
    manifest = manifests.manifest_path(tmp_path / "share", manifests.EXPLICIT)
    manifest.parent.mkdir(parents=True)
    layer = {"name": LAYER_NAME, "library_path": str(package / LIBRARY_NAME)}
    manifest.write_text(json.dumps({"layer": layer}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for variable in ("VK_LAYER_PATH", "VK_ADD_LAYER_PATH"):
        monkeypatch.delenv(variable, raising=False)
    there = run._environment(str(tmp_path / "store"))[0]
    assert "VK_ADD_LAYER_PATH" in there
    monkeypatch.setattr(manifests, "package_directory", lambda: package)
    environment, is_on = run._environment(str(tmp_path / "store"))
    assert is_on and environment["VK_INSTANCE_LAYERS"] == there["VK_INSTANCE_LAYERS"]
    assert "VK_ADD_LAYER_PATH" not in environment and "VK_LAYER_PATH" not in environment


# ---- One program ---------------------------------------------------------------------------------


#: A name that no process of another test has.
GAME = f"game-{os.getpid()}-{time.monotonic_ns()}"
TOOL = f"tool-{GAME}"


@pytest.fixture
def game(user: User) -> Path:
    """The demo program under the name ``GAME``."""
    return Path(shutil.copy(DEMO, user.directory / GAME))


def write_game(user: User, name: str = GAME, **values: str) -> None:
    write_run(user, program=name, executable=name, **values)


def limits(found: dict[str, Any]) -> dict[str, str]:
    """Returns what limits the layer, by the name of the check."""
    return {check["name"]: check["found"] for check in found["checks"] if check["status"] != "ok"}


@contextmanager
def running(user: User, *words: object, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a command that has more work than any test lasts."""
    started = user.process((), **environment) | {"args": list(map(str, words))}
    with subprocess.Popen(**started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_running_under_the_layer(user: User, game: Path) -> None:
    """A program that runs under the layer is on. The program's own environment tells where its store is, so that a
    store that the shell does not know is found."""
    other = user.directory / "other"
    command = ["env", f"PYLAYER_STORE={other}", *user.process(("run", "--", game, "--count", 14336))["args"]]
    with running(user, *command) as process:
        until(process, lambda: any(other.glob("store/*/*.live")))
        until(process, lambda: user.json("stats", PYLAYER_STORE=str(other))["programs"])
        found = user.json("doctor", GAME)
        assert found["on"] and found["pid"] == process.pid and limits(found) == {}
        assert f"is running (pid {process.pid}, since " in found["answer"]
        (device,) = found["facts"]
        assert device["name"] == "device" and ": mode cells" in device["text"]


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "no variable enables it"),
        ({"ENABLE_PYLAYER": "1", "DISABLE_PYLAYER": ""}, "DISABLE_PYLAYER is set"),
        ({"VK_INSTANCE_LAYERS": LAYER_NAME, "VK_LOADER_LAYERS_DISABLE": "*py*"}, "VK_LOADER_LAYERS_DISABLE=*py*"),
        # What a machine of continuous integration is in comes first.
        ({"ENABLE_PYLAYER": "1", "SNAP": "/"}, "manifest" if container(os.environ) else "a container (snap)"),
    ],
)
def test_running_without_the_layer(user: User, game: Path, environment: dict[str, str], says: str) -> None:
    """A program that runs without the layer is off, and its own environment says why
    (test_what_the_loader_does has all reasons)."""
    with running(user, game, "--count", 14336, **environment) as process:
        said = user.says("doctor", GAME, status=1)
        first = said.splitlines()[0]
        assert first.startswith(f"Off: {GAME} is running (pid {process.pid}) and the layer does nothing")
        assert says in first


def test_loaded_and_nothing_recorded(user: User, game: Path) -> None:
    """A program in which the layer is loaded, and which records nothing, is off. The answer says so."""
    user.policy_file.write_text("settings: {mode: 'off', application_caches: pass}\n")
    command = user.process(("run", "--", game, "--count", 14336))["args"]
    with running(user, *command) as process:
        until(process, lambda: LIBRARY_NAME in Path(f"/proc/{process.pid}/maps").read_text())
        answer = user.json("doctor", GAME, status=1)["answer"]
        assert answer.startswith(f"Off: {GAME} is running (pid {process.pid}) and the layer does nothing")
        assert "the layer is loaded" in answer


def test_last_run(user: User, game: Path) -> None:
    """A program that is not running has the answer of its last run. One of which nothing is known is off."""
    user.pylayer("run", "--", game, "--count", 4)
    done = user.pylayer("doctor", GAME)
    first, device = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert first.startswith(f"On: in the last run of {GAME}") and first.endswith("; it is not running now.")
    assert "mode cells" in device and "4 compiled" in device
    assert "no run of it under the layer is recorded" in user.json("doctor", TOOL, status=1)["answer"]


def test_skip_rule(user: User) -> None:
    """A skip rule of the policy file switches the layer off, whatever the last run was."""
    write_game(user)
    user.policy_file.write_text("skip: [{executable: game-*}]\n")
    found = user.json("doctor", GAME, status=1)
    says = f"Off: the skip rule executable: game-* excludes {GAME}; pylayer off {GAME} --undo includes it."
    assert found["answer"] == says
    assert [fact["name"] for fact in found["facts"]] == ["last run under the layer"]


def test_off_after_deaths(user: User) -> None:
    """A block that switches the layer off makes the answer off. One about another program does not."""
    store = Store(user.store)
    write_game(user, identity=store.identity.name)
    write_game(user, TOOL, identity=store.identity.name)
    store.file(".verdict", (GAME, ""), verdict(type=LAYER_OFF, subject=0, until_s=NOW + DAY))
    found = user.json("doctor", GAME, status=1)
    assert "the layer is off, because the program died repeatedly" in found["answer"]
    assert set(limits(found)) == {"blocks"} and limits(user.json("doctor", TOOL)) == {}


def test_limits(user: User) -> None:
    """A broken policy file and a store that cannot be written are listed."""
    write_game(user)
    user.policy_file.write_text("settings: {mde: cells}\n")
    found = limits(user.json("doctor", GAME))
    assert set(found) == {"policy"} and "; the defaults are in force" in found["policy"]
    text = user.pylayer("doctor", GAME).stdout
    assert "warning  policy" in text and "  store" not in text
    blocked = user.directory / "file"
    blocked.write_text("")
    found = limits(user.json("doctor", GAME, status=1, PYLAYER_STORE=str(blocked)))
    assert set(found) == {"store", "policy"} and f"{blocked} cannot be written" in found["store"]


def test_here(user: User) -> None:
    """Without a name, the answer is for programs that are started from here. The exit status is that of the checks."""
    assert "pylayer run -- APP runs one program under it" in user.json("doctor")["answer"]
    assert "ENABLE_PYLAYER=yes" in user.json("doctor", ENABLE_PYLAYER="yes")["answer"]
    user.pylayer("install", "--implicit")
    write_game(user)
    found = user.json("doctor", ENABLE_PYLAYER="1")
    assert found["answer"] == "On: programs that are started from here run under the layer."
    assert found["facts"] == [] and found["program"] is None
    assert user.json("doctor", ENABLE_PYLAYER="1", DISABLE_PYLAYER="1")["on"] is False


# ---- What keeps the layer out of a program -------------------------------------------------------


#: Directories of loaders, the first of them the system's. Browsers bring one that needs no newer C library.
BROWSERS = [*glob.glob("/usr/lib*/chromium*/libvulkan.so.1"), *glob.glob("/opt/*/chrom*/libvulkan.so.1")]
LOADERS = {"system": "", **({"browser": BROWSERS[0]} if BROWSERS else {})}

#: Which manifests are installed, and their directories of variables: {none}, {explicit} and {implicit}.
EXPLICIT, IMPLICIT, BOTH, NONE = "explicit", "implicit", "both", ""
ON, NAMED = {"ENABLE_PYLAYER": "1"}, {"VK_INSTANCE_LAYERS": LAYER_NAME}
DISABLED, ENABLED, ALLOWED = (f"VK_LOADER_LAYERS_{word}" for word in ("DISABLE", "ENABLE", "ALLOW"))
PATH, ADD_PATH = "VK_LAYER_PATH", "VK_ADD_LAYER_PATH"
IMPLICIT_PATH, ADD_IMPLICIT_PATH = "VK_IMPLICIT_LAYER_PATH", "VK_ADD_IMPLICIT_LAYER_PATH"

#: What is installed, the variables, and what doctor says if the layer is not loaded.
COMBINATIONS = [
    (IMPLICIT, {}, "no variable enables it"),
    (IMPLICIT, ON, ""),
    (IMPLICIT, {"ENABLE_PYLAYER": "true"}, "ENABLE_PYLAYER=true"),
    (IMPLICIT, ON | {"DISABLE_PYLAYER": ""}, "DISABLE_PYLAYER"),
    (EXPLICIT, NAMED | {"DISABLE_PYLAYER": "1"}, "DISABLE_PYLAYER"),
    (EXPLICIT, NAMED, ""),
    (EXPLICIT, ON, "no implicit manifest"),
    (IMPLICIT, NAMED, "no explicit manifest"),
    (EXPLICIT, {"VK_INSTANCE_LAYERS": LAYER_NAME.lower()}, "no variable enables it"),
    (BOTH, NAMED, ""),
    (NONE, ON, "no implicit manifest"),
    (NONE, NAMED, "no explicit manifest"),
    (EXPLICIT, {ENABLED: "*pylayer*"}, ""),
    (IMPLICIT, {ENABLED: "*pylayer*"}, ""),
    (EXPLICIT, {ENABLED: "~explicit~"}, "no variable enables it"),
    (IMPLICIT, {ENABLED: "~implicit~"}, "no variable enables it"),
    (IMPLICIT, {ENABLED: "~all~"}, ""),
    (IMPLICIT, ON | {DISABLED: "~implicit~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "~explicit~"}, ""),
    (EXPLICIT, NAMED | {DISABLED: "~explicit~"}, DISABLED),
    (EXPLICIT, NAMED | {DISABLED: "~implicit~"}, ""),
    (BOTH, NAMED | {DISABLED: "~implicit~"}, ""),
    (IMPLICIT, ON | {DISABLED: "~ALL~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: " ~all~"}, ""),
    (IMPLICIT, ON | {DISABLED: "VK_LAYER_x,~implicit~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "*py*"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "*"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "VK_*_cache"}, ""),
    (IMPLICIT, ON | {DISABLED: LAYER_NAME[:-1] + "?"}, ""),
    (IMPLICIT, ON | {DISABLED: "~all~", ALLOWED: "*pylayer*"}, DISABLED),
    (EXPLICIT, NAMED | {DISABLED: LAYER_NAME, ALLOWED: LAYER_NAME}, DISABLED),
    (EXPLICIT, NAMED | {DISABLED: "~all~", ENABLED: "*pylayer*"}, ""),
    (EXPLICIT, NAMED | {DISABLED: "~all~", ENABLED: "~all~"}, DISABLED),
    (IMPLICIT, ON | {DISABLED: "~implicit~", ENABLED: "~implicit~"}, DISABLED),
    (IMPLICIT, ON | {IMPLICIT_PATH: "{none}"}, IMPLICIT_PATH),
    (IMPLICIT, ON | {IMPLICIT_PATH: ""}, IMPLICIT_PATH),
    (NONE, ON | {IMPLICIT_PATH: "{none}:{implicit}"}, "no implicit manifest"),
    (NONE, ON | {ADD_IMPLICIT_PATH: "{implicit}"}, "no implicit manifest"),
    (NONE, ON | {ADD_IMPLICIT_PATH: "{implicit}", IMPLICIT_PATH: "{none}"}, "no implicit manifest"),
    (BOTH, NAMED | {IMPLICIT_PATH: "{none}"}, ""),
    (BOTH, NAMED | {PATH: "{none}"}, PATH),
    (EXPLICIT, NAMED | {PATH: "{none}"}, PATH),
    (NONE, NAMED | {PATH: "{explicit}"}, ""),
    (NONE, NAMED | {PATH: "{explicit}/" + manifests.MANIFEST_NAME}, ""),
    (NONE, NAMED | {ADD_PATH: "{explicit}"}, ""),
    (NONE, NAMED | {ADD_PATH: "{explicit}", PATH: "{none}"}, PATH),
    (IMPLICIT, ON | {PATH: "{none}"}, ""),
    (NONE, ON | {PATH: "{implicit}"}, "no implicit manifest"),
    (IMPLICIT, NAMED | {ADD_PATH: "{explicit}", DISABLED: "~implicit~"}, ""),
]


def write_manifest(directory: Path, kind: str) -> None:
    directory.mkdir(parents=True)
    (directory / manifests.MANIFEST_NAME).write_text(manifests.manifest_text(kind))


@pytest.fixture
def places(user: User, tmp_path: Path) -> dict[str, str]:
    """The directories that variables name. No other manifest of the layer is on this machine."""
    user.environment |= {"XDG_DATA_DIRS": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    found = {name: str(tmp_path / f"own-{name}") for name in ("none", EXPLICIT, IMPLICIT)}
    for kind in (EXPLICIT, IMPLICIT):
        write_manifest(Path(found[kind]), kind)
    return found


@pytest.mark.parametrize("loader", LOADERS)
def test_what_the_loader_does(user: User, places: dict[str, str], tmp_path: Path, loader: str) -> None:
    """For each combination the layer is on where a program has a recorded run, and otherwise doctor says why. The list
    of obstacles knows it without asking the loader."""
    if LOADERS[loader]:
        (tmp_path / "loader").mkdir()
        (tmp_path / "loader" / "libvulkan.so.1").symlink_to(LOADERS[loader])
        user.environment["LD_LIBRARY_PATH"] = str(tmp_path / "loader")
    with mock.patch.dict(os.environ, user.environment, clear=True):
        version = environment.loader_version(probe("instance", environment=os.environ).found["version"])
    wrong = []
    for number, (kinds, variables, says) in enumerate(COMBINATIONS):
        data, store = tmp_path / f"data-{kinds}", tmp_path / f"store-{number}"
        for kind in (EXPLICIT, IMPLICIT):
            if kinds in (kind, BOTH) and not (data / "vulkan" / f"{kind}_layer.d").exists():
                write_manifest(data / "vulkan" / f"{kind}_layer.d", kind)
        given = {name: value.format(**places) for name, value in variables.items()}
        variables = user.environment | given | {"XDG_DATA_HOME": str(data), "PYLAYER_STORE": str(store)}
        subprocess.run([DEMO, "--count", "1"], env=variables, capture_output=True, check=True)
        is_on = bool(list(read_all(str(store))))
        with mock.patch.dict(os.environ, variables, clear=True):
            said, listed = status.of_environment(), environment.why_not(os.environ, version)
        if not (is_on == said.on == (not listed)) or (not is_on and says not in said.answer):
            wrong.append((kinds, given, is_on, said.answer, listed))
    assert not wrong, "\n".join(map(str, wrong))
