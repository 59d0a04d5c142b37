from __future__ import annotations

import numpy as np
import pytest

from capture.blocks import AudioBlock, Item, SourceEvent
from capture.stamping import BlockStamper

FS, BLOCK = 48000, 480


def run(loss_at: int | None = None, lost: int = 0, flagged: bool = False, blocks: int = 1500) -> list[Item]:
    """A steady device; before block `loss_at`, `lost` frames vanish. Samples count the device's frames."""
    got: list[Item] = []
    stamper = BlockStamper(FS, got.append)
    device = 0
    for i in range(blocks):
        flags: tuple[str, ...] = ()
        if i == loss_at:
            device += lost
            flags = ("input_overflow",) if flagged else ()
        samples = np.repeat(np.arange(device, device + BLOCK, dtype=np.int32)[:, None], 4, axis=1)
        device += BLOCK
        stamper.push(samples, 10**12 + device * 1_000_000_000 // FS, flags)
    return got


def test_blocks_are_counted_and_stamped() -> None:
    blocks = [b for b in run() if isinstance(b, AudioBlock)]
    assert [b.seq for b in blocks] == list(range(1500))
    assert [b.first_frame for b in blocks] == [i * BLOCK for i in range(1500)]
    assert all(abs(b.t_ns - 10**12 - b.first_frame * 1e9 / FS) < 1000 for b in blocks)


@pytest.mark.parametrize("flagged", [True, False])
def test_loss_moves_the_counter_and_is_told(flagged: bool) -> None:
    items = run(loss_at=800, lost=12345, flagged=flagged)
    blocks = [b for b in items if isinstance(b, AudioBlock)]
    assert [b.seq for b in blocks] == list(range(1500)), "no block is dropped or doubled"
    gaps = [b for b in blocks if b.lost_frames]
    assert len(gaps) == 1 and gaps[0].lost_frames == pytest.approx(12345, abs=10)
    # After the finding, counter and time agree with the device again: within 10 frames.
    last = blocks[-1]
    assert last.first_frame == pytest.approx(int(last.samples[0, 0]), abs=10)
    assert last.t_ns - 10**12 == pytest.approx(last.samples[0, 0] * 1e9 / FS, abs=10e9 / FS)
    events = [e for e in items if isinstance(e, SourceEvent)]
    assert [e.kind for e in events] == ["overflow"]
    assert events[0].data["gap_before_frame"] == 800 * BLOCK
    assert events[0].data["reported_by_host"] is flagged
    assert blocks[799].t_ns < events[0].data["gap_t_ns"] < blocks[801].t_ns


def test_return_of_the_device_counts_the_time_away() -> None:
    got: list[Item] = []
    stamper = BlockStamper(FS, got.append)
    zeros = np.zeros((BLOCK, 4), np.int32)
    for i in range(500):
        stamper.push(zeros, 10**12 + (i + 1) * 10_000_000)
    back = 10**12 + 500 * 10_000_000 + 7_500_000_000  # 7.5 s later its first block is complete
    assert stamper.returned(back, BLOCK) == pytest.approx(7.49 * FS, abs=2)
    stamper.push(zeros, back)
    block = got[-1]
    assert isinstance(block, AudioBlock)
    assert block.lost_frames == pytest.approx(7.49 * FS, abs=2)
    assert block.first_frame == pytest.approx(500 * BLOCK + 7.49 * FS, abs=2)
    assert block.t_ns == pytest.approx(back - 10_000_000, abs=100_000)
