"""Where the layer does nothing, by a skip rule, by DISABLE_PYLAYER, or because nobody enabled it: it starts no
interpreter and no thread, and creates no file."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from host_steps import END, HOST, two_instances
from others import give_away, open_to_group
from world import ROOT, World, repeated, said

from pylayer import LAYER_NAME
from pylayer.cli.manifests import manifest_text
from pylayer.common.config import read


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Uses the driver of tests/driver, which loads in a tenth of RADV's time. Rules do not depend on the driver. The
    log says which rule matches."""
    world = World(tmp_path, "test")
    world.environment["PYLAYER_LOG"] = "info"
    return world


def program(*layers: str) -> list[str]:
    """Returns a program that names these layers itself. It says how many threads it has, and whether the layer and a
    library of policy are in it."""
    names = [word for layer in layers for word in ("layer", layer)]
    looks = ["threads", "mapped", "libVkLayer_pylayer", "mapped", "_policy."]
    return [*names, "instance", "device", "pipelines", "1", *looks, *END]


class Seen:
    """One process: how many threads it has, the layer's log lines, and whether a rule left it alone."""

    def __init__(self, stdout: str, stderr: str) -> None:
        self.threads = int(stdout.partition("threads: ")[2].split()[0])
        self.log = said(stderr)
        self.layer, self.interpreter = (f"{name} is mapped" in stderr for name in ("libVkLayer_pylayer", "_policy."))
        self.skipped = any("a skip rule " in line for line in self.log)


def run_as(
    world: World,
    executable: str,
    application: str = "",
    engine: str = "",
    before: tuple[str, ...] = (),
    argv0: str = "",
    **environment: str | None,
) -> Seen:
    """Runs a program of this name. ``before`` comes first on its command line, behind ``argv0``, its argument zero,
    which Wine changes."""
    path = world.directory / "bin" / executable
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        shutil.copy(HOST, path)
    words = [str(path), *before, "names", application, engine, *program()]
    done = world.run(["/bin/bash", "-c", 'exec -a "$0" "$@"', argv0 or str(path), *words], **environment)
    return Seen(done.stdout, done.stderr)


def policy_file(world: World, text: str) -> Path:
    path = world.directory / "config" / "policy.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    world.environment["PYLAYER_CONFIG"] = str(path)
    return path


def copies(world: World) -> list[Path]:
    return sorted(world.store.glob("policy/*"))


def compile_policy(world: World) -> Path:
    """Runs programs until policy has written the compiled copy of the policy file, and returns it. A program does not
    wait for that when it ends."""
    return repeated(lambda: run_as(world, "program") and copies(world))[0]


def assert_untouched(seen: Seen) -> None:
    """Asserts that the layer is loaded and does nothing."""
    assert seen.layer and not seen.interpreter and seen.skipped and seen.threads == 1


def test_others_are_not_left_alone(world: World) -> None:
    """Without a matching rule the same program has an interpreter, a thread and a store: the other tests can fail."""
    seen = run_as(world, "vkcube")
    assert seen.interpreter and not seen.skipped and seen.threads > 1
    assert world.store.exists()


@pytest.fixture
def game(world: World) -> tuple[str, ...]:
    """Steps that map a file that stands for a Windows program."""
    path = world.directory / "some games" / "Game64.exe"
    path.parent.mkdir()
    path.write_text("MZ")
    return ("map", str(path))


def test_names_under_wine(world: World, game: tuple[str, ...]) -> None:
    """A Windows program has one name and finds its pipelines, whatever Wine's loader is called and whatever its command
    line begins with."""
    for loader, called in (
        ("wine64", game[1]),
        ("wine64-preloader", "map1"),
        ("wine-11", "game64"),
        ("x", "GAME64.EXE"),
    ):
        run_as(world, loader, "App", before=game, argv0=called)
    assert {run["executable"] for run in world.runs()} == {"Game64.exe"}
    assert [run["counters"]["hits"] for run in world.runs()] == [0, 1, 1, 1]


@pytest.mark.parametrize("pattern", ["game64.exe", "GAME*"])
def test_rules_under_wine(world: World, game: tuple[str, ...], pattern: str) -> None:
    """Rules name a Windows program by its .exe in any case. In the first run policy decides, then the layer alone."""
    policy_file(world, f"skip: [{{executable: '{pattern}'}}]\n")
    first = run_as(world, "wine64", "App", before=game, argv0="map1")
    assert first.skipped and first.interpreter
    assert_untouched(run_as(world, "wine64", "App", before=game, argv0="map1"))
    assert not run_as(world, "wine64", "App", argv0="map1").skipped


