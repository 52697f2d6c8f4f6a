"""Recipes of a program that keeps identifiers of its shaders and no SPIR-V (VK_EXT_shader_module_identifier):

record     creates everything from modules, and saves the identifiers
inline     creates everything from SPIR-V in the stages' chains
replay     creates everything from the identifiers, without a module
translate  the same, and in full what has to be compiled, as translators of other APIs do
mixed      batches with modules and identifiers, known and not
garbage    identifiers that are none, of every size
"""

from __future__ import annotations

from pathlib import Path

SHADERS = ("kernel", "scene_vert", "scene_frag", "control", "evaluation", "task", "mesh")
SCENE = "graphics - : P0 vert=scene_vert frag=scene_frag"
MOST_BYTES = 32
#: Without the extension a program may chain identifiers all the same.
WITHOUT_EXTENSION = " without=identifiers unasked-identifiers"


def libraries(prefix: str, retain: str, variant: int) -> list[str]:
    parts = ("input", "pre-rasterization", "fragment", "output")
    return [
        f"{prefix}{name}: graphics - : P{slot} vert=scene_vert frag=scene_frag "
        f"part={'vertex' if name.startswith('pre') else name} spec={variant} flags=library{retain}"
        for slot, name in enumerate(parts, 1)
    ]


EVERYTHING = [
    *(f"kernel: compute - : P0 shader=kernel spec={variant}" for variant in range(3)),
    f"scene: {SCENE} spec=0",
    f"patches: {SCENE} tesc=control tese=evaluation spec=0",
    "tiles: graphics - : P0 task=task mesh=mesh frag=scene_frag spec=0",
    *libraries("", "", 6),
    "fast-link: graphics - : P5 link=P1,P2,P3,P4",
    *libraries("retained-", ",retain", 5),
    "optimized-link: graphics - : P5 link=P1,P2,P3,P4 flags=lto",
]


def by_identifier(line: str) -> str:
    """Whoever has no code may ask for what is there, and hand that on to what is linked from it."""
    if "part=input" in line or "part=output" in line:
        return line
    return f"{line},fail from=id" if "flags=" in line else f"{line} flags=fail from=id"


def translated(line: str) -> list[str]:
    name, _, call = line.partition(": ")
    return [by_identifier(line), f"{name}: if-required {call}"] if by_identifier(line) != line else [line]


def batch(name: str, early: str) -> str:
    """Known, new from its module, of nobody, and new once more. The first may be found, the third never."""
    elements = (
        f"P0 shader=kernel from=id spec=0 flags=fail{early}",
        "P1 shader=kernel spec=31",
        f"P2 shader=kernel from=garbage spec=32 flags=fail{early}",
        "P3 shader=kernel spec=33",
    )
    return f"{name}: compute - : {' / '.join(elements)}"


def garbage() -> list[str]:
    lines = []
    for byte in ("00", "ff", "a5"):
        for size in range(1, MOST_BYTES + 1):
            what = f"spec=20 flags=fail from=garbage:{size}:{byte}"
            lines += [f"kernel: compute - : P0 shader=kernel {what}", f"scene: {SCENE} {what}"]
    # Nearly the right one.
    lines += [
        f"cut: compute - : P0 shader=kernel spec=20 flags=fail from=id:{change}"
        for change in ("flipped", *range(1, MOST_BYTES))
    ]
    # Of no bytes it is as if the struct were not there: the code is what stands behind it, or the module.
    return [
        *lines,
        "no-bytes-beside-a-module: compute - : P0 shader=kernel spec=1 no-identifier",
        "no-bytes-before-the-code: compute - : P0 shader=kernel spec=2 from=inline no-identifier reversed",
    ]


def recipe(mode: str, file: Path, device: str = "") -> str:
    """Returns a whole recipe. ``file`` is where the identifiers are; ``device`` more of what the device has."""
    calls = {
        "record": EVERYTHING,
        "inline": [f"{line} from=inline" for line in EVERYTHING],
        "replay": [by_identifier(line) for line in EVERYTHING],
        "translate": [call for line in EVERYTHING for call in translated(line)],
        # Those behind the one that ends the call are there by now, and are given up all the same.
        "mixed": [batch("batch", ""), batch("batch-early-return", ",early")],
        "garbage": garbage(),
    }[mode]
    identify = [f"identify-{name}: identify {name}" for name in SHADERS]
    before = [*identify, f"identifiers save {file}"] if mode == "record" else [f"identifiers load {file}"]
    modules = "" if mode == "replay" else " modules"
    return "\n".join([f"device all{modules} separate{device}", *before, *calls, ""])
