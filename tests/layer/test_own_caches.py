"""Programs that load and save a cache of their own, and compile nothing. What they read from the driver under the layer
passes without an interpreter. All other data is asked about, and data of another driver is refused. No valid cache is
ever refused, whatever is missing from the history, and reads and merges are as without the layer."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import xxhash
from host_steps import END, HOST, SANDBOX, run_host
from recipes.small import ZERO_LENGTH
from scripted_driver import ScriptedDriver
from world import BUILD, World, repeated

from pylayer.common import file_kinds
from pylayer.store import format
from pylayer.store.cache_history import PASSED
from pylayer.store.runs import read_all

#: Nothing here depends on the driver, but where a test says so.
QUICK = True

COUNT = 6
#: So many that RADV's data is another one after each load.
MANY = 40
#: From so many files on the layer has policy combine them: MANY_FILES of shim/layer/caches/cache_history.c.
MANY_FILES = 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "own.cache"


def run(world: World, file: Path, *steps: str | int, count: int = COUNT, **environment: str) -> str:
    """Loads the file, creates pipelines, saves the file, and then takes more steps. Returns all that the program
    printed."""
    words = ["instance", "device", "load-cache", file, "pipelines", count, "save-cache", file]
    process = world.run([str(HOST), *map(str, [*words, *steps, "destroy-cache", *END])], **environment)
    return process.stdout + process.stderr


def fill(world: World, file: Path, count: int = COUNT, **environment: str) -> None:
    """Three runs: one compiles, one records what was compiled, and one is as all later ones."""
    for _ in range(3):
        run(world, file, count=count, **environment)


def has_asked(output: str) -> bool:
    """Returns whether policy's library was in the process at the end."""
    return "_policy. is mapped" in output


def histories(world: World) -> list[Path]:
    return world.stored_files(file_kinds.ATTEST)


@pytest.mark.parametrize(
    ("payload", "setting"), [(20_000, "strict"), (2_000_000, "report"), (8_500_000, "attest")], ids=str
)
def test_known_data_needs_no_interpreter(scripted: ScriptedDriver, file: Path, payload: int, setting: str) -> None:
    """A program that loads and saves a cache of its own, however large, has the threads that it has without the layer,
    with each setting that keeps a history. Its data counts as attested, and nothing is compiled."""
    scripted.settings(application_caches=setting)
    world = scripted.world
    environment = scripted.environment(f"payload={payload}")
    fill(world, file, **environment)
    assert file.stat().st_size > COUNT * payload * 0.8
    # On a busy machine the runs before left cells to be joined, for which policy starts.
    repeated(lambda: "threads: 1\n" in run(world, file, *SANDBOX, **environment))
    for _ in range(2):
        assert "threads: 1\n" in run(world, file, *SANDBOX, **environment)
        assert world.outcomes() == {"attested": 1}
        assert (world.last()["application_hits"], world.last()["compiled"]) == (COUNT, 0)


def test_data_in_another_order_each_time(real: World, file: Path) -> None:
    """RADV returns the same pipelines in another order after each load, so that each run's data is new. It is known in
    the next run all the same, and the number of files stays bounded. The layer's record has the data's digest and size,
    and a sketch, by which policy recognises a damaged copy."""
    fill(real, file, MANY)
    for _ in range(MANY_FILES + 8):
        output = run(real, file, "threads", count=MANY)
        assert "threads: 1\n" in output and real.outcomes() == {"attested": 1}
        assert len(histories(real)) <= MANY_FILES + 2
    assert len(histories(real)) < MANY_FILES
    data = file.read_bytes()
    (one,) = (known for known in real.known_data() if known.digest == xxhash.xxh3_128_digest(data))
    assert (one.size, one.flags) == (len(data), 0)
    assert abs(one.time - time.time()) < 3600
    file.write_bytes(data[:-8] + bytes(8))
    assert has_asked(run(real, file, "mapped", "_policy.", count=MANY))
    assert real.outcomes() == {"altered": 1}


