"""Programs as hypothesis draws them: lines for build/tests/recipes.

Most lines are drawn without regard to those before: that program skips what would be invalid, so that shrinking may
take out any line. So that much of what is drawn also runs, slots are few and lines come in idioms, the sequences that
programs have: save and load a cache, link libraries, ask by identifier before compiling, capture and reuse binaries.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

#: Lines of one program behind `device`.
MAX_CALLS = 50

Line = str
Draw = Callable[[st.SearchStrategy], object]

FEATURES = ("control", "maintenance5", "binaries", "identifiers", "libraries", "rays", "robustness")
#: Rarely asked for: each changes what all others may do.
SELDOM = ("no-internal-cache", "separate", "executables", "allocator")

COMPUTE = ("comp0", "comp1")
VERTEX = ("vert0", "vert1")
FRAGMENT = ("frag0", "frag1")
SHADERS = (*COMPUTE, *VERTEX, *FRAGMENT, "rgen0", "miss0", "hit0")
FORMS = ("whole", "whole", "truncated", "below", "header", "corrupted", "foreign")
AMOUNTS = ("", "", "", "query", "zero", "header", "less", "half")
PARTS = ("input", "vertex", "fragment", "output")


def slot(letter: str, count: int) -> st.SearchStrategy[str]:
    return st.integers(0, count - 1).map(lambda number: f"{letter}{number}")


PIPELINES = slot("P", 6)
CACHES = slot("C", 3)
DATA = slot("D", 2)
BINARIES = slot("B", 3)
BINARY_DATA = slot("X", 2)
CACHE_OR_NONE = st.one_of(st.just("-"), CACHES)


def words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def sometimes(draw: Draw, word: str, of: int = 4) -> str:
    """The word once in so many times; shrinks to nothing."""
    return word if draw(st.integers(0, of - 1)) == of - 1 else ""


@st.composite
def device(draw: Draw) -> Line:
    """Most programs have most features; each is missing in some."""
    wanted = [name for name in FEATURES if draw(st.integers(0, 7)) < 7]
    return words("device rendering subgroups", *wanted, *(sometimes(draw, name) for name in SELDOM))


@st.composite
def options(draw: Draw, compute: bool = False, flags: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> str:
    """What any element may have: constants, where the code is from, flags, feedback and what hangs on it."""
    code = draw(st.sampled_from(("inline", "inline", "inline", "inline", "module", "id", "garbage")))
    # Identifiers alone are valid only where nothing may be compiled.
    needed = ("fail",) if code in ("id", "garbage") else ()
    drawn = (sometimes(draw, name, of) for name, of in FLAGS)
    chosen = dict.fromkeys(name for name in (*flags, *needed, *drawn) if name and name not in never)
    subgroup = draw(st.sampled_from(("", "", "subgroup=32", "subgroup=64"))) if compute else ""
    return words(
        f"from={code}",
        f"spec={draw(st.integers(0, 2))}" if draw(st.booleans()) else "",
        f"flags={','.join(chosen)}" if chosen else "",
        draw(st.sampled_from(("", "feedback=pipeline", "feedback=stages"))),
        draw(st.sampled_from(("", "", "", "", "", "", "robust=pipeline", "robust=stage"))),
        subgroup,
        sometimes(draw, "flags2"),
        sometimes(draw, "unknown", 8),
        sometimes(draw, "reversed", 8),
    )


#: Each with how seldom it is.
FLAGS = (("fail", 3), ("early", 6), ("allow", 4), ("noopt", 8), ("capture", 12), ("statistics", 16))


@st.composite
def base(draw: Draw) -> str:
    """Of a derivative: mostly none."""
    if draw(st.integers(0, 7)) < 6:
        return ""
    return f"base={draw(st.one_of(PIPELINES, st.sampled_from(('#0', '#1', '#2'))))}"


@st.composite
def element(draw: Draw, point: str) -> str:
    """One pipeline of a call, by itself."""
    name = draw(PIPELINES)
    if draw(st.integers(0, 9)) == 9:
        return words(name, f"binaries={draw(BINARIES)}", draw(st.sampled_from(("", "feedback=stages"))))
    if point == "compute":
        what = words(f"shader={draw(st.sampled_from(COMPUTE))}", draw(options(compute=True)))
    elif point == "graphics":
        what = words(draw(raster()), draw(options()))
    else:
        what = draw(ray_stages())
    return words(name, what, draw(base()))


@st.composite
def raster(draw: Draw) -> str:
    return words(
        f"vert={draw(st.sampled_from(VERTEX))}",
        f"frag={draw(st.sampled_from(FRAGMENT))}",
        draw(st.sampled_from(("pass=dynamic", "pass=plain"))),
        sometimes(draw, "strip"),
        sometimes(draw, "blend"),
    )


def ray_library_options() -> st.SearchStrategy[str]:
    """RADV crashes where it links a library without optimization that it found in a cache."""
    return options(flags=("library",), never=("noopt",))


@st.composite
def ray_stages(draw: Draw) -> str:
    library = draw(st.booleans())
    stages = ("rgen,miss,hit", "miss,hit", "hit", "rgen") if library else ("rgen,miss,hit", "rgen", "rgen,miss")
    link = f"link={draw(PIPELINES)}" if draw(st.integers(0, 3)) == 3 else ""
    code = draw(ray_library_options() if library else options())
    return words(f"shaders={draw(st.sampled_from(stages))}", link, code)


@st.composite
def batch(draw: Draw) -> list[Line]:
    """One call that creates one to four pipelines."""
    point = draw(st.sampled_from(("compute", "compute", "graphics", "graphics", "rays")))
    elements = draw(st.lists(element(point), min_size=1, max_size=draw(st.sampled_from((1, 1, 2, 4)))))
    deferred = sometimes(draw, "deferred", 3) if point == "rays" else ""
    return [words(point, draw(CACHE_OR_NONE), deferred, ": " + " / ".join(elements))]


@st.composite
def again(draw: Draw) -> list[Line]:
    """The same pipeline twice, perhaps not allowed to compile before, between or after."""
    point = draw(st.sampled_from(("compute", "graphics", "rays")))
    if point == "compute":
        what = f"shader={draw(st.sampled_from(COMPUTE))}"
    elif point == "graphics":
        what = draw(raster())
    else:
        what = "shaders=rgen,miss,hit"
    common = words(what, "from=inline", f"spec={draw(st.integers(0, 2))}", "feedback=stages")
    lines = []
    for _ in range(draw(st.integers(2, 4))):
        flags = draw(st.sampled_from(("", "flags=fail", "flags=fail", "flags=fail,early", "flags=allow")))
        lines.append(words(point, draw(CACHE_OR_NONE), ":", draw(PIPELINES), common, flags))
        if draw(st.integers(0, 3)) == 3:
            lines.append(f"unpipeline {draw(PIPELINES)}")
    return lines


@st.composite
def graphics_libraries(draw: Draw) -> list[Line]:
    """Four parts and what is linked from them, fast and optimized."""
    what = draw(raster())
    common = words(what, draw(options(flags=("library", *(("retain",) if draw(st.booleans()) else ())))))
    numbers = draw(st.permutations(range(4)))
    elements = [f"P{number} part={part} {common}" for number, part in zip(numbers, PARTS, strict=True)]
    cache = draw(CACHE_OR_NONE)
    if draw(st.booleans()):
        lines = [f"graphics {cache} : {' / '.join(elements)}"]
    else:
        lines = [f"graphics {cache} : {one}" for one in elements]
    for _ in range(draw(st.integers(1, 3))):
        lines.append(draw(link()))
    return lines


@st.composite
def link(draw: Draw) -> Line:
    flags = [name for name, of in (("lto", 2), ("fail", 3), ("early", 8), ("allow", 4)) if sometimes(draw, name, of)]
    return words(
        "graphics",
        draw(CACHE_OR_NONE),
        ":",
        draw(st.sampled_from(("P4", "P5"))),
        "link=P0,P1,P2,P3",
        f"flags={','.join(flags)}" if flags else "",
        draw(st.sampled_from(("", "feedback=pipeline"))),
    )


@st.composite
def ray_libraries(draw: Draw) -> list[Line]:
    common = draw(options())
    deferred = sometimes(draw, "deferred", 3)
    cache = draw(CACHE_OR_NONE)
    library = draw(ray_library_options())
    return [
        words("rays", cache, deferred, ":", f"P0 shaders=miss,hit {library}"),
        words("rays", draw(CACHE_OR_NONE), deferred, ":", f"P1 shaders=rgen link=P0 {common}"),
    ]


@st.composite
def identified(draw: Draw) -> list[Line]:
    """By identifier first, as translation layers do, and with the code where that was refused."""
    name = draw(st.sampled_from(COMPUTE))
    cache = draw(CACHE_OR_NONE)
    spec = f"spec={draw(st.integers(0, 2))}"
    where = draw(st.sampled_from(("from=module", "from=inline")))
    by_identifier = f"compute {cache} : P0 shader={name} from=id {spec} flags=fail feedback=stages"
    return [
        f"module {name}",
        f"identify {name}",
        by_identifier,
        f"compute {cache} : P1 shader={name} {where} {spec}",
        by_identifier.replace("P0", "P2"),
    ]


@st.composite
def captured(draw: Draw) -> list[Line]:
    """Capture, read, release, feed back, create from it: each step may be left out."""
    pipeline, binary, data = draw(PIPELINES), draw(BINARIES), draw(BINARY_DATA)
    point = draw(st.sampled_from(("compute", "graphics", "rays")))
    what = {
        "compute": f"shader={draw(st.sampled_from(COMPUTE))}",
        "graphics": draw(raster()),
        "rays": "shaders=rgen,miss,hit",
    }[point]
    lines = [
        f"{point} - : {pipeline} {what} from=inline flags=capture feedback=stages",
        f"key {pipeline}",
        words("binaries", binary, f"pipeline={pipeline}", draw(st.sampled_from(("", "", "count", "few")))),
        words("bindata", data, binary, draw(st.sampled_from(("", "", "query", "less")))),
        f"release {pipeline}",
        f"unbinaries {binary}",
        f"binaries {binary} data={data}",
        f"{point} - : {draw(PIPELINES)} binaries={binary} feedback=stages",
    ]
    return [one for one in lines if draw(st.integers(0, 7)) < 7]


@st.composite
def looked_up(draw: Draw) -> list[Line]:
    """The driver's own cache asked for binaries."""
    pipeline, binary = draw(PIPELINES), draw(BINARIES)
    return [
        words("binaries", binary, f"info={pipeline}", draw(st.sampled_from(("", "", "count", "few")))),
        words("bindata", draw(BINARY_DATA), binary),
    ]


