"""Impulse responses of a room from files: recordings of a sweep, response files, claps and balloon pops.

Each file is one place of source and microphone; several sweeps or claps in it are repeats. Of first-order
ambisonics the omnidirectional W is used, by the format that the tags or the user name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from calibration.reverberation import Response
from calibration.reverberation_noise import Floats
from calibration.sweep import Sweep, deconvolve, estimate_drift, find_sweeps, remove_drift
from dsp.errors import InputError

LONGEST_S = 12.0  # of a response
AUTOMATIC_GAIN = "automatic gain must be off: it lengthens the time and the decay cannot show it"
MANY_PPM = 150.0
_AGREE_PPM = 30.0
# How far inside the sweep an octave must be: the skirts of its filter reach out, and low sounds ring longer.
_BELOW, _ABOVE = 1.7, 1.3
_CLAP_RISE_DB, _CLAP_APART_S = 20.0, 0.5


def read_omni(
    path: Path, format_name: str | None, channel: str | None
) -> tuple[list[tuple[str, Floats]], int, list[str]]:
    """Omnidirectional channels of a sound file as (label, (frames,)), the rate in Hz, and warnings.

    channel: a number from 1, or "each" for every channel as a place of its own; else W of an ambisonic file,
    or the only channel. Raises InputError when it is not known which one is meant.
    """
    import dsp
    from recordings.audio_file import open_audio
    from recordings.importer import decide_format

    source = open_audio(path)
    if source.frames == 0:
        raise InputError(f"{path}: holds no sound")
    x = source.read().astype(np.float64)
    warnings = [f"{text}" for text in source.problems]
    if not np.isfinite(x).all():
        raise InputError(f"{path}: holds values that are not finite")
    if channel == "each":
        return [(f" channel {i + 1}", x[:, i]) for i in range(source.channels)], source.rate, warnings
    if channel is not None:
        number = int(channel) if channel.isdigit() else 0
        if not 1 <= number <= source.channels:
            raise InputError(f"{path}: no channel {channel!r}; it has 1 to {source.channels}, or say each")
        return [("", x[:, number - 1])], source.rate, warnings
    if source.channels == 1:
        return [("", x[:, 0])], source.rate, warnings
    if source.channels != 4:
        raise InputError(
            f"{path}: {source.channels} channels; say which is an omnidirectional microphone with --channel"
            " (a number, or each)"
        )
    foa = dsp.convert(x.astype(np.float32), source=decide_format(source, format_name), target="ambix")
    strange = _not_w(foa)
    return [("", foa[:, 0].astype(np.float64))], source.rate, warnings + strange


def _not_w(foa: ArrayLike) -> list[str]:
    """A warning when the directional channels do not fit W: in any field, together they are as strong."""
    x = np.asarray(foa, np.float64)
    powers = np.mean(x**2, axis=0)
    if powers[0] <= 0:
        return ["W is silent: is this the channel order of the file?"]
    ratio_db = 10 * np.log10(max(float(powers[1:].sum() / powers[0]), 1e-9))
    if abs(ratio_db) > 6.0:
        return [
            f"X, Y and Z together are {ratio_db:+.0f} dB against W, where 0 is expected: is the format right,"
            " and is every capsule alive? (`hearth check`)"
        ]
    return []


def clipped(x: Floats) -> int:
    """Samples (frames,) that are clipped."""
    from dsp.sample_faults import clipped_samples

    return clipped_samples(x[:, None])


def hum(x: Floats, fs: int) -> str:
    """What hums in a quiet stretch (frames,): lines of the mains (50 or 60 Hz) that hold more than half of
    the noise below 355 Hz; "" when nothing does or it is too short to tell."""
    if len(x) < 0.8 * fs:
        return ""
    window = np.hanning(len(x))
    power = np.abs(np.fft.rfft(x * window)) ** 2
    f = np.fft.rfftfreq(len(x), 1 / fs)
    low = (f > 40) & (f < 355)
    whole = float(power[low].sum())
    if whole <= 0:
        return ""
    for mains in (50.0, 60.0):
        away = np.abs(f - mains * np.maximum(1, np.rint(f / mains)))
        lines = float(power[low & (away < max(1.5, 2.5 * fs / len(x)))].sum())
        share = lines / whole
        if share > 0.5 + 0.5 * max(3.0, 5 * fs / len(x)) / mains:
            return f"{100 * share:.0f} % of the noise below 355 Hz is hum of {mains:g} Hz and its multiples"
    return ""


# ------------------------------------------------------------------ sweeps


def of_sweeps(x: Floats, fs: int, sweep: Sweep, place: str) -> list[Response]:
    """Responses of every sweep in a recording (frames,).

    Each is deconvolved alone, from 0.1 s before it to just before the next, and ends where its highest tones
    have been heard as long as all others. Raises InputError when there is no sweep.
    """
    own = sweep.at(fs)
    starts = find_sweeps(x, own)
    if len(starts) == 0:
        raise InputError(
            f"no sweep of {sweep.seconds:g} s from {sweep.low_hz:g} to {sweep.high_hz:g} Hz is heard in it;"
            " is --sweep the one that was played? (for response files --response, for claps --claps)"
        )
    found, bare = [], []
    length = len(own.signal)
    for i, start in enumerate(starts):
        begin = round(start * fs)
        first = max(0, begin - round(0.1 * fs))
        last = round(starts[i + 1] * fs) - round(0.05 * fs) if i + 1 < len(starts) else len(x)
        last = min(last, begin + length + round(LONGEST_S * fs))
        part = x[first:last]
        response = flattened(deconvolve(part, own)[:, 0], own)
        direct = begin - first + length - 1
        heard = last - begin - length  # frames after the sweep's end
        if heard < 0.15 * fs:
            continue
        warnings = []
        if count := clipped(part[: begin - first + length]):
            warnings.append(
                f"{count} samples are clipped: distortion fills the decay; play or record more softly"
            )
        before = x[max(0, begin - round(3 * fs)) : begin - round(0.1 * fs)] if i == 0 else x[:0]
        if text := hum(before, fs):
            warnings.append(text)
        bare.append(response[max(0, direct - round(0.05 * fs)) : direct + heard])
        found.append((float(start), tuple(warnings)))
    if not found:
        raise InputError(
            "the recording ends with the sweep: record on, for as long as the room sounds and a second more"
        )
    several = len(found) > 1
    low, top = _BELOW * sweep.low_hz, min(sweep.high_hz, 0.46 * fs) / _ABOVE
    return [
        Response(f"{place} at {start:.1f} s" if several else place, place, h, fs, low, top, told)
        for h, (start, told) in zip(bare, found, strict=True)
    ]


def flattened(response: Floats, sweep: Sweep) -> Floats:
    """(frames,) without the ripples that sweep and inverse filter leave near the ends of their band: what a
    short sweep does to its lowest octave is otherwise heard as part of the room."""
    length = len(sweep.signal)
    size = 1 << (len(response) + 2 * length).bit_length()
    both = np.fft.rfft(sweep.signal, size) * np.fft.rfft(sweep.inverse, size)
    # Its impulse is at frame length - 1; moved to 0.
    both *= np.exp(2j * np.pi * np.arange(size // 2 + 1) * (length - 1) / size)
    gain = np.conj(both) / (np.abs(both) ** 2 + 0.1**2)
    return np.asarray(np.fft.irfft(np.fft.rfft(response, size) * gain, size)[: len(response)])


# ------------------------------------------------------------------ responses, claps


def of_response(x: Floats, fs: int, place: str) -> Response:
    """An impulse response as a file holds it (frames,)."""
    return Response(place, place, x[: int(np.argmax(np.abs(x))) + round(LONGEST_S * fs)], fs)


def of_claps(x: Floats, fs: int, place: str) -> list[Response]:
    """Claps, pops and shots in a recording (frames,), each with what follows until the next.

    A clap rises by 20 dB over what is 60 to 10 ms before it and is within 20 dB of the loudest. Raises
    InputError when there is none.
    """
    step = max(1, round(0.005 * fs))
    whole = len(x) // step * step
    # Without what is below all octaves: rumble of handling.
    high = np.concatenate([[0.0], np.diff(x)])[:whole]
    level = 10 * np.log10(np.maximum((high.reshape(-1, step) ** 2).mean(axis=1), 1e-20))
    least = max(float(np.median(level)) + _CLAP_RISE_DB, float(level.max()) - 20)
    apart = round(_CLAP_APART_S * fs / step)
    starts: list[int] = []
    for k in np.flatnonzero(level >= least).tolist():
        before = level[max(0, k - 12) : max(0, k - 2)]
        if (
            (not starts or k - starts[-1] >= apart)
            and len(before)
            and level[k] - before.max() >= _CLAP_RISE_DB
        ):
            starts.append(k)
    found = []
    for i, k in enumerate(starts):
        first = max(0, k * step - round(0.06 * fs))
        last = starts[i + 1] * step - round(0.02 * fs) if i + 1 < len(starts) else len(x)
        part = x[first : min(last, first + round(LONGEST_S * fs))]
        if len(part) < 0.3 * fs:
            continue
        warnings = []
        if count := clipped(part):
            warnings.append(f"{count} samples are clipped: EDT, C50 and D50 are wrong; be farther or softer")
        name = f"{place} at {k * step / fs:.1f} s" if len(starts) > 1 else place
        found.append(Response(name, place, part, fs, warnings=tuple(warnings)))
    if not found:
        raise InputError("no clap or pop stands out of it by 20 dB with at least 0.3 s after it")
    return found


def gather(
    paths: Sequence[Path],
    kind: str,
    sweep: Sweep,
    format_name: str | None = None,
    channel: str | None = None,
    advance: Callable[[float], None] = lambda amount: None,
) -> tuple[list[Response], list[tuple[str, str]], list[str]]:
    """Responses of all files, files that were left out with the reason, and warnings.

    kind: "sweep", "response" or "claps".
    """
    responses: list[Response] = []
    skipped: list[tuple[str, str]] = []
    told: list[str] = []
    for path in paths:
        advance(1)
        try:
            channels, fs, warnings = read_omni(path, format_name, channel)
            told += [f"{path.name}: {text}" for text in warnings]
            for label, x in channels:
                place = path.stem + label
                if not x.any():
                    raise InputError("it is silent")
                if kind == "sweep":
                    responses += of_sweeps(x, fs, sweep, place)
                elif kind == "response":
                    responses.append(of_response(x, fs, place))
                else:
                    responses += of_claps(x, fs, place)
        except InputError as error:
            skipped.append((path.name, str(error).removeprefix(f"{path}: ")))
    if kind != "sweep" and responses:
        told.append(AUTOMATIC_GAIN)
    if kind == "sweep" and (drift := shared_drift(responses, sweep)) is not None:
        responses = [replace(r, h=remove_drift(r.h, sweep.at(r.fs), drift)) for r in responses]
        if abs(drift) > MANY_PPM:
            told.append(f"player and recorder drift by {drift:.0f} ppm, which was taken out")
    return responses, skipped, told


def shared_drift(responses: Sequence[Response], sweep: Sweep) -> float | None:
    """ppm by which the player is slow, when the responses of two places or more agree on it; else None.

    One response may be sharpest at a wrong drift by chance where its direct sound is weak, and all repeats at
    its place with it; a decay does not care.
    """
    firsts = {r.place: r for r in reversed(responses)}
    if len(firsts) < 2:
        return None
    found = np.array([estimate_drift([r.h], sweep.at(r.fs))[0] for r in firsts.values()])
    middle = float(np.median(found))
    agree = np.abs(found - middle) < _AGREE_PPM
    _, sigma = estimate_drift([r.h for r in firsts.values()], sweep.at(responses[0].fs))
    return middle if agree.sum() > max(1, 0.6 * len(found)) and abs(middle) > 2 * sigma else None
