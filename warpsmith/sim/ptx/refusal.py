"""A refusal that does not know its line yet."""

from __future__ import annotations

from typing import NoReturn

from warpsmith.errors import SimulationError


class Refusal(Exception):
    """Why a piece of PTX is not taken; whoever knows the line makes a SimulationError of it."""


def refuse(line: int, message: str) -> NoReturn:
    raise SimulationError(f"line {line}: {message}")
