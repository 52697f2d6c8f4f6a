"""Programs that load and save a cache of their own, and compile nothing. What they read from the driver under the layer
passes without an interpreter. All other data is asked about, and data of another driver is refused."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
import xxhash
from host_steps import END, HOST, run_host
from recipes.small import ZERO_LENGTH
from scripted_driver import ScriptedDriver
from world import BUILD, World

from pylayer.common import file_kinds
from pylayer.store import format
from pylayer.store.cache_history import PASSED

#: Nothing here depends on the driver, but where a test says so.
QUICK = True

#: What a program looks at that is about to enter a sandbox.
SANDBOX = ("threads", "new-user", "filter")
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


@pytest.mark.parametrize("payload", [20_000, 2_000_000, 8_500_000], ids=["0.1 MB", "10 MB", "50 MB"])
def test_known_data_needs_no_interpreter(scripted: ScriptedDriver, file: Path, payload: int) -> None:
    """A program that loads and saves a cache of its own, however large, has the threads that it has without the layer.
    Its data counts as attested, and nothing is compiled."""
    world = scripted.world
    environment = scripted.environment(f"payload={payload}")
    fill(world, file, **environment)
    assert file.stat().st_size > COUNT * payload * 0.8
    for _ in range(2):
        assert "threads: 1\n" in run(world, file, *SANDBOX, **environment)
        assert world.outcomes() == {"attested": 1}
        assert (world.last()["application_hits"], world.last()["compiled"]) == (COUNT, 0)


@pytest.mark.parametrize("settings", [{}, {"application_caches": "strict"}, {"application_caches": "report"}])
def test_each_kind_of_check(world: World, file: Path, settings: dict[str, str]) -> None:
    """Each setting that keeps a history lets known data pass without an interpreter."""
    world.configure(**settings)
    fill(world, file)
    assert "threads: 1\n" in run(world, file, "threads")
    assert world.outcomes() == {"attested": 1}


def test_data_in_another_order_each_time(real: World, file: Path) -> None:
    """RADV returns the same pipelines in another order after each load, so that each run's data is new. It is known in
    the next run all the same, and the number of files stays bounded."""
    fill(real, file, MANY)
    for _ in range(MANY_FILES + 8):
        output = run(real, file, "threads", count=MANY)
        assert "threads: 1\n" in output and real.outcomes() == {"attested": 1}
        assert len(histories(real)) <= MANY_FILES + 2
    assert len(histories(real)) < MANY_FILES


def test_what_the_layer_writes(real: World, file: Path) -> None:
    """The layer's record has the digest and size of what the program read, and a sketch, by which policy recognises a
    damaged copy."""
    fill(real, file, MANY)
    run(real, file, count=MANY)
    *_, one = real.known_data()
    data = file.read_bytes()
    assert (one.digest, one.size, one.flags) == (xxhash.xxh3_128_digest(data), len(data), 0)
    assert abs(one.time - time.time()) < 3600
    file.write_bytes(data[:-8] + bytes(8))
    assert has_asked(run(real, file, "mapped", "_policy.", count=MANY))
    assert real.outcomes() == {"altered": 1}


LIBRARY = str(BUILD / "tests" / "libconstructor.so")
#: Moments at which a program reads its cache: steps before the instance, and after the pipelines. FILE is the file.
MOMENTS = {
    "destroyed": ([], ["save-cache", "FILE", "destroy-cache", *END]),
    "exit": ([], ["save-cache", "FILE", "end", "exit"]),
    "_exit": ([], ["save-cache", "FILE", "end", "_exit"]),
    "quick_exit": ([], ["save-cache", "FILE", "end", "quick_exit"]),
    "abort": ([], ["save-cache", "FILE", "end", "abort"]),
    "kill": ([], ["save-cache", "FILE", "end", "kill"]),
    "main thread ended": ([], ["main-thread-ends", "save-cache", "FILE"]),
    "handler before the instance": (["save-at-exit", "FILE"], []),
    "handler after the device": ([], ["save-at-exit", "FILE"]),
    "destructor": (["save-in-destructor", "FILE"], []),
    "handler of quick_exit": ([], ["save-at-quick-exit", "FILE", "end", "quick_exit"]),
    "another thread": ([], ["thread", "save-cache", "FILE", "join", "end", "terminate"]),
    "end of another thread": ([], ["thread", "save-at-thread-end", "FILE", "join", "end", "kill"]),
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
    real.demo("--count", 60)
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
    """On such a driver, too, each cache of a program gets what the store has, where policy hands it over."""
    env = scripted.world.policy_class("class Mine(Policy):\n    pass\n")
    caches = "".join(
        f"cache{cache}: cache C{cache}\n"
        + "".join(f"c{cache}-{n}: compute C{cache}: P{2 * cache + n} shader=kernel spec={n}\n" for n in range(2))
        for cache in range(3)
    )
    for compiled in (2, 0):
        scripted.world.environment.update(env)
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


# ---- Data that is not from this driver -----------------------------------------------------------


@pytest.fixture
def saved(world: World, tmp_path: Path) -> Path:
    """Returns a cache file that this driver wrote for 20 pipelines, without the layer."""
    path = tmp_path / "application.cache"
    world.demo("--count", 20, "--cache", "object", "--cache-save", path, layers=None)
    return path


def test_header_only(world: World, saved: Path) -> None:
    """A header without entries passes, because it is what an empty cache returns."""
    saved.write_bytes(saved.read_bytes()[:32])
    result = world.demo("--count", 4, "--cache", saved)
    assert result["created"] == 4 and world.last()["caches_emptied"] == 0


def test_refused_cache_is_filled_again(world: World, saved: Path, tmp_path: Path) -> None:
    """After its data was refused, the application's cache holds all pipelines when it is saved."""
    saved.write_bytes(saved.read_bytes()[:16] + bytes(16) + saved.read_bytes()[32:])  # another UUID
    repaired = tmp_path / "repaired.cache"
    world.demo("--count", 20, "--cache", saved, "--cache-save", repaired)
    alone = world.demo("--count", 20, "--cache", repaired, "--feedback", layers=None)
    assert alone["feedback"]["application_cache_hit"] == 20


