"""Every error that warpsmith raises.

User errors derive from `WarpsmithError`: each says what was got, the rule that it breaks and what
to try, and carries a stable code. `InternalError` is not one of them: it means that warpsmith
itself broke a promise, and asks for a report.
"""

from __future__ import annotations

from enum import Enum

from warpsmith.callers import Line, caller, line_text


class WarpsmithError(Exception):
    """Base of all errors that a user can cause and mend.

    Args:
        message: names the value that was got and the rule that it breaks.
        code: stable identifier such as `"WS0203"`; the class gives a default.
        remedy: what to try instead; empty when nothing can be tried.
        line: of the user's program, which said what is wrong; None if no line did.
    """

    code = "WS0000"

    def __init__(
        self, message: str, *, code: str | None = None, remedy: str = "", line: Line | None = None
    ) -> None:
        self.code = code or type(self).code
        self.message = message
        self.remedy = remedy
        self.line = line
        text = f"[{self.code}] {message}"
        text = f"{text}; {remedy}" if remedy else text
        super().__init__(text if line is None else f"{text} (at {line_text(line)})")


class DefinitionError(WarpsmithError):
    """The tensor program itself is wrong: ranks, dtypes, dimensions, unknown operations.

    It is raised while the program is defined, so its line is the one that is being run.
    """

    code = "WS0100"

    def __init__(self, message: str, *, code: str | None = None, remedy: str = "") -> None:
        super().__init__(message, code=code, remedy=remedy, line=caller())


class ScheduleError(WarpsmithError):
    """A schedule primitive was asked for an illegal move."""

    code = "WS0200"


class ArgumentError(WarpsmithError):
    """An array given at run time does not fit the definition."""

    code = "WS0300"


class SchedulerRefusal(WarpsmithError):
    """No scheduler, or not the one that was forced, can take the fusion."""

    code = "WS0400"


class CompileError(WarpsmithError):
    """NVRTC or ptxas refused the source, or its report breaks a rule."""

    code = "WS0500"


class KernelRefusal(CompileError):
    """There is no machine code for one kernel's text, or none that is as meant; others may do."""


class DeviceError(WarpsmithError):
    """The device is missing, unsupported, or reported a failure."""

    code = "WS0600"


class HangError(DeviceError):
    """A kernel waited longer than the watchdog allows; the context of its device is lost."""

    code = "WS0620"


class KnobError(WarpsmithError):
    """An option or environment variable has a value that it cannot have."""

    code = "WS0700"


class SimulationError(WarpsmithError):
    """A PTX text, or what it is to be run with, that the simulator cannot take."""

    code = "WS0800"


class ProtocolError(WarpsmithError):
    """The roles of a kernel do not keep what they promise each other; it is never launched.

    Args:
        rule: what must hold in every interleaving, in words.
        ring: name of the ring, or of the buffer or barriers, that it is about; empty if none.
        roles: names of the roles that take part.
        stage, phase: of the ring, where one is meant.
        run: the shortest run that goes wrong, a line a step.
    """

    code = "WS0900"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        rule: str,
        ring: str = "",
        roles: tuple[str, ...] = (),
        stage: int | None = None,
        phase: int | None = None,
        run: tuple[str, ...] = (),
        remedy: str = "",
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.rule = rule
        self.ring = ring
        self.roles = roles
        self.stage = stage
        self.phase = phase
        self.run = run

    def __str__(self) -> str:
        text = super().__str__()
        if not self.run:
            return text
        return "\n".join((f"{text}; the shortest run that goes wrong:", *self.run))


class CodedRule(Enum):
    """A rule that must hold: the code of the error where it does not, and the rule in words."""

    @property
    def code(self) -> str:
        return str(self.value[0])

    @property
    def words(self) -> str:
        return str(self.value[1])


class InternalError(Exception):
    """warpsmith broke one of its own invariants; please report it with the dump."""


class PlanWarning(UserWarning):
    """A schedule that was chosen automatically makes no kernel; another one took its place."""


class SpillWarning(UserWarning):
    """A kernel keeps registers in memory, since a role needs more of them than it has."""


class TorchCompileWarning(UserWarning):
    """A part of a model that `torch.compile` was asked for runs in torch; its text has a code."""
