"""Programs as hypothesis draws them: lines for build/tests/recipes.

Most lines are drawn without regard to those before: that program skips what would be invalid, so that shrinking may
take out any line. So that much of what is drawn also runs, slots are few and lines come in idioms, the sequences that
programs have: save and load a cache, link libraries, ask by identifier before compiling, capture and reuse binaries.

Lines are templates: {P} is one of the set P below, {one|other} one of these words, {P:name} the same wherever the name
stands again in an idiom, and {early/6} is there once in so many times.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

#: Lines of one program behind `device`.
MAX_CALLS = 50

Line = str
Draw = Callable[[st.SearchStrategy], object]

FEATURES = ("control", "maintenance5", "binaries", "identifiers", "libraries", "rays", "robustness")
PARTS = ("input", "vertex", "fragment", "output")
#: What a place can hold, more often if it stands here more often.
SETS = {
    "P": ("P0", "P1", "P2", "P3", "P4", "P5"),
    "C": ("C0", "C1", "C2"),
    "D": ("D0", "D1"),
    "B": ("B0", "B1", "B2"),
    "X": ("X0", "X1"),
    "cache": ("-", "{C}"),
    "more": ("", "{C}", "{C} {C}"),
    "spec": ("spec={0|1|2}",),
    "compute": ("shader={comp0|comp1}",),
    "raster": ("vert={vert0|vert1} frag={frag0|frag1} {pass=dynamic|pass=plain} {strip/4} {blend/4}",),
    "rays": ("shaders=rgen,miss,hit",),
    "any shader": ("comp0", "comp1", "vert0", "vert1", "frag0", "frag1", "rgen0", "miss0", "hit0"),
    "form": ("whole", "whole", "truncated", "below", "header", "corrupted", "foreign"),
    "amount": ("", "", "", "query", "zero", "header", "less", "half"),
    "feedback": ("", "feedback=pipeline", "feedback=stages"),
    "robust": ("", "", "", "", "", "", "robust=pipeline", "robust=stage"),
    # Of a derivative: mostly none.
    "base": (*[""] * 6, "base={P}", "base=#{0|1|2}"),
}
PLACE = re.compile(r"\{([^{}/:]*)(?::(\w+))?(?:/(\d+))?\}")


def fill(draw: Draw, text: str, known: dict[str, str] | None = None) -> str:
    """Returns the text with something in each of its places. ``known``: what the names stand for."""
    known = {} if known is None else known

    def one(match: re.Match[str]) -> str:
        what, name, seldom = match.groups()
        if name in known:
            return known[name]
        if seldom and draw(st.integers(1, int(seldom))) < int(seldom):
            return ""
        value = fill(draw, str(draw(st.sampled_from(SETS.get(what, what.split("|"))))), known)
        if name:
            known[name] = value
        return value

    return " ".join(PLACE.sub(one, text).split())


@st.composite
def idiom(draw: Draw, *lines: str, kept: int = 0) -> list[Line]:
    """These lines; with ``kept``, each is left out once in so many times."""
    known: dict[str, str] = {}
    return [fill(draw, line, known) for line in lines if not kept or draw(st.integers(1, kept)) < kept]


@st.composite
def device(draw: Draw) -> Line:
    """Most programs have most features; each is missing in some. Of the last each changes what all others may do."""
    wanted = [name for name in FEATURES if draw(st.integers(0, 7)) < 7]
    seldom = "{no-internal-cache/4} {separate/4} {executables/4} {allocator/4}"
    return fill(draw, f"device rendering subgroups {' '.join(wanted)} {seldom}")


@st.composite
def options(draw: Draw, compute: bool = False, flags: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> str:
    """What any element may have: constants, where the code is from, flags, feedback and what hangs on it."""
    code = draw(st.sampled_from(("inline", "inline", "inline", "inline", "module", "id", "garbage")))
    # Identifiers alone are valid only where nothing may be compiled.
    needed = ("fail",) if code in ("id", "garbage") else ()
    drawn = fill(draw, "{fail/3} {early/6} {allow/4} {noopt/8} {capture/12} {statistics/16}").split()
    chosen = ",".join(dict.fromkeys(name for name in (*flags, *needed, *drawn) if name not in never))
    subgroup = "{||subgroup=32|subgroup=64}" if compute else ""
    given = f"flags={chosen}" if chosen else ""
    more = f"{{feedback}} {{robust}} {subgroup} {{flags2/4}} {{unknown/8}} {{reversed/8}}"
    return fill(draw, f"from={code} {{spec/2}} {given} {more}")


@st.composite
def element(draw: Draw, point: str) -> str:
    """One pipeline of a call, by itself."""
    if draw(st.integers(0, 9)) == 9:
        return fill(draw, "{P} binaries={B} {|feedback=stages}")
    what = draw(ray_stages()) if point == "rays" else f"{{{point}}} {draw(options(point == 'compute'))}"
    return fill(draw, f"{{P}} {what.replace('{graphics}', '{raster}')} {{base}}")


def ray_library_options() -> st.SearchStrategy[str]:
    """RADV crashes where it links a library without optimization that it found in a cache."""
    return options(flags=("library",), never=("noopt",))


@st.composite
def ray_stages(draw: Draw) -> str:
    library = draw(st.booleans())
    stages = "{rgen,miss,hit|miss,hit|hit|rgen}" if library else "{rgen,miss,hit|rgen|rgen,miss}"
    return f"shaders={stages} {draw(st.sampled_from(('', '', '', 'link={P}')))} " + str(
        draw(ray_library_options() if library else options())
    )


@st.composite
def batch(draw: Draw) -> list[Line]:
    """One call that creates one to four pipelines."""
    point = draw(st.sampled_from(("compute", "compute", "graphics", "graphics", "rays")))
    elements = draw(st.lists(element(point), min_size=1, max_size=draw(st.sampled_from((1, 1, 2, 4)))))
    deferred = "{deferred/3}" if point == "rays" else ""
    return [fill(draw, f"{point} {{cache}} {deferred} : {' / '.join(elements)}")]


#: Each way to create a pipeline, in one line with what it is made of.
CREATED = (
    "compute {cache} : {P} {compute:what}",
    "graphics {cache} : {P} {raster:what}",
    "rays {cache} : {P} {rays:what}",
)


@st.composite
def again(draw: Draw) -> list[Line]:
    """The same pipeline twice, perhaps not allowed to compile before, between or after."""
    line = draw(st.sampled_from(CREATED)) + " from=inline {spec:spec} feedback=stages"
    line += " {|flags=fail|flags=fail|flags=fail,early|flags=allow}"
    destroyed = draw(st.lists(st.integers(0, 3), min_size=2, max_size=4))
    return draw(idiom(*(one for last in destroyed for one in (line, *["unpipeline {P}"] * (last == 3)))))


@st.composite
def graphics_libraries(draw: Draw) -> list[Line]:
    """Four parts and what is linked from them, fast and optimized."""
    retain = ("retain",) if draw(st.booleans()) else ()
    common = f"{{raster:what}} {draw(options(flags=('library', *retain)))}"
    numbers = draw(st.permutations(range(4)))
    elements = [f"P{number} part={part} {common}" for number, part in zip(numbers, PARTS, strict=True)]
    calls = [" / ".join(elements)] if draw(st.booleans()) else elements
    links = [draw(link()) for _ in range(draw(st.integers(1, 3)))]
    return [*draw(idiom(*(f"graphics {{cache:cache}} : {call}" for call in calls))), *links]


@st.composite
def link(draw: Draw) -> Line:
    flags = ",".join(fill(draw, "{lto/2} {fail/3} {early/8} {allow/4}").split())
    given = f"flags={flags}" if flags else ""
    return fill(draw, f"graphics {{cache}} : {{P4|P5}} link=P0,P1,P2,P3 {given} {{|feedback=pipeline}}")


@st.composite
def ray_libraries(draw: Draw) -> list[Line]:
    library, linked = f"P0 shaders=miss,hit {draw(ray_library_options())}", f"P1 shaders=rgen link=P0 {draw(options())}"
    deferred = draw(st.sampled_from(("", "", "deferred")))
    return draw(idiom(*(f"rays {{cache}} {deferred} : {one}" for one in (library, linked))))


#: By identifier first, as translation layers do, and with the code where that was refused.
BY_IDENTIFIER = (
    "compute {cache:cache} : {pipeline} shader={comp0|comp1:name} from=id {spec:spec} flags=fail feedback=stages"
)
IDENTIFIED = idiom(
    "module {comp0|comp1:name}",
    "identify {comp0|comp1:name}",
    BY_IDENTIFIER.replace("{pipeline}", "P0"),
    "compute {cache:cache} : P1 shader={comp0|comp1:name} {from=module|from=inline} {spec:spec}",
    BY_IDENTIFIER.replace("{pipeline}", "P2"),
)
#: Capture, read, release, feed back, create from it.
CAPTURED = [
    idiom(
        f"{point} - : {{P:pipeline}} {{{what}}} from=inline flags=capture feedback=stages",
        "key {P:pipeline}",
        "binaries {B:binary} pipeline={P:pipeline} {||count|few}",
        "bindata {X:data} {B:binary} {||query|less}",
        "release {P:pipeline}",
        "unbinaries {B:binary}",
        "binaries {B:binary} data={X:data}",
        f"{point} - : {{P}} binaries={{B:binary}} feedback=stages",
        kept=8,
    )
    for point, what in (("compute", "compute"), ("graphics", "raster"), ("rays", "rays"))
]
#: The driver's own cache asked for binaries.
LOOKED_UP = idiom("binaries {B:binary} info={P} {||count|few}", "bindata {X} {B:binary}")
#: What a program saved, loaded.
CACHE_WITH_DATA = idiom("read {D:data} {C} {amount}", "cache {C} data={D:data} form={form}")
ONE_LINE = [
    idiom(line)
    for line in (
        "cache {C} {external/4}", "uncache {C}", "merge {C} {C} {more}", "read {D} {C} {amount}", "module {any shader}",
        "unmodule {any shader}", "identify {any shader}", "unpipeline {P}", "key {P}", "globalkey", "release {P}",
        "unbinaries {B}",
    )
]  # fmt: skip


@st.composite
def merged(draw: Draw) -> list[Line]:
    """Caches filled by each other's way, merged, and asked for what came from both."""
    target = draw(st.sampled_from(SETS["C"]))
    sources = draw(st.permutations([name for name in SETS["C"] if name != target]))
    filled = ("compute C0 : P0 shader=comp0 from=inline {spec:spec}", "graphics C1 : P1 {raster:what} from=inline")
    asked = [line.replace("C0", target).replace("C1", target) + " flags=fail feedback=stages" for line in filled]
    saved = f"read {{D:data}} {target} {{amount}}", "cache {C} data={D:data} {external/4}"
    return draw(idiom(*filled, f"merge {target} {' '.join(sources)}", *asked, *saved))


IDIOMS = (
    *[batch()] * 3, *[again()] * 2, graphics_libraries(), ray_libraries(), IDENTIFIED, st.one_of(*CAPTURED), LOOKED_UP,
    *[CACHE_WITH_DATA] * 2, merged(), *[st.one_of(*ONE_LINE)] * 3,
)  # fmt: skip


@st.composite
def programs(draw: Draw) -> list[Line]:
    """A whole program, `device` first. Caches are there from the beginning in most."""
    opening = [f"cache C{number}" for number in range(3) if draw(st.integers(0, 7)) < 7]
    idioms = draw(st.lists(st.one_of(*IDIOMS), min_size=draw(st.sampled_from((0, 4, 8))), max_size=16))
    lines = [line for idiom in idioms for line in idiom]
    return [draw(device()), *[*opening, *lines][:MAX_CALLS]]
