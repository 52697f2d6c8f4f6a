"""Names that a program gives to its shader modules and pipelines with VK_EXT_debug_utils."""

from __future__ import annotations

from pathlib import Path

import pytest
import xxhash
from world import AWAKE, BUILD, World

from pylayer.store import runs, timeline
from pylayer.store.timeline import Timeline

PROGRAM = str(BUILD / "tests" / "debug_names")
EXTENSION = "VK_EXT_debug_utils"


#: Nothing here depends on the driver.
QUICK = True


def newest(world: World) -> Timeline | None:
    """Returns the timeline of the newest run."""
    *_, (name, _) = runs.read_named(str(world.store))
    return timeline.read(str(world.store), name)


def recorded(world: World) -> Timeline:
    """Returns the timeline of the newest run, which there must be."""
    line = newest(world)
    assert line is not None and line.outcome == "ok"
    return line


@pytest.mark.parametrize("mode", ["cells", "binaries"])
def test_names_are_recorded(world: World, mode: str) -> None:
    """The timeline has the shaders of each compiled pipeline, with their hashes and names, and the pipelines' names. A
    name that was replaced before a pipeline was created is not there, nor does a destroyed module pass its name on."""
    world.run([PROGRAM, EXTENSION], **world.policy(f"settings: {{mode: '{mode}'}}\n"), **AWAKE)
    line = recorded(world)
    main, twin = [event.fingerprint for event in line.events if event.is_compile][:2]
    assert list(line.shaders) == [main, twin]
    ((stage, _, name),), ((other_stage, _, other_name),) = line.shaders.values()
    assert (stage, name, other_stage, other_name) == (0x20, "hero.comp", 0x20, "")
    assert line.names == {main: "the hero's other cape", twin: "n" * 63}
    assert line.name_of(main) == "the hero's other cape"


def test_hash_is_of_the_code(world: World) -> None:
    """A shader's hash is the XXH3-64 of its SPIR-V, so that it can be found among a program's files."""
    world.run([PROGRAM, EXTENSION])
    source = (Path(__file__).parent / "program.h").read_text()
    words = source.partition("shader_code[] = {")[2].partition("}")[0].replace(",", " ").split()
    code = b"".join(int(word, 0).to_bytes(4, "little") for word in words)
    assert {found for ((_, found, _),) in recorded(world).shaders.values()} == {xxhash.xxh3_64_intdigest(code)}


def test_without_the_extension(world: World) -> None:
    """Of a program that does not enable the extension, the shaders are recorded without names."""
    world.run([PROGRAM])
    line = recorded(world)
    assert [name for ((_, _, name),) in line.shaders.values()] == ["", ""] and not line.names


def test_hits_send_no_names(world: World) -> None:
    """A run that only hits starts no interpreter, and records no names."""
    world.run([PROGRAM, EXTENSION])
    world.run([PROGRAM, EXTENSION])
    assert world.last()["hits"] == 3 and newest(world) is None
