"""Which rigs an agent listens to: from --rig options or from a small YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from dsp.errors import InputError

Address = Annotated[str, Meta(pattern="^(tcp|ipc)://.+")]


class RigAddress(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where a rig is. name: what people call it; keys: a folder of `hearth keys`, None: the default."""

    stream: Address
    commands: Address
    name: str = ""
    keys: str | None = None

    @property
    def shown(self) -> str:
        """The name if it has one, else the address."""
        return self.name or self.stream


class _File(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    rigs: list[RigAddress]


def rigs_of(options: Sequence[str], file: Path | None, keys: str | None = None) -> list[RigAddress]:
    """The rigs of `--rig STREAM,COMMANDS` options and of a file: `rigs: [{stream, commands, name, keys}]`.

    keys: for those that name none. Raises InputError for what is no such file or option, and for one twice.
    """
    found = [_of_option(text) for text in options]
    if file is not None:
        found += _of_file(file)
    if keys is not None:
        found = [msgspec.structs.replace(rig, keys=rig.keys or keys) for rig in found]
    for kind in ("stream", "commands"):
        addresses = [getattr(rig, kind) for rig in found]
        twice = [address for address in addresses if addresses.count(address) > 1]
        if twice:
            raise InputError(f"two rigs have the same {kind} address {twice[0]}; each rig is given once")
    return found


def _of_option(text: str) -> RigAddress:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2:
        raise InputError(
            f"--rig {text!r}: expected STREAM,COMMANDS, e.g. tcp://127.0.0.1:5771,tcp://127.0.0.1:5772"
        )
    return _checked({"stream": parts[0], "commands": parts[1]}, RigAddress, f"--rig {text}")


def _of_file(path: Path) -> list[RigAddress]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot read the list of rigs: {error}") from None
    rigs = _checked(data, _File, str(path)).rigs
    if not rigs:
        raise InputError(f"{path}: `rigs` is empty; give each rig's `stream` and `commands`")
    return rigs


def _checked(data: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}; a rig has `stream`, `commands`, `name`, `keys`") from None
