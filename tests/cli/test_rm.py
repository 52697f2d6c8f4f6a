"""``pylayer rm``: of a program, of a driver, of all; and ``--history``: what was recorded about programs that ran."""

from __future__ import annotations

import re
import time

from cli import stores
from cli.test_stats import write_run
from cli.user import User

from pylayer.common import owner


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
    """A name removes the runs of that program alone. With --dry-run, it only says what would go."""
    write_run(user)
    write_run(user, started=2.0)
    write_run(user, program="tool (game)", executable="tool", application="game")
    told = "emove recorded runs and timelines of game: 2 files, "
    assert told in user.pylayer("rm", "game", "--history", "--dry-run").stdout and len(recorded(user)) == 3
    assert told in user.pylayer("rm", "game", "--history", "--yes").stdout
    assert [one["program"] for one in user.json("stats")["programs"]] == ["tool (game)"]


def test_forget_one_of_several(user: User) -> None:
    """A name that several programs have is refused; a pattern removes them all."""
    for application in ("A", "B"):
        write_run(user, program=f"game ({application})", application=application)
    done = user.pylayer("rm", "game", "--yes")
    assert done.returncode == 2 and "game names 2 programs: game (A) (" in done.stderr and len(recorded(user)) == 2
    told = "Remove recorded runs and timelines of game (A), game (B): 2 files, "
    assert told in user.pylayer("rm", "game*", "--yes").stdout and recorded(user) == []


def test_forget_while_running(user: User) -> None:
    """Files of a program that is running stay, and a line says so."""
    write_run(user, started=time.time(), process=owner.this_process(), ended=0.0)
    write_run(user, program="tool", executable="tool")
    done = user.pylayer("rm", "--all", "--history", "--yes")
    assert done.returncode == 0 and "Kept: 1 run of programs that are running." in done.stdout
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
