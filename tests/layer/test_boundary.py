"""What the layer sends to policy: fingerprints of pipelines, and what it keeps of handles."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from layer.recorder import days_ago, only, record
from world import BUILD, World

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
        (12, ("--gpl",)),  # libraries without shaders, and links, of which the handles differ in each run
    ],
)
def test_fingerprints_are_the_same_in_every_run(world: World, count: int, how: tuple[str | int, ...]) -> None:
    """A run that compiles and a run that only hits see the same set of fingerprints, and nearly each pipeline has its
    own."""
    wanted = record(world)
    world.demo("--count", count, *how, **days_ago(world, 2))
    cold = wanted.take()
    world.demo("--count", count, *how)
    warm = wanted.take()
    seen = only(cold, "destroyed")[0]["seen"]
    assert set(seen) == set(only(warm, "destroyed")[0]["seen"])
    assert len(seen) == len(set(seen)) and 0 not in seen
    assert len(seen) > 0.95 * count
    assert {cell["fingerprint"] for cell in only(cold, "cell")} == set(seen)
    links = [cell["fingerprint"] for cell in only(cold, "cell") if cell["kind"] == 4]
    assert len(links) == len(set(links)) and bool(links) == ("--gpl" in how)
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


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_fingerprints_of_other_modes(world: World, mode: str) -> None:
    """Pipelines created without a probe have fingerprints too. With mode off none are made."""
    cells = record(world)
    world.demo("--count", 20)
    seen = only(cells.take(), "destroyed")[0]["seen"]
    other = record(world, settings=f"{{mode: '{mode}'}}")
    world.demo("--count", 20, "--cache", "object")
    found = only(other.take(), "destroyed")[0]["seen"]
    assert set(found) == (set(seen) if mode == "observe" else set())


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


@pytest.mark.parametrize("change", ["put", "remove"])
def test_changes_that_are_lost(change: str) -> None:
    """Handles are used again. If a change of what is known of one is lost, because another thread stopped while it
    read, nothing is found in the map any more."""
    done = subprocess.run([str(BUILD / "tests" / "shared_map"), change], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 0\n")


def test_changes_while_the_process_is_stopped() -> None:
    """The time for which somebody stops the process is no time that a thread waits for another: no change is lost, and
    no merge counts as one that hangs."""
    with subprocess.Popen(
        [str(BUILD / "tests" / "shared_map"), "stopped"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        assert process.communicate()[0] == "20 1\n"
