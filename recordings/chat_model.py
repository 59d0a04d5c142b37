"""A language model behind an OpenAI-compatible address: `<endpoint>/chat/completions`, one reply per call."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsp.errors import DeviceError, InputError

MOST_REPLY_BYTES = 1 << 20
MOST_PAUSE_S = 20.0
PASSING = (408, 425, 429, 500, 502, 503, 504)


class ChatError(DeviceError):
    """No usable reply. `short`: why, in a few words that count together (`time-out`, `HTTP 503`).

    passes: it may be well in a moment; after_s: when, if the server says so."""

    def __init__(
        self, url: str, text: str, short: str, *, passes: bool = False, after_s: float | None = None
    ) -> None:
        super().__init__(f"{url} {text}")
        self.short, self.passes, self.after_s = short, passes, after_s


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants called. arguments: JSON as the model wrote it, which may be none."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The first choice of a reply. text: "" when it only calls tools. refusal: the model's own field, "" if
    none. prompt_tokens, completion_tokens: as the server counts, 0 when it does not. attempts: requests that
    it took; seconds: for all of them."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    refusal: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1
    seconds: float = 0.0
    message: Mapping[str, Any] = field(default_factory=dict)


class ChatModel:
    """endpoint: such as http://127.0.0.1:8080/v1, with or without /chat/completions; model: its name there.

    key: sent as bearer token. timeout_s: for a whole reply, however slowly it drips. retries: how often a
    request is sent again that timed out, found no connection, or was answered 408, 425, 429 or 5xx; pause_s:
    before the first of them, twice as long before each next one, or as the server's Retry-After says
    (MOST_PAUSE_S at most). Thread-safe.
    Raises InputError for an address that is none of http or https, and for a model without a name.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        key: str | None = None,
        timeout_s: float = 60.0,
        retries: int = 0,
        pause_s: float = 0.5,
    ) -> None:
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
        self._retries, self._pause_s = retries, pause_s

    def complete(self, messages: list[dict[str, str]], **options: Any) -> str:
        """The text of the first choice. options: temperature, max_tokens, seed, ... Raises ChatError."""
        message = self._message(self._send(messages, options))
        text = message.get("content")
        if not isinstance(text, str):
            raise self._no_completion()
        return text

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> ChatReply:
        """The first choice, with tool calls. messages: content as text or as parts (text, input_audio,
        image_url). options: tools, tool_choice, response_format, temperature, ... Raises ChatError."""
        began = time.monotonic()
        for attempt in range(self._retries + 1):
            try:
                data = self._send(messages, options)
                break
            except ChatError as error:
                if attempt == self._retries or not error.passes:
                    raise
                pause = self._pause_s * 2**attempt if error.after_s is None else error.after_s
                time.sleep(min(pause, MOST_PAUSE_S))
        message = self._message(data)
        calls = _calls(message.get("tool_calls"))
        text, refusal = message.get("content"), message.get("refusal")
        if not isinstance(text, str) and not calls and not isinstance(refusal, str):
            raise self._no_completion()
        usage = data.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return ChatReply(
            text=text if isinstance(text, str) else "",
            calls=calls,
            refusal=refusal if isinstance(refusal, str) else "",
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            attempts=attempt + 1,
            seconds=time.monotonic() - began,
            message=message,
        )

    def _message(self, data: Any) -> dict[str, Any]:
        try:
            message = data["choices"][0]["message"]
        except (KeyError, IndexError, TypeError):
            message = None
        if not isinstance(message, dict):
            raise self._no_completion()
        return message

    def _no_completion(self) -> ChatError:
        text = "did not answer in the form of a chat completion"
        return ChatError(self.url, text, "the reply is no chat completion")

    def _send(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Any:
        body = {"model": self.model, "messages": messages, **options}
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:
                content = _read(reply, time.monotonic() + self.timeout_s)
        except urllib.error.HTTPError as error:
            raise ChatError(
                self.url,
                f"answered {error.code} {error.reason}",
                f"HTTP {error.code}",
                passes=error.code in PASSING,
                after_s=_seconds(error.headers.get("Retry-After")),
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                short = "time-out"
            elif isinstance(error, urllib.error.URLError):
                short = f"no connection: {reason}"
            else:
                short = f"no reply: {type(error).__name__}"
            raise ChatError(self.url, f"did not answer: {reason}", short, passes=True) from None
        try:
            return json.loads(content)
        except (ValueError, RecursionError):  # the last: [[[[...
            raise self._no_completion() from None


def _calls(told: Any) -> tuple[ToolCall, ...]:
    """Tool calls that have at least a name; some servers leave out the id, or write
    arguments as an object."""
    found = []
    for number, one in enumerate(told if isinstance(told, list) else []):
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            continue
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps({} if arguments is None else arguments)
        found.append(ToolCall(str(one.get("id") or f"call_{number}"), function["name"], arguments))
    return tuple(found)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(float(text), 0.0)
    except ValueError:  # a date: then the usual pause
        return None


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
