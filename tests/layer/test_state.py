"""State: what a program asks for when it creates pipelines is in the store, each thing once, and can be rebuilt. Warm
runs pay nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import radv
import recorded_state
from host_steps import END, run_host
from recipes.identifiers import recipe
from world import BUILD, LAYER_NAME, ROOT, World

from pylayer.store import state
from pylayer.store.compaction import Compaction

RECIPES = ROOT / "tests" / "recipes"
#: Every way to create a pipeline.
WAYS = [BUILD / "tests" / "recipes", *sorted((RECIPES / "ways").glob("*.recipe"))]
OTHERS = ("layouts", "rays", "deferred")
#: What tests/recipes has that cannot be recorded: a structure that no registry has, and capture and replay.
UNRECORDED = {"an unknown structure 2000000001", "from pipeline binaries, or for capture and replay"}


def recording(world: World, more: str = "") -> dict[str, str]:
    return world.policy(f"settings:\n  record_state: true\n{more}")


def only_state(world: World) -> state.State:
    """The state of the one program that has some."""
    (program,) = state.programs(str(world.store))
    return state.read(str(world.store), program)


def state_files(world: World) -> dict[str, int]:
    """Names and sizes."""
    return {path.name: path.stat().st_size for path in sorted((world.store / "state").glob("*"))}


def is_complete(world: World) -> bool:
    """Whether the next run records nothing."""
    return not list((world.store / "state").glob("*.unrecorded"))


def test_warm_runs_record_nothing(real: World) -> None:
    """Once everything has its state in the store, a run copies nothing, and starts no policy. What a later run compiles
    is recorded by the run after it."""
    env = recording(real)
    real.demo("--count", 40, **env)
    before = state_files(real)
    assert len(only_state(real).created) == 40 and is_complete(real)
    for _ in range(4):
        real.demo("--count", 40, **env)
    assert real.without_policy(4)
    assert state_files(real) == before
    real.demo("--count", 41, **env)
    assert not is_complete(real) and len(only_state(real).created) == 40
    real.demo("--count", 41, **env)
    assert is_complete(real) and len(only_state(real).created) == 41


def forget_state(world: World, program: int) -> None:
    """As a program has it that used its store with an older version. The next run records."""
    for path in (world.store / "state").iterdir():
        path.unlink()
    state.record_again(str(world.store), program)


def run_identifiers(world: World, way: str) -> dict[str, str]:
    """A program that keeps identifiers of its shaders. Why pipelines of this run were not recorded."""
    file = world.directory / f"{way}.recipe"
    file.write_text(recipe(way, world.directory / "identifiers"))
    env = recording(world)
    world.run([str(BUILD / "tests" / "recipes"), str(file)], VK_INSTANCE_LAYERS=LAYER_NAME, **env)
    unrecorded: dict[str, str] = world.runs()[-1].get("unrecorded", {})
    return unrecorded


@pytest.mark.parametrize("first", ["record", "inline"])
def test_identifiers(real: World, first: str) -> None:
    """A pipeline whose shaders come as identifiers alone is recorded with their code, which an earlier run had; also
    after a compaction. What no run had the code of is counted, and what is linked from that too."""
    assert not run_identifiers(real, "record")
    (program,) = state.programs(str(real.store))
    if first == "inline":
        forget_state(real, program)
        assert not run_identifiers(real, "inline")
    before = only_state(real)
    assert before.identified and before.created
    for _ in Compaction(state.folder(str(real.store)), before.program, everything=True).steps():
        pass
    state.record_again(str(real.store), program)
    assert not run_identifiers(real, "replay")
    assert real.runs()[-1]["state_recorded"] >= 10
    after = only_state(real)
    assert {created.pipeline for created in after.created.values()} == {
        created.pipeline for created in before.created.values()
    }
    forget_state(real, program)
    assert run_identifiers(real, "replay").keys() == {"a shader's identifier without its code"}
    assert is_complete(real)
    for created in only_state(real).created.values():
        only_state(real).with_inputs(created.pipeline, ())


@pytest.mark.parametrize("setting", ["store: read-only", "mode: observe", "record_state: false"])
def test_stores_that_get_nothing(real: World, setting: str) -> None:
    """A store that is read-only, a mode that keeps nothing, and one that is to have none, get no state."""
    real.demo("--count", 4, **real.policy(f"settings: {{{setting}}}"))
    assert not (real.store / "state").exists()


def test_state_cannot_be_written(real: World) -> None:
    """The program goes on, its pipelines are stored, the log has a line for who wants to know, and a run that compiles
    tries again."""
    real.store.mkdir(mode=0o700)
    (real.store / "state").touch()
    env = recording(real)
    result = real.demo("--count", 40, **env, PYLAYER_LOG="info")
    assert result.stderr.count("cannot be recorded") == 1
    assert (real.last()["compiled"], real.runs()[-1]["stored_records"]) == (40, 40)
    (real.store / "state").unlink()
    for count in (41, 41):
        real.demo("--count", count, **env)
    assert len(only_state(real).created) == 41


@pytest.mark.parametrize(
    ("arguments", "missing"), [((6,), 2), ((4, "--features13", "--api", "1.3"), 4)], ids=["more pipelines", "a device"]
)
def test_the_limit(real: World, arguments: tuple[int | str, ...], missing: int) -> None:
    """What a run does not record because of `state_mib`, a later run records, once a compaction has made room: new
    pipelines, or the device that known ones are created with now."""
    real.demo("--count", 4, **recording(real))
    (program,) = state.programs(str(real.store))
    large = state.writer(str(real.store), program, "pipelines")
    large.append(state.object_parts(bytes(3 << 20)))  # three times as much as is allowed
    large.close()
    state.record_again(str(real.store), program)
    env = recording(real, "state_mib: 1\n")
    for _ in range(2):
        real.demo("--count", *arguments, **env)
    assert not is_complete(real) and real.runs()[-1]["unrecorded"]["state_mib reached"] == missing
    list(state.evict(str(real.store), 1 << 20))
    real.demo("--count", *arguments, **env)
    assert is_complete(real) and len(only_state(real).created) == 4 + missing


def test_a_program_that_is_killed(real: World) -> None:
    """What was recorded before a kill is there, with at most a torn end of the file that it hit, and the next run
    records the rest."""
    env = recording(real)
    run_host(real, "instance", "device", "pipelines", 40, "await-journal", 40, "end", "kill", **env)
    run_host(real, "instance", "device", "pipelines", 41, *END, **env)
    state = only_state(real)
    assert len(state.created) == 41 and all(what.is_torn_end for what in state.damage)


def test_after_a_power_cut(real: World) -> None:
    """An empty file of state, as a power cut leaves it, is no damage to warn of."""
    real.demo("--count", 4, **recording(real))
    (name,) = (name for name in state_files(real) if name.endswith(".closed"))
    (real.store / "state" / name).write_bytes(b"")
    (real.store / "state" / f"{name[:16]}.unrecorded").touch()  # the next run reads what is recorded
    result = real.demo("--count", 4, "--seed", 9, PYLAYER_LOG="warn", **recording(real))
    assert result["created"] == 4 and "pylayer: warn" not in result.stderr


# ---- Rebuilt -------------------------------------------------------------------------------------


NEW_CARD = radv.gpu("navi31")


#: What creates pipelines: each recipe.
COMMANDS: dict[str, list[Path | str]] = {
    **{path.stem: [WAYS[0], path] for path in (*WAYS[1:], *(RECIPES / f"{name}.recipe" for name in OTHERS))},
    # Not every driver has descriptor heaps.
    "descriptor_heap": [WAYS[0], *(RECIPES / "ways" / f"{name}.recipe" for name in ("robustness", "descriptor_heap"))],
}


def run(world: World, command: list[Path | str], **environment: str) -> None:
    world.run([str(part) for part in command], VK_INSTANCE_LAYERS=LAYER_NAME, **environment)


def rebuild(world: World, **environment: str) -> dict[str, Any]:
    (one,) = recorded_state.rebuilds(world.pylayer("rebuild", **environment).stdout)
    return one


@pytest.mark.parametrize("name", COMMANDS)
def test_another_card(real: World, name: str) -> None:
    """Recorded on one card, compiled for another without the program: its first run there finds everything, but for
    what cannot be recorded."""
    env = recording(real)
    run(real, COMMANDS[name], **env)
    why = rebuild(real, **env, **NEW_CARD)["not_recorded"]
    run(real, COMMANDS[name], **env, **NEW_CARD)
    after = real.last()
    compiled = after["compiled"] + after["plain_compiled"]
    if name == "inline_modules" and compiled:
        # Mesa 26.1's keys tell code in a stage from the same code in a module, which is what recordings have.
        command = map(str, (WAYS[0], "--feedback", "--cache", COMMANDS[name][1]))
        alone = real.run([*command], VK_INSTANCE_LAYERS=None).stdout
        assert "the-same-from-a-module result=0 P0=set:V:V" in alone
        compiled -= 3
    assert (after["hits"] > 0 or after["uncacheable"] > 0) and compiled <= sum(why.values())
    assert why.keys() <= UNRECORDED


@pytest.mark.parametrize("wish", ["", "ignore"])
def test_identifiers_are_rebuilt(real: World, wish: str) -> None:
    """A device enables VK_EXT_shader_module_identifier. The rebuild knows shaders as the recording does: by their
    identifiers, or by their code, such as in the recordings that fossilize-replay leaves."""
    file = real.directory / "record.recipe"
    file.write_text(recipe("record", real.directory / "identifiers"))
    env = {**recording(real), "PYLAYER_SHADER_IDENTIFIERS": wish}
    run(real, [WAYS[0], file], **env)
    rebuild(real, **{**env, **NEW_CARD, "PYLAYER_SHADER_IDENTIFIERS": ""})
    run(real, [WAYS[0], file], **env, **NEW_CARD)
    after = real.last()
    assert (after["hits"] > 0, after["compiled"]) == (True, 0)
