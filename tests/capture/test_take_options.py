"""What a take's options may be: refused by name, and before a room is rendered."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import capture.sources
from dsp.errors import DeviceError, HearthError, InputError
from hearth import app


@pytest.fixture
def no_room(monkeypatch, tmp_path):
    """Opening the rig counts as too late."""
    monkeypatch.chdir(tmp_path)

    def opened(rig):
        raise AssertionError("the rig was opened first")

    monkeypatch.setattr(capture.sources, "open_rig", opened)
    monkeypatch.setattr("edge.demo.open_rig", opened)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--grounding", "G9"], "--grounding is one of G0, G1, G2, G3, G4, not 'G9'"),
        (["--query", "x"], "--query is one of Q1, Q2, Q3, Q4, not 'x'"),
        (["--feasibility", "no"], "--feasibility is one of feasible, nonexistent_resource"),
        (["--consent", "maybe"], "--consent is one of given, not_needed, unknown, not 'maybe'"),
        (["--target", "nothing"], "target device 'nothing' is not in the rig"),
        (["--session", "a b"], "--session takes letters"),
        (["--folder", "/proc/hearth"], "/proc"),
    ],
)
def test_record_refuses_by_name_before_it_opens_anything(no_room, args, words):
    error = CliRunner().invoke(app, ["record", "--seconds", "1", *args]).exception
    assert isinstance(error, HearthError) and words in str(error)


def test_live_and_demo_refuse_before_they_open_anything(no_room, monkeypatch):
    monkeypatch.setenv("HEARTH_KEYS", str(no_room / "no keys"))

    def error(rig: str, *args: str) -> BaseException | None:
        (no_room / "rig.yaml").write_text("hearth_rig: 1\nname: r\n" + rig)
        return CliRunner().invoke(app, list(args)).exception

    virtual = "microphone: {source: virtual}\ncamera: {source: virtual}\n"
    off = error(virtual + "endpoints: {stream: 'tcp://0.0.0.0:5771'}\n", "live")
    assert isinstance(off, InputError) and "loopback" in str(off)
    from edge.stream import Publisher

    with Publisher("tcp://127.0.0.1:0") as publisher:
        taken = error(virtual + f"endpoints: {{stream: '{publisher.address}'}}\n", "live")
    assert isinstance(taken, DeviceError) and "is in use" in str(taken)
    bad = virtual + "storage: {folder: /proc/x}\n"
    for args in (("live", "--record"), ("demo",)):
        assert "/proc/x" in str(error(bad + "endpoints: {stream: 'tcp://127.0.0.1:0', "
                                      "commands: 'tcp://127.0.0.1:0'}\n", *args))  # fmt: skip
    real = "microphone: {source: file, file: x.wav}\ncamera: {source: none}\n"
    for args in (("live", "--scene", "talk"), ("demo", "--seed", "3")):
        told = error(real, *args)
        assert isinstance(told, InputError) and "virtual room" in str(told)


def test_the_agent_checks_its_recogniser_before_it_connects(tmp_path):
    for spec, words in (
        ("nope", "unknown recogniser"),
        (f"whisper:{tmp_path}", "model.bin"),
        ("os:none", "none"),
    ):
        error = CliRunner().invoke(app, ["agent", "--recogniser", spec]).exception
        assert isinstance(error, HearthError) and words in str(error)