LIBRARY = str(BUILD / "tests" / "libpreloaded.so")
#: Moments at which a program reads its cache: steps before the instance, and after the pipelines. FILE is the file.
MOMENTS = {
    "destroyed": ([], ["save-cache", "FILE", "destroy-cache", *END]),
    "exit": ([], ["save-cache", "FILE", "end", "exit"]),
    "_exit": ([], ["save-cache", "FILE", "end", "_exit"]),
    "quick_exit": ([], ["save-cache", "FILE", "end", "quick_exit"]),
    "abort": ([], ["save-cache", "FILE", "end", "abort"]),
    "kill": ([], ["save-cache", "FILE", "end", "kill"]),
    "main thread ended": ([], ["main-thread-ends", "save-cache", "FILE"]),
    "handler before the instance": (["at", "exit", "save-cache", "FILE", "then"], []),
    "handler after the device": ([], ["at", "exit", "save-cache", "FILE", "then"]),
    "destructor": (["at", "destructor", "save-cache", "FILE", "then"], []),
    "handler of quick_exit": ([], ["at", "quick_exit", "save-cache", "FILE", "then", "end", "quick_exit"]),
    "another thread": ([], ["thread", "save-cache", "FILE", "join", "end", "terminate"]),
    "end of another thread": ([], ["thread", "at", "thread-end", "save-cache", "FILE", "then", "join", "end", "kill"]),
    "another thread while main ends": ([], ["save-beside", "FILE", "sleep", "30", "end", "exit"]),
    "before an exec": ([], ["save-cache", "FILE", "exec", "instance", "device", *END]),
    "exit in a thread": ([], ["save-cache", "FILE", "exit-in-thread", "exit"]),
    "inside of dlopen": ([], ["dlopen", LIBRARY, "save-cache", "FILE", "opened", "end", "kill"]),
    "inside of dlclose": (["dlopen", LIBRARY, "opened"], ["dlclose", "save-cache", "FILE", "closed", "end", "kill"]),
    "descriptors closed": ([], ["close-from", "3", "save-cache", "FILE", "end", "kill"]),
    "environment cleared": ([], ["clearenv", "save-cache", "FILE", "end", "kill"]),
    "another directory": ([], ["chdir", "/", "save-cache", "FILE", "end", "kill"]),
    "after a fork": ([], ["fork", "join", "save-cache", "FILE", "end", "kill"]),
    "without room for threads": ([], ["limit", "nproc", "0", "save-cache", "FILE", "end", "kill"]),
    "after another device": (["instance", "device", *END], ["save-cache", "FILE", "end", "kill"]),
    "instances around": (["instance", "destroy-instance"], ["save-cache", "FILE", "end", "kill"]),
}