def test_zero_length_with_a_pointer(world: World) -> None:
    """A pointer with a length of zero becomes an empty cache."""
    process = world.recipe(ZERO_LENGTH)
    assert "created result=0" in process.stdout and "zero-length; the program gets an empty cache" in process.stderr


# ---- A policy that gives no verdict in time ------------------------------------------------------


#: A policy class whose admit_cache never answers.
HANGS = """
import time
from pylayer.policy import Policy

class Hangs(Policy):
    def plan_device(self, program, facts, settings):
        open({asked!r}, "w").close()
        return super().plan_device(program, facts, settings)

    def admit_cache(self, data, facts, settings):
        time.sleep(3600)
"""


def policy_that_hangs(world: World, tmp_path: Path, **settings: object) -> str:
    """Returns a policy file. One run calls its class before the test, so that the next plan comes soon."""
    (tmp_path / "hangs.py").write_text(HANGS.format(asked=str(tmp_path / "asked")))
    config = tmp_path / "hangs.yaml"
    config.write_text(json.dumps({"policy": "hangs:Hangs", "settings": settings}))
    world.demo("--count", 1, PYLAYER_CONFIG=str(config))
    assert (tmp_path / "asked").exists()
    return str(config)


@pytest.mark.parametrize("mode", ["cells", "off"])
def test_valid_data_passes_without_a_verdict(world: World, tmp_path: Path, mode: str) -> None:
    """If policy is late, a program's valid data reaches the driver."""
    config = policy_that_hangs(world, tmp_path, mode=mode)
    saved = tmp_path / "program.cache"
    world.demo("--count", 20, "--cache", "object", "--cache-save", saved)
    result = world.demo("--count", 20, "--cache", saved, "--feedback", PYLAYER_CONFIG=config)
    assert result["feedback"]["application_cache_hit"] == 20


@pytest.mark.parametrize("is_damaged", [False, True])
def test_strict_data_needs_a_verdict(scripted: ScriptedDriver, tmp_path: Path, is_damaged: bool) -> None:
    """With application_caches: strict and no verdict in time, the program gets an empty cache."""
    scripted.world.environment |= scripted.environment("")  # for the run before the test, too
    config = policy_that_hangs(scripted.world, tmp_path, application_caches="strict")
    saved = tmp_path / "program.cache"
    scripted.demo("--count", 8, "--cache", "object", "--cache-save", saved)
    data = saved.read_bytes()
    saved.write_bytes(data[:-1] + bytes([data[-1] ^ is_damaged]))
    result = scripted.demo("--count", 8, "--cache", saved, "--feedback", PYLAYER_CONFIG=config)
    assert result["created"] == 8 and result["feedback"]["application_cache_hit"] < 8


def test_thread_cancelled_while_it_waits(world: World, tmp_path: Path) -> None:
    """If a program cancels a thread that waits for a verdict, its other threads go on."""
    config = policy_that_hangs(world, tmp_path)
    run_host(world, "instance", "device", "cancel", "pipelines", 3, *END, PYLAYER_CONFIG=config)


#: A policy class that takes half a second for a verdict.
SLOW = """
class Mine(Policy):
    def admit_cache(self, data, facts, settings):
        import time
        time.sleep({seconds})
        return super().admit_cache(data, facts, settings)
"""


@pytest.mark.parametrize(("seconds", "known"), [(0.5, 11), (3600, 0)])
def test_the_wait_is_one_for_the_device(world: World, tmp_path: Path, seconds: float, known: int) -> None:
    """A device waits two seconds for all verdicts together. Beyond that, a program's data passes, and the next run
    knows it, but for what policy was working on, or if policy gave none."""
    files = [str(tmp_path / f"{number}.cache") for number in range(12)]
    fills = [word for number, file in enumerate(files) for word in ("pipelines", str(number + 1), "save-cache", file)]
    world.run([str(HOST), "instance", "device", "load-cache", "/nowhere", *fills], VK_INSTANCE_LAYERS="")
    loads = [word for file in files for word in ("load-cache", file, "destroy-cache")]
    policy = world.policy_class(SLOW.format(seconds=seconds))
    world.run([str(HOST), "instance", "device", *loads, "spawn", "sleep 1", *END], **policy)
    assert len(world.known_data()) == known
    if known:
        assert world.last()["caches_emptied"] == 0 and world.last()["answers_late"] >= 6
    world.run([str(HOST), "instance", "device", *loads, *END])
    outcomes = world.outcomes()
    assert (outcomes.get("attested", 0), outcomes["unknown"]) == (known, 12 - known)
