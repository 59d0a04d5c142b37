"""A language model behind an OpenAI-compatible address: `<endpoint>/chat/completions`, one reply per call."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from dsp.errors import DeviceError, InputError

MOST_REPLY_BYTES = 1 << 20


class ChatError(DeviceError):
    """No usable reply. `short`: why, in a few words that count together (`time-out`, `HTTP 503`)."""

    def __init__(self, url: str, text: str, short: str) -> None:
        super().__init__(f"{url} {text}")
        self.short = short


class ChatModel:
    """endpoint: such as http://127.0.0.1:8080/v1, with or without /chat/completions; model: its name there.

    key: sent as bearer token. timeout_s: for a whole reply, however slowly it drips. Thread-safe.
    Raises InputError for an address that is none of http or https, and for a model without a name.
    """

    def __init__(self, endpoint: str, model: str, *, key: str | None = None, timeout_s: float = 60.0) -> None:
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"a model's address looks like http://127.0.0.1:8080/v1, not {endpoint!r}")
        if not model.strip():
            raise InputError("--model takes the name of a model at that address, not an empty text")
        base = endpoint.rstrip("/")
        self.url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        self.model = model
        self.timeout_s = timeout_s
        self._key = key

    def complete(self, messages: list[dict[str, str]], **options: Any) -> str:
        """The text of the first choice. options: temperature, max_tokens, seed, ... Raises ChatError."""
        body = {"model": self.model, "messages": messages, **options}
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:
                content = _read(reply, time.monotonic() + self.timeout_s)
        except urllib.error.HTTPError as error:
            raise ChatError(self.url, f"answered {error.code} {error.reason}", f"HTTP {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                short = "time-out"
            elif isinstance(error, urllib.error.URLError):
                short = f"no connection: {reason}"
            else:
                short = f"no reply: {type(error).__name__}"
            raise ChatError(self.url, f"did not answer: {reason}", short) from None
        try:
            text = json.loads(content)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):  # the last: [[[[...
            text = None
        if not isinstance(text, str):
            short = "the reply is no chat completion"
            raise ChatError(self.url, "did not answer in the form of a chat completion", short)
        return text


def _read(reply: http.client.HTTPResponse, until_s: float) -> bytes:
    """The whole reply. TimeoutError when it is not there in time: a slow one keeps each single read alive."""
    content = b""
    while chunk := reply.read1(1 << 16):
        content += chunk
        if time.monotonic() > until_s:
            raise TimeoutError("timed out")
        if len(content) > MOST_REPLY_BYTES:
            raise ValueError(f"a reply of more than {MOST_REPLY_BYTES} bytes")
    return content
