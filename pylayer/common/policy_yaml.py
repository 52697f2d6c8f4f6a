"""The YAML of a policy file, before it is checked against the schema."""

from __future__ import annotations

import re

import yaml

from .policy_errors import PolicyFileError, Problem, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Loader(yaml.SafeLoader):
    """YAML as people expect it. ``off``, ``yes`` and the like are text (``carrier: off``), as in YAML 1.2. A duplicate
    key is an error, and so is a mapping that merges (``<<``) more than MAX_MERGED keys."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Flattens nested merges first, so that their size is known before they are merged again. Without the limit,
        forty lines that each double what they merge would take a terabyte."""
        merged = 0
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(part, yaml.MappingNode):
                        self.flatten_mapping(part)
                        merged += len(part.value)
        if merged > MAX_MERGED:
            raise yaml.constructor.ConstructorError(None, None, f"merges of {merged} keys", node.start_mark)
        super().flatten_mapping(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value}' appears twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))

#: Most keys that a mapping may merge.
MAX_MERGED = 1000


def compose(text: str, name: str) -> tuple[Any, yaml.Node | None]:
    """Returns the YAML's document, not yet checked against the schema, and its root node, which knows the places of
    all nodes.

    Raises PolicyFileError.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        # Parse once: a long file takes seconds, and a program's first device waits two seconds for its plan.
        return (loader.construct_document(node) if node is not None else None), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise PolicyFileError(name, [Problem(f"not YAML: {short(what)}", line, column)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise PolicyFileError(name, [Problem(f"not YAML: {error.reason}", line, column)]) from error
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError) as error:
        # PyYAML raises the last four for text that does not fit its tag: !!int '', !!timestamp x, !!bool x
        raise PolicyFileError(name, [Problem(f"not YAML: {short(' '.join(str(error).split()))}")]) from error
