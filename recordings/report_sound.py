"""The sound of an episode as a page can carry it: outlines of the channels, a spectrogram, an MP3.

Reads block by block, so an hour costs no more memory than ten seconds.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import dsp
from recordings.audio_file import AudioFile

Floats = NDArray[np.float32]

COLUMNS = 1200  # of the outlines: finer than a screen shows
SPECTRUM_COLUMNS, SPECTRUM_ROWS = 900, 112
WINDOW = 1024  # frames of one short-time spectrum (43 ms at 24 kHz)
WINDOWS_PER_COLUMN = 12  # at most; a long recording is sampled, not summed
RANGE_DB = 70.0
MP3_BYTES = 4_000_000  # what the sound of a long recording may take
MP3_SECONDS = 3600.0
BLOCK = 1 << 18


class SoundReader:
    """Pieces of a sound file as AmbiX where its format is known, else as they are."""

    def __init__(self, audio: AudioFile, source_format: str | None) -> None:
        self.audio, self.source_format = audio, source_format
        self.rate_hz, self.channels, self.frames = audio.rate, audio.channels, audio.frames
        self.is_foa = audio.channels == 4 and source_format in dsp.FORMATS

    def read(self, start: int, count: int) -> Floats:
        """float32 (frames, channels) from frame `start`; fewer only at the end."""
        block = self.audio.read(start, count)
        if self.is_foa and self.source_format != "ambix":
            block = np.asarray(dsp.convert(block, source=str(self.source_format), target="ambix"))
        return np.asarray(block, dtype=np.float32)


@dataclass(frozen=True)
class Sound:
    """What a page shows and plays of one recording.

    low, high: (channels, columns) smallest and largest sample of each column of time.
    spectrogram: grey JPEG, time to the right, mel-spaced frequency upwards to `top_hz`; brightness covers
    RANGE_DB decibels below the loudest band.
    mp3: the stereo downmix, `gain_db` louder than recorded; empty when it could not be made.
    """

    rate_hz: int
    frames: int
    labels: tuple[str, ...]
    low: Floats
    high: Floats
    spectrogram: bytes
    top_hz: float
    mp3: bytes
    gain_db: float
    heard_s: float
    problems: tuple[str, ...]

    @property
    def duration_s(self) -> float:
        return self.frames / self.rate_hz


def picture_sound(reader: SoundReader, with_mp3: bool = True) -> Sound | None:
    """Read the sound once for the pictures and once for the MP3, if wanted; None when there are no frames."""
    if reader.frames == 0:
        return None
    columns = min(COLUMNS, reader.frames)
    edges = np.linspace(0, reader.frames, columns + 1).astype(np.int64)
    low = np.zeros((reader.channels, columns), dtype=np.float32)
    high = np.zeros_like(low)
    spectrum = MelSpectrogram(reader.frames, reader.rate_hz)
    stride = max(1, BLOCK * columns // reader.frames)
    loudest = 0.0
    for start in range(0, columns, stride):
        stop = min(start + stride, columns)
        block = reader.read(int(edges[start]), int(edges[stop] - edges[start]))
        inner = edges[start:stop] - edges[start]
        inner = inner[inner < len(block)]
        if not len(inner):
            break
        low[:, start : start + len(inner)] = np.minimum.reduceat(block, inner, axis=0).T
        high[:, start : start + len(inner)] = np.maximum.reduceat(block, inner, axis=0).T
        spectrum.push(block[:, 0])
        loudest = max(loudest, float(np.abs(_stereo(block, reader.is_foa)).max()))
    # Quiet rooms are recorded with headroom; the page plays them at a level that can be heard.
    gain = float(np.clip(0.7 / loudest, 0.5, 31.6)) if loudest > 0 else 1.0
    problems = list(reader.audio.problems)
    heard_s = min(reader.frames / reader.rate_hz, MP3_SECONDS)
    try:
        mp3 = encode_mp3(reader, gain, heard_s) if with_mp3 else b""
    except Exception as error:  # a page without sound is better than none; FFmpeg builds differ
        mp3 = b""
        problems.append(f"the sound to listen to could not be made: {error}")
    labels = ("W", "Y", "Z", "X") if reader.is_foa else tuple(str(c + 1) for c in range(reader.channels))
    return Sound(
        rate_hz=reader.rate_hz,
        frames=reader.frames,
        labels=labels[:8],
        low=low[:8],
        high=high[:8],
        spectrogram=spectrum.jpeg(),
        top_hz=spectrum.top_hz,
        mp3=mp3,
        gain_db=20.0 * float(np.log10(gain)),
        heard_s=heard_s,
        problems=tuple(problems),
    )


def _stereo(block: Floats, is_foa: bool) -> Floats:
    if is_foa:
        return np.asarray(dsp.to_stereo(block), dtype=np.float32)
    return np.repeat(block[:, :1], 2, axis=1) if block.shape[1] != 2 else block


def mel_from_hz(hz: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Mel scale of O'Shaughnessy (1987): 2595 log10(1 + f / 700)."""
    return np.asarray(2595.0 * np.log10(1.0 + np.asarray(hz, dtype=np.float64) / 700.0))


