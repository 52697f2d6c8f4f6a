"""``pylayer forget``: what was recorded about programs that ran is removed, and nothing else."""

from __future__ import annotations

from cli.test_stats import write_run
from cli.test_top import write_run as write_running
from cli.user import User
from recorded_runs import pipeline


def recorded(user: User) -> list[str]:
    return sorted(path.suffix for path in user.store.glob("runs/*"))


def test_forget_all(user: User) -> None:
    """--all removes the runs and timelines of all programs, files that nobody can read among them. Stored pipelines
    stay, and the next run finds them."""
    user.demo(10)
    assert recorded(user) == [".events", ".run"]
    (user.store / "runs" / "0-0.run").write_bytes(b"\xff\0")
    (user.store / "runs" / "0-0.events").write_bytes(b"")
    done = user.pylayer("forget", "--all", "--yes")
    assert done.returncode == 0 and done.stdout.startswith("Forgotten: 1 run of 1 program, ")
    assert recorded(user) == []
    assert "Nothing to forget" in user.pylayer("forget", "--all", "--yes").stdout
    user.demo(10)
    (program,) = user.json("stats")["programs"]
    assert (program["runs"], program["hits"], program["compiled"]) == (1, 10, 0)


def test_forget_a_program(user: User) -> None:
    """A name removes the runs of that program alone. With --dry-run, it only says what would go."""
    write_run(user)
    write_run(user, started=2.0)
    write_run(user, program="tool (game)", executable="tool", application="game")
    assert user.json("forget", "game", "--dry-run")["runs"] == 2 and len(recorded(user)) == 3
    assert user.json("forget", "game", "--yes")["programs"] == ["game"]
    assert [one["program"] for one in user.json("stats")["programs"]] == ["tool (game)"]


def test_forget_one_of_several(user: User) -> None:
    """A name that several programs have is refused; a pattern removes them all."""
    for application in ("A", "B"):
        write_run(user, program=f"game ({application})", application=application)
    done = user.pylayer("forget", "game", "--yes")
    assert done.returncode == 2 and "game names 2 programs: game (A) (" in done.stderr and len(recorded(user)) == 2
    assert user.json("forget", "game*", "--yes")["runs"] == 2 and recorded(user) == []


def test_forget_while_running(user: User) -> None:
    """Files of a program that is running stay, and a line says so."""
    write_running(user, pipeline(0, 1))
    write_run(user, program="tool", executable="tool")
    done = user.pylayer("forget", "--all", "--yes")
    assert done.returncode == 0 and "Kept: 1 run of programs that are running." in done.stdout
    assert recorded(user) == [".events", ".run"] and user.json("top")["programs"][0]["program"] == "game"


def test_wrong_use(user: User) -> None:
    """A name or --all must say what to forget, and somebody or --yes must agree."""
    write_run(user)
    for arguments in ((), ("game", "--all"), ("game",)):
        done = user.pylayer("forget", *arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, arguments
    done = user.pylayer("forget", "nobody", "--yes")
    assert done.returncode == 1 and "no run of nobody" in done.stderr and recorded(user) == [".run"]


def test_clear_keeps_the_list(user: User) -> None:
    """clear --all says that it keeps the list of what ran."""
    user.demo(4)
    assert "Kept: the list of what ran (pylayer forget --all)" in user.pylayer("clear", "--all", "--yes").stdout
    assert recorded(user) == [".events", ".run"]