@st.composite
def cache_with_data(draw: Draw) -> list[Line]:
    """What a program saved, loaded."""
    data = draw(DATA)
    return [
        words("read", data, draw(CACHES), draw(st.sampled_from(AMOUNTS))),
        words("cache", draw(CACHES), f"data={data}", f"form={draw(st.sampled_from(FORMS))}"),
    ]


@st.composite
def merged(draw: Draw) -> list[Line]:
    """Caches filled by each other's way, merged, and asked for what came from both."""
    one = f"compute C0 : P0 shader=comp0 from=inline spec={draw(st.integers(0, 2))}"
    other = words("graphics C1 : P1", draw(raster()), "from=inline")
    target, data = draw(CACHES), draw(DATA)
    sources = [name for name in ("C0", "C1", "C2") if name != target]
    again = [line.replace("C0", target).replace("C1", target) + " flags=fail feedback=stages" for line in (one, other)]
    return [
        one,
        other,
        words("merge", target, *draw(st.permutations(sources))),
        *again,
        words("read", data, target, draw(st.sampled_from(AMOUNTS))),
        words("cache", draw(CACHES), f"data={data}", sometimes(draw, "external")),
    ]


@st.composite
def one_line(draw: Draw) -> list[Line]:
    name = draw(st.sampled_from(SHADERS))
    sources = draw(st.lists(CACHES, min_size=1, max_size=3))
    return [
        draw(
            st.sampled_from(
                (
                    words("cache", draw(CACHES), sometimes(draw, "external")),
                    f"uncache {draw(CACHES)}",
                    words("merge", draw(CACHES), *sources),
                    words("read", draw(DATA), draw(CACHES), draw(st.sampled_from(AMOUNTS))),
                    f"module {name}",
                    f"unmodule {name}",
                    f"identify {name}",
                    f"unpipeline {draw(PIPELINES)}",
                    f"key {draw(PIPELINES)}",
                    "globalkey",
                    f"release {draw(PIPELINES)}",
                    f"unbinaries {draw(BINARIES)}",
                )
            )
        )
    ]


IDIOMS = (
    batch(),
    batch(),
    batch(),
    again(),
    again(),
    graphics_libraries(),
    ray_libraries(),
    identified(),
    captured(),
    looked_up(),
    cache_with_data(),
    cache_with_data(),
    merged(),
    one_line(),
    one_line(),
    one_line(),
)


@st.composite
def programs(draw: Draw) -> list[Line]:
    """A whole program, `device` first. Caches are there from the beginning in most."""
    opening = [f"cache C{number}" for number in range(3) if draw(st.integers(0, 7)) < 7]
    idioms = draw(st.lists(st.one_of(*IDIOMS), min_size=draw(st.sampled_from((0, 4, 8))), max_size=16))
    lines = [line for idiom in idioms for line in idiom]
    return [draw(device()), *[*opening, *lines][:MAX_CALLS]]
