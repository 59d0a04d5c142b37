"""The wire format: what goes in comes out, and no bytes whatever do harm."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dsp.errors import InputError
from edge.stream.addresses import parse, same_host, stays_here
from edge.stream.counting import StreamCount
from edge.stream.messages import (
    COMMANDS,
    MAX_HEADER_BYTES,
    MESSAGES,
    REJECTIONS,
    Header,
    MessageError,
    describe_payload,
    pack,
    read_array,
    topic,
    unpack,
    unpack_request,
)

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
U63 = st.integers(0, (1 << 63) - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | I64 | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
DATA = st.dictionaries(st.text(max_size=8), PLAIN, max_size=5)
ARRAYS = hnp.arrays(
    dtype=st.sampled_from(
        ["float32", "float64", "int16", "int32", "int64", "uint8", "uint16", "bool", ">f4"]
    ),
    shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5),
)


@given(st.sampled_from(sorted(MESSAGES)), U63, U63, I64, U63, st.text(max_size=64), DATA)
def test_header_round_trip(stream, epoch, seq, t_ns, duration_ns, units, data) -> None:
    header = Header(
        stream=stream, epoch=epoch, seq=seq, t_ns=t_ns, duration_ns=duration_ns, units=units, data=data
    )
    parts = [bytes(part) for part in pack(header)]
    got, payload = unpack(parts)
    assert got == header and payload == b""
    # A stranger sees a plain map with every key, whatever its value.
    assert set(msgspec.msgpack.decode(parts[1])) == set(Header.__struct_fields__)


@given(ARRAYS)
def test_array_round_trip(array: np.ndarray) -> None:
    """Any layout and byte order of the sender arrives as the same values, read-only."""
    for layout in (array, np.asfortranarray(array), array[::-1]):
        body, shape, dtype, encoding = describe_payload(layout, None, None)
        header = Header(stream="foa24", epoch=1, seq=0, t_ns=0, shape=shape, dtype=dtype, encoding=encoding)
        got, payload = unpack([bytes(part) for part in pack(header, body)])
        read = read_array(got, payload)
        assert read is not None and read.shape == layout.shape and not read.flags.writeable
        np.testing.assert_array_equal(read, layout)


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_random_bytes_are_rejected_with_a_reason(parts: list[bytes]) -> None:
    with pytest.raises(MessageError) as caught:
        unpack(parts)
    assert caught.value.reason in REJECTIONS


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_message_is_rejected_or_still_fits_its_payload(data: st.DataObject) -> None:
    """Cut, change or swap anything in a good message: either it is refused, or what is left is consistent."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    body, shape, dtype, encoding = describe_payload(array, None, None)
    header = Header(stream="foa24", epoch=5, seq=6, t_ns=7, shape=shape, dtype=dtype, encoding=encoding)
    parts = [bytearray(part) for part in pack(header, body)]
    for _ in range(data.draw(st.integers(1, 4))):
        part = parts[data.draw(st.integers(0, 2))]
        if part and data.draw(st.booleans()):
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
        else:
            del part[data.draw(st.integers(0, len(part))) :]
    try:
        got, payload = unpack([bytes(part) for part in parts])
    except MessageError as error:
        assert error.reason in REJECTIONS
    else:
        read = read_array(got, payload)
        assert read is None or read.nbytes == len(payload)


@given(st.dictionaries(st.sampled_from([*Header.__struct_fields__, "other"]), PLAIN, max_size=12))
def test_headers_with_wrong_types_are_rejected(fields: dict) -> None:
    fields = {"v": 1, "stream": "doa", **fields}
    try:
        header, payload = unpack([topic("doa"), msgspec.msgpack.encode(fields), b""])
    except MessageError as error:
        assert error.reason in REJECTIONS
    else:
        assert header.stream == "doa" and payload == b""


@given(st.binary(max_size=300))
def test_random_commands_are_rejected_with_a_reason(body: bytes) -> None:
    try:
        request = unpack_request(body)
    except MessageError as error:
        assert error.reason in REJECTIONS
    else:
        assert request.op


def test_versions_sizes_and_topics_are_told_apart() -> None:
    good = {"v": 1, "stream": "doa", "epoch": 1, "seq": 0, "t_ns": 0}

    def reason(parts: list[bytes]) -> str:
        with pytest.raises(MessageError) as caught:
            unpack(parts)
        return caught.value.reason

    pack_map = msgspec.msgpack.encode
    unpack([b"doa\0", pack_map({**good, "new_in_a_later_1_x": [1]}), b""])
    assert reason([b"doa\0", pack_map({**good, "v": 2}), b""]) == "wrong_version"
    assert reason([b"doa\0", pack_map({"v": 2, "stream": 17}), b""]) == "wrong_version"
    assert reason([b"doa\0", b"\xc1" * (MAX_HEADER_BYTES + 1), b""]) == "oversized"
    assert reason([b"doa", pack_map(good), b""]) == "malformed"
    assert reason([b"levels\0", pack_map(good), b""]) == "malformed"
    assert reason([b"doa\0", pack_map(good), b"x"]) == "malformed"
    assert reason([b"doa\0", b"\x91" * 100_000 + b"\xc0", b""]) == "malformed"  # nested 100,000 deep
    raw = {**good, "encoding": "raw", "dtype": "float32", "shape": [1 << 40, 1 << 40, 1 << 40]}
    assert reason([b"doa\0", pack_map(raw), b"1234"]) == "malformed"


