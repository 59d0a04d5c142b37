"""The home: a twin of its devices with Matter-like commands, and the service that offers it."""

from edge.home.describe import room_map
from edge.home.errors import HomeError
from edge.home.service import HomeService, home_of
from edge.home.twin import CommandResult, Home, HomeDevice

__all__ = ["CommandResult", "Home", "HomeDevice", "HomeError", "HomeService", "home_of", "room_map"]
