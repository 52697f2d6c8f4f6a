"""``pylayer rm``: of a program, of a driver, of all; and ``--history``: what was recorded about programs that ran."""

from __future__ import annotations

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
    assert user.json("rm", "game", "--history", "--dry-run")["others"] == {"history": 2} and len(recorded(user)) == 3
    assert user.json("rm", "game", "--history", "--yes")["left"] == []
    assert [one["program"] for one in user.json("stats")["programs"]] == ["tool (game)"]


def test_forget_one_of_several(user: User) -> None:
    """A name that several programs have is refused; a pattern removes them all."""
    for application in ("A", "B"):
        write_run(user, program=f"game ({application})", application=application)
    done = user.pylayer("rm", "game", "--yes")
    assert done.returncode == 2 and "game names 2 programs: game (A) (" in done.stderr and len(recorded(user)) == 2
    assert user.json("rm", "game*", "--yes")["others"]["history"] == 2 and recorded(user) == []


def test_forget_while_running(user: User) -> None:
    """Files of a program that is running stay, and a line says so."""
    write_run(user, started=time.time(), process=owner.this_process(), ended=0.0)
    write_run(user, program="tool", executable="tool")
    done = user.pylayer("rm", "--all", "--history", "--yes")
    assert done.returncode == 0 and "Kept: 1 run of programs that are running." in done.stdout
    assert recorded(user) == [".run"] and user.json("stats")["programs"][0]["program"] == "game"


def test_all_of_a_program(user: User) -> None:
    """Without an option that chooses, a program's pipelines, runs, recordings and blocks go, and nothing of another. An
    identity's beginning names a driver, whose pipelines and runs go."""
    user.demo(4)
    stores.Store(user.store).file(".verdict", ("pipelines", "pipelines"), stores.verdict())
    other = stores.Store(user.store, stores.OLD_DRIVER)
    other.journal(stores.TOOL, stores.cell(1, identity=stores.OLD_DRIVER))
    write_run(user, program="tool", executable="tool")
    done = user.json("rm", "pipelines", "--yes")
    assert done["others"]["history"] == 1 and done["others"]["recordings"] > 0 and done["blocks"] == 1
    assert [program for one in done["removed"] for program in one["programs"]] == ["pipelines"]
    assert len(other.loaded(stores.TOOL)) == 1 and recorded(user) == [".run"] and not list(user.store.glob("state/*"))
    assert [one["identity"] for one in user.json("rm", stores.OLD_DRIVER.name[:8], "--yes")["removed"]] == [
        stores.OLD_DRIVER.name
    ]
    assert user.pylayer("rm", "--all", "--yes").returncode == 0 and recorded(user) == []
