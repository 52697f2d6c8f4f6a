"""``pylayer rm --pipelines`` and ``pylayer trim``: what they remove, what they keep, what a running program writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from cli import stores
from cli.stores import DAY, GAME, IDENTITY, NOW, OLD_DRIVER, OTHER, TOOL, Store, cell
from cli.test_stats import write_run
from cli.user import User
from unit.things import binaries, program_id, record

from pylayer.cli.rm import Removing
from pylayer.cli.selection import Names, Selection
from pylayer.cli.trim import parse_size, trim
from pylayer.common import owner
from pylayer.common.identity import Identity
from pylayer.report.words import human_bytes
from pylayer.store import format, state
from pylayer.store import store as face
from pylayer.store.compaction import Claim

# ---- rm: programs -------------------------------------------------------------------------------


def test_program(user: User, store: Store) -> None:
    """rm removes a program's files and keeps those of others. With --identity, it keeps the program's pipelines of
    other drivers."""
    tool = store.loaded(TOOL)
    other = Store(user.store, OLD_DRIVER)
    other.journal(GAME, cell(1, identity=OLD_DRIVER))
    assert user.pylayer("rm", "game*", "--pipelines", "--identity", OLD_DRIVER.name[:9], "--yes").returncode == 0
    assert other.loaded(GAME) == [] and len(store.loaded(GAME)) == 45
    before = store.sizes()
    done = user.pylayer("rm", "game*", "--pipelines", "--yes")
    assert store.loaded(GAME) == [] and store.loaded(TOOL) == tool
    assert "  remove game (The Game): " in done.stdout and done.stdout.count("  remove ") == 1
    assert f"The store was {human_bytes(before)} and is {human_bytes(store.sizes())}.\n" in done.stdout
    assert not [path for path in store.files() if path.name.startswith(f"{program_id(*GAME):016x}")]
    assert user.json("ls", "--verify")["fine"]
    rows = [row for partition in user.json("ls")["identities"] for row in partition["programs"]]
    assert [(row["program"], row["pipelines"]) for row in rows] == [("tool", 30)]


def test_ambiguous_identity(user: User) -> None:
    """A prefix of two identities removes neither."""
    for number in range(40):  # with this many, at least two begin with the same digit
        Store(user.store, Identity({**IDENTITY.fields, "driver_version": number}))
    digits = [path.name[0] for path in (user.store / "store").iterdir()]
    twice = next(digit for digit in digits if digits.count(digit) > 1)
    assert "identities" in user.fails("rm", "--pipelines", "--identity", twice, "--yes", status=2)
    assert len(list((user.store / "store").iterdir())) == 40


# ---- rm: asking ---------------------------------------------------------------------------------


def test_asking(user: User, store: Store) -> None:
    """On a terminal rm asks, and a yes lets it continue. Without one, nothing is removed without --yes. --dry-run needs
    none, and reports what would be removed, with its bytes. A pattern may match nothing."""
    before = store.sizes()
    done = user.pylayer("rm", "--pipelines", "--all")
    assert done.returncode == 2 and "--yes" in done.stderr
    said = user.says("rm", "--pipelines", "--all", "--dry-run")
    assert re.search(rf"  would remove the whole identity: \d+ files, {human_bytes(before)}\n", said)
    said = user.says("rm", "nobody*", "--pipelines")
    assert "nobody*" in said and said.count("\n") == 1 and store.sizes() == before
    status, _ = user.terminal("rm", "--pipelines", "--all", answer="y\n")
    assert status == 0 and not store.path.exists()


@pytest.mark.parametrize(("kinds", "stays"), [(("--pipelines",), True), ((), False)])
def test_what_is_blocked_stays(user: User, store: Store, kinds: tuple[str, ...], stays: bool) -> None:
    """If pipelines alone are removed, a driver that crashed is not called in that way again."""
    store.file(".verdict", GAME, stores.verdict())
    user.pylayer("rm", *kinds, "--all", "--yes")
    assert bool(user.json("ls")["blocks"]) is stays and store.files("*.closed") == []


# ---- rm: what is in use -------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["tool", f"--identity {IDENTITY.name}", "--all", "--stale"])
def test_living_writer(user: User, store: Store, words: str) -> None:
    """A journal whose writer still runs is kept together with the identity file. It is named, and the status is 1."""
    journal = store.journal(TOOL, cell(500), alive=True)
    attest = store.file(".attest", TOOL, alive=True)
    done = user.pylayer("rm", "--pipelines", *words.split(), "--yes")
    assert done.returncode == 1 and str(journal) in done.stdout and str(attest) in done.stdout
    assert store.loaded(TOOL) == [500]
    assert (store.path / "identity").exists() and attest.exists()
    assert user.json("ls", "--verify")["fine"]


def test_one_name_one_program(user: User, store: Store) -> None:
    """A name touches the program that is shown by it and no other: neither one whose application has that name, nor
    all of one executable. With *, it touches them all."""
    for program in (("x", "tool"), ("tool", "Other")):
        store.journal(program, cell(1))
    for arguments in (("rm", "tool", "--pipelines", "--yes"), ("export", "tool.pylayer", "--app", "tool")):
        said = user.fails(*arguments, status=2)
        assert "tool names 2 programs: " in said and "tool (Other) (" in said and "x (tool)" not in said
    for name, shown in (("tool (Other)", "tool (Other)"), ("tool*", "tool")):
        assert re.findall("  remove (.*): ", user.says("rm", name, "--pipelines", "--yes")) == [shown]
    assert store.loaded(("x", "tool")) == [1]


@pytest.mark.parametrize("what", ["pipelines", "recordings"])
@pytest.mark.parametrize("name", ["tool", "--all"])
def test_while_another_compaction(user: User, store: Store, name: str, what: str) -> None:
    """A folder that a running process compacts is not changed. The command says so with status 1."""
    recorded = state.writer(str(user.store), program_id(*TOOL), "tool")
    recorded.append(state.note_parts("tool"))
    recorded.close()
    before = store.sizes()
    claim = Claim(store.folder if what == "pipelines" else state.folder(str(user.store)))
    assert claim.acquire()
    done = user.pylayer("rm", f"--{what}", name, "--yes")
    claim.release()
    assert done.returncode == 1 and "another process is compacting" in done.stdout and store.sizes() == before
    assert state.folder(str(user.store)).programs()


def test_journals_compacted_while_asking(user: User) -> None:
    """Records that were in journals when the command asked, and in a pack when the user answered, are removed too."""
    store = Store(user.store)
    store.journal(TOOL, cell(1))
    work = Removing(face.Store(str(user.store)), Names(str(user.store)))
    work.add_pipelines(Selection("tool"), True)
    ((_, _, removal),) = work.parts
    store.pack()
    removal.remove()
    assert removal.failure == "" and store.loaded(TOOL) == []


# ---- rm: drivers that are gone ------------------------------------------------------------------


def here(user: User) -> Store:
    """A store of a device that this machine really has."""
    return Store(user.store, stores.present(user.environment))


def test_stale(user: User, store: Store) -> None:
    """--stale removes what no driver of this machine would use, identities of an earlier pylayer with the global key of
    pipeline binaries included, and keeps the rest."""
    present = here(user)
    present.journal(GAME, cell(1, identity=present.identity))
    older = Store(user.store, Identity({**present.identity.fields, "global_key": "00" * 32}))
    older.journal(GAME, cell(1, identity=present.identity), record(binaries(b"x", global_key=0), format.BINARIES))
    assert user.json("ls", "--verify")["fine"] and len(user.json("ls")["identities"]) == 3
    done = user.pylayer("rm", "--stale", "--yes").stdout
    assert set(re.findall("; identity (.*)\n", done)) == {IDENTITY.name, older.identity.name}
    assert not store.path.exists() and not older.path.exists() and len(present.loaded(GAME)) == 1
    assert done.startswith("Devices here: ")
    assert "nothing stale" in user.pylayer("rm", "--stale", "--yes").stdout


def test_stale_keeps_what_it_does_not_know(user: User, store: Store) -> None:
    """Folders without an identity file are kept. The command says why."""
    (store.path / "identity").unlink()
    done = user.pylayer("rm", "--stale", "--yes")
    assert done.returncode == 0 and "identity file is missing" in done.stdout
    assert store.path.exists()
    assert done.stdout.endswith("There is nothing else to remove.\n") and "Nothing to remove" not in done.stdout


def test_stale_without_drivers(user: User, store: Store) -> None:
    """If the drivers cannot be asked, one line says so and nothing is removed."""
    before = store.sizes()
    nowhere = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
    assert "nothing was deleted" in user.fails("rm", "--stale", "--yes", **nowhere)
    assert store.sizes() == before


def test_folder_without_description(user: User, store: Store) -> None:
    """A program's files are removed from a folder without an identity file, and the folder can be removed by its
    name."""
    (store.path / "identity").unlink()
    assert user.pylayer("rm", "game*", "--pipelines", "--yes").returncode == 0
    assert store.loaded(GAME) == [] and store.loaded(TOOL) != []
    assert user.pylayer("rm", "--pipelines", "--identity", IDENTITY.name, "--yes").returncode == 0
    assert not store.path.exists()


# ---- trim ------------------------------------------------------------------------------------------


def test_trim_compaction(user: User, store: Store) -> None:
    """trim makes one pack for each program. It loses nothing, and the store does not grow."""
    expected = {program: store.loaded(program) for program in (GAME, TOOL)}
    store.journal(OTHER, *(cell(number) for number in range(10)))
    store.pack()
    store.journal(OTHER, *(cell(number) for number in range(5, 15)))
    before = store.sizes()
    done = user.pylayer("trim").stdout
    assert f"The store was {human_bytes(before)} and is {human_bytes(store.sizes())}.\n" in done
    assert before >= store.sizes() and "Evicted: 0 records and 0 files.\n" in done
    assert {program: store.loaded(program) for program in (GAME, TOOL)} == expected
    assert store.loaded(OTHER) == list(range(15))
    assert len(store.files("*.pack")) == 3 and store.files("*.closed") == []
    assert user.json("ls", "--verify")["fine"]


def test_trim_by_the_policy_file(user: User, store: Store) -> None:
    """Without options the limits come from the policy file. If it cannot be used, the command fails."""
    config = user.policy_file
    store.journal(GAME, *(cell(number) for number in range(1200)), alive=True)
    config.write_text("max_store_mib: 1\n")
    assert "That is more than 1.0 MiB: the rest is in use" in user.pylayer("trim").stdout
    config.write_text("max_store_mib: none\n")
    assert "policy.yaml, line 1" in user.fails("trim")


def test_trim_leaves_a_living_writer(user: User, store: Store) -> None:
    """A journal whose writer still runs is not compacted, whatever the limit. Other records beyond the limit are
    evicted."""
    journal = store.journal(TOOL, cell(500), alive=True)
    assert "in use" in user.says("trim", "--max-size", "1K", status=1)
    assert journal.exists() and store.loaded(TOOL) == [500]


@pytest.mark.parametrize(
    ("text", "size"), [("500M", 500 << 20), ("2GiB", 2 << 30), ("1.5k", 1536), ("7", 7), ("3 tb", 3 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    """Units of sizes are powers of 1024, in any case, with and without B."""
    assert parse_size(click.Context(trim), trim.params[0], text) == size


# ---- History -------------------------------------------------------------------------------------


def recorded(user: User) -> list[str]:
    return sorted(path.suffix for path in user.store.glob("runs/*"))


def test_forget_all(user: User) -> None:
    """--all removes the runs and timelines of all programs, files that nobody can read among them. Stored pipelines
    stay, and the next run finds them."""
    user.demo(10)
    assert recorded(user) == [".run"]
    (user.store / "runs" / "0-0.run").write_bytes(b"\xff\0")
    done = user.pylayer("rm", "--all", "--history", "--yes")
    assert done.returncode == 0 and "Remove recorded runs and timelines: 2 files, " in done.stdout
    assert "The store was" not in done.stdout  # its size is that of pipelines
    assert recorded(user) == []
    assert "Nothing to remove" in user.pylayer("rm", "--all", "--history", "--yes").stdout
    user.demo(10)
    (program,) = user.json("stats")["programs"]
    assert (program["runs"], program["hits"], program["compiled"]) == (1, 10, 0)


def test_forget_a_program(user: User) -> None:
    """A name removes the runs of that program alone, and a pattern those of several. With --dry-run, it only says what
    would go."""
    write_run(user)
    write_run(user, started=2.0)
    write_run(user, program="tool (game)", executable="tool", application="game")
    told = "emove recorded runs and timelines of game: 2 files, "
    assert told in user.pylayer("rm", "game", "--history", "--dry-run").stdout and len(recorded(user)) == 3
    assert told in user.pylayer("rm", "game", "--history", "--yes").stdout
    assert [one["program"] for one in user.json("stats")["programs"]] == ["tool (game)"]
    for application in ("A", "B"):
        write_run(user, program=f"game ({application})", application=application)
    assert "game names 2 programs: game (A) (" in user.fails("rm", "game", "--yes", status=2)
    told = "Remove recorded runs and timelines of game (A), game (B): 2 files, "
    assert told in user.pylayer("rm", "game (*", "--yes").stdout and len(recorded(user)) == 1


def test_forget_while_running(user: User) -> None:
    """Files of a program that is running stay, and a line says so."""
    write_run(user, started=time.time(), process=owner.this_process(), ended=0.0)
    write_run(user, program="tool", executable="tool")
    assert "Kept: 1 run of programs that are running." in user.says("rm", "--all", "--history", "--yes")
    assert recorded(user) == [".run"] and user.json("stats")["programs"][0]["program"] == "game"
    done = user.pylayer("rm", "--all", "--history", "--yes").stdout
    assert done == "Kept: 1 run of programs that are running.\nThere is nothing else to remove.\n"


def test_all_of_a_program(user: User) -> None:
    """Without an option that chooses, a program's pipelines, runs, recordings and blocks go, and nothing of another. An
    identity's beginning names a driver, whose pipelines and runs go."""
    user.demo(4)
    stores.Store(user.store).file(".verdict", ("pipelines", "pipelines"), stores.verdict())
    other = stores.Store(user.store, stores.OLD_DRIVER)
    other.journal(stores.TOOL, stores.cell(1, identity=stores.OLD_DRIVER))
    write_run(user, program="tool", executable="tool")
    done = user.pylayer("rm", "pipelines", "--yes").stdout
    assert "Remove recorded runs and timelines of pipelines: 1 file, " in done and "Remove 1 block:\n" in done
    assert "Remove recordings for pylayer rebuild of pipelines: 1 file, " in done
    assert re.findall("^  remove (.*): ", done, re.M) == ["pipelines"]
    assert len(other.loaded(stores.TOOL)) == 1 and recorded(user) == [".run"] and not list(user.store.glob("state/*"))
    done = user.pylayer("rm", stores.OLD_DRIVER.name[:8], "--yes").stdout
    assert re.findall("; identity (.*)\n", done) == [stores.OLD_DRIVER.name]
    assert user.pylayer("rm", "--all", "--yes").returncode == 0 and recorded(user) == []


