"""The formats of a release."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from dsp.errors import InputError
from recordings.release.options import Exporter

FORMATS: dict[str, str] = {
    "omnismarthome": "recordings.release.omnismarthome:export",
    "dcase": "recordings.release.dcase:export",
    "audiofolder": "recordings.release.audiofolder:export",
    "webdataset": "recordings.release.webdataset:export",
    "mcap": "recordings.release.mcap:export",
    "lerobot": "recordings.release.lerobot:export",
    "bids": "recordings.release.bids:export",
}


def exporter(name: str) -> Exporter:
    """The exporter of a format. Raises InputError for an unknown one."""
    if name not in FORMATS:
        raise InputError(f"--to {name!r}: one of {', '.join(FORMATS)}")
    module, _, function = FORMATS[name].partition(":")
    return cast(Exporter, getattr(import_module(module), function))
