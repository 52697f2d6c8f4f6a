"""The settings text: what is written is read back, and anything else is refused."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pylayer.common import flat

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
#: Characters with a meaning in the format are tried more often than chance would.
MARKED = st.text(alphabet="%=.[\n\r:#a0", max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | MARKED
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | MARKED, inner, max_size=3), max_leaves=8
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(TEXT | MARKED, VALUES, max_size=4))
@example({"[0": {"[1": "a.b=[%\r\n"}, "": {}, "l": [[], {}, [None]]})
def test_round_trip(document: dict[str, Any]) -> None:
    """Any nested mapping of text, numbers, booleans and null is read back equal, types included."""
    text = flat.dumps(document)
    assert "\r" not in text  # a reader in text mode takes it for a line end
    again = flat.loads(text)
    assert again == document
    assert repr(again) == repr(document)


def test_format() -> None:
    """The text has one line for each leaf, so that people can read it."""
    document: dict[str, Any] = {"a": {"b": 1, "c.d": "x\ny"}, "e": [True, None, 0.5, {}, []], "f": {"[": ""}}
    assert flat.dumps(document) == (
        "a.b=i:1\na.c%2Ed=s:x%0Ay\ne.[0=b:1\ne.[1=n:\ne.[2=f:0.5\ne.[3=d:\ne.[4=l:\nf.%5B=s:\n"
    )
