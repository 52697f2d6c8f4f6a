"""Skip rules as the layer's C decides them: as Python does, whatever patterns, names and compiled copies are."""

from __future__ import annotations

import random
import struct
import subprocess
from typing import Any

import pytest
import xxhash
from world import BUILD

from pylayer import flat
from pylayer.layer_settings import parse
from pylayer.paths import program_name
from pylayer.settings import glob_matches, is_skipped
from pylayer.values import Program

NO, YES, UNDECIDED = "0", "1", "2"

#: Letters whose lower case is one letter, several, or depends on the place; and what is no letter.
LETTERS = "aAbB*?. äÄßẞßİıIiσςΣЖжǅǆ\u0130\u212a\u1e9e\U00010400\U00010428\0\n%\u4e2d\U0001f600"


def answers(*commands: tuple[str, *tuple[bytes, ...]]) -> list[str]:
    """What tests/rules/rules.c says to each."""
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
        if glob_matches(pattern.decode("utf-8", "replace"), text.decode("utf-8", "replace")) != (matches == "1")
    ]


def words(source: random.Random, letters: str, longest: int) -> bytes:
    return "".join(source.choices(letters, k=source.randrange(longest))).encode()


def test_globs_alike() -> None:
    """Generated patterns match the same generated texts in both, any case, any letters."""
    source = random.Random(6)
    cases = [(words(source, "aB*?*", 8), words(source, "aAb", 10)) for _ in range(20000)]
    cases += [(words(source, LETTERS, 6), words(source, LETTERS, 6)) for _ in range(20000)]
    assert disagreements(cases) == []
    assert {glob_matches(pattern.decode(), text.decode()) for pattern, text in cases} == {True, False}


def test_globs_of_what_is_no_text() -> None:
    """Names that are not UTF-8, or end inside a letter, are the same text in both."""
    source = random.Random(7)
    pieces = [bytes([byte]) for byte in (0, 65, 97, 0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF)]
    pieces += ["ä".encode(), "中".encode()[:2], "\U0001f600".encode()[:3], b"\xe0\xa0", b"\xed\xa0\x80", b"\xf4\x90"]
    cases = []
    for _ in range(20000):
        text = b"".join(source.choices(pieces, k=source.randrange(6)))
        marks = "".join(source.choices(("?", "*", "\ufffd", "a"), k=source.randrange(6))).encode()
        cases += [(marks, text), (text, text)]
    assert disagreements(cases) == []


NAMES = ["python3.11", "pypy", "wine64-preloader", "wineserver", "java", "java-17", "luajit2.1", "node", "ruby3."]
NAMES += ["perl", "qemu-x86_64", "qemu-system-x86", "ld-linux-x86-64.so.2", "demo", "javac", "python", "", "é\xff"]
ARGUMENTS = [b"", b"-c", b"-e", b"-O", b"--", b"/opt/x/run.py", b"C:\\Games\\Game.exe", b"game.EXE", b".exe"]
ARGUMENTS += [b"a/", b"\xff/\xc3"]


def test_names_alike() -> None:
    """Both give a program the same name, for interpreters, Wine and any command line."""
    source = random.Random(8)
    cases = []
    for _ in range(5000):
        line = b"\0".join(source.choices(ARGUMENTS, k=source.randrange(5))) + source.choice((b"", b"\0"))
        cases.append((source.choice(NAMES).encode(), line))
    found = answers(*(("n", name, line) for name, line in cases))
    for (name, line), answer in zip(cases, found, strict=True):
        expected = program_name(name.decode(), line.split(b"\0"))
        assert bytes.fromhex(answer).decode("utf-8", "replace") == expected, (name, line)


def copy_of(document: dict[str, Any]) -> bytes:
    """As ``compiled.write_copy`` writes it."""
    return sealed(flat.dumps(document).encode())


