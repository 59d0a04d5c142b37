"""What is done with each episode: one of our steps, a Python function, or a command; with its parameters.

A function takes the episode, an empty folder for its files, and keyword parameters, and returns an object for
result.json, or None:

    def loudness(episode: recordings.Episode, out: Path, *, window_s: float = 1.0) -> dict[str, float]: ...

It says that an episode cannot be used by raising `InputError`: then it is not tried again. A function may
have an attribute `warm`, a function that is called once in each worker before its first episode.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import yaml

from dsp.errors import InputError
from recordings.storage import sha256_file

# name: (function, version). The version grows when the step gives another result for the same recording.
STEPS: dict[str, tuple[str, int]] = {
    "check": ("recordings.process.steps:check", 1),
    "doa": ("recordings.process.steps:doa", 1),
    "evaluate": ("recordings.process.steps:evaluate", 1),
    "export": ("recordings.process.steps:export", 1),
    "resample": ("recordings.process.steps:resample", 1),
    "verify": ("recordings.process.steps:verify", 1),
}


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """name: as it was given. function: `module:function`, or "" for a command. inputs: SHA-256 of the files
    that parameters and command name; their paths play no part in what the step is."""

    name: str
    version: str
    function: str = ""
    command: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    inputs: dict[str, str] = {}

    def identity(self) -> dict[str, Any]:
        """All of it that a result depends on."""
        parameters = {k: v for k, v in self.parameters.items() if k not in self.inputs}
        return {
            "step": self.name,
            "version": self.version,
            "parameters": parameters,
            "inputs": dict(self.inputs),
        }


def find_step(text: str, settings: Mapping[str, str]) -> Step:
    """The step that a command line names.

    text: a key of STEPS, `package.module:function`, or a command that has `{episode}` in it. settings:
    parameters as text, read as YAML. Raises InputError: no such step, a parameter that it has not, a value of
    another type.
    """
    if "{episode}" in text:
        return _command(text, settings)
    name, version = STEPS.get(text, (text, 0))
    if ":" not in name:
        raise InputError(
            f"{text!r} is no step: one of {', '.join(STEPS)}, a function as package.module:function, or a"
            " command with {episode} and {out} in it"
        )
    function = load_function(name)
    parameters, inputs = _parameters(function, text, settings)
    said = f"{version} of hearth {_our_version()}" if version else _source_hash(function)
    return Step(name=text, version=said, function=name, parameters=parameters, inputs=inputs)


def load_function(name: str) -> Callable[..., Any]:
    """The function of `package.module:function`. Raises InputError."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # somebody else's module may raise anything
        raise InputError(f"step {name}: cannot be loaded: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise InputError(f"step {name}: is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def arguments(step: Step, function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a step in the types that its function wants."""
    hints = _hints(function)
    return {
        name: Path(value) if hints.get(name) is Path and value is not None else value
        for name, value in step.parameters.items()
    }


def _our_version() -> str:
    try:
        return metadata.version("hearth-home")
    except metadata.PackageNotFoundError:
        return "not installed"


def _source_hash(function: Callable[..., Any]) -> str:
    """Of the module that a function is in: another text of it is another version."""
    try:
        source = Path(inspect.getsourcefile(function) or "")
        return f"source {sha256_file(source)[:16]}"
    except (OSError, TypeError) as error:
        raise InputError(
            f"step {function!r}: its source cannot be read ({error}), so has no version"
        ) from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # a name that is there for type checkers only
        return {name: p.annotation for name, p in inspect.signature(function).parameters.items()}


def _parameters(
    function: Callable[..., Any], name: str, settings: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """(values with the defaults, hashes of the files among them)."""
    known = dict(list(inspect.signature(function).parameters.items())[2:])
    free = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    known = {
        key: p
        for key, p in known.items()
        if p.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    }
    hints = _hints(function)
    for key in settings:
        if key not in known and not free:
            allowed = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"--set {key}: step {name} has no such parameter; {allowed}")
    values: dict[str, Any] = {}
    inputs: dict[str, str] = {}
    for key, parameter in known.items():
        if key in settings:
            values[key] = _value(key, settings[key], hints.get(key, Any))
        elif parameter.default is inspect.Parameter.empty:
            raise InputError(f"step {name} needs --set {key}=VALUE")
        else:
            values[key] = parameter.default
        if hints.get(key) is Path and values[key] is not None:
            path = Path(values[key]).resolve()
            if not path.is_file():
                raise InputError(f"--set {key}={values[key]}: no such file")
            values[key], inputs[key] = str(path), sha256_file(path)
    values |= {key: _value(key, text, Any) for key, text in settings.items() if key not in known}
    try:
        return msgspec.to_builtins(values), inputs
    except TypeError as error:
        raise InputError(f"step {name}: a default that JSON cannot hold: {error}") from None


def _value(key: str, text: str, kind: Any) -> Any:
    if kind in (str, Path, inspect.Parameter.empty) and kind is not inspect.Parameter.empty:
        return text
    try:
        value = yaml.safe_load(text)
        if kind in (Any, inspect.Parameter.empty):
            return value
        return msgspec.to_builtins(msgspec.convert(value, kind))
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"--set {key}={text}: {error}") from None


def _command(text: str, settings: Mapping[str, str]) -> Step:
    """A command: no shell is between; {episode}, {out} and parameters are filled in word by word."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"the command {text!r}: {error}") from None
    program = shutil.which(words[0])
    if program is None:
        raise InputError(f"the command {text!r}: there is no program {words[0]!r}")
    words[0] = str(Path(program).absolute())
    for word in words:
        try:
            word.format(episode="", out="", **settings)
        except (KeyError, IndexError, ValueError) as error:
            raise InputError(
                f"the command's {word!r}: {{{error.args[0]}}} is none of {{episode}}, {{out}}"
                " and what --set gives; a brace that is meant is written twice"
            ) from None
    unused = [key for key in settings if not any(f"{{{key}" in word for word in words)]
    if unused:
        raise InputError(f"--set {unused[0]}: the command has no {{{unused[0]}}}")
    # A script is part of what the command does, wherever it stands.
    inputs = {f"word {n}": sha256_file(Path(w)) for n, w in enumerate(words) if os.path.isfile(w)}
    version = hashlib.sha256("\0".join(shlex.split(text)).encode()).hexdigest()[:16]
    return Step(
        name=text,
        version=f"command {version}",
        command=tuple(words),
        parameters=dict(settings),
        inputs=inputs,
    )
