"""YAML read by libyaml where PyYAML was built with it: about ten times as fast as in Python, same values."""

from __future__ import annotations

from typing import Any

import yaml

_Fast: Any = getattr(yaml, "CSafeLoader", None)


class _KeysOnce:
    """A key that stands twice is an error: YAML would drop the first without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key `{name}` stands twice in one section", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)  # type: ignore[misc,no-any-return]


class _Strict(_KeysOnce, yaml.SafeLoader):
    pass


_FastStrict: Any = None if _Fast is None else type("_FastStrict", (_KeysOnce, _Fast), {})


def load_yaml(text: str) -> Any:
    """What yaml.safe_load gives. Raises yaml.YAMLError, with the message of the parser in Python, which shows
    the place."""
    return _load(text, _Fast, yaml.SafeLoader)


def load_strict_yaml(text: str) -> Any:
    """The same for a file that people write: also a key that stands twice is a yaml.YAMLError. Raises
    RecursionError for values nested too deeply, ValueError for a text that is no UTF-8."""
    return _load(text, _FastStrict, _Strict)


def _load(text: str, fast: Any, slow: Any) -> Any:
    if fast is not None:
        try:
            return yaml.load(text, fast)
        except (yaml.YAMLError, ValueError):  # ValueError: text that is no UTF-8
            pass
    return yaml.load(text, slow)
