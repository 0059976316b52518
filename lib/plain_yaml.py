"""YAML as files of the book are written in: no name twice in a mapping, and numbers as in Python."""

from __future__ import annotations

import re
from typing import Any

import yaml

_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # compiled where there is one
    """YAML 1.1 in which 1e-2 is a number, and 010 and 1:30, there 8 and 90, are none."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value in names:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
            names.add(str(key.value))
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


_Loader.yaml_implicit_resolvers = {
    first: [kind for kind in kinds if kind[0] not in (_INT, _FLOAT)]
    for first, kinds in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, re.compile(r"[+-]?(?:0|[1-9][0-9_]*)$"), list("+-0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"[+-]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"),
    list("+-.0123456789"),
)


def load(text: str) -> Any:
    """What the text says. Raises ``ValueError`` with the line for what is no YAML, and for a name that stands twice."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:  # a date that does not exist is a ValueError
        raise ValueError(" ".join(str(error).split()).replace(' in "<unicode string>",', ":")) from error
