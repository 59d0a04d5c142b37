"""Compiled FIR kernels: explicit vectors in LLVM, called from Numba, without the GIL.

Numba's automatic vectoriser gives up on a loop with many taps (wrap-around indices, alias checks), so the two
inner loops are written as vector code here. It is portable: LLVM maps 8 floats to AVX or to two NEON
registers. Every output is made by the same instructions in the same order wherever it lies in a block, and
that is why results do not depend on the size of the blocks.

All arrays are flat float32: frame r, channel c lies at r * channels + c.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 8  # floats per vector
VECTORS = 8  # vectors per step of the symmetric kernel; 8 sums stay in registers on AVX and on NEON
STEP = WIDTH * VECTORS  # outputs of the symmetric kernel come in multiples of this
PAIR = 2 * WIDTH  # taps of the dot products come in multiples of this

_F32 = ir.FloatType()
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_VEC = ir.VectorType(_F32, WIDTH)


def _data(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    return context.make_array(array_type)(context, builder, value).data


def _load(builder: Any, pointer: Any) -> Any:
    value = builder.load(builder.bitcast(pointer, _VEC.as_pointer()))
    value.align = 4
    return value


def _store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, _VEC.as_pointer())).align = 4


def _fma(builder: Any) -> Any:
    kind = ir.FunctionType(_VEC, [_VEC] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{WIDTH}f32")


def _splat(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_VEC, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH))


@intrinsic
def _symmetric_step(  # type: ignore[no-untyped-def]
    typingctx, x, x_at, taps, pairs, stride, span, out, out_at, centre, centre_array, centre_at
):
    """out[out_at + l] = centre * centre_array[centre_at + l]
    + sum_k taps[k] * (x[x_at + k*stride + l] + x[x_at + span - k*stride + l]), l = 0..STEP-1.

    The taps run from the edges of the filter (small) to the middle (large): float32 sums lose least that way.
    With centre == 0 the old content of out is the start of the sum instead, so that calls can be chained.
    """
    i64 = types.int64
    signature = types.void(x, i64, taps, i64, i64, i64, out, i64, types.float32, centre_array, i64)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        xs, xat, ts, n_pairs, step, width, outs, oat, mid, cs, cat = args
        x_at_ptr = builder.gep(_data(context, builder, sig.args[0], xs), [xat])
        tap_ptr = _data(context, builder, sig.args[2], ts)
        out_ptr = builder.gep(_data(context, builder, sig.args[6], outs), [oat])
        mid_ptr = builder.gep(_data(context, builder, sig.args[9], cs), [cat])
        fma = _fma(builder)
        sums = [cgutils.alloca_once(builder, _VEC) for _ in range(VECTORS)]
        for s in sums:
            builder.store(ir.Constant(_VEC, [0.0] * WIDTH), s)
        with cgutils.for_range(builder, n_pairs) as loop:
            k = loop.index
            tap = _splat(builder, builder.load(builder.gep(tap_ptr, [k])))
            shift = builder.mul(k, step)
            low = builder.gep(x_at_ptr, [shift])
            high = builder.gep(x_at_ptr, [builder.sub(width, shift)])
            for v in range(VECTORS):
                at = [ir.Constant(_I64, v * WIDTH)]
                both = builder.fadd(
                    _load(builder, builder.gep(low, at)), _load(builder, builder.gep(high, at))
                )
                builder.store(builder.call(fma, [both, tap, builder.load(sums[v])]), sums[v])
        is_mid = builder.fcmp_ordered("!=", mid, ir.Constant(_F32, 0.0))
        with builder.if_else(is_mid) as (with_centre, chained):
            with with_centre:
                factor = _splat(builder, mid)
                for v in range(VECTORS):
                    at = [ir.Constant(_I64, v * WIDTH)]
                    m = _load(builder, builder.gep(mid_ptr, at))
                    value = builder.call(fma, [m, factor, builder.load(sums[v])])
                    _store(builder, value, builder.gep(out_ptr, at))
            with chained:
                for v in range(VECTORS):
                    at = [ir.Constant(_I64, v * WIDTH)]
                    old = _load(builder, builder.gep(out_ptr, at))
                    _store(builder, builder.fadd(builder.load(sums[v]), old), builder.gep(out_ptr, at))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _dot(typingctx, x, x_at, taps, tap_at, pairs):  # type: ignore[no-untyped-def]
    """sum over i < PAIR * pairs of x[x_at + i] * taps[tap_at + i], in a fixed order of additions."""
    signature = types.float32(x, types.int64, taps, types.int64, types.int64)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        xs, xat, ts, tat, n = args
        x_ptr = builder.gep(_data(context, builder, sig.args[0], xs), [xat])
        t_ptr = builder.gep(_data(context, builder, sig.args[2], ts), [tat])
        fma = _fma(builder)
        sums = [cgutils.alloca_once(builder, _VEC) for _ in range(2)]
        for s in sums:
            builder.store(ir.Constant(_VEC, [0.0] * WIDTH), s)
        with cgutils.for_range(builder, n) as loop:
            base = builder.mul(loop.index, ir.Constant(_I64, PAIR))
            for v in range(2):
                at = [builder.add(base, ir.Constant(_I64, v * WIDTH))]
                a, b = _load(builder, builder.gep(x_ptr, at)), _load(builder, builder.gep(t_ptr, at))
                builder.store(builder.call(fma, [a, b, builder.load(sums[v])]), sums[v])
        total = builder.fadd(*(builder.load(s) for s in sums))
        half = WIDTH
        while half > 1:  # fold the upper half onto the lower one
            half //= 2
            folded = _shuffle(builder, total, total, [half + i if i < half else 0 for i in range(WIDTH)])
            total = builder.fadd(total, folded)
        return builder.extract_element(total, ir.Constant(_I32, 0))

    return signature, codegen


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


@intrinsic
def _dots_4(typingctx, x, x_at, stride, taps, tap_at, pairs, out, out_at):  # type: ignore[no-untyped-def]
    """out[out_at + c] = sum over i < PAIR * pairs of x[x_at + c * stride + i] * taps[tap_at + i], c = 0..3.

    Four channels at once: each tap is loaded once, and the four sums are folded together.
    """
    i64 = types.int64
    signature = types.void(x, i64, i64, taps, i64, i64, out, i64)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        xs, xat, step, ts, tat, n, outs, oat = args
        x_ptr = builder.gep(_data(context, builder, sig.args[0], xs), [xat])
        channel = [builder.gep(x_ptr, [builder.mul(step, ir.Constant(_I64, c))]) for c in range(4)]
        t_ptr = builder.gep(_data(context, builder, sig.args[3], ts), [tat])
        out_ptr = builder.gep(_data(context, builder, sig.args[6], outs), [oat])
        fma = _fma(builder)
        sums = [[cgutils.alloca_once(builder, _VEC) for _ in range(2)] for _ in range(4)]
        for pair in sums:
            for s in pair:
                builder.store(ir.Constant(_VEC, [0.0] * WIDTH), s)
        with cgutils.for_range(builder, n) as loop:
            base = builder.mul(loop.index, ir.Constant(_I64, PAIR))
            for v in range(2):
                at = [builder.add(base, ir.Constant(_I64, v * WIDTH))]
                tap = _load(builder, builder.gep(t_ptr, at))
                for c in range(4):
                    value = _load(builder, builder.gep(channel[c], at))
                    builder.store(builder.call(fma, [value, tap, builder.load(sums[c][v])]), sums[c][v])
        a, b, c, d = (builder.fadd(builder.load(pair[0]), builder.load(pair[1])) for pair in sums)
        low, high = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
        ab = builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))
        cd = builder.fadd(_shuffle(builder, c, d, low), _shuffle(builder, c, d, high))
        low, high = [0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 14, 15]
        abcd = builder.fadd(_shuffle(builder, ab, cd, low), _shuffle(builder, ab, cd, high))
        four = builder.fadd(
            _shuffle(builder, abcd, abcd, [0, 2, 4, 6]), _shuffle(builder, abcd, abcd, [1, 3, 5, 7])
        )
        pointer = builder.bitcast(out_ptr, ir.VectorType(_F32, 4).as_pointer())
        builder.store(four, pointer).align = 4
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _nonfinite_sum(typingctx, x, vectors):  # type: ignore[no-untyped-def]
    """0.0 if the first WIDTH * vectors values are finite, else NaN: v - v is 0 only for a finite v."""
    signature = types.float32(x, types.int64)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        pointer = _data(context, builder, sig.args[0], args[0])
        total = cgutils.alloca_once(builder, _VEC)
        builder.store(ir.Constant(_VEC, [0.0] * WIDTH), total)
        with cgutils.for_range(builder, args[1]) as loop:
            at = builder.mul(loop.index, ir.Constant(_I64, WIDTH))
            v = _load(builder, builder.gep(pointer, [at]))
            builder.store(builder.fadd(builder.load(total), builder.fsub(v, v)), total)
        value = builder.load(total)
        result = builder.extract_element(value, ir.Constant(_I32, 0))
        for i in range(1, WIDTH):
            result = builder.fadd(result, builder.extract_element(value, ir.Constant(_I32, i)))
        return result

    return signature, codegen


@intrinsic
def _between(typingctx, table, at, taps, part, out):  # type: ignore[no-untyped-def]
    """out[k] = table[at + k] + part * (table[at + taps + k] - table[at + k]), k = 0..taps-1, a multiple of
    WIDTH: a filter between two neighbours of a bank.
    """
    signature = types.void(table, types.int64, types.int64, types.float32, out)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        ts, tat, n, between, outs = args
        pointer = builder.gep(_data(context, builder, sig.args[0], ts), [tat])
        following = builder.gep(pointer, [n])
        out_ptr = _data(context, builder, sig.args[4], outs)
        factor = _splat(builder, between)
        fma = _fma(builder)
        with cgutils.for_range(builder, builder.sdiv(n, ir.Constant(_I64, WIDTH))) as loop:
            k = [builder.mul(loop.index, ir.Constant(_I64, WIDTH))]
            a, b = _load(builder, builder.gep(pointer, k)), _load(builder, builder.gep(following, k))
            value = builder.call(fma, [builder.fsub(b, a), factor, a])
            _store(builder, value, builder.gep(out_ptr, k))
        return context.get_dummy_value()

    return signature, codegen


@njit(inline="always")
def between(table, at, taps, part, out):  # type: ignore[no-untyped-def]
    """The filter a `part` (0..1) of the way from the one at table[at] to the next, taps floats later."""
    _between(table, at, taps, part, out)


@intrinsic
def _split_pairs_4(typingctx, x, x_at, even, even_at, odd, odd_at, pairs):  # type: ignore[no-untyped-def]
    """For 4 channels: frames x[0], x[2].. to even and x[1], x[3].. to odd, a frame at a time."""
    i64 = types.int64
    signature = types.void(x, i64, even, i64, odd, i64, i64)
    four = ir.VectorType(_F32, 4)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        xs, xat, es, eat, os_, oat, n = args
        x_ptr = builder.gep(_data(context, builder, sig.args[0], xs), [xat])
        e_ptr = builder.gep(_data(context, builder, sig.args[2], es), [eat])
        o_ptr = builder.gep(_data(context, builder, sig.args[4], os_), [oat])
        with cgutils.for_range(builder, n) as loop:
            to = builder.mul(loop.index, ir.Constant(_I64, 4))
            src = builder.mul(loop.index, ir.Constant(_I64, 8))
            for pointer, extra in ((e_ptr, 0), (o_ptr, 4)):
                p = builder.gep(x_ptr, [builder.add(src, ir.Constant(_I64, extra))])
                v = builder.load(builder.bitcast(p, four.as_pointer()))
                v.align = 4
                q = builder.bitcast(builder.gep(pointer, [to]), four.as_pointer())
                builder.store(v, q).align = 4
        return context.get_dummy_value()

    return signature, codegen


@njit(cache=True, nogil=True)
def all_finite(x):  # type: ignore[no-untyped-def]
    """True if the flat float32 array holds neither NaN nor infinity."""
    n = x.size
    whole = n // WIDTH
    total = _nonfinite_sum(x, whole)
    for i in range(whole * WIDTH, n):
        total += x[i] - x[i]
    return total == np.float32(0.0)


@njit(cache=True, nogil=True)
def _split(x, at, even, odd, row, pairs, channels):  # type: ignore[no-untyped-def]
    if channels == 4:
        _split_pairs_4(x, at, even, row * 4, odd, row * 4, pairs)
        return
    for i in range(pairs):
        for c in range(channels):
            even[(row + i) * channels + c] = x[at + (2 * i) * channels + c]
            odd[(row + i) * channels + c] = x[at + (2 * i + 1) * channels + c]


@njit(cache=True, nogil=True)
def decimate_by_two(block, state, plan, out):  # type: ignore[no-untyped-def]
    """Filter with a symmetric FIR and keep every second frame. Returns the frames written, or -1 if the block
    holds NaN or infinity (then nothing has changed).

    block: (frames, channels). out: (rows, channels) with at least STEP floats more than the result needs.
    state and plan are made by `decimator_state`. Few arguments, because each costs a tenth of a microsecond.
    Output row i is centred on even row (history + i - delay) of the delay line.
    """
    x = block.reshape(-1)
    target = out.reshape(-1)
    waiting, channels, n_odd, n_even = plan[0], plan[1], plan[2], plan[3]
    delay, history, room = plan[4], plan[5], plan[6]
    if not all_finite(x):
        return -1
    centre = state[0]
    odd_taps = state[1 : 1 + n_odd]
    even_taps = state[1 + n_odd : 1 + n_odd + n_even]
    line = 1 + n_odd + n_even
    size = (history + room + 1) * channels + STEP
    even = state[line : line + size]
    odd = state[line + size : line + 2 * size]
    frames = block.shape[0]
    read = 0
    written = 0
    pairs_left = (frames + waiting) // 2
    while pairs_left > 0:
        rows = min(room, pairs_left)
        if waiting == 1:  # the even frame is already at row `history`
            for c in range(channels):
                odd[history * channels + c] = x[read * channels + c]
            read += 1
            _split(x, read * channels, even, odd, history + 1, rows - 1, channels)
            read += 2 * (rows - 1)
            waiting = 0
        else:
            _split(x, read * channels, even, odd, history, rows, channels)
            read += 2 * rows
        middle = (history - delay) * channels
        for j in range(0, rows * channels, STEP):
            at = written * channels + j
            low = middle - n_odd * channels + j
            span = (2 * n_odd - 1) * channels
            _symmetric_step(odd, low, odd_taps, n_odd, channels, span, target, at, centre, even, middle + j)
            if n_even > 0:
                low = middle - n_even * channels + j
                span = 2 * n_even * channels
                nothing = np.float32(0.0)
                _symmetric_step(
                    even, low, even_taps, n_even, channels, span, target, at, nothing, even, middle + j
                )
        written += rows
        pairs_left -= rows
        shift = rows * channels
        for i in range(history * channels):
            even[i] = even[i + shift]
        for i in range(history * channels):
            odd[i] = odd[i + shift]
    if read < frames:
        for c in range(channels):
            even[history * channels + c] = x[read * channels + c]
        waiting = 1
    plan[0] = waiting
    return written


def decimator_state(
    channels: int, odd_taps: Any, even_taps: Any, centre: float, delay: int, room: int
) -> tuple[Any, Any]:
    """(state, plan) of `decimate_by_two`, with an empty past.

    odd_taps: taps at distance ..., 5, 3, 1 from the middle one; even_taps: ..., 6, 4, 2 (none for a half-band
    filter); centre: the middle tap. room: output rows per turn of the inner loop.
    state: [centre, odd taps, even taps, delay line of even frames, delay line of odd frames]; a line is
    `history` rows of the past, room for new rows and STEP spare floats.
    plan: [1 if an even frame waits for its partner, channels, odd taps, even taps, delay, history, room].
    """
    history = delay + max(len(odd_taps), len(even_taps))
    size = (history + room + 1) * channels + STEP
    state = np.concatenate([[centre], odd_taps, even_taps, np.zeros(2 * size)]).astype(np.float32)
    plan = np.array([0, channels, len(odd_taps), len(even_taps), delay, history, room], np.int64)
    return state, plan


@njit(inline="always")
def dots(flat, at, size, taps, tap_at, pairs, out, out_at, channels):  # type: ignore[no-untyped-def]
    """out[out_at + c] = the dot product of PAIR * pairs taps with channel c of (channels, size) lines."""
    if channels == 4:
        _dots_4(flat, at, size, taps, tap_at, pairs, out, out_at)
        return
    for c in range(channels):
        out[out_at + c] = _dot(flat, c * size + at, taps, tap_at, pairs)


@njit(cache=True, nogil=True)
def append_frames(x, read, count, channels, line, filled):  # type: ignore[no-untyped-def]
    """Frames of the flat x from `read` on go to (channels, size) delay lines from row `filled` on."""
    for c in range(channels):
        for i in range(count):
            line[c, filled + i] = x[(read + i) * channels + c]


@njit(cache=True, nogil=True)
def drop_rows(line, rows, filled):  # type: ignore[no-untyped-def]
    """Forget the first `rows` of `filled` rows of (channels, size) delay lines."""
    if rows > 0:
        for c in range(line.shape[0]):
            for i in range(filled - rows):
                line[c, i] = line[c, i + rows]


@njit(cache=True, nogil=True)
def polyphase(block, line, position, taps, up, down, phase_taps, out, out_rows):  # type: ignore[no-untyped-def]
    """Resample by up/down with a bank of `up` filters. Returns the frames written, -1 for NaN or infinity.

    line: (channels, size) delay lines; position: [rows filled, next output's first input row, its phase].
    taps: flat, `phase_taps` (a multiple of PAIR) per phase, reversed in time, so that an output is a plain
    dot product of a phase with the rows that start at its position.
    """
    x = block.reshape(-1)
    if not all_finite(x):
        return -1
    frames, channels = block.shape
    size = line.shape[1]
    filled, start, phase = position[0], position[1], position[2]
    read = 0
    written = 0
    flat = line.reshape(-1)
    target = out.reshape(-1)
    pairs = phase_taps // PAIR
    whole, part = down // up, down % up
    while True:
        count = min(size - filled, frames - read)
        append_frames(x, read, count, channels, line, filled)
        filled += count
        read += count
        while start + phase_taps <= filled and written < out_rows:
            dots(flat, start, size, taps, phase * phase_taps, pairs, target, written * channels, channels)
            written += 1
            phase += part
            start += whole
            if phase >= up:
                phase -= up
                start += 1
        drop = min(start, filled)
        drop_rows(line, drop, filled)
        filled -= drop
        start -= drop
        if read == frames:
            break
    position[0], position[1], position[2] = filled, start, phase
    return written
