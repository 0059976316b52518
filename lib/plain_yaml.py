"""YAML as files of the book are written in: no name twice in a mapping, not too deep, and numbers as in Python."""

from __future__ import annotations

import re
from typing import Any

import yaml

_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_ALIKE = (_INT, _FLOAT, "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")  # two texts may be one key: 1, +1 and true
DEEPEST = 100  # levels: the parser calls itself for each, and 30 000 end the process


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # compiled where there is one
    """YAML 1.1 in which 1e-2 is a number, and 010 and 1:30, there 8 and 90, are none."""

    def get_single_node(self) -> yaml.Node | None:
        """The whole text, in which no mapping has a name twice, before `<<` puts names of others into it."""
        root: yaml.Node | None = super().get_single_node()
        met, waiting = set(), [root]
        while waiting:
            node = waiting.pop()
            if not isinstance(node, yaml.CollectionNode) or id(node) in met:
                continue
            met.add(id(node))
            if isinstance(node, yaml.MappingNode):
                self._refuse_doubles([key for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
                waiting += [each for pair in node.value for each in pair]
            else:
                waiting += node.value
        return root

    def _refuse_doubles(self, keys: list[yaml.ScalarNode]) -> None:
        names = set()
        for key in keys:
            name = self.construct_object(key) if key.tag in _ALIKE else (key.tag, key.value)
            if name in names:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
            names.add(name)


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
    """What the text says. Raises ``ValueError`` with the line for what is no YAML, for a name that stands twice, and
    for more than `DEEPEST` lists and mappings in each other.
    """
    try:
        _refuse_depth(text)
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        # a date that does not exist is a ValueError; `!!bool maybe`, `!!timestamp now` and the like raise these three
        if isinstance(error, ArithmeticError | LookupError | AttributeError):
            raise ValueError(f"there is a value that is not of the kind that its tag names ({error})") from error
        raise ValueError(" ".join(str(error).split()).replace(' in "<unicode string>",', ":")) from error


def _refuse_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            what = f"more than {DEEPEST} lists or mappings in each other"
            raise ValueError(f"{what}{event.start_mark}")
