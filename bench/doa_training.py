"""Trains the vote weights of `dsp.votes` and writes dsp/vote_weights.json: `python -m bench.doa_training`.

Each example is a clip of 2 s in a random room (free field or RT60 0.2 to 0.9 s) with one source, 1.2 to
2.6 m away: mostly speech with a random spectral tilt, sometimes a device (fan, hum, beeps); capsules 0 to
18 mm from the centre with small gain errors; sensor noise -3 to 28 dB below. The loss is the chord between
the truth and the peak that the weighted votes form (mean shift under the wide kernel, differentiated at its
fixed point), so that the net learns what helps a whole clip. Adam; two layers of leaky units.

The rooms' seeds are [TRAINING_SEED, k]; no comparison in this folder uses them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import dsp
from bench import doa_rooms
from bench.doa_rooms import FS, add_noise, simulate, speech_clips, talker, to_ambix
from bench.figures import note
from dsp.doa import KERNEL_EDGE_DEG
from dsp.votes import FEATURES, START_FRAMES, VoteCounter, VoteNet

F32 = npt.NDArray[np.float32]
TRAINING_SEED = 402
CLIPS = 1280  # half of them of the plain kind: speech, r = 14.7 mm, white noise of the capsules
KEPT_CELLS = 5000  # of 16,800 per clip: those that have a chance of being direct sound
HIDDEN = (16, 12)
EPOCHS = 22
BATCH = 8
_SLOPE = np.float32(0.1)


def _tilted(x: F32, rng: np.random.Generator) -> F32:
    """Speech of another colour: up to 4 dB per octave more or less."""
    spectrum = np.fft.rfft(x)
    f = np.fft.rfftfreq(len(x), 1 / FS)
    gain = (np.maximum(f, 100.0) / 1000.0) ** (rng.uniform(-4, 4) / 6.02)
    y = np.fft.irfft(spectrum * gain, len(x))
    return (y / np.sqrt(np.mean(y**2))).astype(np.float32)


def _device(seconds: float, rng: np.random.Generator) -> F32:
    """A fan, a hum or beeps."""
    n = int(seconds * FS)
    t = np.arange(n) / FS
    kind = rng.integers(3)
    if kind == 0:
        return _tilted(rng.standard_normal(n).astype(np.float32), rng)
    if kind == 1:
        base = rng.uniform(90, 400)
        tones = [np.sin(2 * np.pi * base * h * t + rng.uniform(0, 6.3)) / h for h in range(1, 12)]
        y = np.sum(tones, axis=0)
    else:
        gate = np.sin(2 * np.pi * rng.uniform(1, 4) * t) > 0
        y = gate * np.sum([np.sin(2 * np.pi * f * t) for f in rng.uniform(600, 3500, 2)], axis=0)
    return (y / np.sqrt(np.mean(y**2))).astype(np.float32)


def example(
    k: int, clips: list[F32], seed: int = TRAINING_SEED
) -> tuple[F32, npt.NDArray[np.float64], float]:
    """(AmbiX clip, unit vector of the truth, importance) of training room k."""
    rng = np.random.default_rng([seed, k])
    rt60 = 0.0 if k % 10 == 0 else rng.uniform(0.2, 0.9)
    snr = rng.uniform(-3, 28)
    plain = k >= CLIPS // 2
    device = not plain and k % 6 == 5
    if device:
        sound = _device(2.6, rng)
    else:
        sound = talker(clips, 2.6, rng)
        sound = sound if plain else _tilted(sound, rng)
    if not plain:
        doa_rooms.RADIUS_M = 0.0 if k % 5 == 4 else rng.uniform(0.010, 0.018)
    scene = simulate(rng, rt60, [sound])
    doa_rooms.RADIUS_M = 0.0147
    gains = np.ones(4) if plain else 10 ** (rng.normal(0, 0.3, 4) / 20)
    if plain or k % 3:
        x = to_ambix(add_noise((scene.capsules * gains).astype(np.float32), snr, rng))
    else:  # a microphone whose noise is alike in W and in X, Y, Z
        x = add_noise(to_ambix(scene.capsules * gains), snr, rng)
    # Where nothing but the capsules' spacing bends directions, tenths of a degree count; a steady device in
    # an echoing room is often beyond reach, and its large error must not rule the rest.
    importance = (6.0 if rt60 == 0 else 1.0) * (0.2 if device else 1.0)
    return x, dsp.direction_to_unit(scene.azimuth_deg[0], scene.elevation_deg[0]), importance


def cells(x: F32, rng: np.random.Generator) -> tuple[F32, F32]:
    """Features (KEPT_CELLS, FEATURES) and directions (KEPT_CELLS, 3) of the cells worth training on."""
    counter = VoteCounter(FS, _nothing())
    size = counter.plan.row
    rows = [counter.features(x[s : s + size]) for s in range(0, len(x) - size + 1, size)]
    skipped = START_FRAMES * counter.plan.bins
    features = np.concatenate([r[0] for r in rows])[skipped:]
    unit = np.concatenate([r[1] for r in rows])[skipped:]
    chance = np.clip(features[:, 1], -3, 2) * 0.5 + np.clip(features[:, 4], -4, 3) * 0.3
    chance = features[:, 0] ** 2 * np.exp(chance) * rng.uniform(0.5, 1, len(features))
    best = np.argsort(-chance)[:KEPT_CELLS]
    return features[best], unit[best]


def _nothing() -> VoteNet:
    zero = np.zeros((1, FEATURES), np.float32)
    one = np.zeros(1, np.float32)
    return VoteNet(zero, one, np.zeros((1, 1), np.float32), one, one, one)


def _load() -> tuple[F32, F32, F32, F32]:
    clips = speech_clips()
    features, units, truths, importances = [], [], [], []
    for k in range(CLIPS):
        x, truth, importance = example(k, clips)
        f, u = cells(x, np.random.default_rng([TRAINING_SEED, 7, k]))
        features.append(f.astype(np.float16))
        units.append(u.astype(np.float16))
        truths.append(truth)
        importances.append(importance)
        if k % 40 == 39:
            note(f"{k + 1} of {CLIPS} rooms")
    return (
        np.array(features),
        np.array(units),
        np.array(truths, np.float32),
        np.array(importances, np.float32),
    )


def _leaky(x: F32) -> F32:
    return np.maximum(x, _SLOPE * x)


def _bent(x: F32) -> F32:
    return np.where(x > 0, np.float32(1), _SLOPE)


def _peak_loss(weight: F32, unit: F32, truth: F32, importance: F32) -> tuple[float, F32]:
    """(mean chord in degrees, gradient by weight (clips, cells)) of the kernelled peaks of several clips."""
    edge = np.cos(np.radians(KERNEL_EDGE_DEG))
    mean = np.einsum("bn,bnk->bk", weight, unit)
    for _ in range(4):
        peak = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        kernel = np.clip((np.einsum("bnk,bk->bn", unit, peak) - edge) / (1 - edge), 0, None)
        mean = np.einsum("bn,bnk->bk", weight * kernel, unit)
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    peak = mean / length
    away = peak - truth
    chord = np.sqrt((away**2).sum(axis=1, keepdims=True) + 2.5e-5)
    by_peak = importance[:, None] * away / chord
    by_mean = (by_peak - peak * (by_peak * peak).sum(axis=1, keepdims=True)) / length
    gradient = np.einsum("bk,bnk->bn", by_mean, unit) * kernel
    # Weight far from the truth makes wrong peaks; a little pressure keeps it away.
    gradient += 0.02 * (np.einsum("bnk,bk->bn", unit, truth) < 0.5)
    return float(np.degrees(chord).mean()), gradient.astype(np.float32)


def train(features: F32, units: F32, truths: F32, importance: F32, seed: int = 2) -> VoteNet:
    """The net for features (clips, cells, FEATURES) float16, units (clips, cells, 3), truths (clips, 3)."""
    sample = features[::7].astype(np.float32).reshape(-1, FEATURES)
    mean, scale = sample.mean(axis=0), sample.std(axis=0)
    rng = np.random.default_rng(seed)
    h0, h1 = HIDDEN
    net = [
        (rng.standard_normal((FEATURES, h0)) / 3).astype(np.float32),
        np.zeros(h0, np.float32),
        (rng.standard_normal((h0, h1)) / np.sqrt(h0)).astype(np.float32),
        np.zeros(h1, np.float32),
        np.zeros((h1, 1), np.float32),
        np.full(1, -3, np.float32),
    ]
    first = [np.zeros_like(p) for p in net]
    second = [np.zeros_like(p) for p in net]
    steps = EPOCHS * (len(features) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(features))
        losses = []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            k = order[start : start + BATCH]
            x = ((features[k].astype(np.float32) - mean) / scale).reshape(-1, FEATURES)
            a = x @ net[0] + net[1]
            ha = _leaky(a)
            b = ha @ net[2] + net[3]
            hb = _leaky(b)
            raw = 1 / (1 + np.exp(-np.clip((hb @ net[4])[:, 0] + net[5], -20, 20))).reshape(BATCH, -1)
            w = raw / raw.sum(axis=1, keepdims=True)
            loss, by_w = _peak_loss(w, units[k].astype(np.float32), truths[k], importance[k])
            losses.append(loss)
            # By the raw weight's argument: through the division by the sum, then the sigmoid.
            g = w * (1 - raw) * (by_w - (w * by_w).sum(axis=1, keepdims=True))
            g = g.reshape(-1, 1).astype(np.float32) / BATCH
            gb = (g @ net[4].T) * _bent(b)
            ga = (gb @ net[2].T) * _bent(a)
            gradients = [x.T @ ga, ga.sum(axis=0), ha.T @ gb, gb.sum(axis=0), hb.T @ g, g.sum(axis=0)]
            step += 1
            rate = 6e-3 * min(1, step / 40) * 0.5 * (1 + np.cos(np.pi * step / steps))
            for p, m, v, gradient in zip(net, first, second, gradients, strict=True):
                m += 0.1 * (gradient - m)
                v += 0.005 * (gradient**2 - v)
                size = np.sqrt(v / (1 - 0.995**step)) + 1e-9
                p -= (rate * (m / (1 - 0.9**step)) / size).astype(np.float32)
        note(f"epoch {epoch + 1} of {EPOCHS}: mean error {np.mean(losses):.2f} degrees")
    w0 = net[0].T / scale
    return VoteNet(
        np.ascontiguousarray(w0),
        net[1] - w0 @ mean,
        np.ascontiguousarray(net[2].T),
        net[3],
        net[4][:, 0].copy(),
        net[5],
    )


def save(net: VoteNet, path: Path) -> None:
    content = {
        name: np.round(getattr(net, name).astype(float), 5).tolist() for name in net.__dataclass_fields__
    }
    content["source"] = f"python -m bench.doa_training, seed {TRAINING_SEED}, {CLIPS} rooms"
    path.write_text(json.dumps(content) + "\n")


def main() -> None:
    net = train(*_load())
    save(net, Path(sys.argv[1]) if len(sys.argv) > 1 else Path(dsp.__file__).with_name("vote_weights.json"))


if __name__ == "__main__":
    main()
