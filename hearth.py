"""The front door: `hearth <command>`. Composes the commands of the packages; holds no logic."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

import typer

import calibration.commands
import capture.commands
import edge.commands
import recordings.commands
from dsp.errors import HearthError

app = typer.Typer(
    name="hearth",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        try:
            print(f"hearth {metadata.version('hearth-home')}")
        except metadata.PackageNotFoundError:
            print("hearth, run from a folder that is not installed")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Record what happens in a home with a spatial microphone and a camera on one clock, and hand it live to
    an agent."""


for package in (capture.commands, recordings.commands, calibration.commands, edge.commands):
    package.register(app)
# `hearth --help` reads like a table of contents: in the order in which one needs the commands.
PANELS = ("Start here", "Record", "Live", "Look at recordings", "Release", "Set up")
app.registered_commands.sort(key=lambda command: PANELS.index(str(command.rich_help_panel)))


def main() -> None:
    """Run the command line; a HearthError is printed without a traceback and sets the exit code."""
    try:
        app(prog_name="hearth")
    except HearthError as error:
        print(f"hearth: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