@pytest.mark.parametrize("stored", [False, True], ids=["policy runs", "no policy"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_data_is_known_whenever_it_is_read(world: World, file: Path, moment: str, stored: bool) -> None:
    """Data is known, also with application_caches: strict, from the moment when the program reads it: whether or not
    policy runs, and however and when the process ends."""
    fill(world, file)
    if not stored:
        shutil.rmtree(world.store)
    for path in (file, *histories(world)):
        path.unlink(missing_ok=True)
    before, after = ([str(file) if word == "FILE" else word for word in words] for words in MOMENTS[moment])
    steps = [*before, "instance", "device", "load-cache", "/nowhere", "pipelines", str(COUNT), *after]
    world.run([str(HOST), *steps], check=False)
    (known,) = world.known_data()
    assert (known.size, known.flags) == (file.stat().st_size, 0)
    for setting in ("attest", "strict"):
        world.configure(application_caches=setting)
        run(world, file)
        assert world.outcomes() == {"attested": 1}


@pytest.mark.parametrize("mode", ["observe", "off"])
@pytest.mark.parametrize("setting", ["attest", "strict", "report"])
def test_where_nothing_is_stored(world: World, file: Path, mode: str, setting: str) -> None:
    """A device that stores no pipelines knows what the program read, too, in runs with a kept plan and before."""
    world.configure(mode=mode, application_caches=setting)
    for outcomes in ({}, {"attested": 1}, {"attested": 1}):
        run(world, file)
        assert world.outcomes() == outcomes
    shutil.rmtree(world.store / "store")
    file.unlink()
    run(world, file)
    (known,) = world.known_data()
    assert (known.size, known.flags) == (file.stat().st_size, 0)


def test_data_that_passed_is_known_at_once(world: World, file: Path) -> None:
    """Data from before pylayer that passed is known, though the process is killed right after."""
    run(world, file, VK_INSTANCE_LAYERS="")
    steps = ["instance", "device", "load-cache", file, "end", "kill"]
    for _ in range(2):
        world.run([str(HOST), *map(str, steps)], check=False)
        (passed,) = world.known_data()
        assert (passed.size, passed.flags) == (file.stat().st_size, PASSED)
    run(world, file)
    assert world.outcomes() == {"attested": 1}


def test_many_devices_write_one_file(scripted: ScriptedDriver, file: Path) -> None:
    """A process has one file, however many devices it makes one after the other and at once."""
    steps = ["instance"]
    for count in range(1, 5):
        steps += ["device", "load-cache", "/nowhere", "pipelines", str(count), "save-cache", str(file), "destroy-cache"]
        steps += ["destroy-device"] * (count % 2)
    scripted.world.run([str(HOST), *steps, *END], check=False, **scripted.environment(""))
    assert len(histories(scripted.world)) == 1 and len(scripted.world.known_data()) == 4


def flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_data_from_without_the_layer(world: World, file: Path) -> None:
    """Data that the program read without the layer is asked about once, and passes as unknown. From then on it is
    known, but not with application_caches: strict."""
    fill(world, file)
    run(world, file, count=COUNT + 1, VK_INSTANCE_LAYERS="")
    steps = ["instance", "device", "load-cache", file, "pipelines", COUNT, "threads", "destroy-cache", *END]
    outputs = []
    for expected in ("unknown", "attested", "attested"):
        outputs.append(world.run([str(HOST), *map(str, steps)]).stdout)
        assert world.outcomes() == {expected: 1}
    assert ["threads: 1\n" in output for output in outputs] == [False, True, True]
    world.configure(application_caches="strict")
    for _ in range(2):
        world.run([str(HOST), *map(str, steps)])
        assert world.outcomes() == {"unknown": 1} and world.last()["caches_emptied"] == 1


def test_own_cache_that_has_everything(world: World, file: Path) -> None:
    """A program whose own cache has all pipelines stores none. Its first run needs policy, to record the state of what
    it creates. Later runs do not."""
    fill(world, file)
    shutil.rmtree(world.store)
    run(world, file)
    assert world.last()["compiled"] == 0
    assert not has_asked(run(world, file, "mapped", "_policy."))
    assert not has_asked(run(world, file, "mapped", "_policy."))


def test_a_history_of_others(world: World, file: Path) -> None:
    """A history that others could have written is not believed."""
    fill(world, file)
    for path in histories(world):
        path.chmod(0o666)
    assert has_asked(run(world, file, "mapped", "_policy."))
    assert world.outcomes() == {"unknown": 1}


@pytest.mark.parametrize("at", [20, 60, 250, 256 + 30, 256 + 60, 256 + 64, 256 + 64 + 10, 256 + 64 + 20])
def test_a_damaged_history(world: World, file: Path, at: int) -> None:
    """A file or record in which one bit is wrong says nothing. The data is asked about, and passes as unknown."""
    fill(world, file)
    for path in histories(world):
        path.write_bytes(flipped(path.read_bytes(), at))
    run(world, file)
    assert "attested" not in world.outcomes()


def test_a_program_that_is_always_killed(real: World, file: Path) -> None:
    """If each run reads new data and is killed, the number of the history's files stays bounded, and data is known."""
    fill(real, file, MANY)
    steps = ["instance", "device", "load-cache", file, "save-cache", file, "end", "kill"]
    for _ in range(2):
        real.run([str(HOST), *map(str, steps)], check=False)
    one = max(histories(real), key=lambda path: path.stat().st_mtime_ns)
    for number in range(2 * MANY_FILES):
        shutil.copy2(one, one.with_name(f"{one.name[:16]}-{number:016x}-{number:016x}{one.suffix}"))
    # Policy combines them beside the program.
    steps[-2:-2] = ["spawn", f"while [ $(ls {one.parent}/*{one.suffix} | wc -l) -ge 8 ]; do sleep 0.01; done"]
    real.run([str(HOST), *map(str, steps)], check=False)
    assert "threads: 1\n" in run(real, file, "threads", count=MANY)
    assert real.outcomes() == {"attested": 1}


def test_other_data_than_a_process_died_over(scripted: ScriptedDriver, file: Path) -> None:
    """After a death over the program's data, only that data is asked about, and refused. While the verdict lasts, other
    data that the program read passes without an interpreter."""
    world, environment = scripted.world, scripted.environment("")
    fill(world, file, **environment)
    blocked = file.read_bytes()
    steps = ["instance", "device", "load-cache", file, "pipelines", COUNT, *END]
    world.run([str(HOST), *map(str, steps)], check=False, **scripted.environment("pipeline=kill@1"))
    file.unlink()
    fill(world, file, COUNT + 2, **environment)
    for _ in range(2):
        assert "threads: 1\n" in run(world, file, "threads", count=COUNT + 2, **environment)
        assert world.outcomes() == {"attested": 1}
    file.write_bytes(blocked)
    run(world, file, **environment)
    assert world.outcomes() == {"blocked": 1}


def test_a_cache_that_grows(world: World, file: Path) -> None:
    """A program that compiles more has policy running, which stores it. The next run records what was
    compiled (state), and those after it need none."""
    fill(world, file)
    assert has_asked(run(world, file, "mapped", "_policy.", count=COUNT + 2))
    assert world.last()["compiled"] == 2
    run(world, file, count=COUNT + 2)
    assert "threads: 1\n" in run(world, file, "threads", count=COUNT + 2)
    assert world.outcomes() == {"attested": 1}


def test_a_file_that_was_lost(real: World, file: Path) -> None:
    """A program that lost its cache file gets what is stored without an interpreter. What it saves then holds all that
    it created."""
    fill(real, file, MANY)
    size = file.stat().st_size
    file.unlink()
    assert "threads: 1\n" in run(real, file, "threads", count=MANY)
    assert (real.last()["hits"], real.last()["compiled"]) == (MANY, 0)
    assert file.stat().st_size == size
    assert "threads: 1\n" in run(real, file, "threads", count=MANY)
    assert real.last()["application_hits"] == MANY


# ---- a cache that begins empty while everything is stored ----------------------------------------------------


def test_an_empty_cache_costs_nothing(scripted: ScriptedDriver) -> None:
    """A program that creates stored pipelines with an empty cache of its own, and does not read that cache, has the
    driver do what it does for a program without a cache."""
    counts = []
    for steps in (
        ["pipelines", "20"],
        ["pipelines", "20"],
        ["load-cache", "/nowhere", "pipelines", "20", "destroy-cache"],
    ):
        scripted.world.run([str(HOST), "instance", "device", *steps, *END], **scripted.environment(""))
        counts.append(scripted.take_counts())
    _, without, empty = counts
    assert empty["create-cache"] == without["create-cache"] + 1
    assert [empty[name] for name in ("merge", "pipeline")] == [without[name] for name in ("merge", "pipeline")]
    assert (scripted.world.last()["hits"], scripted.world.last()["compiled"]) == (20, 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_empty_cache_that_is_saved(real: World, file: Path, threads: int) -> None:
    """When the program reads that cache, it holds what the program created with it, and the rest of its chunk."""
    real.demo("--count", 60, **real.never_idle())
    alone = file.with_name("alone")
    real.demo("--count", 25, "--cache", "object", "--cache-save", alone, layers=None)
    real.demo("--count", 25, "--cache", "object", "--cache-save", file, "--threads", threads)
    assert (real.last()["hits"], real.last()["compiled"]) == (25, 0)
    assert alone.stat().st_size <= file.stat().st_size + 1000 < alone.stat().st_size * format.CHUNK_CELLS / 25 + 3000
    found = real.demo("--count", 25, "--cache", file, "--feedback", layers=None)
    assert found["feedback"]["application_cache_hit"] == 25


def test_two_threads_that_read_one_cache(scripted: ScriptedDriver, file: Path) -> None:
    """Both find in it what the program created with it, also if the driver is slow to merge that."""
    words = ["instance", "device", "load-cache", "/nowhere", "pipelines", COUNT]
    files = [file.with_name("one"), file.with_name("two")]
    for _ in range(2):
        scripted.world.run(
            [str(HOST), *map(str, [*words, "save-twice", *files, "destroy-cache", *END])],
            **scripted.environment("merge=slow:200"),
        )
    assert scripted.world.last()["compiled"] == 0
    scripted.world.run(
        [str(HOST), *map(str, [*words, "save-cache", file, "destroy-cache", *END])],
        **scripted.environment(""),
        VK_INSTANCE_LAYERS=None,
    )
    assert [one.stat().st_size for one in files] == 2 * [file.stat().st_size]


def test_cells_of_threads_that_could_not_wait(scripted: ScriptedDriver, file: Path) -> None:
    """While one merge takes seconds, other threads go on. What they compile is merged later, and saved."""
    alone = file.with_name("alone")
    words = ("--count", 8, "--threads", 4, "--cache", "object", "--cache-save")
    scripted.demo(*words, alone, layered=False)
    scripted.demo(*words, file, script="merge=slow:3000@1", log="warn")
    assert "has been merging" in scripted.world.raw_stderr
    assert file.stat().st_size == alone.stat().st_size


#: RADV of Mesa 22.3.6.
OLD_RADV = f"driver-id=3;driver-version={22 << 22 | 3 << 12 | 6};merge=move"


def test_a_driver_that_moves_what_it_merges(scripted: ScriptedDriver, tmp_path: Path) -> None:
    """RADV before Mesa 23.3 empties the sources of a merge. A program's cache has all that it compiles in its first run
    and all that the store has in its second one, as without the layer."""
    alone, file = tmp_path / "alone.bin", tmp_path / "own.bin"
    words = ("--count", 12, "--cache", "object", "--cache-save")
    scripted.demo(*words, alone, script=OLD_RADV, layered=False)
    for compiled in (12, 0):
        scripted.demo(*words, file, script=OLD_RADV)
        assert (scripted.world.last()["compiled"], file.stat().st_size) == (compiled, alone.stat().st_size)


def test_stored_pipelines_in_several_caches(scripted: ScriptedDriver) -> None:
    """On such a driver, too, each cache of a program gets what the store has."""
    caches = "".join(
        f"cache{cache}: cache C{cache}\n"
        + "".join(f"c{cache}-{n}: compute C{cache}: P{2 * cache + n} shader=kernel spec={n}\n" for n in range(2))
        for cache in range(3)
    )
    for compiled in (2, 0):
        scripted.recipe(f"device all modules\n{caches}", script=OLD_RADV)
        assert (scripted.world.last()["pipelines"], scripted.world.last()["compiled"]) == (6, compiled)


def test_created_again_with_an_empty_cache(world: World, file: Path) -> None:
    """A pipeline that is created again with a cache that was empty is a hit in the program's cache, as without the
    layer."""
    run(world, file)
    file.unlink()
    steps = ["instance", "device", "load-cache", file, "pipelines", COUNT, "again", COUNT, "destroy-cache", *END]
    world.run([str(HOST), *map(str, steps)])
    assert [world.last()[name] for name in ("hits", "application_hits", "compiled")] == [2 * COUNT, COUNT, 0]
    assert not file.exists()


def test_stored_pipelines_in_a_cache_with_data(world: World, file: Path) -> None:
    """A program's cache that has data gets what it lacks from the store, and has it when it is saved."""
    fill(world, file)
    world.run([str(HOST), "instance", "device", "pipelines", str(COUNT + 4), *END])
    run(world, file, count=COUNT + 4)
    assert world.last()["compiled"] == 0
    for path in world.stored_files(".journal", ".closed", ".pack"):
        path.unlink()
    run(world, file, count=COUNT + 4)
    assert (world.last()["application_hits"], world.last()["compiled"]) == (COUNT + 4, 0)


def test_header_alone(world: World, file: Path) -> None:
    """A header without entries passes, because it is what an empty cache returns."""
    run(world, file)
    file.write_bytes(file.read_bytes()[:32])
    run(world, file)
    assert world.last()["caches_emptied"] == 0


def test_zero_length_with_a_pointer(world: World) -> None:
    """A pointer with a length of zero becomes an empty cache."""
    process = world.recipe(ZERO_LENGTH)
    assert "created result=0" in process.stdout and "zero-length; the program gets an empty cache" in process.stderr


# ---- A policy that gives no verdict in time ------------------------------------------------------


def slow_policy(world: World, seconds: float, **settings: str) -> dict[str, str]:
    """Returns a policy class that takes so long for a verdict. A run has called it: the next plan comes soon."""
    source = f"""
class Mine(Policy):
    def admit_cache(self, data, facts, settings):
        import time
        time.sleep({seconds})
        return super().admit_cache(data, facts, settings)
"""
    policy = world.policy_class(source, json.dumps({"settings": settings})[1:-1])
    world.demo("--count", 1, **policy)
    return policy


@pytest.mark.parametrize("mode", ["cells", "off"])
def test_valid_data_passes_without_a_verdict(world: World, tmp_path: Path, mode: str) -> None:
    """If policy is late, a program's valid data reaches the driver."""
    policy = slow_policy(world, 3600, mode=mode)
    saved = tmp_path / "program.cache"
    world.demo("--count", 20, "--cache", "object", "--cache-save", saved)
    result = world.demo("--count", 20, "--cache", saved, "--feedback", **policy)
    assert result["feedback"]["application_cache_hit"] == 20


@pytest.mark.parametrize("is_damaged", [False, True])
def test_strict_data_needs_a_verdict(scripted: ScriptedDriver, tmp_path: Path, is_damaged: bool) -> None:
    """With application_caches: strict and no verdict in time, the program gets an empty cache."""
    scripted.world.environment |= scripted.environment("")  # for the run before the test, too
    policy = slow_policy(scripted.world, 3600, application_caches="strict")
    saved = tmp_path / "program.cache"
    scripted.demo("--count", 8, "--cache", "object", "--cache-save", saved)
    data = saved.read_bytes()
    saved.write_bytes(data[:-1] + bytes([data[-1] ^ is_damaged]))
    result = scripted.demo("--count", 8, "--cache", saved, "--feedback", **policy)
    assert result["created"] == 8 and result["feedback"]["application_cache_hit"] < 8


def test_thread_cancelled_while_it_waits(world: World) -> None:
    """If a program cancels a thread that waits for a verdict, its other threads go on."""
    run_host(world, "instance", "device", "cancel", "pipelines", 3, *END, **slow_policy(world, 3600))


@pytest.mark.parametrize(("seconds", "known"), [(0.5, 11), (3600, 0)])
def test_the_wait_is_one_for_the_device(world: World, tmp_path: Path, seconds: float, known: int) -> None:
    """A device waits two seconds for all verdicts together. Beyond that, a program's data passes, and the next run
    knows it, but for what policy was working on, or if policy gave none."""
    files = [str(tmp_path / f"{number}.cache") for number in range(12)]
    fills = [word for number, file in enumerate(files) for word in ("pipelines", str(number + 1), "save-cache", file)]
    world.run([str(HOST), "instance", "device", "load-cache", "/nowhere", *fills], VK_INSTANCE_LAYERS="")
    loads = [word for file in files for word in ("load-cache", file, "destroy-cache")]
    policy = slow_policy(world, seconds)
    world.run([str(HOST), "instance", "device", *loads, "spawn", "sleep 1", *END], **policy)
    assert len(world.known_data()) == known
    if known:
        assert world.last()["caches_emptied"] == 0 and world.last()["answers_late"] >= 6
    world.run([str(HOST), "instance", "device", *loads, *END])
    outcomes = world.outcomes()
    assert (outcomes.get("attested", 0), outcomes["unknown"]) == (known, 12 - known)


# ---- No valid cache is refused: programs with many caches, which they or others saved ----------


PROCESSES = 8


@pytest.fixture
def caches(world: World, tmp_path: Path) -> Path:
    """Returns the directory of the program's caches."""
    world.configure()
    directory = tmp_path / "caches"
    directory.mkdir()
    return directory


def command(caches: Path, count: int, turns: int, program: Path = HOST) -> list[str]:
    return [str(program), "instance", "device", "caches", str(caches), str(count), str(turns), *END]


def outcome(printed: str) -> tuple[int, int]:
    loaded, emptied = re.findall(r"^caches (\d+) (\d+)$", printed, re.MULTILINE)[0]
    return int(loaded), int(emptied)


def run_many(world: World, caches: Path, count: int, turns: int = 1, **environment: str | None) -> tuple[int, int]:
    """Returns how many caches the program loaded, and how many of those were empty."""
    return outcome(world.run(command(caches, count, turns), **environment).stdout)


def run_at_once(world: World, caches: Path, count: int, turns: int = 1, programs: tuple[Path, ...] = (HOST,)) -> int:
    """Runs eight processes with the same caches. Returns how many of the caches that they loaded were empty."""
    commands = [command(caches, count, turns, programs[number % len(programs)]) for number in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        return sum(outcome(done.stdout)[1] for done in pool.map(world.run, commands))


def refused(world: World) -> dict[str, int]:
    """Returns how often data was refused in all runs, by outcome."""
    found: Counter[str] = Counter()
    for one in world.runs():
        found.update(one["refused"])
    return found


DAMAGES: tuple[Callable[[bytes, int], bytes], ...] = (
    flipped,
    lambda data, at: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    lambda data, at: data[: len(data) * 7 // 8],
)


def test_damaged_files_of_a_library(real: World, tmp_path: Path) -> None:
    """Of many caches of RADV's, which differ in little, exactly the damaged ones are refused: in each run, until the
    program saves them anew."""
    caches = tmp_path / "caches"
    caches.mkdir()
    assert run_many(real, caches, 300) == (0, 0)
    for number in range(0, 300, 5):
        path = caches / f"{number}.cache"
        data = path.read_bytes()
        # A sketch knows a missing end from 1 KiB on. Mesa 26's caches are smaller.
        damage = DAMAGES[number % 3 if len(data) > 1024 else 0]
        path.write_bytes(damage(data, 40 + 29 * number % (len(data) - 40)))
    damaged = {path: path.read_bytes() for path in caches.iterdir()}
    for _ in range(2):
        for path, data in damaged.items():
            path.write_bytes(data)
        assert run_many(real, caches, 300) == (300, 60)
    found = refused(real)  # policy counts them, and on a busy machine answers too late for some
    assert found.keys() == {"altered"}
    run_many(real, caches, 300)  # as the program saved them
    assert refused(real) == found


def test_programs_that_share_their_caches(world: World, caches: Path) -> None:
    """Two programs that load and save the same caches at once get all of them, also with application_caches: strict. A
    changed byte is found in what either of them has saved, by the program that has read that cache before."""
    programs = tuple(Path(shutil.copy(HOST, caches.parent / name)) for name in ("one", "other"))
    for setting in ("attest", "strict"):
        world.configure(application_caches=setting)
        for _ in range(2):
            assert run_at_once(world, caches, 20, 2, programs) == 0
    assert refused(world) == {}
    for path in caches.glob("*.cache"):
        path.write_bytes(flipped(path.read_bytes(), 100))
    assert outcome(world.run(command(caches, 20, 1, programs[1])).stdout) == (20, 20)


def test_cache_made_of_many(world: World, caches: Path) -> None:
    """A program that merges a thousand caches into one gets all that is in them, and saves and loads that one."""
    run_many(world, caches, 1000)
    merge = ["load-cache", str(caches / "whole"), "merge-caches", str(caches), "1000", "again", "1000"]
    for _ in range(2):
        done = world.run([str(HOST), "instance", "device", *merge, "save-cache", str(caches / "whole"), *END])
        assert "merged 0, 0 empty" in done.stdout
        assert (world.last()["application_hits"], world.last()["compiled"]) == (1000, 0)
    assert world.outcomes() == {"attested": 1001} and refused(world) == {}


def without_the_layer(world: World, caches: Path) -> None:
    """Deletes all caches and saves new ones."""
    for path in caches.iterdir():
        path.unlink()
    assert run_many(world, caches, 20, VK_INSTANCE_LAYERS=None) == (0, 0)


def with_a_store_that_is_only_read(world: World, caches: Path) -> None:
    world.configure(store="read-only")
    for path in caches.iterdir():
        path.unlink()
    assert run_many(world, caches, 20, turns=2) == (20, 0)
    world.configure()


def after_attestations_went(world: World, caches: Path) -> None:
    """Deletes every other history file, as an eviction or a repair might."""
    for path in world.stored_files(".attest")[::2]:
        path.unlink()


@pytest.mark.parametrize(
    "between",
    [
        without_the_layer,
        with_a_store_that_is_only_read,
        after_attestations_went,
    ],
)
def test_history_with_a_gap(world: World, caches: Path, between: Callable[[World, Path], None]) -> None:
    """The program gets all its caches, whatever happened to them or to the history without the layer's knowledge."""
    for turn in range(2):
        assert run_many(world, caches, 20) == (20 if turn else 0, 0)
    for _ in range(2):
        between(world, caches)
        assert run_many(world, caches, 20) == (20, 0)
    assert refused(world) == {}


def test_data_of_the_same_run(world: World) -> None:
    """What a program has read of a cache is known in the same run, without policy."""
    lines = {number: f"of-{number}: compute C0 : P{number} shader=kernel spec={number}" for number in (1, 2)}
    # The third run records the state of what the second compiled. The last one reads what no run has read before.
    for numbers in ((1,), (2,), (2,), (1, 2)):
        used = "\n".join(lines[number] for number in numbers)
        world.recipe(f"device all modules\nfirst: cache C0\n{used}\nread: read D0 C0\nsecond: cache C1 data=D0\n")
    counters = world.last()
    assert (counters["hits"], counters["compiled"], counters["caches_known"]) == (2, 0, 1)
    # Only policy writes this number, and only the newest run did not need it.
    *_, before, newest = ("cache_wait_ns" in run for run in read_all(str(world.store)))
    assert (before, newest) == (True, False), "policy was asked"


# ---- Cache objects -------------------------------------------------------------------------------


DEVICE = "device control modules\n"
#: Buffers that are too small or larger, and a cache of whatever was read.
SIZES = f"{DEVICE}cache C0\ncompute C0 : P0 shader=comp0\n" + "".join(
    f"read: read D0 C0 {room} exact\ncache C1 data=D0\n"
    for room in ("room=0", "room=1", "room=31", "room=32", "room=33", "less", "", "more")
)
#: Reads all, then with room for that when there is more, and makes a cache of each.
GROWTH = f"""{DEVICE}
cache C0
compute C0 : P0 shader=comp0
read: read D0 C0 exact
compute C0 : P0 shader=comp1
read: read D1 C0 room=D0 exact
cache C1 data=D1
read: read D2 C0 exact
cache C2 data=D2
"""
#: Empty caches, one source twice, many sources, caches with and without EXTERNALLY_SYNCHRONIZED; pipelines are compiled
#: in some and found in others, whichever way they came there.
MERGES = (
    DEVICE
    + "".join(f"cache C{number}{' external' if number % 2 else ''}\n" for number in range(10))
    + """
compute C1 : P0 shader=comp0
compute C2 : P1 shader=comp1
one-twice-and-an-empty-one: merge C0 C1 C1 C4
nothing-into-nothing: merge C3 C5
many: merge C9 C0 C1 C2 C3 C4 C5 C6 C7 C8
merged-ones: merge C6 C9
read: read D0 C0 exact
read: read D0 C9 exact
read: read D0 C6 exact
compute C0 : P0 shader=comp0
compute C9 : P0 shader=comp1
compute C6 : P0 shader=comp0
"""
)


#: VkResult
INCOMPLETE = "5"


def found(printed: str) -> list[dict[str, str]]:
    """Returns what the lines named "read" say."""
    lines = [line.split() for line in printed.splitlines()]
    return [dict(word.split("=") for word in words) for name, *words in lines if name == "read"]


@pytest.mark.parametrize("mode", ["cells", "off"])
@pytest.mark.parametrize("recipe", [SIZES, GROWTH, MERGES], ids=["sizes", "growth", "merges"])
def test_same_as_without_the_layer(scripted: ScriptedDriver, recipe: str, mode: str) -> None:
    """Sizes, VK_INCOMPLETE, partial data and merges of every mix are as without the layer. No buffer is written beyond
    its end, and a cache can be created from whatever was read."""
    scripted.settings(mode=mode)
    alone = scripted.recipe(recipe, layered=False).stdout
    assert scripted.recipe(recipe).stdout == alone and "beyond=1" not in alone


def test_partial_data_is_known(scripted: ScriptedDriver) -> None:
    """What was read is known as it was read, partial data too. A read that returned no data says nothing."""
    lines = found(scripted.recipe(SIZES).stdout) + found(scripted.recipe(GROWTH).stdout)
    assert {line["then"] for line in lines} == {"0", INCOMPLETE} and "0" in {line["bytes"] for line in lines}
    known = {one.size for one in scripted.world.known_data()}
    assert known == {int(line["bytes"]) for line in lines} - {0}


def test_pipelines_are_found_after_merges(scripted: ScriptedDriver) -> None:
    """Pipelines compiled with one cache are found in the caches that it was merged into, in the run that compiles and
    later."""
    for compiled in (2, 0):
        scripted.recipe(MERGES)
        counters = scripted.world.last()
        assert (counters["compiled"], counters["hits"]) == (compiled, 5 - compiled)
