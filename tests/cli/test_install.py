"""``pylayer install`` and ``pylayer uninstall``."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import others
import pytest
from cli.user import DEMO, User
from disk import LIBRARY as STORAGE
from others import public_copy
from world import PACKAGE

from pylayer import LAYER_NAME
from pylayer.store.runs import read_all

NAME = "VkLayer_pylayer_pipeline_cache.json"
LIBRARY = "libVkLayer_pylayer_pipeline_cache.so"
LIST_LAYERS = """
import vulkan
print("\\n".join(layer.layerName for layer in vulkan.vkEnumerateInstanceLayerProperties()))
"""


#: A program that has an instance, creates another one when it reads a line, and prints the trees that it has loaded.
HOLD = """
import vulkan
first = vulkan.vkCreateInstance(vulkan.VkInstanceCreateInfo(), None)
input()
second = vulkan.vkCreateInstance(vulkan.VkInstanceCreateInfo(), None)
maps = [line for line in open("/proc/self/maps") if "/share/pylayer/" in line]
print(*{line.split("/share/pylayer/")[1].split("/")[0] for line in maps})
"""


def manifest(user: User, kind: str = "explicit") -> Path:
    return user.data / "vulkan" / f"{kind}_layer.d" / NAME


def loader_lists_layer(user: User) -> bool:
    command = [sys.executable, "-c", LIST_LAYERS]
    done = subprocess.run(command, env=user.environment, capture_output=True, text=True, check=True)
    return LAYER_NAME in done.stdout.split()


def compiled(user: User, **environment: str) -> list[int]:
    """Runs the demo without pylayer run. Returns how many pipelines each run so far compiled under the layer."""
    merged = {**user.environment, **environment}
    subprocess.run([DEMO, "--count", "4"], env=merged, check=True, capture_output=True)
    return [run["counters"]["compiled"] for run in read_all(str(user.store))]


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() or path.is_symlink())


def other_build(directory: Path, build: str = "f" * 32) -> dict[str, str]:
    """Copies the package, with another build id, and returns the variable with which commands use it."""
    shutil.copytree(PACKAGE, directory / "pylayer", ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "pylayer" / "_private" / "build_id").write_text(build)
    return {"PYTHONPATH": str(directory)}


def place(user: User) -> Path:
    return user.data / "pylayer"


def trees(user: User) -> list[str]:
    """Returns what is in the place of trees, without the link to the one in force."""
    return sorted(path.name for path in place(user).glob("*") if path.name != "current")


def installed_command(user: User, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command that install put into ~/.local/bin, with nothing of this environment but the system's Python."""
    command = [user.home / ".local" / "bin" / "pylayer", *arguments]
    merged = {**user.environment, "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, env=merged, cwd=user.directory, capture_output=True, text=True, check=False)


# ---- for a user ------------------------------------------------------------------------------------


def test_install(user: User) -> None:
    """After install the loader lists the layer, and VK_INSTANCE_LAYERS alone loads it into a program."""
    assert not loader_lists_layer(user)
    done = user.pylayer("install")
    assert done.returncode == 0
    assert str(manifest(user)) in done.stdout and f"VK_INSTANCE_LAYERS={LAYER_NAME}" in done.stdout
    assert Path(json.loads(manifest(user).read_text())["layer"]["library_path"]).is_absolute()
    assert loader_lists_layer(user)
    assert compiled(user) == compiled(user, ENABLE_PYLAYER="1") == []
    assert compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME) == [4]