def test_every_built_in_rule(world: World) -> None:
    """Each skip rule of default.yaml leaves alone the programs that it names: no interpreter, no thread and no store. A
    line says so to those who want lines."""
    rules = read(str(ROOT / "config" / "default.yaml"))["skip"]
    assert len(rules) > 40
    for rule in rules:
        name, _, script = rule["executable"].replace("*", "x").partition(" ")
        seen = run_as(world, name, before=(script, "--") if script else ())
        assert_untouched(seen)
        (line,) = seen.log
        assert line.startswith("pylayer: info: a skip rule of pylayer itself matches ") and name in line
    assert not world.store.exists()
    assert run_as(world, "XORG", PYLAYER_LOG="warn").log == []


#: Rules of policy files, and which programs they skip: the executable, the application and the engine.
RULES: dict[str, dict[tuple[str, ...], bool]] = {
    "skip: [{executable: 'my launch*', application: 'Launcher ?'}]": {
        ("My Launcher", "launcher 2"): True,
        ("My Launcher", "launcher 20"): False,
        ("Other", "launcher 2"): False,
    },
    "skip: [{application: 'Äpfel*'}, {engine: 'web*'}]": {
        ("program", "ÄPFEL und Birnen"): True,
        ("program", "x", "WebEngine"): True,
        ("program", "x", "engine"): False,
    },
    # never_skip takes precedence over the built-in rules and the user's.
    "skip: [{executable: 'mine*'}]\nnever_skip: [{executable: vulkaninfo}, {executable: mine-too}]": {
        ("vulkaninfo",): False,
        ("mine-too",): False,
        ("mine",): True,
        ("steam",): True,
    },
}


@pytest.mark.parametrize("rules", RULES)
def test_rules_of_the_user(world: World, rules: str) -> None:
    """Rules that the user adds apply at once. The first time policy decides; later the layer decides without an
    interpreter."""
    policy_file(world, f"{rules}\n")
    for program, skipped in RULES[rules].items():
        shutil.rmtree(world.store, ignore_errors=True)
        first = run_as(world, *program)
        assert (first.skipped, first.interpreter) == (skipped, True), program
        assert not skipped or not list(world.store.glob("store/*"))
    compile_policy(world)
    for program, skipped in RULES[rules].items():
        seen = run_as(world, *program)
        assert seen.skipped == skipped, program
        assert not skipped or not seen.interpreter, program


def test_change_of_the_policy_file(world: World) -> None:
    """After a change of the policy file the new rules apply at once, and the interpreter starts one more time."""
    path = policy_file(world, "skip: [{executable: program}]\n")
    run_as(world, "program")
    assert_untouched(run_as(world, "program"))
    path.write_text("skip: [{executable: other}]\n")
    seen = run_as(world, "other")
    assert seen.skipped and seen.interpreter
    assert_untouched(run_as(world, "other"))
    assert not run_as(world, "program").skipped
    path.unlink()
    assert not run_as(world, "other").skipped


def test_policy_file_with_an_error(world: World) -> None:
    """With an invalid policy file the built-in rules apply, but policy has to start to say so."""
    policy_file(world, "skip: all\n")
    for _ in range(2):
        seen = run_as(world, "vulkaninfo")
        assert seen.skipped and seen.interpreter
        assert any("policy.yaml, line 1: skip is 'all'" in line for line in seen.log)
        assert not run_as(world, "program").skipped


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"mine", b"nobo"))


def by_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def open_directory(path: Path) -> None:
    path.parent.chmod(0o777)


FAULTS = [damage, lambda path: path.write_bytes(b""), give_away, open_to_group, by_link, pipe, open_directory]


@pytest.mark.parametrize("fault", FAULTS)
def test_copy_that_is_not_believed(world: World, fault: object) -> None:
    """The layer does not use a compiled copy that is damaged or that another user could have written. Policy starts and
    decides by the policy file."""
    policy_file(world, "skip: [{executable: mine}]\n")
    copy = compile_policy(world)
    assert_untouched(run_as(world, "mine"))
    fault(copy)  # type: ignore[operator]
    seen = run_as(world, "mine")
    assert seen.interpreter and seen.skipped


def test_policy_file_of_a_stranger(world: World) -> None:
    """The rules of a policy file that another user could have written do not apply, although a compiled copy of the
    same bytes exists."""
    path = policy_file(world, "skip: [{executable: mine}]\nnever_skip: [{executable: vulkaninfo}]\n")
    compile_policy(world)
    give_away(path)
    assert not run_as(world, "mine").skipped
    assert run_as(world, "vulkaninfo").skipped


def test_store_that_cannot_be_written(world: World) -> None:
    """If the compiled copy cannot be written, policy starts each time and decides the same."""
    policy_file(world, "skip: [{executable: mine}]\n")
    world.store.write_text("a file where the store should be")
    for _ in range(2):
        seen = run_as(world, "mine")
        assert seen.interpreter and seen.skipped
    assert_untouched(run_as(world, "steam", PYLAYER_CONFIG=str(world.directory / "none.yaml")))


