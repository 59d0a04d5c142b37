"""The console: one web page that shows what a rig hears, sees and finds out (docs/console.md).

It runs in a process of its own, as one more client of the stream: whatever a browser does costs the rig
nothing. `ConsoleProcess` is the side of `hearth live`, `python -m edge.console` the other.
"""

from edge.console.address import Listening, listen
from edge.console.process import ConsoleProcess
from edge.console.settings import settings_of

__all__ = ["ConsoleProcess", "Listening", "listen", "settings_of"]