def test_implicit(user: User) -> None:
    """The implicit layer is loaded into programs that set ENABLE_PYLAYER=1 or name it, and into no others."""
    done = user.pylayer("install", "--implicit")
    assert done.returncode == 0
    assert str(manifest(user, "implicit")) in done.stdout and "ENABLE_PYLAYER=1 APP" in done.stdout
    assert compiled(user) == compiled(user, ENABLE_PYLAYER="0") == []
    assert compiled(user, ENABLE_PYLAYER="1") == [4]
    assert compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME) == [4, 0]
    assert len(compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME, ENABLE_PYLAYER="1")) == 3
    assert len(compiled(user, VK_LOADER_LAYERS_ENABLE="*pylayer*")) == 4


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_disable(user: User, value: str) -> None:
    """DISABLE_PYLAYER takes precedence over everything that switches the layer on, whatever its value, as in the
    loader."""
    user.pylayer("install", "--implicit")
    asked = {"VK_INSTANCE_LAYERS": LAYER_NAME, "ENABLE_PYLAYER": "1", "VK_LOADER_LAYERS_ENABLE": "*pylayer*"}
    assert compiled(user, DISABLE_PYLAYER=value, **asked) == []
    assert not user.store.exists()


def test_kinds(user: User) -> None:
    """--explicit removes the implicit layer. Without an option the kind does not change."""
    assert user.json("install", "--in-place", "--implicit")["kind"] == "implicit"
    assert user.json("install", "--in-place")["kind"] == "implicit"
    changed = user.json("install", "--in-place", "--explicit")
    assert changed["kind"] == "explicit" and changed["removed"] == [str(manifest(user, "implicit"))]
    assert files(user.home) == [manifest(user)]


def test_install_twice(user: User) -> None:
    """A second install says that the layer is installed already, and changes nothing."""
    assert user.json("install")["changed"] is True
    before = manifest(user).stat()
    again = user.json("install")
    assert again["changed"] is False and again["manifests"] == [str(manifest(user))] and again["layer"] == LAYER_NAME
    assert manifest(user).stat().st_mtime_ns == before.st_mtime_ns
    assert "already" in user.pylayer("install").stdout


def test_two_installations(user: User, tmp_path: Path) -> None:
    """Of two builds, the one that installed last takes effect. It says what it replaced. doctor, status and run of the
    other one report it."""
    other = other_build(tmp_path / "other")
    package = tmp_path / "other" / "pylayer"
    assert user.json("install", "--in-place", "--implicit", **other)["library"] == str(package / LIBRARY)
    warned = user.pylayer("run", "--", "true")
    assert str(package) in warned.stderr and warned.stderr.count("\n") == 1 and warned.returncode == 0
    done = user.pylayer("install")
    assert f"led to {package / LIBRARY}" in done.stdout
    assert user.pylayer("run", "--", "true").stderr == ""
    (check,) = [check for check in user.json("doctor", **other)["checks"] if check["name"] == "installed"]
    assert check["status"] == "warning" and "pylayer install" in check["advice"]
    mine = (PACKAGE / "_private" / "build_id").read_text()[:8]
    assert f"the layer of build {mine}, and this command is of build ffffffff" in check["found"]
    facts = {fact["name"]: fact["text"] for fact in user.json("status", status=1)["facts"]}
    assert facts["installed"] == f"build {mine}"
    facts = {fact["name"]: fact["text"] for fact in user.json("status", status=1, **other)["facts"]}
    assert f"build {mine}, and this command is of build ffffffff" in facts["installed"]


def test_install_replaces_what_is_gone(user: User) -> None:
    """A manifest that leads nowhere, such as that of a deleted environment, is replaced."""
    manifest(user).parent.mkdir(parents=True)
    manifest(user).write_text(json.dumps({"layer": {"name": LAYER_NAME, "library_path": "/old/layer.so"}}))
    assert user.json("install", "--in-place")["replaced"] == ["/old/layer.so"]
    assert loader_lists_layer(user)


def test_another_place(user: User) -> None:
    """doctor reports a manifest of the layer elsewhere in the loader's search path, whatever its file name."""
    other = user.home / "data" / "vulkan" / "implicit_layer.d" / "10-other.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps({"layers": [{"name": LAYER_NAME, "library_path": "../../layer.so"}]}))
    environment = {"XDG_DATA_DIRS": f"{user.home / 'data'}:/usr/share"}
    answer = user.json("install", "--in-place", **environment)
    assert answer["others"] == [{"manifest": str(other), "library": str(user.home / "data" / "layer.so")}]
    left = user.pylayer("uninstall", **environment)
    assert f"Still there: {other}" in left.stdout and other.exists()


