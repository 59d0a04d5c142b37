"""YAML read by libyaml where PyYAML was built with it: about ten times as fast as in Python, same values."""

from __future__ import annotations

from typing import Any

import yaml

_Fast: Any = getattr(yaml, "CSafeLoader", None)


def load_yaml(text: str) -> Any:
    """What yaml.safe_load gives. Raises yaml.YAMLError, with the message of the parser in Python, which shows
    the place."""
    if _Fast is not None:
        try:
            return yaml.load(text, _Fast)
        except (yaml.YAMLError, ValueError):  # ValueError: text that is no UTF-8
            pass
    return yaml.safe_load(text)
