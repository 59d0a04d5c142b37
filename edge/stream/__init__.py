"""The stream: what a running rig tells, over ZeroMQ with MessagePack headers (docs/protocol.md).

`Publisher` and `CommandServer` are the service's side, `Client` everybody else's. `MESSAGES` is the one
table of every message, `COMMANDS` of every command.
"""

from edge.stream.client import Client, Message, StreamEnded, StreamTimeout
from edge.stream.command_client import CommandClient, CommandError, CommandTimeout
from edge.stream.command_server import CommandServer
from edge.stream.messages import COMMANDS, MESSAGES, STREAMS, VERSION, Header, MessageError, MessageSpec
from edge.stream.publisher import Publisher

__all__ = [
    "COMMANDS",
    "MESSAGES",
    "STREAMS",
    "VERSION",
    "Client",
    "CommandClient",
    "CommandError",
    "CommandServer",
    "CommandTimeout",
    "Header",
    "Message",
    "MessageError",
    "MessageSpec",
    "Publisher",
    "StreamEnded",
    "StreamTimeout",
]
