"""What the layer sends to policy: fingerprints of pipelines, digests and copies of cache data, and keys. Also loads
that begin after device creation."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from layer.recorder import PROPERTIES, only, record
from scripted_driver import ScriptedDriver
from world import BUILD, Run, World

Later = Callable[..., tuple[Run, list[dict[str, Any]]]]


# ---- fingerprints --------------------------------------------------------------------------------


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


@pytest.mark.parametrize(
    ("count", "how"),
    [
        (100, ()),
        (20, ("--ray-tracing",)),  # the pipelines that take the driver longest
        (60, ("--threads", 4)),
        (60, ("--batch", 16)),
        (60, ("--cache", "object")),
    ],
)
def test_fingerprints_are_the_same_in_every_run(world: World, count: int, how: tuple[str | int, ...]) -> None:
    """A run that compiles and a run that only hits see the same set of fingerprints, and nearly each pipeline has its
    own."""
    wanted = record(world)
    world.demo("--count", count, *how)
    cold = wanted.take()
    world.demo("--count", count, *how)
    warm = wanted.take()
    seen = only(cold, "destroyed")[0]["seen"]
    assert set(seen) == set(only(warm, "destroyed")[0]["seen"])
    assert len(seen) == len(set(seen)) and 0 not in seen
    assert len(seen) > 0.95 * count
    assert {cell["fingerprint"] for cell in only(cold, "cell")} == set(seen)
    assert not only(warm, "cell")
    assert only(warm, "destroyed")[0]["counters"]["fingerprints_dropped"] == 0


def test_fingerprints_of_hits_in_the_own_cache(world: World) -> None:
    """A pipeline that the program's own cache has counts as used, so the store does not evict it as unused."""
    wanted = record(world)
    file = world.directory / "cache"
    world.demo("--count", 20, "--cache", "object", "--cache-save", file)
    cold = wanted.take()
    # A large batch is on the heap, and MALLOC_PERTURB_ fills that with bits that must not be taken for known facts.
    world.demo("--count", 20, "--batch", 20, "--cache", file, MALLOC_PERTURB_="2")
    warm = only(wanted.take(), "destroyed")[0]
    assert warm["counters"]["application_hits"] == 20
    assert set(warm["seen"]) == set(only(cold, "destroyed")[0]["seen"])


@pytest.mark.parametrize("carrier", ["observe", "off"])
def test_fingerprints_of_other_carriers(world: World, carrier: str) -> None:
    """Pipelines created without a probe have fingerprints too. Without a carrier none are made."""
    cells = record(world)
    world.demo("--count", 20)
    seen = only(cells.take(), "destroyed")[0]["seen"]
    other = record(world, settings=f"{{carrier: '{carrier}'}}")
    world.demo("--count", 20, "--cache", "object")
    found = only(other.take(), "destroyed")[0]["seen"]
    assert set(found) == (set(seen) if carrier == "observe" else set())


def test_links_and_libraries_have_fingerprints(world: World) -> None:
    """Libraries without shaders have fingerprints, and so have pipelines that are linked from libraries, whose handles
    differ in each run. Each link has its own."""
    wanted = record(world)
    seen = []
    for _ in ("cold", "warm"):
        world.demo("--count", 12, "--gpl")
        found = wanted.take()
        seen.append(set(only(found, "destroyed")[0]["seen"]))
        by_kind: dict[int, list[int]] = {}
        for cell in only(found, "cell"):
            by_kind.setdefault(cell["kind"], []).append(cell["fingerprint"])
        if len(seen) == 1:
            assert {2, 4} <= by_kind.keys() and not any(0 in prints for prints in by_kind.values())
            assert len(set(by_kind[4])) == len(by_kind[4])
        else:
            assert not by_kind
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("mode", "expected"), [("alike", 1), ("apart", 9), ("garbage", 2)])
def test_what_makes_a_fingerprint(real: World, mode: str, expected: int) -> None:
    """A fingerprint depends on the code, wherever it comes from, the entry point, the constants and the places of
    descriptors in heaps, but not on handles or on pointers that Vulkan ignores."""
    wanted = record(real)
    real.run([str(BUILD / "tests" / "fingerprints"), mode])
    assert len(only(wanted.take(), "destroyed")[0]["seen"]) == expected


