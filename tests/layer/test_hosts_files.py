"""Programs that close descriptors they did not open, and that change their working directory or root directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from host_steps import END, STORED, hits_again, lines, run_host, stored
from world import BUILD, PACKAGE, World


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Returns the directory for the program's own files."""
    return tmp_path / "own"


def test_descriptors_closed_and_used_again(quick: World, own: Path) -> None:
    """A program closes every descriptor and gets the journal's number for its own file. That file stays whole and open,
    and every pipeline is stored."""
    steps = ["limit", "nofile", 256, *STORED, "close-from", 3, "own-files", own, "free-some", 20]
    process = run_host(
        quick, *steps, "pipelines", 5, "destroy-device", "check-files", "destroy-instance", "check-files"
    )
    assert "own files: 0 wrong\n" in process.stdout
    assert lines(process) == []
    assert stored(quick) == [8]
    hits_again(quick, 8)


def test_descriptors_closed_before_the_device(quick: World, own: Path) -> None:
    """If a program closes every descriptor between vkCreateInstance and vkCreateDevice, every pipeline is stored."""
    steps = ["limit", "nofile", 256, "instance", "close-from", 3, "own-files", own, "free-some", 20, "device"]
    process = run_host(quick, *steps, "pipelines", 5, *END, "check-files")
    assert "own files: 0 wrong\n" in process.stdout
    hits_again(quick, 5)


def test_libraries_are_mapped_before_the_program_goes_on(world: World) -> None:
    """vkCreateInstance returns after policy's libraries are mapped. Otherwise a file of the program could take the
    number of a descriptor that the dynamic linker has just opened, and be mapped in the library's place."""
    # Some builds of Python have the last two inside libpython.
    libraries = ["_policy.", "_cffi_backend.", "_xxhash."]
    libraries += [name for name in ("_struct.", "fcntl.") if list(PACKAGE.glob(f"_private/dynload/{name}*"))]
    looks = [word for library in libraries for word in ("mapped", library)]
    process = run_host(world, "instance", "device", *looks, *END, LD_AUDIT=str(BUILD / "tests" / "libslow_linker.so"))
    assert [f"{library} is mapped" in process.stderr for library in libraries] == [True] * len(libraries)


def test_descriptors_closed_and_device_destroyed(world: World, own: Path) -> None:
    """Closing the journal does not touch the program's file that has the journal's number by then."""
    steps = ["limit", "nofile", 256, *STORED, "close-from", 3, "own-files", own, "destroy-device", "check-files"]
    process = run_host(world, *steps, "destroy-instance")
    assert "own files: 0 wrong\n" in process.stdout
    hits_again(world, 3)


def test_descriptors_closed_one_by_one(quick: World) -> None:
    """If a program closes all descriptors again and again, every pipeline is stored, each time in a new file."""
    steps = list(STORED)
    for _ in range(5):
        steps += ["close-from", "3", "pipelines", "1", "sleep", "40"]
    process = run_host(quick, *steps, *END)
    assert lines(process) == []
    hits_again(quick, 8)


def test_all_descriptors_used(world: World, own: Path) -> None:
    """If no descriptor is free, the program goes on and its files stay whole. One line says that nothing is stored."""
    steps = ["limit", "nofile", 64, "instance", "device", "own-files", own, "pipelines", 3, "destroy-device"]
    process = run_host(world, *steps, "check-files", "destroy-instance")
    assert "own files: 0 wrong\n" in process.stdout
    assert ["stored" in line for line in lines(process)] == [True]


def test_started_without_standard_streams(world: World) -> None:
    """If a program starts with its first three descriptors closed, what it writes to them does not end up in a file of
    the layer, and what it compiles is stored."""
    log = world.directory / "log.txt"
    environment = {"PYLAYER_LOG": "warn", "PYLAYER_LOG_FILE": str(log)}
    command = ("sh", "-c", 'exec "$@" 0<&- 1<&- 2<&-', "sh")
    run_host(world, *STORED, "shout", "pipelines", 3, "shout", *END, command=command, **environment)
    hits_again(world, 6)
    assert log.read_text() == ""
    for path in world.store.rglob("*"):
        assert not path.is_file() or b"shouted" not in path.read_bytes(), path


def test_log_file_that_the_program_closes(quick: World, own: Path) -> None:
    """Log lines are neither lost nor written to a file of the program that has the log file's number."""
    log = quick.directory / "log.txt"
    steps = ["limit", "nofile", 256, *STORED, "close-from", 3, "own-files", own, "free-some", 20, "pipelines", 2]
    steps += [*END, "check-files", "instance", "device", *END]
    process = run_host(quick, *steps, PYLAYER_LOG="info", PYLAYER_LOG_FILE=str(log))
    assert "own files: 0 wrong\n" in process.stdout
    assert log.read_text().count("mode cells") == 2


def test_log_and_a_stderr_that_is_data(world: World) -> None:
    """If a daemon closes standard error and opens its data file under that number, no log line goes into the data."""
    data = world.directory / "data"
    steps = ["instance", "data-as-stderr", data, "device", "pipelines", 2, *END, "show-file", data]
    run_host(world, *steps, PYLAYER_LOG="debug")
    assert "pylayer" not in data.read_text()  # the driver itself writes to standard error
    hits_again(world, 2)


def test_log_follows_a_terminal_or_appended_file(world: World) -> None:
    """If a program redirects standard error to a file of messages, the log lines are in that file."""
    messages = world.directory / "messages"
    run_host(world, "instance", "append-stderr", messages, "device", "pipelines", 2, *END, PYLAYER_LOG="info")
    assert "mode cells" in messages.read_text()


def test_change_of_directory(world: World) -> None:
    """A relative PYLAYER_STORE is resolved against the directory in which the program started, even after it changes
    its directory, and with a kept plan."""
    (world.directory / "elsewhere").mkdir()
    for when in (1, 2, 1, 1):
        steps = ["instance", "device", "pipelines", 3, *END]
        steps[when:when] = ["chdir", "elsewhere"]
        run_host(world, *steps, PYLAYER_STORE="here/store")
    assert os.listdir(world.directory / "elsewhere") == []
    world.store = world.directory / "here" / "store"
    assert world.last()["hits"] == 3


@pytest.mark.root
@pytest.mark.parametrize("when", [1, 2, 6])
def test_chroot(world: World, when: int) -> None:
    """If a program calls chroot into an empty directory, the layer creates nothing there. What was compiled before is
    stored, and one line says that the rest is not."""
    jail = world.directory / "jail"
    jail.mkdir()
    steps = ["instance", "device", "pipelines", "3", "await-journal", "3", "pipelines", "2", *END]
    if when < 6:
        del steps[4:6]
    steps[when:when] = ["chroot", str(jail)]
    process = run_host(world, *steps)
    assert os.listdir(jail) == []
    (line,) = lines(process)
    assert ("gave no plan" if when == 1 else "the program changed its root directory") in line
    if when == 6:
        hits_again(world, 3)


def test_read_only_home(world: World) -> None:
    """If the home directory cannot be written, the program runs as without the layer, and one line says so."""
    blocker = world.directory / "home"
    blocker.write_text("a file, which nobody can make directories in, root included\n")
    process = run_host(world, "instance", "device", "pipelines", 3, *END, PYLAYER_STORE=None)
    assert len(lines(process)) == 1
    assert world.stored_files() == []
