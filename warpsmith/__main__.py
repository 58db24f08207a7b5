"""`python -m warpsmith` is the command line, also where no command is installed."""

from __future__ import annotations

from warpsmith.tools.cli import app

app(prog_name="warpsmith")
