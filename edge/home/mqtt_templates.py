"""Templates of MQTT discovery (Jinja2 as Home Assistant has it), in a sandbox: they come from the network."""

from __future__ import annotations

import json
from typing import Any

from dsp.errors import InputError, MissingDependency

MOST_CHARACTERS = 4000


class Template:
    """One template, or none: then a value stays as it is.

    Raises InputError for text that is no template, or uses what Hearth does not know of Home Assistant's own
    functions; MissingDependency without jinja2.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._template = None if text is None else _compiled(text)

    def read(self, payload: str) -> str | None:
        """A value out of a message; None when there is none in it (another message on the same topic)."""
        if self._template is None:
            return payload
        try:
            value_json: Any = json.loads(payload)
        except ValueError:
            value_json = None
        return self._render(value=payload, value_json=value_json)

    def make(self, value: str | float | int) -> str:
        """A message of a value. Raises InputError when the template fails."""
        if self._template is None:
            return str(value)
        made = self._render(value=value)
        if made is None:
            raise InputError(f"the template {self._text!r} makes nothing of {value!r}")
        return made

    def _render(self, **names: Any) -> str | None:
        from jinja2 import TemplateError

        assert self._template is not None
        try:
            made = str(self._template.render(**names)).strip()
        except (TemplateError, TypeError, ValueError, ArithmeticError, MemoryError):
            return None
        return made or None


def _compiled(text: str) -> Any:
    try:
        from jinja2 import StrictUndefined, TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise MissingDependency(
            "templates of MQTT devices need jinja2: pip install 'hearth-home[home]'"
        ) from None
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"a template of {len(text)} characters is longer than {MOST_CHARACTERS}")

    class Sandbox(ImmutableSandboxedEnvironment):  # type: ignore[misc, unused-ignore]
        """Without ways to make a huge text out of a short one."""

        intercepted_binops = frozenset(("*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = all(isinstance(side, int | float) for side in (left, right))
            if operator == "**" or not numbers:
                raise TypeError(f"{operator} is for numbers only")
            return super().call_binop(context, operator, left, right)

    environment = Sandbox(undefined=StrictUndefined)
    # Of Home Assistant's own filters, those that devices use in what they announce.
    environment.filters |= {"is_defined": _is_defined, "from_json": json.loads, "to_json": json.dumps}
    try:
        return environment.from_string(text)
    except TemplateError as error:
        raise InputError(f"the template {text!r} is not understood: {error}") from None


def _is_defined(value: Any) -> Any:
    """Home Assistant's: an undefined value raises, which leaves the message unread."""
    return str(value) and value