def sealed(body: bytes) -> bytes:
    return xxhash.xxh3_128_hexdigest(body).encode() + b"\n" + body


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
    """Generated lists of rules, with what else stands in a policy file, skip the same processes in both."""
    source = random.Random(9)

    def rules() -> list[dict[str, str]]:
        return [
            {
                name: source.choice(("a", "B*", "*", "?", "%", "x\ny", "ä", "", "100%25"))
                for name in source.sample(("executable", "application", "engine"), source.randrange(1, 4))
            }
            for _ in range(source.randrange(4))
        ]

    cases = []
    for _ in range(5000):
        document: dict[str, Any] = {"share": "all", "settings": {"carrier": "off"}}
        for key in source.sample(("skip", "never_skip"), source.randrange(3)):
            document[key] = rules()
        document["rules"] = [{"match": {"executable": "skip.[0.executable=s:*"}, "set": {}}]
        of = program(*(source.choice(("a", "B", "bC", "%", "x\ny", "Ä", "", "100%25")) for _ in range(3)))
        cases.append((document, of, source.random() < 0.5))
    found = answers(*(ask(copy_of(document), of, built_in) for document, of, built_in in cases))
    for (document, of, built_in), answer in zip(cases, found, strict=True):
        assert answer == (YES if is_skipped(document, of, built_in) else NO), (document, of, built_in)
    assert set(found) == {NO, YES}


def test_damaged_copies_decide_nothing() -> None:
    """A copy with any bit changed, cut anywhere or with bytes behind it decides nothing."""
    good = copy_of({"skip": [{"executable": "a"}], "never_skip": [{"executable": "b*", "engine": "x"}]})
    damaged = [good[:size] for size in range(len(good))] + [good + b"\0", good + good, b"", b"\0" * 64]
    for at in range(8 * len(good)):
        flipped = bytearray(good)
        flipped[at // 8] ^= 1 << at % 8
        damaged.append(bytes(flipped))
    found = answers(ask(good, program("a"), False), *(ask(copy, program("a"), True) for copy in damaged))
    assert found[0] == YES
    assert set(found[1:]) == {UNDECIDED}


@pytest.mark.parametrize(
    "line",
    [
        b"skip=s:all",
        b"skip",
        b"skip.executable=s:a",
        b"skip.[.executable=s:a",
        b"skip.[0",
        b"skip.[0.executable=i:1",
        b"skip.[0.vendor=i:1",
        b"skip.[x.executable=s:a",
        b"skip.[0.executable=s:%41",
        b"skip.[0.executable=s:%",
        b"skip.[0.executable=s:%2",
        b"never_skip.[0=d:",
        b"skipped=b:1",
    ],
)
def test_copies_that_policy_does_not_write(line: bytes) -> None:
    """A copy with a right digest and a line that is none of ours decides nothing."""
    assert answers(ask(sealed(line + b"\n"), program("a"), True)) == [UNDECIDED]
    assert answers(ask(sealed(b"share=s:all\n" + line), program("a"), True)) == [UNDECIDED]


def test_copies_at_random() -> None:
    """Copies with a right digest and made of anything are read without an error, and no longer than they are."""
    source = random.Random(10)
    pieces = [b"skip", b"never_skip", b".[", b"0", b"1", b".", b"executable=s:", b"engine=s:", b"=l:", b"\n"]
    pieces += [b"%25", b"%", b"*", b"a", b"\xff", b"\0", b"=", b"s:"]
    copies = [sealed(b"".join(source.choices(pieces, k=source.randrange(30)))) for _ in range(20000)]
    found = answers(*(ask(copy, program("a*"), source.random() < 0.5) for copy in copies))
    assert set(found) == {NO, YES, UNDECIDED}


def test_settings_at_random() -> None:
    """Files and variables of layer settings are read the same way whatever is in them: lines that are whole, of one
    source and key each, and no longer than there is room."""
    source = random.Random(11)
    pieces = [b"pylayer_pipeline_cache.", b"carrier", b"queue_mib", b"=", b" ", b"\n", b"#", b"\r", b"\0", b"x" * 300]
    pieces += [b"\xff", b"VK_", b"PYLAYER_PIPELINE_CACHE_", b"CARRIER", b"environment a=b", b"\x1b[31m"]
    cases = []
    for _ in range(5000):
        file = b"".join(source.choices(pieces, k=source.randrange(60)))
        variable = b"VK_PYLAYER_PIPELINE_CACHE_CARRIER=" * source.randrange(2) + source.choice(pieces)
        cases.append(("s", file, variable.replace(b"\0", b"")))
    found = [bytes.fromhex(answer) for answer in answers(*cases)]
    for (_, file, variable), text in zip(cases, found, strict=True):
        lines = text.decode("utf-8", "replace").split("\n")
        assert lines.pop() == "" and len(text) <= 8192
        for line in lines:
            start, _, rest = line.partition(" ")
            assert start in ("file", "environment") and "=" in rest and rest.isprintable(), (file, variable)
            assert len(rest.encode()) <= 64 + 1 + 3 * 256
        parse(text.decode("utf-8", "replace"))
    assert any(found)
