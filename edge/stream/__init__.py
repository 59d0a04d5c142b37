"""The stream: what a running rig tells, over ZeroMQ with MessagePack headers (docs/protocol.md).

`Publisher` and `CommandServer` are the service's side, `Client` everybody else's. `MESSAGES` is the one
table of every message, `COMMANDS` of every command.
"""

from edge.stream.access import Access
from edge.stream.aio import AsyncClient
from edge.stream.client import Client
from edge.stream.command_client import CommandClient, CommandError, CommandTimeout
from edge.stream.command_server import CommandServer
from edge.stream.keys import AccessDenied
from edge.stream.keys_folder import ClientKeys
from edge.stream.messages import COMMANDS, MESSAGES, STREAMS, VERSION, Header, MessageError, MessageSpec
from edge.stream.publisher import Publisher
from edge.stream.received import Message, StreamEnded, StreamLost, StreamTimeout
from edge.stream.rig_clock import RigClock
from edge.stream.time_sync import ClockState

__all__ = [
    "COMMANDS",
    "MESSAGES",
    "STREAMS",
    "VERSION",
    "Access",
    "AccessDenied",
    "AsyncClient",
    "Client",
    "ClientKeys",
    "ClockState",
    "CommandClient",
    "CommandError",
    "CommandServer",
    "CommandTimeout",
    "Header",
    "Message",
    "MessageError",
    "MessageSpec",
    "Publisher",
    "RigClock",
    "StreamEnded",
    "StreamLost",
    "StreamTimeout",
]