def test_uninstall(user: User) -> None:
    """uninstall removes what install wrote and nothing else. A second uninstall says that nothing is installed."""
    user.pylayer("install")
    written = set(files(user.home))
    neighbour = manifest(user).with_name("VkLayer_other.json")
    neighbour.write_text("{}")
    user.demo(4)
    kept = set(files(user.home)) - written
    told = user.json("uninstall")
    assert told["removed"] == [str(manifest(user))] and len(told["trees"]) == 1 and told["left"] == told["used"] == []
    assert set(files(user.home)) == kept and neighbour in kept
    assert not loader_lists_layer(user)
    assert user.json("uninstall")["removed"] == []
    again = user.pylayer("uninstall")
    assert again.returncode == 0 and "Nothing to remove" in again.stdout


@pytest.mark.parametrize("kind", ["--explicit", "--implicit", "--rebuild-when-idle"])
def test_uninstall_leaves_nothing(user: User, kind: str) -> None:
    """After install and uninstall, a home directory is as empty as before."""
    user.pylayer("install", kind)
    assert list(user.home.iterdir())
    user.pylayer("uninstall")
    assert list(user.home.iterdir()) == []


def test_uninstall_keeps_directories_of_others(user: User) -> None:
    """uninstall keeps XDG_DATA_HOME itself, even if it is empty, and every directory that is not empty."""
    data = user.directory / "data"
    data.mkdir()
    user.pylayer("install", "--in-place", "--implicit", XDG_DATA_HOME=str(data))
    (data / "vulkan" / "explicit_layer.d" / "VkLayer_other.json").write_text("{}")
    user.pylayer("uninstall", XDG_DATA_HOME=str(data))
    assert [path.name for path in data.rglob("*")] == ["vulkan", "explicit_layer.d", "VkLayer_other.json"]


