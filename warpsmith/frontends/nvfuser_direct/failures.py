"""Errors as nvFuser's callers catch them: all of them are RuntimeErrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from warpsmith.errors import DefinitionError, WarpsmithError


class FusionError(WarpsmithError, RuntimeError):
    """An error of warpsmith, by its own code and words, raised from the error that it was."""


class Refused(DefinitionError, RuntimeError):
    """What nvFuser does not take, in its words: programs match them."""

    code = "WS0194"


class Unsupported(DefinitionError, NotImplementedError):
    """What nvFuser has and warpsmith does not; NotImplementedError is a RuntimeError, too."""

    code = "WS0190"


def unsupported(what: str, why: str, remedy: str = "") -> Unsupported:
    """The refusal of something by its name in nvFuser."""
    return Unsupported(f"nvfuser_direct's {what}: {why}", remedy=remedy)


@contextmanager
def as_runtime_errors() -> Iterator[None]:
    """Raise errors that are no RuntimeErrors as ones that are."""
    try:
        yield
    except WarpsmithError as error:
        if isinstance(error, RuntimeError):
            raise
        raise as_runtime_error(error) from error


def as_runtime_error(error: WarpsmithError, said: str = "") -> FusionError:
    """The same error as a RuntimeError, behind what nvFuser says."""
    message = f"{said}: {error.message}" if said else error.message
    return FusionError(message, code=error.code, remedy=error.remedy, line=error.line)
