"""Names of programs, skip rules and trusted files: what the layer's C says of them is what Python says, whatever the
patterns, names, compiled copies and files are."""

from __future__ import annotations

import itertools
import os
import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from world import BUILD

from pylayer.cli.status import NAME_ROOM, program_name
from pylayer.common import paths
from pylayer.common.compiled import skip_line
from pylayer.common.settings import glob_matches, is_skipped
from pylayer.values import Program

NO, YES, UNDECIDED = "0", "1", "2"

#: Letters of one to four bytes, in both cases, and characters that are no letters.
LETTERS = "aAbBzZ@[`{*?. äÄ\u4e2d\U00010400\U00010428\0\n%\U0001f600"


def answers(*commands: tuple[str, *tuple[bytes, ...]]) -> list[str]:
    """Returns the answer of tests/fuzz/rules.c to each command."""
    text = b"".join(
        letter.encode() + b"".join(struct.pack("<I", len(part)) + part for part in parts) for letter, *parts in commands
    )
    done = subprocess.run([str(BUILD / "tests" / "rules")], input=text, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    found = done.stdout.decode().split("\n")[:-1]
    assert len(found) == len(commands)
    return found


def disagreements(cases: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    found = answers(*(("g", pattern, text) for pattern, text in cases))
    return [
        (pattern, text)
        for (pattern, text), matches in zip(cases, found, strict=True)
        if glob_matches(pattern.decode(), text.decode()) != (matches == "1")
    ]


def words(source: random.Random, letters: str, longest: int) -> bytes:
    return "".join(source.choices(letters, k=source.randrange(longest))).encode()


def test_globs_alike() -> None:
    """Generated patterns match the same generated texts in C and in Python, with A to Z in either case and with other
    characters."""
    source = random.Random(6)
    cases = [(words(source, "aB*?*", 8), words(source, "aAb", 10)) for _ in range(20000)]
    cases += [(words(source, LETTERS, 6), words(source, LETTERS, 6)) for _ in range(20000)]
    assert disagreements(cases) == []
    assert {glob_matches(pattern.decode(), text.decode()) for pattern, text in cases} == {True, False}


#: Lines of /proc/PID/maps: an access, an offset, and a path.
LINE = "140000000-140001000 {} {:08x} fe:00 5595573                          {}"


def lines(*mapped: str) -> list[str]:
    """Returns lines that map these files as Wine maps what it runs: the header private, and then some section."""
    pairs = ((LINE.format("r--p", 0, path), LINE.format("r-xp", 4096, path)) for path in mapped)
    return [line for pair in pairs for line in pair]


UNIX = "/usr/lib/wine/x86_64-unix/ntdll.so"
EXPLORER = "/usr/lib/wine/x86_64-windows/explorer.exe"
GAME, OTHER = "/g/a b/Game64.exe", "/g/crash/Handler.exe"
#: Names for one process: its executable, command line and maps.
NAMES: list[tuple[str, list[str], list[str], str]] = [
    ("wine64", ["Z:\\g\\Game64.exe", "-novid"], lines(GAME, UNIX), "Game64.exe"),
    ("wine64-preloader", ["game64", "-novid", "map1"], lines(GAME, UNIX), "Game64.exe"),
    ("wine-preloader", ["map1"], lines(GAME, UNIX), "Game64.exe"),
    ("wine", [], lines(GAME), "Game64.exe"),
    ("wine-10.2 (Staging)", ["-x"], lines(GAME), "Game64.exe"),
    ("wineloader64", ["game64"], lines(GAME), "Game64.exe"),
    # A loader of another name.
    ("loader", ["Z:\\g\\GAME64.EXE"], lines(GAME), "Game64.exe"),
    ("loader", ["game64"], lines(GAME), "loader"),
    # Programs of Wine's own, before Wine 6 too.
    ("wine64", ["C:\\windows\\system32\\explorer.exe", "/desktop"], lines(EXPLORER, UNIX), "explorer.exe"),
    ("wine64", ["winecfg"], lines("/usr/lib/wine/winecfg.exe.so"), "winecfg.exe"),
    # What is called so, or else the first.
    ("wine64", ["Z:\\g\\game64.EXE"], lines(OTHER, GAME), "Game64.exe"),
    ("wine64", ["map1"], lines(GAME, OTHER), "Game64.exe"),
    # What is only read: shared, or not from its first byte.
    ("wine64", ["x"], [LINE.format("r--s", 0, OTHER), LINE.format("r--p", 512, OTHER), *lines(GAME)], "Game64.exe"),
    ("wine64", ["Z:\\g\\game64.exe"], [LINE.format("r--s", 0, GAME)], "game64.exe"),
    ("wine64", ["map1"], lines(f"{GAME} (deleted)"), "Game64.exe"),
    ("wine64", ["map1"], lines("/g/two\\012lines/Game 2.EXE"), "Game 2.EXE"),
    ("wine64", ["map1"], lines("/g/Mein ä.exe"), "Mein ä.exe"),
    # Without .exe, what the command line calls so.
    ("wine64", ["game.bin"], lines(UNIX, "/g/game.bin"), "game.bin"),
    # The command line alone.
    ("wine64-preloader", ["C:\\Games\\Stutter\\Stutter.EXE", "-dx12"], [], "Stutter.EXE"),
    ("wine64-preloader", ["/usr/bin/wine64", "Z:\\g\\game.exe"], lines(UNIX), "game.exe"),
    ("wine64-preloader", ["wine.exe"], [], "wine.exe"),
    ("wine64", [], [], "wine64"),
    ("wine64", ["", "--"], ["", "x", "1 2 3 4 5", "- rwxp 0 /a.exe"], "wine64"),
    # Programs that only begin so.
    ("winery", ["winery", "map1"], lines(GAME), "winery"),
    ("wineserver", ["wineserver", "-f"], [], "wineserver"),
    ("Wine Game", ["./Wine Game"], lines(OTHER), "Wine Game"),
    ("mono", ["mono", "Game.exe"], lines("/g/Game.exe"), "mono"),
    ("game.exe", ["/tmp/x/game.exe"], lines("/tmp/x/game.exe"), "game.exe"),
]  # fmt: skip
#: Those without maps.
NAMES += [
    (executable, command_line, [], name)
    for executable, command_line, name in [
        ("blender", ["anything"], "blender"),
        ("luanti", ["luanti", "--go", "world"], "luanti"),
        ("python3.11", ["python", "/opt/tool/train.py", "x"], "python3.11 train.py"),
        ("python3.11", ["python", "-I", "-m", "app"], "python3.11 app"),
        ("python3.11", ["python", "-c", "import this\nprint('/x')"], "python3.11 -c"),
        ("python3.11", ["python"], "python3.11"),
        ("python3.11", [], "python3.11"),
        ("node", ["node", "--flag", "", "app.js"], "node app.js"),
        ("nodemon", ["nodemon", "app.js"], "nodemon"),
        ("perl5.36", ["perl", "-e", "print 1"], "perl5.36 -e"),
        ("java", ["java", "-Xmx1g", "-jar", "/g/game.jar"], "java game.jar"),
        ("qemu-x86_64-static", ["qemu-x86_64-static", "/usr/bin/vkcube"], "qemu-x86_64-static vkcube"),
        ("qemu-system-x86_64", ["qemu-system-x86_64", "disk.img"], "qemu-system-x86_64"),
        ("ld-linux-x86-64.so.2", ["ld-linux-x86-64.so.2", "/usr/bin/vkcube"], "ld-linux-x86-64.so.2 vkcube"),
        ("python3", ["python3", "caf\udce9.py"], "python3 caf\ufffd.py"),
    ]
]


#: Long ones, and bytes that are no UTF-8: U+FFFD in what people see.
NAMES += [
    ("wine64", ["map1"], lines("/g/caf\udce9\udcff.exe"), "caf\ufffd\ufffd.exe"),
    ("wine64", ["C:\\\u6e38\u620f\\\u6e38\u620f.EXE"], [], "\u6e38\u620f.EXE"),
    # Only A to Z have two cases.
    ("wine64", ["Z:\\g\\mein \u00c4.EXE"], lines(OTHER, "/g/Mein \u00c4.exe"), "Mein \u00c4.exe"),
    ("wine64", ["Z:\\g\\mein \u00c4.exe"], lines(OTHER, "/g/Mein \u00e4.exe"), "Handler.exe"),
    ("\u00e9\x01\tgame", ["x"], [], "\u00e9\x01\tgame"),
    ("g" * 255, ["x"], [], "g" * 255),
    ("wine64", ["x" * 100_000, "y" * 100_000], lines(GAME), "Game64.exe"),
    ("python3", ["python3", "run.py", "y" * 200_000], [], "python3 run.py"),
    ("python3", ["python3", "z" * 9000], [], f"python3 {'z' * 9000}"[: NAME_ROOM - 1]),
    ("", [], [], ""),
]


def process(at: Path, executable: bytes, command_line: bytes, maps: bytes) -> str:
    """Writes a process's directory as /proc has it. Returns the name of its program, on which the layer under
    sanitizers and the command agree."""
    at.mkdir(exist_ok=True)
    (at / "exe").unlink(missing_ok=True)
    os.symlink(b"/usr/bin/" + executable, bytes(at / "exe"))
    (at / "cmdline").write_bytes(command_line)
    (at / "maps").write_bytes(maps)
    return program_name(str(at))


@pytest.mark.parametrize(("executable", "command_line", "maps", "name"), NAMES)
def test_program_name(tmp_path: Path, executable: str, command_line: list[str], maps: list[str], name: str) -> None:
    """A Windows program's name is its .exe, and an interpreter's includes its script. Other programs have the name of
    their executable, whatever their arguments."""
    line = b"".join(os.fsencode(argument) + b"\0" for argument in command_line)
    mapped = b"".join(os.fsencode(one) + b"\n" for one in maps)
    assert process(tmp_path, os.fsencode(executable), line, mapped) == name
    (answer,) = answers(("n", bytes(tmp_path), b""))
    assert bytes.fromhex(answer).decode("utf-8", "replace") == name


def copy_of(document: dict[str, Any]) -> bytes:
    """Returns a compiled copy as ``compiled.write_copy`` writes it."""
    return sealed(f"{skip_line(document)}\nshare=s:all\n".encode())


def sealed(body: bytes) -> bytes:
    return xxhash.xxh3_128_digest(body) + body


def program(executable: str, application: str = "", engine: str = "") -> Program:
    return Program(
        api_version=0,
        application=application,
        application_version=0,
        engine=engine,
        engine_version=0,
        executable=executable,
    )


def ask(copy: bytes, of: Program, built_in: bool) -> tuple[str, *tuple[bytes, ...]]:
    names = (of.executable.encode(), of.application.encode(), of.engine.encode())
    return ("c", b"1" if built_in else b"", *names, copy)


def test_rules_alike() -> None:
    """Generated rules skip the same processes in C and in Python."""
    source = random.Random(9)

    def rules() -> list[dict[str, str]]:
        return [
            {
                name: source.choice(
                    ("a", "B*", "*", "?", "%", "ä", "", "100%25", "wine* *", "WINE64 c.exe", "*-p* c*", "w*")
                )
                for name in source.sample(("executable", "application", "engine"), source.randrange(1, 4))
            }
            for _ in range(source.randrange(4))
        ]

    cases = []
    for _ in range(5000):
        document: dict[str, Any] = {}
        for key in source.sample(("skip", "never_skip"), source.randrange(3)):
            document[key] = rules()
        of = program(
            *(source.choice(("a", "B", "bC", "%", "x\ny", "Ä", "", "100%25", "c.EXE", "c.exe")) for _ in range(3))
        )
        cases.append((document, of, source.random() < 0.5))
    found = answers(*(ask(copy_of(document), of, built_in) for document, of, built_in in cases))
    for (document, of, built_in), answer in zip(cases, found, strict=True):
        assert answer == (YES if is_skipped(document, of, built_in) else NO), (document, of, built_in)
    assert set(found) == {NO, YES}


def test_damaged_copies_decide_nothing() -> None:
    """A copy with any bit changed, cut anywhere, or with bytes appended decides nothing."""
    good = copy_of({"skip": [{"executable": "a"}], "never_skip": [{"executable": "b*", "engine": "x"}]})
    damaged = [good[:size] for size in range(len(good))] + [good + b"\0", good + good, b"", b"\0" * 64]
    for at in range(8 * len(good)):
        flipped = bytearray(good)
        flipped[at // 8] ^= 1 << at % 8
        damaged.append(bytes(flipped))
    found = answers(ask(good, program("a"), False), *(ask(copy, program("a"), True) for copy in damaged))
    assert found[0] == YES
    assert set(found[1:]) == {UNDECIDED}


@pytest.mark.parametrize("pattern", ["x\ny", "\n", "x\0"])
def test_patterns_that_only_policy_reads(pattern: str) -> None:
    """C leaves the decision to policy if a pattern has what ends patterns and rules in a copy."""
    copy = copy_of({"skip": [{"executable": "a"}, {"application": pattern}]})
    assert answers(ask(copy, program("a"), True)) == [UNDECIDED]


@pytest.mark.parametrize(
    "line", [b"x", b"s", b"sa", b"sa\0", b"sa\0*\0", b"sa\0*\0*", b"sa\0*\0*\0x", b"na\0*\0*\0s", b"\0", b"?"]
)
def test_copies_that_policy_does_not_write(line: bytes) -> None:
    """A copy with a valid digest and rules that policy does not write, or without their end, decides nothing."""
    assert answers(ask(sealed(line + b"\n"), program("a"), True)) == [UNDECIDED]
    assert answers(ask(sealed(b"sa\0*\0*\0"), program("a"), True)) == [UNDECIDED]


# ---- Trusted files: process/trusted.c and common/paths.py ----------------------------------------


NOBODY = 65534
DIRECTORY_MODES = (0o700, 0o755, 0o775, 0o777, 0o1777, 0o2775)
FILE_MODES = (0o600, 0o644, 0o664, 0o646, 0o666)
#: User and group of a file or directory; -1: as it is. Others need root.
OWNERS = ((-1, -1), (NOBODY, NOBODY), (0, NOBODY))


def opens(call: Callable[[str], Any], path: Path) -> str:
    try:
        found = call(str(path))
    except OSError:
        return "0"
    if isinstance(found, int):
        os.close(found)
    return "1"


def own_file(path: str) -> bytes:
    return paths.read_own_file(path, 1)


def directory(path: str) -> int:
    return paths.open_directory(path, follow=False)


def link(path: Path) -> None:
    target = path.with_name(f"{path.name}.target")
    target.touch()
    path.symlink_to(target)


MAKES: dict[str, Callable[[Path], None]] = {
    "file": Path.touch,
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "link": link,
}


@pytest.mark.parametrize("as_root", [False, pytest.param(True, marks=pytest.mark.root)])
def test_alike(tmp_path: Path, as_root: bool) -> None:
    """Whatever the kind, the owner and the mode of a file, of its directory and of links to both: what one believes,
    the other does."""
    owners = OWNERS if as_root else OWNERS[:1]
    commands: list[tuple[str, bytes, bytes]] = []
    wanted: list[str] = []

    def compare(letter: str, call: Callable[[str], Any], path: Path, part: bytes = b"", name: bytes = b"") -> None:
        commands.append((letter, part or os.fsencode(path), name))
        wanted.append(opens(call, path))

    for number, (mode, owner) in enumerate(itertools.product(DIRECTORY_MODES, owners)):
        place, link = tmp_path / f"{number}", tmp_path / f"{number}.link"
        place.mkdir()
        link.symlink_to(place)
        for kind, each, whose in itertools.product(MAKES, FILE_MODES, owners):
            path = place / f"{kind}-{each:o}-{whose[0]}"
            MAKES[kind](path)
            path.chmod(each)
            os.chown(path, *whose, follow_symlinks=False)
        for path in (*sorted(place.iterdir()), place / "absent"):
            place.chmod(mode)
            os.chown(place, *owner)
            compare("o", own_file, path)
            compare("o", own_file, link / path.name)
            compare("i", paths.open_in_store, path, os.fsencode(place), os.fsencode(path.name))
            compare("i", paths.open_in_store, link / path.name, os.fsencode(link), os.fsencode(path.name))
        for path in (place, link, place / "absent"):
            compare("r", paths.require_own, path)
            compare("d", directory, path)
    found = answers(*commands)
    differ = [(command, want, got) for command, want, got in zip(commands, wanted, found, strict=True) if want != got]
    assert differ == []
    assert set(wanted) == {"0", "1"} and len(wanted) > 600