def test_no_topic_is_the_prefix_of_another() -> None:
    topics = [topic(name) for name in MESSAGES]
    assert not any(a != b and b.startswith(a) for a in topics for b in topics)


def test_the_document_shows_the_table_of_the_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:3] == "| `"
    ]
    shown = {row[0].strip("`"): row[1:] for row in rows if row[0].strip("`") in MESSAGES and len(row) == 7}
    assert list(shown) == list(MESSAGES)
    for name, spec in MESSAGES.items():
        logged = "yes" if spec.logged else "no"
        expected = [spec.rate, spec.units, spec.sender, logged, spec.delivery, spec.carries]
        assert shown[name] == expected, name
    commands = {row[0].strip("`"): row[1:] for row in rows if len(row) == 4 and row[0].strip("`") in COMMANDS}
    assert list(commands) == list(COMMANDS)
    for op, command in COMMANDS.items():
        assert commands[op] == [command.args, command.answered_by, command.answer], op
    fields = re.findall(r"^\| `(\w+)` \|.*\|$", text.split("## The header")[1].split("\n## ")[0], re.M)
    assert fields == list(Header.__struct_fields__)


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:5771", "tcp://127.8.8.8:0", "tcp://localhost:1", "tcp://[::1]:5771", "ipc:///tmp/x"],
)
def test_what_stays_on_this_machine(address: str) -> None:
    assert stays_here(address)


@pytest.mark.parametrize(
    "address",
    [
        "tcp://0.0.0.0:5771",
        "tcp://*:5771",
        "tcp://192.168.1.10:5771",
        "tcp://[::]:5771",
        "tcp://eth0:5771",
        "tcp://127.0.0.1.example.org:5771",
        "tcp://[fe80::1%eth0]:5771",
        "tcp://rig.local:5771",
    ],
)
def test_what_leaves_it(address: str) -> None:
    assert not stays_here(address)


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:1;10.0.0.1:2",
        "tcp://127.0.0.1;10.0.0.1:2",
        "udp://127.0.0.1:1",
        "inproc://x",
        "ipc://",
        "",
    ],
)
def test_anything_else_is_refused_with_advice(address: str) -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1|a port is"):
        parse(address)


def test_announced_addresses_are_reached_by_the_host_that_we_know() -> None:
    assert same_host("tcp://127.0.0.1:40001", "tcp://localhost:5771") == "tcp://localhost:40001"
    assert same_host("ipc:///run/x-latest", "ipc:///run/x") == "ipc:///run/x-latest"
    assert same_host("tcp://0.0.0.0:40001", "tcp://rig.local:5771") == "tcp://rig.local:40001"
    assert same_host("tcp://10.0.0.7:40001", "ipc:///run/x") == "ipc:///run/x-latest"
    for hostile in ("ipc:///etc/x", "tcp://10.0.0.1:0", "tcp://10.0.0.1:*", "x", "", "tcp://a:1@b:2"):
        with pytest.raises(InputError):
            same_host(hostile, "tcp://10.0.0.9:5771")


@given(st.permutations(range(12)), st.sets(st.integers(0, 11), max_size=6))
def test_counting_agrees_with_sets(order: list[int], dropped: set[int]) -> None:
    """Any order and any loss: received + lost = what was sent from the first one on."""
    arrived = [n for n in order if n not in dropped]
    count = StreamCount()
    delivered = [n for n in arrived if count.arrived(9, n)]
    count.promised(9, 12)
    if not arrived:
        assert count.lost == 0 and count.received == 0
        return
    first = arrived[0]
    expected = {n for n in arrived if n >= first}  # what came before the first one was not promised
    assert set(delivered) == expected
    assert count.received == len(expected)
    assert count.lost == 12 - first - len(expected)
    highest, late = -1, 0
    for n in delivered:
        late += n < highest
        highest = max(highest, n)
    assert count.reordered == late
    assert count.repeated == len(arrived) - len(expected)


def test_counting_sees_restarts_and_hostile_numbers() -> None:
    count = StreamCount()
    count.promised(1, 0)
    assert count.arrived(1, 0) and count.arrived(1, 1)
    assert not count.arrived(1, 1)
    assert count.arrived(2, 0)
    assert (count.restarted, count.lost, count.repeated) == (1, 0, 1)
    assert count.arrived(2, 1 << 62)
    assert count.lost == (1 << 62) - 1
    assert len(count._missing) <= 4096
