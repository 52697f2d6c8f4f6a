"""The system's store in the commands: how root fills it, and what users see of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.user import User
from others import open_to_all


@pytest.fixture
def system(user: User, tmp_path: Path) -> Path:
    """Fills the system's store with pipelines of another machine, as docs/containers.md says. Returns its root."""
    directory = tmp_path / "builder"
    directory.mkdir()
    builder = User(directory, "test")
    builder.demo(5)
    assert builder.pylayer("export", "app.pylayer", "--app", "pipelines").returncode == 0
    root = Path(user.environment["PYLAYER_SYSTEM_STORE"])
    done = user.pylayer("import", builder.directory / "app.pylayer", PYLAYER_STORE=str(root))
    assert done.returncode == 0, done.stderr
    return root


def doctor(user: User) -> dict[str, str] | None:
    checks = {check["name"]: check for check in user.json("doctor")["checks"]}
    return checks.get("system store")


def test_a_user_compiles_nothing(user: User, system: Path) -> None:
    """A user's first run compiles nothing, and stats says so. ls names the system's store, which ls and verify read as
    any store."""
    user.demo(5)
    (total,) = user.json("stats")["programs"]
    assert (total["hits"], total["compiled"]) == (5, 0)
    assert f"PYLAYER_STORE={system} pylayer ls\n" in user.pylayer("ls").stdout
    listed = user.json("ls", PYLAYER_STORE=str(system))["identities"]
    assert [program["pipelines"] for partition in listed for program in partition["programs"]] == [5]
    assert user.pylayer("ls", "--verify", PYLAYER_STORE=str(system)).returncode == 0


def test_doctor(user: User, system: Path) -> None:
    """doctor counts the packs that this user can use, and names one that it cannot, with what to do. Its trial programs
    do not use them."""
    found = doctor(user)
    assert found and (found["status"], found["found"]) == ("ok", f"{system}: 1 pack can be used")
    (pack,) = system.glob("store/*/*.pack")
    open_to_all(pack)
    found = doctor(user)
    assert found and found["status"] == "warning" and str(pack) in found["found"]
    assert found["found"].startswith(f"{system}: 0 packs can be used, not ") and "chmod" in found["advice"]
    system.rename(system.parent / "gone")
    assert doctor(user) is None
