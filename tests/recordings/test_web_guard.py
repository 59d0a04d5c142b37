"""The guard of a page that also takes decisions: what changes something must come from the page itself."""

from __future__ import annotations

from typing import Any

import pytest

from dsp.errors import DeviceError, InputError
from recordings.web.address import bind, parse
from recordings.web.guard import Guard, Page

PAGE = Page("review", "hearth review", methods=("POST",), allow=("media-src 'self'",))
OURS = "http://127.0.0.1:5775"


def request(method: str, **headers: str) -> dict[str, Any]:
    coded = [(key.encode(), value.encode()) for key, value in {"host": "127.0.0.1:5775", **headers}.items()]
    return {"type": "http", "method": method, "headers": coded, "query_string": b""}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request("GET"), 0),
        (request("POST", origin=OURS), 0),
        (request("POST"), 403),
        (request("POST", origin="http://evil.example"), 403),
        (request("POST", origin="null"), 403),
        (request("PUT", origin=OURS), 405),
        (request("POST", origin=OURS, host="evil.example"), 403),
    ],
)
def test_what_changes_something_comes_from_the_page(asked: dict[str, Any], status: int) -> None:
    assert Guard(None, PAGE, loopback=True, port=5775, token=None).judge(asked).status == status


def test_a_token_is_asked_for_before_anything_is_taken() -> None:
    guard = Guard(None, PAGE, loopback=False, port=5775, token="secret")
    assert guard.judge(request("POST", origin=OURS)).status == 401
    assert guard.judge(request("POST", origin=OURS, cookie="hearth_review_5775=secret")).status == 0


def test_addresses() -> None:
    assert parse("[::1]:80", "--host") == ("::1", 80)
    with pytest.raises(InputError, match=r"--host.*nowhere"):
        parse("nowhere", "--host")
    first = bind("127.0.0.1:0", "--port", "Give another")
    with first.socket, pytest.raises(DeviceError, match="Give another"):
        bind(f"127.0.0.1:{first.port}", "--port", "Give another")
    assert first.token is None