def hz_from_mel(mel: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """The inverse of `mel_from_hz`."""
    return np.asarray(700.0 * (10.0 ** (np.asarray(mel, dtype=np.float64) / 2595.0) - 1.0))


class MelSpectrogram:
    """Mean power per column of time and mel band, from short-time spectra spread over each column.

    Push the samples of one channel in blocks; the memory does not grow with the length.
    """

    def __init__(self, frames: int, rate_hz: int) -> None:
        self.columns = max(1, min(SPECTRUM_COLUMNS, frames // 64))
        self.top_hz = min(12_000.0, rate_hz / 2)
        per_column = int(np.clip(frames / self.columns / (WINDOW / 2), 1, WINDOWS_PER_COLUMN))
        count = self.columns * per_column
        # Centres of the windows, evenly over the recording.
        self._starts = ((np.arange(count) + 0.5) * frames / count).astype(np.int64) - WINDOW // 2
        self._column = np.arange(count) // per_column
        self._next = 0
        self._tail = np.zeros(WINDOW, dtype=np.float32)
        self._tail_start = -WINDOW
        self._taper = np.hanning(WINDOW).astype(np.float32)
        self._power = np.zeros((self.columns, SPECTRUM_ROWS))
        band_edges = hz_from_mel(np.linspace(0.0, mel_from_hz(self.top_hz), SPECTRUM_ROWS + 1))
        self._bin_edges = band_edges * WINDOW / rate_hz

    def push(self, samples: Floats) -> None:
        joined = np.concatenate([self._tail, samples])
        self._analyse(joined)
        self._tail_start += len(joined) - WINDOW
        self._tail = joined[-WINDOW:]

    def _analyse(self, joined: Floats) -> None:
        end = self._tail_start + len(joined)
        last = int(np.searchsorted(self._starts, end - WINDOW, side="right"))
        for first in range(self._next, last, 2048):
            chosen = slice(first, min(first + 2048, last))
            offsets = np.maximum(self._starts[chosen] - self._tail_start, 0)
            windows = joined[offsets[:, None] + np.arange(WINDOW)] * self._taper
            power = np.abs(np.fft.rfft(windows, axis=1)) ** 2
            # Power between two band edges through its running sum: right for narrow and for wide bands.
            total = np.concatenate([np.zeros((len(power), 1)), np.cumsum(power, axis=1)], axis=1)
            whole = np.clip(self._bin_edges + 0.5, 0, total.shape[1] - 1)
            under = np.minimum(whole.astype(np.int64), total.shape[1] - 2)
            part = whole - under
            running = total[:, under] * (1 - part) + total[:, under + 1] * part
            np.add.at(self._power, self._column[chosen], np.diff(running, axis=1))
        self._next = max(self._next, last)

    def grey(self) -> NDArray[np.uint8]:
        """(SPECTRUM_ROWS, columns): 255 the loudest, 0 RANGE_DB below it; highest frequency in the first row.
        Call it once, after the last sample."""
        self._analyse(np.concatenate([self._tail, np.zeros(WINDOW, dtype=np.float32)]))
        density = self._power / np.maximum(np.diff(self._bin_edges), 1.0)
        level = 10.0 * np.log10(np.maximum(density, 1e-30))
        level = np.clip((level - level.max()) / RANGE_DB + 1.0, 0.0, 1.0)
        return np.ascontiguousarray((level.T[::-1] * 255).astype(np.uint8))

    def jpeg(self) -> bytes:
        """The picture of `grey`, twice as high."""
        import cv2

        grey = self.grey()
        picture = cv2.resize(grey, None, fx=1, fy=2, interpolation=cv2.INTER_LINEAR)
        ok, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 88])
        return bytes(data) if ok else b""


def encode_mp3(reader: SoundReader, gain: float, heard_s: float) -> bytes:
    """The stereo downmix of the first `heard_s` seconds as MP3, which every browser plays from a file.

    The bit rate falls with the length so that the result stays near MP3_BYTES. Raises what PyAV raises when
    this FFmpeg has no MP3 encoder.
    """
    import av

    rate = 24_000 if reader.rate_hz in (24_000, 48_000, 96_000) else 22_050
    # Bit rates that MPEG-2 Layer III knows (kbit/s).
    known = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96)
    affordable = MP3_BYTES * 8 / max(heard_s, 1.0) / 1000
    kbits = max((k for k in known if k <= affordable), default=known[0])
    layout = "stereo" if kbits >= 32 else "mono"
    target = io.BytesIO()
    heard = int(heard_s * reader.rate_hz)
    with av.open(target, "w", format="mp3") as container:
        # compression_level is LAME's -q: 7 halves the time of the default, which a page does not need.
        stream = container.add_stream(
            "libmp3lame", rate=rate, layout=layout, options={"compression_level": "7"}
        )
        stream.bit_rate = kbits * 1000
        resampler = av.AudioResampler(format="fltp", layout=layout, rate=rate, frame_size=1152)
        for position in range(0, heard, BLOCK):
            block = reader.read(position, min(BLOCK, heard - position))
            stereo = np.clip(_stereo(block, reader.is_foa) * np.float32(gain), -1.0, 1.0)
            if not len(stereo):
                break
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(stereo.reshape(1, -1), dtype=np.float32), format="flt", layout="stereo"
            )
            frame.sample_rate, frame.pts = reader.rate_hz, position
            for ready in resampler.resample(frame):
                container.mux(stream.encode(ready))
        for ready in resampler.resample(None):
            container.mux(stream.encode(ready))
        container.mux(stream.encode(None))
    return target.getvalue()
