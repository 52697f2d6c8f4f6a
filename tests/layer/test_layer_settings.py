"""Layer settings from VK_EXT_layer_settings, vk_layer_settings.txt and variables, and which take precedence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from others import give_away, open_to_group
from world import BUILD, LAYER_NAME, World

PREFIX = "pylayer_pipeline_cache."


#: Nothing here depends on the driver, but for the tests that take ``real``.
QUICK = True


def run(world: World, *settings: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Runs a program that passes these settings itself: layer, name, type and value of each. The log says which are in
    force. The program only creates a device, so it runs again if policy takes longer to start than vkCreateDevice
    waits."""
    environment = {"PYLAYER_LOG": "info", **environment}
    for _ in range(20):
        done = world.run([str(BUILD / "tests" / "layer_settings"), *settings], **environment)
        if "policy gave no plan" not in done.stderr:
            break
    return done


def in_force(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the settings that the log lists, or an empty string."""
    start = "pylayer: info: layer settings: "
    lines = [line.removeprefix(start) for line in done.stderr.splitlines() if line.startswith(start)]
    assert len(lines) <= 1
    return lines[0].replace(" is ", "=") if lines else ""


def refused(done: subprocess.CompletedProcess[str]) -> list[str]:
    start = "pylayer: warn: layer setting "
    return [line.removeprefix(start) for line in done.stderr.splitlines() if line.startswith(start)]


def settings_file(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def home_file(world: World) -> Path:
    return world.directory / "home" / ".local" / "share" / "vulkan" / "settings.d" / "vk_layer_settings.txt"


# ---- variables -----------------------------------------------------------------------------------


def test_variable(world: World) -> None:
    """A variable with the layer's name and a setting's name changes that setting."""
    world.demo("--count", 2, VK_PYLAYER_PIPELINE_CACHE_CARRIER="snapshot")
    run = world.runs()[-1]
    assert (run["carrier"], run["reason"]) == ("snapshot", "chosen by the policy file or a layer setting")
    world.demo("--count", 2)
    assert world.runs()[-1]["carrier"] == "cells"


def test_shorter_variables(world: World) -> None:
    """A variable's name may omit the vendor, or the layer's whole name. The longer name takes precedence. An empty
    variable is ignored."""
    short = {"VK_CARRIER": "off", "VK_QUEUE_MIB": "2", "VK_ADOPT_DRIVER_CACHE": "false", "VK_PIPELINE_CACHE_STORE": ""}
    middle = {"VK_PIPELINE_CACHE_CARRIER": "snapshot", "VK_PIPELINE_CACHE_QUEUE_MIB": "3"}
    long = {"VK_PYLAYER_PIPELINE_CACHE_CARRIER": "cells"}
    found = in_force(run(world, **short, **middle, **long))
    assert sorted(found.split(", ")) == ["adopt_driver_cache=false", "carrier=cells", "queue_mib=3"]


def test_variables_of_others(world: World) -> None:
    """An unknown setting is reported only if the variable has the layer's whole name. Other variables may belong to
    others."""
    done = run(world, VK_LOADER_DEBUG="", VK_ICD="x", VK_PIPELINE_CACHE_FOO="1", VK_PYLAYER_PIPELINE_CACHE_CARIER="off")
    assert refused(done) == ["carier from an environment variable does not exist; it is not used"]
    assert in_force(done) == ""


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("adopt_driver_cache", "0", "adopt_driver_cache=false"),
        ("adopt_driver_cache", "On", "adopt_driver_cache=true"),
        ("queue_mib", "0x10", "queue_mib=16"),
        ("load_wait_ms", "2.5", "load_wait_ms=2.5"),
        ("load_wait_ms", "7", "load_wait_ms=7"),
        ("fsync_interval_ms", "null", "fsync_interval_ms=null"),
        ("application_caches", "CHECK", "application_caches=check"),
    ],
)
def test_values(world: World, name: str, value: str, found: str) -> None:
    """Values are written as for other layers."""
    assert in_force(run(world, **{f"VK_PYLAYER_PIPELINE_CACHE_{name.upper()}": value})) == found


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("carrier", "fast", "auto, cells, binaries, snapshot, "),
        ("adopt_driver_cache", "maybe", "true, false"),
        ("queue_mib", "0", "a whole number from 1 to 4096"),
        ("queue_mib", "1.5", "a whole number from 1 to 4096"),
        ("queue_mib", "9" * 300, "a whole number from 1 to 4096"),
        ("load_wait_ms", "nan", "a number from 0 to 60000"),
        ("fsync_interval_ms", "-1", "a number from 0 to 3600000, or null"),
        ("log_level", "loud", "off, error, warn, info, debug"),
    ],
)
def test_wrong_values(world: World, name: str, value: str, allowed: str) -> None:
    """A wrong value is not used, and one line says what is allowed; the program runs."""
    (line,) = refused(run(world, **{f"VK_PYLAYER_PIPELINE_CACHE_{name.upper()}": value}))
    assert line.startswith(f"{name} from an environment variable is ") and f"; allowed: {allowed}" in line
    assert line.endswith("; it is not used")


# ---- the file ------------------------------------------------------------------------------------


def test_file_in_the_working_directory(world: World) -> None:
    """vk_layer_settings.txt in the working directory is used. Comments, spaces and other layers' lines are ignored. If
    a setting has two lines, the last one counts."""
    settings_file(
        world.directory / "vk_layer_settings.txt",
        "# a comment",
        "khronos_validation.carrier = off",
        f"{PREFIX}carrier = off",
        f"  {PREFIX}carrier\t=  snapshot   # not auto\r",
        f"{PREFIX}queue_mib = ",
        "nonsense",
        "=",
        f"{PREFIX} = x",
    )
    done = run(world)
    assert in_force(done) == "carrier=snapshot" and refused(done) == []


def test_which_file(world: World) -> None:
    """The user's settings directory takes precedence over VK_LAYER_SETTINGS_PATH, a file or a directory, and that over
    the working directory. Only one file is used."""
    settings_file(
        world.directory / "vk_layer_settings.txt", f"{PREFIX}queue_mib = 2", f"{PREFIX}adopt_driver_cache = false"
    )
    named = settings_file(world.directory / "elsewhere" / "mine.txt", f"{PREFIX}queue_mib = 3")
    settings_file(named.with_name("vk_layer_settings.txt"), f"{PREFIX}queue_mib = 4")
    assert in_force(run(world)) == "queue_mib=2, adopt_driver_cache=false"
    assert in_force(run(world, VK_LAYER_SETTINGS_PATH=str(named))) == "queue_mib=3"
    assert in_force(run(world, VK_LAYER_SETTINGS_PATH="elsewhere")) == "queue_mib=4"
    missing = str(named.with_name("missing"))
    assert in_force(run(world, VK_LAYER_SETTINGS_PATH=missing)) == "queue_mib=2, adopt_driver_cache=false"
    data = world.directory / "data"
    settings_file(data / "vulkan" / "settings.d" / "vk_layer_settings.txt", f"{PREFIX}queue_mib = 6")
    settings_file(home_file(world), f"{PREFIX}queue_mib = 5")
    assert in_force(run(world, VK_LAYER_SETTINGS_PATH=str(named))) == "queue_mib=5"
    assert in_force(run(world, XDG_DATA_HOME=str(data))) == "queue_mib=6"


def test_what_the_working_directory_may_not_set(world: World) -> None:
    """A file in the working directory can switch off no check and name no code and no path. If the user names the same
    file, it can switch checks off."""
    path = settings_file(
        world.directory / "vk_layer_settings.txt",
        f"{PREFIX}application_caches = pass",
        f"{PREFIX}application_binaries = pass",
        f"{PREFIX}policy = evil:Evil",
        f"{PREFIX}policy_path = /tmp",
        f"{PREFIX}trusted_keys = x",
        f"{PREFIX}carrier = snapshot",
    )
    done = run(world)
    assert in_force(done) == "carrier=snapshot"
    assert [line.split(" ")[0] for line in refused(done)] == [
        "application_caches",
        "application_binaries",
        "policy",
        "policy_path",
        "trusted_keys",
    ]
    named = run(world, VK_LAYER_SETTINGS_PATH=str(path))
    assert in_force(named) == "application_caches=pass, application_binaries=pass, carrier=snapshot"
    assert [line.split(" ")[0] for line in refused(named)] == ["policy", "policy_path", "trusted_keys"]


@pytest.mark.parametrize("fault", ["stranger", "group", "directory", "pipe"])
def test_file_of_others(world: World, fault: str) -> None:
    """A file that another user could have written is not used, and one line says so."""
    path = settings_file(world.directory / "elsewhere" / "vk_layer_settings.txt", f"{PREFIX}carrier = off")
    if fault == "stranger":
        give_away(path)
    elif fault == "group":
        open_to_group(path)
    elif fault == "directory":
        path.parent.chmod(0o777)
    else:
        path.unlink()
        os.mkfifo(path)
    done = run(world, VK_LAYER_SETTINGS_PATH=str(path))
    assert in_force(done) == ""
    (line,) = [line for line in done.stderr.splitlines() if str(path) in line]
    assert line.startswith("pylayer: warn: ") and "is not used: another user could have written it" in line


def test_file_that_is_too_long(world: World) -> None:
    """A file larger than 1 MiB is not used. Of a file with too many settings, those that fit are used."""
    path = settings_file(world.directory / "vk_layer_settings.txt", f"{PREFIX}carrier = off", "#" * (1 << 20))
    done = run(world)
    assert in_force(done) == "" and "larger than 1 MiB" in done.stderr
    settings_file(path, f"{PREFIX}carrier = off", *(f"{PREFIX}setting_{number} = 1" for number in range(1000)))
    done = run(world)
    assert in_force(done) == "carrier=off" and "too many layer settings" in done.stderr


def test_defaults_in_a_file_say_nothing(world: World) -> None:
    """vkconfig writes every setting. Those with their default value do not override the policy file."""
    world.environment |= world.policy("settings: {carrier: snapshot, adopt_driver_cache: false}\n")
    settings_file(
        home_file(world), f"{PREFIX}carrier = auto", f"{PREFIX}adopt_driver_cache = true", f"{PREFIX}queue_mib = 7"
    )
    assert in_force(run(world)) == "queue_mib=7"
    world.demo("--count", 1)
    assert world.runs()[-1]["carrier"] == "snapshot"
    world.demo("--count", 1, VK_PYLAYER_PIPELINE_CACHE_CARRIER="auto")
    assert world.runs()[-1]["carrier"] == "cells"


# ---- VK_EXT_layer_settings -------------------------------------------------------------------------


def test_extension(world: World) -> None:
    """The layer lists VK_EXT_layer_settings, and an instance can enable it. Older loaders (1.3.239) do not know the
    extension and pass it on only with this variable."""
    done = run(world, "enable", LAYER_NAME, "queue_mib", "int", "2", VK_LOADER_DISABLE_INST_EXT_FILTER="1")
    assert done.stdout == "VK_EXT_layer_settings 2\n"
    assert in_force(done).startswith("queue_mib=2")


def test_settings_of_the_application(world: World) -> None:
    """Values of every type are used, but only for this layer. Of two settings with one name the first counts."""
    done = run(
        world,
        *(LAYER_NAME, "adopt_driver_cache", "bool", "false"),
        *(LAYER_NAME, "queue_mib", "int", "2"),
        *(LAYER_NAME, "binaries_mib", "long", "3"),
        *(LAYER_NAME, "keep_cache_mib", "unsigned", "4"),
        *(LAYER_NAME, "timeline_mib", "size", "5"),
        *(LAYER_NAME, "load_wait_ms", "float", "6.5"),
        *(LAYER_NAME, "answer_wait_ms", "double", "7.25"),
        *(LAYER_NAME, "carrier", "text", "snapshot"),
        *(LAYER_NAME, "carrier", "text", "off"),
        *("VK_LAYER_KHRONOS_validation", "driver_cache", "text", "replace"),
    )
    expected = ["adopt_driver_cache=false", "queue_mib=2", "binaries_mib=3", "keep_cache_mib=4", "timeline_mib=5"]
    expected += ["load_wait_ms=6.5", "answer_wait_ms=7.25", "carrier=snapshot"]
    assert in_force(done) == ", ".join(f"{part} unless the policy file sets it" for part in expected)
    assert refused(done) == []


def test_wrong_settings_of_the_application(world: World) -> None:
    """Invalid names and values, several values, line ends and overlong text are each refused in one line."""
    done = run(
        world,
        *(LAYER_NAME, "carrier", "text", "cells,off"),
        *(LAYER_NAME, "queue_mib", "int", "-1"),
        *(LAYER_NAME, "a=b\nenvironment carrier", "text", "off"),
        *(LAYER_NAME, "driver_cache", "text", "replace\nenvironment carrier=off"),
        *(LAYER_NAME, "store", "text", "x" * 5000),
        *(LAYER_NAME, "load_wait_ms", "double", "1e300"),
    )
    lines = refused(done)
    assert len(lines) == 6 and all("from the application (VK_EXT_layer_settings)" in line for line in lines)
    assert in_force(done) == "" and all(len(line) < 400 for line in lines)


# ---- precedence ---------------------------------------------------------------------------


def test_precedence(real: World) -> None:
    """In rising precedence: the application, the policy file's settings, its rules, vk_layer_settings.txt,
    variables."""
    asked = (LAYER_NAME, "carrier", "text", "off")

    def carrier(*settings: str, **environment: str) -> str:
        line = next(line for line in run(real, *settings, **environment).stderr.splitlines() if "): carrier " in line)
        return line.partition("): carrier ")[2].partition(",")[0].split(" ")[0]

    assert carrier() == "cells"
    assert carrier(*asked) == "off"
    real.environment |= real.policy("settings: {carrier: snapshot}\n")
    assert carrier(*asked) == "snapshot"
    rules = "rules: [{match: {executable: layer*}, set: {carrier: cells}}]\n"
    real.environment |= real.policy(f"settings: {{carrier: snapshot}}\n{rules}")
    assert carrier(*asked) == "cells"
    settings_file(home_file(real), f"{PREFIX}carrier = snapshot")
    assert carrier(*asked) == "snapshot"
    assert carrier(*asked, VK_CARRIER="cells") == "cells"


def test_kept_plans_know_them(world: World) -> None:
    """A plan made with layer settings is not used without them, nor with others."""
    values = (None, "off", None, "snapshot", "off")
    for value in values:
        world.demo("--count", 1, VK_PYLAYER_PIPELINE_CACHE_CARRIER=value)
    assert [run["carrier"] for run in world.runs()] == [value or "cells" for value in values]


# ---- the log's level -----------------------------------------------------------------------------------


def test_log_level(world: World) -> None:
    """log_level replaces PYLAYER_LOG if that is not set, also with PYLAYER_LOG_FILE."""
    quiet: dict[str, str | None] = {"PYLAYER_LOG": None}
    assert run(world, **quiet).stderr.count("pylayer") == 0
    assert "carrier cells" in run(world, **quiet, VK_PYLAYER_PIPELINE_CACHE_LOG_LEVEL="info").stderr
    assert "carrier cells" in run(world, LAYER_NAME, "log_level", "text", "info", **quiet).stderr
    log = world.directory / "log"
    done = run(world, **quiet, VK_PYLAYER_PIPELINE_CACHE_LOG_LEVEL="info", PYLAYER_LOG_FILE=str(log))
    assert "pylayer" not in done.stderr and "carrier cells" in log.read_text()
    asked = (LAYER_NAME, "log_level", "text", "info")
    assert "pylayer" not in run(world, *asked, **quiet, VK_PYLAYER_PIPELINE_CACHE_LOG_LEVEL="off").stderr
    assert "pylayer" not in run(world, *asked, PYLAYER_LOG="error").stderr


def test_skipped_process_reads_none(world: World) -> None:
    """In a process that a skip rule leaves alone, the layer reads no settings."""
    settings_file(world.directory / "vk_layer_settings.txt", f"{PREFIX}log_level = debug", f"{PREFIX}x = 1")
    world.environment |= world.policy("skip: [{executable: layer_settings}]\n")
    run(world)
    assert "layer setting " not in run(world).stderr