# ---- trim ----------------------------------------------------------------------------------------


def aged(store: Store, first: int, count: int, days: int) -> Path:
    """Writes a journal of a run that compiled these pipelines so many days ago."""
    numbers = range(first, first + count)
    return store.journal(GAME, *(cell(number, 0) for number in numbers), stores.used(list(numbers), NOW - days * DAY))


def test_least_recently_used(user: User) -> None:
    """trim --max-size evicts what was used least recently, also where journals wait to be compacted: the uses that they
    record count."""
    store = Store(user.store)
    for run in range(1, 11):
        aged(store, 10 * run, 12, 100 - run)
    store.know(TOOL, b"what the tool read")
    size = str(len(range(10, 112)) * 1000 * 9 // 10)
    evicted = re.search(r"Evicted: (\d+) records and 0 files\.", user.pylayer("trim", "--max-size", size).stdout)
    assert evicted and 5 < int(evicted[1]) < 40
    assert store.loaded(GAME) == list(range(10 + int(evicted[1]), 112))


#: Fills a disk that has the store, and runs commands there. Prints what the first says to standard error. In a user
#: namespace the user is root, whose group is nobody's private one (umask 002).
FULL_DISK = """
mount -t tmpfs -o size=$SIZE,mode=0700 none "$DISK" || exit 77
cp -r "$STORE/." "$DISK/" && chmod -R go-w "$DISK" || exit 77
dd if=/dev/zero of="$DISK/filler" bs=1k 2>/dev/null
dd if=/dev/zero of="$DISK/filler2" bs=1 count=4096 2>/dev/null
export PYLAYER_STORE="$DISK"
"$PYTHON" -m pylayer trim --max-size "$LIMIT" >&2
"$PYTHON" -m pylayer ls --verify --json; echo ","
"$PYTHON" -m pylayer ls --json
"""


def on_a_full_disk(user: User, tmp_path: Path, size: str, limit: str) -> tuple[str, Any, Any]:
    """Copies the store to a disk, fills that, and returns what `trim`, `verify` and `ls` print there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    variables = {"SIZE": size, "LIMIT": limit, "DISK": str(disk), "STORE": str(user.store), "PYTHON": sys.executable}
    started = user.process((), **variables)
    started["args"] = ["unshare", "-rm", "sh", "-c", FULL_DISK]
    done = subprocess.run(**started, capture_output=True, timeout=120)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    assert "Traceback" not in done.stderr
    return (done.stderr, *json.loads(f"[{done.stdout}]"))


@pytest.mark.parametrize("packs", [0, 1])
def test_full_disk(user: User, tmp_path: Path, packs: int) -> None:
    """On a disk without a free block trim deletes what is evicted as a whole, and then has the space to compact the
    rest. What was used last stays. If there is nothing but one pack, and no space to write it without what is evicted,
    it is deleted: the user asked for the space."""
    store = Store(user.store)
    if packs:
        store.journal(GAME, *(cell(number, NOW - number) for number in range(300)))
        store.pack()
    else:
        for run in range(1, 21):
            aged(store, 20 * run, 20, 100 - run)
    trimmed, verified, listed = on_a_full_disk(user, tmp_path, "400k" if packs else "600k", "200K")
    assert "That is more than" not in trimmed and verified["fine"]
    programs = listed["identities"][0]["programs"]
    if packs:
        assert "Evicted: 300 records" in trimmed and programs == []
    else:
        assert "Not compacted" not in trimmed
        assert [(100 < one["pipelines"] < 200, one["files"]) for one in programs] == [(True, 1)]


# ---- what is beside the pipelines ------------------------------------------------------------------


def test_everything_has_a_bound(user: User) -> None:
    """trim deletes what killed commands left, compiled policy files and plans beyond their limits, and what is
    remembered of fleets that nobody asked for half a year. ls shows all of it, and rm --all removes the copies."""
    Store(user.store)
    for folder, suffix, count in (("policy", ".flat", 70), ("plans", ".plan", 1001)):
        (user.store / folder).mkdir(mode=0o700)
        for number in range(count):
            path = user.store / folder / f"{number:032x}{suffix}"
            path.write_bytes(b"x")
            os.utime(path, (NOW - DAY + number, NOW - DAY + number))
    dead = f"{owner._MAKER.pack(*owner.this_process()[:1], 1 << 22, *owner.this_process()[2:]).hex()}-{'0' * 16}.tmp"
    for path in (
        user.store / f"scratch.{dead}" / "store" / "x.pack",
        user.store / "fleet" / ("0" * 16) / f"{'1' * 32}.index",
    ):
        path.parent.mkdir(parents=True, mode=0o700)
        path.write_bytes(bytes(5000))
    for path in (user.store / "fleet").rglob("*"):
        os.utime(path, (NOW - 200 * DAY, NOW - 200 * DAY))
    (user.store / "mine.tmp").touch()
    shown = user.pylayer("ls").stdout
    assert all(folder in shown for folder in ("plans", "policy", "fleet"))
    assert user.pylayer("trim").returncode == 0
    left = {folder: len(os.listdir(user.store / folder)) for folder in ("policy", "plans", "fleet")}
    assert left == {"policy": 48, "plans": 750, "fleet": 0}
    assert (user.store / "policy" / f"{69:032x}.flat").exists() and (user.store / "mine.tmp").exists()
    assert not list(user.store.glob(f"*.{dead}"))
    removed = user.pylayer("rm", "--pipelines", "--all", "--yes").stdout
    assert "Remove decisions and compiled policies: 798 files, " in removed
    assert os.listdir(user.store / "policy") == os.listdir(user.store / "plans") == []