#: Members of test_canonical_form's pipelines that decide nothing: structure, first and last offset. Flags count by what
#: they do to a pipeline's kind; layouts, derivation and results do not count.
NEVER = [
    ("VkGraphicsPipelineCreateInfo", 16, 16),
    ("VkGraphicsPipelineCreateInfo", 104, 108),
    ("VkGraphicsPipelineCreateInfo", 120, 140),
    ("VkPipelineCreationFeedback", 0, 12),
    ("constants", 4, 4),
    ("constants", 12, 12),
    ("VkSampleMask", 4, 4),
    ("VkPipelineColorBlendStateCreateInfo", 40, 52),
]
#: Members of what is off: depth bias, sample shading, depth test and bounds, logic op, an attachment's blending.
DISABLED = [
    ("VkPipelineRasterizationStateCreateInfo", 44, 52),
    ("VkPipelineMultisampleStateCreateInfo", 28, 28),
    ("VkPipelineDepthStencilStateCreateInfo", 24, 28),
    ("VkPipelineDepthStencilStateCreateInfo", 96, 100),
    ("VkPipelineColorBlendStateCreateInfo", 24, 24),
    ("VkPipelineColorBlendAttachmentState", 36, 56),
]
#: Members that are set by commands, and pointers to such.
DYNAMIC = [
    ("VkVertexInputBindingDescription", 4, 4),
    ("VkPipelineInputAssemblyStateCreateInfo", 20, 20),
    ("VkViewport", 0, 20),
    ("VkRect2D", 0, 12),
    ("VkPipelineRasterizationStateCreateInfo", 32, 36),
    ("VkPipelineRasterizationStateCreateInfo", 44, 56),
    ("VkPipelineDepthStencilStateCreateInfo", 16, 100),
]
#: Without rasterization.
DISCARDED = [
    ("VkPipelineRenderingCreateInfo", 32, 36),
    ("VkFormat", 0, 0),
    ("VkPipelineMultisampleStateCreateInfo", 16, 28),
    ("VkPipelineMultisampleStateCreateInfo", 40, 44),
    ("VkSampleMask", 0, 0),
    ("VkPipelineColorBlendStateCreateInfo", 16, 24),
    ("VkPipelineColorBlendAttachmentState", 0, 60),
]
#: What the fingerprint of this pipeline is made of.
FINGERPRINTED = {
    ("VkPipelineRenderingCreateInfo", 32),
    ("VkPipelineRenderingCreateInfo", 36),
    ("VkFormat", 0),
    *(("VkPipelineShaderStageCreateInfo", offset) for offset in (20, 24, 28)),
    ("constants", 0),
    ("constants", 8),
    ("VkPipelineInputAssemblyStateCreateInfo", 20),
    ("VkPipelineMultisampleStateCreateInfo", 20),
}
#: Is fingerprinted where the test turns it on; where it is on already, its value stays another than 0.
DISCARD = ("VkPipelineRasterizationStateCreateInfo", 24)