def test_rebuild_when_idle(user: User) -> None:
    """The timer is where systemd looks for it, is enabled, and its service runs the installed command."""
    assert user.pylayer("install", "--in-place", "--rebuild-when-idle").returncode == 2
    assert user.pylayer("install", "--rebuild-when-idle").returncode == 0
    units = user.data / "systemd" / "user"
    enabled = units / "timers.target.wants" / "pylayer-rebuild.timer"
    assert enabled.resolve() == units / "pylayer-rebuild.timer"
    (command,) = re.findall("^ExecStart=(.+)$", (units / "pylayer-rebuild.service").read_text(), re.M)
    done = subprocess.run(shlex.split(command), env=user.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_umask(user: User, umask: int) -> None:
    """A tree has the same modes under each umask: nobody but its owner may change it. The loader finds the manifest."""
    with others.umask(umask):
        done = subprocess.run(**user.process(("install", "--implicit")), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert manifest(user).parent.stat().st_mode & 0o777 == 0o777 & ~umask
    (name,) = trees(user)
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in (place(user) / name).rglob("*") if not path.is_symlink()}
    assert modes == {0o755, 0o644} and stat.S_IMODE((place(user) / name).stat().st_mode) == 0o755
    assert loader_lists_layer(user) and compiled(user, ENABLE_PYLAYER="1") == [4]


def test_install_through_a_link(user: User) -> None:
    """The loader's directory may be a link, for example into a repository of settings. uninstall keeps it."""
    elsewhere = user.directory / "settings"
    elsewhere.mkdir()
    manifest(user).parent.parent.mkdir(parents=True)
    manifest(user).parent.symlink_to(elsewhere)
    assert user.pylayer("install", "--in-place").returncode == 0
    assert files(elsewhere) == [elsewhere / NAME] and loader_lists_layer(user)
    assert user.pylayer("uninstall").returncode == 0
    assert files(elsewhere) == [] and manifest(user).parent.is_symlink()


def test_install_where_nothing_can_be_written(user: User) -> None:
    """If the data directory cannot be created, install ends with status 1 and one line."""
    (user.home / "file").write_text("")
    done = user.pylayer("install", XDG_DATA_HOME=str(user.home / "file"))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "nothing was installed" in done.stderr


# ---- the tree --------------------------------------------------------------------------------------


def test_needs_nothing_else(user: User, tmp_path: Path) -> None:
    """After install, the layer and the command work without the package that they were copied from: no open file, no
    mapping and no path leads there."""
    environment = other_build(tmp_path / "gone", (PACKAGE / "_private" / "build_id").read_text())
    done = user.pylayer("install", "--implicit", **environment)
    assert done.returncode == 0, done.stderr
    assert f"{user.home}/.local/bin is not on PATH" in done.stdout
    shutil.rmtree(tmp_path / "gone")
    assert compiled(user, ENABLE_PYLAYER="1") == [4]
    trace = f"-Ximporttime={tmp_path}"
    assert installed_command(user, "stats", PYTHONHOME="/nonexistent", PYTHONPATH=trace).returncode == 0
    answer = installed_command(user, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(answer.stdout)["checks"]}
    (name,) = trees(user)
    assert str(place(user) / name) in checks["layer"]["found"] and checks["installed"]["status"] == "ok", checks
    ran = installed_command(user, "run", "--", str(DEMO), "--count", "4")
    assert ran.returncode == 0 and compiled(user, ENABLE_PYLAYER="1") == [4, 0, 0]
    python = (place(user) / name / "bin" / "python").resolve()
    assert str(python) == os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    found = subprocess.run(
        [
            place(user) / name / "bin" / "python",
            "-Ic",
            "import sys; print(*sys.path); import pylayer, cryptography, yaml",
        ],
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sys.prefix not in found.stdout and str(place(user) / name) in found.stdout


def test_python_is_gone(user: User) -> None:
    """If the Python that built it is gone, the command says so in one line, and the layer still works."""
    tree = Path(user.json("install", "--implicit")["tree"])
    (tree / "bin" / "python").unlink()
    (tree / "bin" / "python").symlink_to("/nonexistent/python3")
    done = installed_command(user, "stats")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert f"the command needs {os.path.realpath(sys._base_executable)}, which is gone" in done.stderr  # type: ignore[attr-defined]
    assert compiled(user, ENABLE_PYLAYER="1") == [4]


def test_link_of_another(user: User) -> None:
    """A command that somebody else put into ~/.local/bin stays, also after uninstall. A link that leads nowhere is
    replaced."""
    link = user.home / ".local" / "bin" / "pylayer"
    link.parent.mkdir(parents=True)
    link.write_text("mine")
    (note, _) = user.json("install", PATH="/usr/bin:/bin")["notes"] + [""]
    assert note.startswith(f"{link} belongs to another installation") and link.read_text() == "mine"
    user.pylayer("uninstall")
    assert files(user.home) == [link]
    link.unlink()
    link.symlink_to("/nonexistent/pylayer")
    answer = user.json("install", PATH=f"{link.parent}:/usr/bin")
    assert answer["notes"] == [] and str(link) in answer["links"] and os.access(link, os.X_OK)


def test_upgrade(user: User, tmp_path: Path) -> None:
    """Another build takes effect for all manifests and the command at once. Programs that run keep the build that they
    have loaded, also for a second instance. It is deleted by a later install, when no program uses it any more."""
    first = user.json("install", "--implicit")
    manifests = manifest(user).read_text()
    environment = {**user.environment, "ENABLE_PYLAYER": "1"}
    command = [sys.executable, "-c", HOLD]
    program = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        while first["tree"] not in Path("/proc", str(program.pid), "maps").read_text():
            assert program.poll() is None
            time.sleep(0.01)
        for digit in "ab":
            told = user.json("install", **other_build(tmp_path / digit, digit * 32))
            assert told["changed"] and told["library"] == first["library"]
            assert (place(user) / "current").readlink().name.startswith(digit * 32)
            assert manifest(user).read_text() == manifests
            assert f"build {digit * 32}" in installed_command(user, "--version").stdout
            assert Path(first["tree"]).is_dir()
    finally:
        loaded = program.communicate("\n")[0].split()
    assert program.returncode == 0 and loaded == [Path(first["tree"]).name]
    # Also the one before stays, for a program that loads it at this moment.
    user.json("install", **other_build(tmp_path / "c", "c" * 32))
    assert [name[0] for name in trees(user)] == ["b", "c"]


def test_switch_while_loading(user: User) -> None:
    """A program that has opened the layer of one build, and then finds that of another behind the link, runs without
    it."""
    tree = Path(user.json("install", "--implicit")["tree"])
    other = tree.with_name("0" * 32 + tree.name[32:])
    tree.rename(other)
    link = place(user) / "current"
    link.unlink()
    link.symlink_to(other.name)
    environment = {**user.environment, "ENABLE_PYLAYER": "1", "PYLAYER_LOG": "info"}
    done = subprocess.run([DEMO, "--count", "4"], env=environment, capture_output=True, text=True, check=True)
    assert "pylayer was upgraded while this program loaded the layer" in done.stderr
    assert not (user.store / "runs").exists()


def run_failing(user: User, rule: str, **build: str) -> subprocess.CompletedProcess[str]:
    """Runs install on a disk that fails (tests/storage)."""
    environment = {
        "PYLAYER_TEST_STORAGE": rule,
        "PYLAYER_TEST_STORAGE_ROOT": str(user.home),
        "LD_PRELOAD": str(STORAGE),
        **build,
    }
    return subprocess.run(
        **user.process(("install", "--implicit"), **environment), capture_output=True, timeout=120, check=False
    )


def is_usable(user: User) -> bool:
    """Returns whether the installation works: no manifest, or manifests that lead to a whole layer."""
    found = [path for kind in ("explicit", "implicit") if (path := manifest(user, kind)).exists()]
    for path in found:
        assert Path(json.loads(path.read_text())["layer"]["library_path"]).is_file()
    return bool(found)


#: At the first files, among the copies, among the bytecode, before the switch, and at all that leads to the tree.
KILLS = (
    *(f"change:KILL:nth={count}" for count in (1, 2, 3, 4, 300, 1700)),
    "rename:KILL:path=/new-current",
    *(f"rename:KILL:path={kind}_layer.d" for kind in ("explicit", "implicit")),
    *(f"rename:KILL:path=/new-pylayer{suffix}" for suffix in ("", ".1")),
)


@pytest.mark.parametrize("upgrade", [False, True])
def test_killed_at_any_moment(user: User, tmp_path: Path, upgrade: bool) -> None:
    """Whenever install is killed, what was installed before works, or nothing is registered. The next install needs no
    help, and leaves nothing behind of the one that died."""
    new = other_build(tmp_path / "new") if upgrade else {}
    if upgrade:
        user.pylayer("install", "--implicit")
    runs = 0
    for rule in KILLS:
        done = run_failing(user, rule, **new)
        if done.returncode == 0:
            # An upgrade writes no manifest and no link: those that are there lead through the link to the tree.
            assert upgrade and "layer.d" in rule
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert is_usable(user) or not upgrade
        if is_usable(user):
            runs += 1
            assert len(compiled(user, VK_INSTANCE_LAYERS=LAYER_NAME)) == runs
    assert runs >= 3
    assert user.pylayer("install", "--implicit", **new).returncode == 0
    builds = [(PACKAGE / "_private" / "build_id").read_text(), *(["f" * 32] if upgrade else [])]
    assert sorted(name[:32] for name in trees(user)) == sorted(builds)
    assert sorted(path.name for path in (user.home / ".local" / "bin").iterdir()) == ["pylayer"]
    assert user.json("install", **new)["changed"] is False
    user.pylayer("uninstall")
    assert [path for path in files(user.home) if user.store not in path.parents] == []


@pytest.mark.parametrize("upgrade", [False, True])
@pytest.mark.parametrize("rule", ["change:ENOSPC:from=4", "mkdir:ENOSPC:from=60", "rename:ENOSPC:from=1"])
def test_full_disk(user: User, tmp_path: Path, rule: str, upgrade: bool) -> None:
    """On a full disk one line says so, nothing is left of the copy, and what was installed before stays in force."""
    if upgrade:
        user.pylayer("install", "--implicit", **other_build(tmp_path / "old"))
    before = files(user.home)
    done = run_failing(user, rule)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert "No space left on device); nothing was installed" in done.stderr
    assert files(user.home) == before and is_usable(user) == upgrade


def test_damaged_tree(user: User) -> None:
    """A tree that lacks a file is copied again."""
    tree = Path(user.json("install")["tree"])
    (tree / "layer" / LIBRARY).unlink()
    assert user.json("install")["changed"] is True and loader_lists_layer(user)
    assert tree.name in trees(user)


def test_several_installs_at_once(user: User) -> None:
    """Installs at the same time wait for each other; all succeed and one tree is there."""
    started = [
        subprocess.Popen(**user.process(("install",)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)
    ]
    assert [(process.communicate()[1], process.returncode) for process in started] == [("", 0)] * 3
    assert len(trees(user)) == 1 and loader_lists_layer(user)


def test_uninstall_by_the_installed_command(user: User) -> None:
    """The installed command removes itself. A tree that a program uses stays, and a line names the process."""
    user.pylayer("install", "--implicit")
    done = installed_command(user, "uninstall")
    assert (done.returncode, done.stderr, files(user.home)) == (0, "", [])
    (tree,) = {user.json("install", "--implicit")["tree"]}
    program = subprocess.Popen([f"{tree}/bin/python", "-c", "input()"], stdin=subprocess.PIPE, env={})
    try:
        done = user.pylayer("uninstall")
        assert f"Kept: {tree}, because running programs use it (pid {program.pid})" in done.stdout
        assert Path(tree).is_dir() and not manifest(user).exists()
    finally:
        program.kill()
        program.wait()
    assert user.json("uninstall")["trees"] == [tree] and files(user.home) == []


# ---- for all users ---------------------------------------------------------------------------------


def test_prefix_needs_system(user: User) -> None:
    """--prefix without --system is wrong use."""
    assert user.pylayer("install", "--prefix", "/nonexistent").returncode == 2


def test_system_wants_a_place_of_roots(user: User, tmp_path: Path) -> None:
    """What others than root could replace, or some users could not read, is not installed for all users: a prefix, and
    with --in-place the package."""
    open_to = tmp_path / "open"
    open_to.mkdir()
    open_to.chmod(0o777)
    done = user.pylayer("install", "--system", "--prefix", open_to / "prefix")
    assert done.returncode == 1 and "users other than root can change" in done.stderr and done.stderr.count("\n") == 1
    public_copy(PACKAGE, open_to / "pylayer")
    options = ("--system", "--in-place", "--prefix", tmp_path / "prefix")
    done = user.pylayer("install", *options, PYTHONPATH=str(open_to))
    assert done.returncode == 1 and "not for all users" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "prefix").exists() and not (open_to / "prefix").exists()


def test_system(user: User) -> None:
    """A system-wide installation is readable by everybody and root's, also when umask and the copied files say
    otherwise. Loaders of users who installed nothing find it. It is removed completely."""
    public = Path("/var/tmp") / f"pylayer-test-{os.getpid()}"
    try:
        public.mkdir()
        public.chmod(0o755)
        options = ("--system", "--prefix", str(public))
        with others.umask(0o077):
            done = subprocess.run(**user.process(("install", "--implicit", *options)), capture_output=True, check=False)
        if os.geteuid() != 0:
            assert done.returncode == 1 and "users other than root can change" in done.stderr
            return
        assert done.returncode == 0, done.stderr
        for path in public.rglob("*"):
            status = path.lstat()
            wanted = (0o777,) if path.is_symlink() else (0o755,) if path.is_dir() else (0o644, 0o755)
            assert stat.S_IMODE(status.st_mode) in wanted and status.st_uid == 0, path
        assert (public / "lib" / "pylayer" / "current" / "layer" / LIBRARY).is_file()
        assert files(user.home) == []
        user.environment["XDG_DATA_DIRS"] = f"{public}/share:/usr/share"
        assert compiled(user, ENABLE_PYLAYER="1") == [4]
        user.pylayer("uninstall", *options)
        assert list(public.iterdir()) == []
    finally:
        shutil.rmtree(public, ignore_errors=True)
