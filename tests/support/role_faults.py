"""What a kernel with roles is in which one thing is wrong, and what the simulator says of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tests.support.simulating import reported
from warpsmith.codegen.cuda import cuda_text
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.sim.report import Report
from warpsmith.targets.hopper import H200

Made = Callable[[], tuple[Kernel, Mapping[str, int]]]
"""Makes a kernel, with values of its scalars."""

SCHEDULES = 4
"""Orders of warps and copies; round robin, producers first, consumers first, and a random one."""


@dataclass(frozen=True)
class Text:
    """An edited text, for what the Kernel form or its CUDA cannot say.

    Attributes:
        of: the kernel whose text it is.
        edits: what stands there, once or first, and what takes its place.
        why: no text is made of the wrong kernel itself.
    """

    of: Made
    edits: tuple[tuple[str, str], ...]
    why: str

    def changed(self) -> str:
        """The CUDA text with all edits."""
        text = cuda_text(self.of()[0], H200)
        start = text.index('extern "C"')
        head, body = text[:start], text[start:]
        for old, new in self.edits:
            assert old in body, f"{old!r} is not in\n{body}"
            body = body.replace(old, new, 1)
        return head + body


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        wrong: the kernel that the protocol check refuses.
        code, ring, roles, phase: what the refusal names; empty, or None, where there are none.
        finds: kinds of findings that the simulator has, among others.
        text: what runs in place of the wrong kernel's text.
        refused: code of the error where what comes before a run refuses: ptxas, say.
        unsaid: why nothing can be run that does this; empty where something can.
    """

    wrong: Made
    code: str
    ring: str = ""
    roles: tuple[str, ...] = ()
    phase: int | None = None
    finds: tuple[str, ...] = ()
    text: Text | None = None
    refused: str = ""
    unsaid: str = ""


def fault(wrong: Made, code: str, ring: str, roles: str, phase: int | None, *finds: str) -> Fault:
    return Fault(wrong, code, ring, tuple(roles.split()), phase, finds)


@dataclass(frozen=True)
class Harmless:
    """What looks like a fault: the simulator finds nothing, and results are the right kernel's.

    Attributes:
        why: it does no harm.
        code: of the check, which refuses some of it all the same; empty where it does not.
    """

    right: Made
    wrong: Made
    why: str
    code: str = ""
    text: Text | None = None


def report_of(case: Fault | Harmless) -> Report:
    """What the simulator says of the case's PTX.

    Raises CompileError or SimulationError where it does not come to a run.
    """
    if case.text is None:
        return simulated(*case.wrong())
    return simulated(*case.text.of(), case.text.changed())


def simulated(kernel: Kernel, values: Mapping[str, int], text: str | None = None) -> Report:
    """The report on a kernel, or on a text that takes its text's place, with random inputs."""
    numbers = dict(values)
    memory = {}
    for parameter in kernel.parameters:
        if parameter.memory is MemoryType.global_ and not parameter.written:
            size = evaluate(parameter.size, numbers)
            data = np.random.default_rng(size).uniform(-2, 2, size)
            memory[parameter.name] = data.astype(numpy_dtype(parameter.dtype))
    return reported(kernel, values, memory, schedules=SCHEDULES, text=text)