def test_canonical_form() -> None:
    """Each member of a graphics pipeline's states decides its canonical form, unless Vulkan ignores it because it is
    dynamic, not enabled, or of no use without rasterization. Such pointers are not followed. A fingerprint is made of
    few members, and never differs where canonical forms are equal."""
    done = subprocess.run([str(BUILD / "tests" / "canonical")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    ignored = {"plain": NEVER + DISABLED, "enabled": NEVER, "dynamic": NEVER + DYNAMIC}
    ignored["discards"] = NEVER + DYNAMIC + DISCARDED
    for sort, places in ignored.items():
        words = {(name, offset) for name, first, last in places for offset in range(first, last + 4, 4)}
        mine = [((name, int(offset)), decides, tells) for of, name, offset, decides, tells in rows if of == sort]
        assert {place for place, decides, _ in mine if decides == "0"} == words, sort
        told = FINGERPRINTED - words | ({DISCARD} if sort != "discards" else set())
        assert {place for place, _, tells in mine if tells == "1"} == told, sort


def test_tables() -> None:
    """Each fingerprint is kept once, whichever thread notes it, up to 786432 of them. The rest is counted. Modules are
    told apart when a handle value is reused. A thread that is cancelled while it waits to write keeps no lock."""
    done = subprocess.run([str(BUILD / "tests" / "fingerprint_tables")], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["kept"][:2] == [4000, 200000]
    assert found["kept"][2] == 786432
    assert found["dropped"][:2] == [0, 0]
    # Two million fingerprints, each noted twice.
    assert found["dropped"][2] == 2 * (2000000 - found["kept"][2])


# ---- the application's caches --------------------------------------------------------------------


def test_binary_tables() -> None:
    """The index, read and filled by four threads, returns each pipeline's own binaries and stays within its bound. An
    accepted record points nowhere outside itself. Of the application's binaries only those read before are attested."""
    done = subprocess.run([str(BUILD / "tests" / "binary_tables")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["altered_records_accepted"] < 100_000


def test_mailbox() -> None:
    """Sender and policy agree on whether an answer came in time. While no message comes, policy sleeps if the main
    thread will tell of its end; otherwise it wakes once a minute. A pipeline that is created wakes it. It ends with
    the program's last thread."""
    done = subprocess.run([str(BUILD / "tests" / "mailbox")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_cache_data(world: World, tmp_path: Path) -> None:
    """Data that a program reads from a cache is sent with its digest. Complete data is copied once, and not again when
    the program passes it back."""
    wanted = record(world)
    path = tmp_path / "saved.cache"
    size = int(world.run([str(BUILD / "tests" / "cache_reads"), str(path)]).stdout.split()[0])
    data, incomplete = path.read_bytes()[:size], path.read_bytes()[size:]
    found = wanted.take()
    digest = xxhash.xxh3_128_digest(data).hex()
    assert [(one["size"], one["digest"], one["slot"]) for one in only(found, "empty")] == [(0, "00" * 16, 0)]
    assert [(one["size"], one["digest"], one["slot"]) for one in only(found, "admit")] == [(len(data), digest, 1)]
    first, again, small, second = only(found, "read")
    assert (first["size"], first["digest"], first["incomplete"]) == (len(data), digest, False)
    assert bytes.fromhex(first["data"]) == data
    assert (again["size"], again["digest"], again["data"]) == (len(data), digest, None)
    assert small["incomplete"] and small["data"] is None
    assert (small["size"], small["digest"]) == (len(incomplete), xxhash.xxh3_128_digest(incomplete).hex())
    assert [one["slot"] for one in (first, again, small, second)] == [0, 0, 0, 1]
    assert [one["cache"] for one in (first, again, small, second)] == [1, 1, 1, 2]
    assert (second["digest"], second["data"]) == (digest, None)


ADMIT_AS_KEPT = """
Recorder.admit_cache = lambda self, data, facts, settings: (VERDICT_PASS_KEPT, "accepted")
"""


def test_data_of_two_caches(world: World) -> None:
    """Data that was read is sent with a copy once, also if other data is read in between."""
    wanted = record(world)
    caches = "".join(f"cache C{n}\ncompute C{n} : P0 shader=kernel spec={n}\n" for n in range(2))
    world.recipe(f"device all modules\n{caches}" + "read D0 C0\nread D1 C1\n" * 3)
    copies = [one["digest"] for one in only(wanted.take(), "read") if one["data"] is not None]
    assert len(copies) == len(set(copies)) == 2


@pytest.mark.parametrize("kept", [True, False])
def test_data_that_policy_has_is_not_sent(world: World, tmp_path: Path, kept: bool) -> None:
    """Data admitted with PASS_KEPT and read again unchanged is sent without a copy. The driver still gets the data."""
    path = tmp_path / "saved.cache"
    command = [str(BUILD / "tests" / "cache_reads"), str(path)]
    size = int(world.run(command, VK_INSTANCE_LAYERS=None).stdout.split()[0])
    data = path.read_bytes()[:size]
    path.write_bytes(data)
    wanted = record(world, ADMIT_AS_KEPT if kept else "")
    assert world.run([*command, "again"]).stdout.split() == [str(size)] * 2
    (read,) = only(wanted.take(), "read")
    assert read["digest"] == xxhash.xxh3_128_digest(data).hex()
    assert read["data"] == (None if kept else data.hex())


NO_COPY = """
def plan_device(self, program, facts, settings):
    plan = Policy.plan_device(self, program, facts, settings)
    plan.keep_data = False
    return plan


Recorder.plan_device = plan_device
"""


def test_no_copy(real: World, tmp_path: Path) -> None:
    """If the plan does not ask for data, it is sent without a copy."""
    wanted = record(real, NO_COPY)
    path = tmp_path / "application.cache"
    real.demo("--count", 8, "--cache", "object", "--cache-save", path)
    (read,) = only(wanted.take(), "read")
    assert read["size"] == path.stat().st_size > 6000
    assert read["data"] is None
    assert read["digest"] == xxhash.xxh3_128_digest(path.read_bytes()).hex()


def test_unchecked_caches_are_not_told_of(world: World, tmp_path: Path) -> None:
    """With application_caches: pass policy gets no messages about application caches."""
    wanted = record(world, settings="{application_caches: pass}")
    world.run([str(BUILD / "tests" / "cache_reads"), str(tmp_path / "saved.cache")])
    assert {one["what"] for one in wanted.take()} <= {"facts", "created", "cell", "destroyed"}


# ---- the device ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted", [*({name} for name in PROPERTIES), set()], ids=lambda names: "".join(names) or "none"
)
def test_properties_of_binaries(scripted: ScriptedDriver, wanted: set[str]) -> None:
    """Policy gets the properties of pipeline binaries that the driver reports, each as its own."""
    records = record(scripted.world)
    if "internal_cache_control" in wanted:
        wanted = wanted | {"internal_cache"}  # there is nothing to control otherwise
    script = ";".join(f"{word}={'yes' if name in wanted else 'no'}" for name, word in PROPERTIES.items())
    scripted.recipe("device control binaries modules\n", script=script)
    (facts,) = only(records.take(), "facts")
    assert facts == {"what": "facts", **{name: name in wanted for name in PROPERTIES}}


# ---- a later load --------------------------------------------------------------------------------

#: Loads the records of {journals}, one journal after the other, when the program creates its empty cache: the device's
#: own load is over then.
LATER_LOADS = """
from pylayer.store.folder import Batch
from pylayer.store.reader import Reader


def load(path):
    count = 0
    for part in Reader(path).parts([]):
        batch = Batch(part.data)
        for record in part.records:
            if record.magic == b"CELL":
                batch.add(record.start, record.size, record.digest, record.fingerprint)
        boundary.load_records(1, batch)
        count += len(batch.offsets)
    return count, boundary.load_done(1)


def handle_and_load(self, message):
    handle_and_record(self, message)
    if message.type == boundary.CACHE_EMPTY:
        write("later", taken=[load(path) for path in {journals}])


host.Host.handle = handle_and_load
"""


def later_in(world: World) -> Later:
    """Returns a function that runs the demo on an empty store, with two later loads of a journal with 30 pipelines
    each."""
    world.demo("--count", 30)
    world.demo("--count", 60)
    journals = [str(path) for path in world.stored_files(".closed")]
    assert len(journals) == 2
    world.environment["PYLAYER_STORE"] = str(world.directory / "other")

    def run(carrier: str, **environment: str) -> tuple[Run, list[dict[str, Any]]]:
        extra = LATER_LOADS.replace("{journals}", repr(journals))
        wanted = record(world, extra, settings=f"{{carrier: {carrier}}}")
        result = world.demo("--count", 60, "--cache", "object", "--feedback", **environment)
        return result, wanted.take()

    return run


def test_later_loads(world: World) -> None:
    """Records loaded after the device's own load give hits to pipelines created later, even with the program's own
    cache."""
    _, found = later_in(world)("cells")
    assert [one["taken"] for one in only(found, "later")] == [[[30, 30], [30, 30]]]
    counters = only(found, "destroyed")[0]["counters"]
    assert counters["load_failed"] == 0 and counters["pipelines"] == 60
    # A few pipelines are compiled meanwhile. The loads take less time than one compile.
    assert counters["compiled"] < 20 and counters["hits"] > 40


def test_later_loads_that_the_driver_refuses(scripted: ScriptedDriver) -> None:
    """Records that the driver refuses in a later load are counted and have no other effect."""
    refuses = {"PYLAYER_TEST_DRIVER": "create-cache=error:initialization-failed?data;pipeline=slow:20?compile"}
    _, found = later_in(scripted.world)("cells", **refuses)
    assert [one["taken"] for one in only(found, "later")] == [[[30, 0], [30, 0]]]
    counters = only(found, "destroyed")[0]["counters"]
    assert (counters["load_failed"], counters["compiled"]) == (60, 60)
