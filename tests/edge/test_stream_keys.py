"""Keys on disk: words and fingerprints, modes, what is refused; and the commands that a user types."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from zmq.utils import z85

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_cli_json import assert_documented

from dsp.errors import DeviceError, HearthError, InputError
from edge.stream.keys import PublicKey, fingerprint, parse_key
from edge.stream.keys_folder import ClientKeys, KeysFolder, Seen
from hearth import app


@given(st.binary(min_size=32, max_size=32), st.sampled_from(["client", "rig"]))
def test_a_key_survives_being_copied_as_a_word(raw: bytes, kind: Any) -> None:
    key = PublicKey(kind, raw)
    assert parse_key(f"  {key.word.upper()}\n") == key
    assert len(key.word) == len(kind) + 57 and key.fingerprint == fingerprint(raw)


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 55),
    st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"),
)
def test_a_wrong_letter_is_an_error_and_not_another_key(raw: bytes, place: int, letter: str) -> None:
    word = PublicKey("client", raw).word
    at = len("client:") + place
    wrong = word[:at] + letter + word[at + 1 :]
    if wrong != word:
        with pytest.raises(InputError, match="wrong letter"):
            parse_key(wrong)
    with pytest.raises(InputError, match="wrong letter"):  # of a client, given as a rig's
        parse_key(word.replace("client:", "rig:"))


@given(st.text(max_size=80))
def test_anything_else_is_no_key(word: str) -> None:
    with pytest.raises(InputError, match="is not a key"):
        parse_key(word)


def test_the_pair_is_one_that_curve_accepts(tmp_path: Path) -> None:
    pair = KeysFolder(tmp_path).make("a", "client")
    assert z85.decode(zmq.curve_public(z85.encode(pair.secret))) == pair.public.raw
    assert pair.secret.hex() not in repr(pair) and str(pair.secret) not in repr(pair)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    os.umask(0)  # the worst that a shell can do
    try:
        folder = KeysFolder(tmp_path / "a" / "keys")
        pair = folder.make("rig", "rig")
        folder.allow("phone", KeysFolder(tmp_path / "b").make("phone", "client").public.word)
        folder.revoke("phone")
        folder.note_seen({pair.public.fingerprint: Seen(utc="2026-01-01T00:00:00Z", address="10.0.0.1")})
    finally:
        os.umask(0o022)
    paths = list(folder.path.rglob("*"))
    assert len([path for path in paths if path.is_file()]) == 3
    for path in (folder.path, *paths):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize(("what", "mode"), [("own/rig.json", 0o640), ("own", 0o755), (".", 0o711)])
def test_a_secret_that_others_can_reach_is_refused(tmp_path: Path, what: str, mode: int) -> None:
    folder = KeysFolder(tmp_path / "keys")
    folder.make("rig", "rig")
    (folder.path / what).chmod(mode)
    with pytest.raises(InputError, match="chmod"):
        folder.rig_key()
    (folder.path / what).chmod(0o600 if what.endswith("json") else 0o700)
    assert folder.rig_key().name == "rig"


def test_a_secret_is_not_put_into_an_open_folder(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o755)
    with pytest.raises(InputError, match="chmod 700"):
        KeysFolder(tmp_path / "keys").make("rig", "rig")
    assert list((tmp_path / "keys").iterdir()) == []


def test_nothing_is_replaced_and_nobody_is_mixed_up(tmp_path: Path) -> None:
    rig, client = KeysFolder(tmp_path / "rig"), KeysFolder(tmp_path / "client")
    made = rig.make("rig", "rig")
    for name, kind in (("rig", "client"), ("second", "rig")):
        with pytest.raises(InputError, match=r"already"):
            rig.make(name, kind)  # type: ignore[arg-type]
    assert rig.rig_key() == made
    one, two = client.make("one", "client"), client.make("two", "client")
    rig.allow("phone", one.public.word)
    rig.allow("phone", one.public.word)  # again: no harm
    with pytest.raises(InputError, match="as phone"):
        rig.allow("tablet", one.public.word)
    with pytest.raises(InputError, match="another key"):
        rig.allow("phone", two.public.word)
    with pytest.raises(InputError, match="the key of a client"):
        rig.allow("two", two.public.word, ("10.0.0.1",))
    for name in ("", "../x", "a b", ".x", "x" * 60):
        with pytest.raises(InputError, match="is no name"):
            rig.make(name, "client")
        with pytest.raises(InputError, match="is no name"):
            rig.allow(name, two.public.word)
    with pytest.raises(InputError, match="allowed: phone"):
        rig.revoke("nobody")
    rig.revoke("phone")
    assert [listed.name for listed in rig.revoked("client")] == ["phone"] and rig.allowed("client") == []
    rig.allow("phone", one.public.word)
    assert rig.revoked("client") == []


def test_a_client_with_several_keys_or_rigs_must_say_which(tmp_path: Path) -> None:
    client = KeysFolder(tmp_path / "client")
    with pytest.raises(InputError, match="hearth keys make NAME"):
        ClientKeys.load(client.path)
    client.make("one", "client")
    with pytest.raises(InputError, match="hearth keys allow NAME rig:"):
        ClientKeys.load(client.path)
    for number in (1, 2):
        key = KeysFolder(tmp_path / f"rig{number}").make("rig", "rig")
        client.allow(f"rig{number}", key.public.word, (f"10.0.0.{number}",))
    assert ClientKeys.load(client.path).rig_at("10.0.0.2").name == "rig2"
    with pytest.raises(InputError, match=r"rig1 \(10\.0\.0\.1\), rig2"):
        ClientKeys.load(client.path).rig_at("10.0.0.3")
    client.make("two", "client")
    with pytest.raises(InputError, match=r"several client keys \(one, two\)"):
        ClientKeys.load(client.path)
    assert ClientKeys.load(client.path, "two").own.name == "two"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"hearth_key": 1}', b"x" * (2 << 20)])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    folder = KeysFolder(tmp_path / "keys")
    folder.make("rig", "rig")
    (folder.path / "own" / "rig.json").write_bytes(content)
    with pytest.raises(HearthError, match=r"rig\.json"):
        folder.rig_key()
    (folder.path / "seen.json").write_bytes(content)
    (folder.path / "seen.json").chmod(0o600)
    assert folder.seen() == {}


def test_a_folder_that_cannot_be_written_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match="cannot"):
        KeysFolder(tmp_path / "file" / "keys").make("rig", "rig")


def run(*args: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["keys", *map(str, args), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert_documented(f"keys {args[0]}", told)
    return dict(told)


def test_the_commands_from_first_to_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rig, client = ("--folder", tmp_path / "rig"), ("--folder", tmp_path / "client")
    made = run("make", "--rig", *rig)
    assert run("make", "phone", *client)["kind"] == "client" and made["name"] == "rig"
    run("allow", "rig", made["key"], "--host", "10.0.0.1", *client)
    phone = run("show", *client)["keys"][0]
    run("allow", "phone", phone["key"], *rig)
    listed = run("list", *rig)["keys"]
    assert [(row["name"], row["list"]) for row in listed] == [("rig", "own"), ("phone", "allowed")]
    run("revoke", "phone", *rig)
    assert run("show", "phone", *rig)["keys"][0]["list"] == "revoked"
    secrets = [json.loads(path.read_text())["secret"] for path in tmp_path.glob("*/own/*.json")]
    out = ""
    for args in (["list", *rig], ["show", *client], ["list", *client, "--json"]):
        out += CliRunner().invoke(app, ["keys", *map(str, args)]).stdout
    assert len(secrets) == 2 and not any(secret in out for secret in secrets)
    with pytest.raises(InputError, match="hearth keys make NAME"):
        CliRunner().invoke(app, ["keys", "make"], catch_exceptions=False)
    # The rig file here says where the keys are.
    (tmp_path / "rig.yaml").write_text("hearth_rig: 1\nsecurity: {keys: rig}\n")
    assert run("show")["keys"][0]["key"] == made["key"]