def test_second_instance_is_judged_by_itself(world: World) -> None:
    """A rule that matches an application name applies only to the instance with that name."""
    policy_file(world, "skip: [{application: 'nobody*'}]\n")
    done = world.run(two_instances())
    assert "mode cells" in done.stderr


# ---- Switching the layer on and off, in every way that the loader has ----------------------------


MANIFEST = "VkLayer_pylayer_pipeline_cache.json"

#: Ways to enable the layer: the environment, and the layers that the program names itself.
WAYS = {
    "VK_INSTANCE_LAYERS": ({"VK_INSTANCE_LAYERS": LAYER_NAME}, []),
    "VK_LOADER_LAYERS_ENABLE": ({"VK_LOADER_LAYERS_ENABLE": LAYER_NAME}, []),
    "a pattern": ({"VK_LOADER_LAYERS_ENABLE": "*_PYLAYER_pipeline*"}, []),
    "the program": ({}, [LAYER_NAME]),
    "all": ({"VK_INSTANCE_LAYERS": LAYER_NAME, "VK_LOADER_LAYERS_ENABLE": LAYER_NAME}, [LAYER_NAME]),
    "twice": ({"VK_INSTANCE_LAYERS": f"{LAYER_NAME}:{LAYER_NAME}"}, []),
}


@pytest.fixture
def implicit(world: World) -> World:
    """A world with the implicit layer installed beside the explicit one that every world has."""
    directory = Path(world.environment["HOME"]) / ".local" / "share" / "vulkan" / "implicit_layer.d"
    directory.mkdir(parents=True)
    (directory / MANIFEST).write_text(manifest_text("implicit"))
    del world.environment["VK_INSTANCE_LAYERS"]
    return world


def once(world: World) -> None:
    """Asserts that the pipeline went through the layer exactly once."""
    (run,) = world.runs()
    assert run["counters"]["compiled"] == 1


@pytest.mark.parametrize("way", [*WAYS, "nothing else"])
def test_with_implicit(implicit: World, way: str) -> None:
    """With both manifests and several ways to enable it, the layer is in the chain once."""
    environment, names = WAYS.get(way, ({}, []))
    implicit.run([str(HOST), *program(*names)], ENABLE_PYLAYER="1", **environment)
    once(implicit)


def test_implicit_is_off(implicit: World) -> None:
    """An implicit layer that nobody enabled is not loaded."""
    done = implicit.run([str(HOST), *program()], PYLAYER_LOG="debug")
    assert "_policy. is not mapped" in done.stderr and "pylayer:" not in done.stderr
    assert not implicit.store.exists()


@pytest.mark.parametrize("value", ["1", "0", ""])
@pytest.mark.parametrize("way", WAYS)
def test_disabled(implicit: World, way: str, value: str) -> None:
    """With DISABLE_PYLAYER set to any value, no way to enable the layer starts an interpreter, a thread or a store. A
    program that names the layer itself does not fail."""
    environment, names = WAYS[way]
    alone = implicit.run([str(HOST), *program()])
    done = implicit.run([str(HOST), *program(*names)], ENABLE_PYLAYER="1", DISABLE_PYLAYER=value, **environment)
    assert done.stdout == alone.stdout and "_policy. is not mapped" in done.stderr
    assert not implicit.store.exists()


def test_disabled_says_so(world: World) -> None:
    """With PYLAYER_LOG, and only then, the log says that DISABLE_PYLAYER is set."""
    assert "DISABLE_PYLAYER is set" in "".join(run_as(world, "program", DISABLE_PYLAYER="1").log)
    assert run_as(world, "program", DISABLE_PYLAYER="1", PYLAYER_LOG=None).log == []


def test_without_manifest(world: World) -> None:
    """If no manifest leads to the layer, a program that names it gets the loader's error."""
    done = world.run([str(HOST), "layer", LAYER_NAME, "instance"], VK_INSTANCE_LAYERS=None, VK_ADD_LAYER_PATH=None)
    assert done.stdout == "instance -6\n"


def test_manifests() -> None:
    """Both manifests describe the same layer. Steam's containers read file_format_version only up to 1.2.1."""
    explicit, implicit = (json.loads(manifest_text(kind)) for kind in ("explicit", "implicit"))
    assert tuple(map(int, explicit["file_format_version"].split("."))) <= (1, 2, 1)
    assert implicit["layer"].pop("enable_environment") == {"ENABLE_PYLAYER": "1"}
    assert implicit["layer"].pop("disable_environment") == {"DISABLE_PYLAYER": "1"}
    assert implicit == explicit
    assert re.fullmatch(r"VK_LAYER_[A-Z0-9]+_[a-z0-9_]+", explicit["layer"]["name"])
