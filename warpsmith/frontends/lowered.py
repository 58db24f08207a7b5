"""The stages of a fused call that a user can look into: lowered, then compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from warpsmith import knobs as knob_module
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.verification import DEFAULT_SCHEDULES, Verification
from warpsmith.ir.fusion import Fusion
from warpsmith.knobs import Knobs


class Lowered:
    """A traced program with the arrays' signature that it is for; nothing is compiled yet."""

    def __init__(
        self, fusion: Fusion, inputs: Sequence[object], asked: Mapping[str, object]
    ) -> None:
        self.fusion = fusion
        self._inputs = inputs
        self._asked = asked

    def compile(self, knobs: Knobs | None = None, *, target: str | None = None) -> Compiled:
        """Schedule, lower and compile every kernel; needs no GPU.

        Args:
            target: name of the model to compile for; if absent, the knob `target` decides.

        Raises:
            KnobError: no target has that name.
        """
        executable = Executable(self.fusion)
        asked = {**self._asked, **({} if target is None else {"target": target})}
        chosen = (knobs or knob_module.current()).replace(**asked)
        call = executable.plan_for(self._inputs, chosen)
        return Compiled(executable, call, self._inputs)


class Compiled:
    """The kernels of one fused call.

    Attributes:
        kernels: one compiled kernel a segment, in the order in which they run.
    """

    def __init__(self, executable: Executable, call: CallPlan, inputs: Sequence[object]) -> None:
        self._executable = executable
        self._call = call
        self._inputs = inputs
        self.kernels: tuple[CompiledKernel, ...] = tuple(
            launch.compiled for launch in call.launches
        )

    @property
    def asm(self) -> Mapping[str, str | bytes]:
        """Texts by name: `fusion`, `kernel`, `cuda`, `ptx`, `cubin`, `sass`.

        Those of several kernels follow each other; look at `kernels[i].asm` for one.
        """
        return _Joined(self._executable.fusion, self.kernels)

    @property
    def n_regs(self) -> int:
        """Registers per thread, of the kernel that uses most."""
        return max((kernel.n_regs for kernel in self.kernels), default=0)

    @property
    def n_spills(self) -> int:
        """Bytes spilled per thread, over all kernels."""
        return sum(kernel.n_spills for kernel in self.kernels)

    @property
    def shared(self) -> int:
        """Bytes of shared memory per block, of the kernel that uses most."""
        return max((launch.shared_bytes for launch in self._call.launches), default=0)

    def verify(self, *, schedules: int = DEFAULT_SCHEDULES) -> Verification:
        """What the simulator finds in the kernels, run on the arrays that were lowered for.

        Their results are held against the meaning of the program.
        """
        from warpsmith.engine.simulated import Simulated

        call = Simulated(self._executable.fusion, self._call)
        return call.verify(self._inputs, schedules=schedules)

    def explain(self, *, sync: bool = False) -> str:
        """Which scheduler took what, why the others did not, and with which parameters."""
        from warpsmith.engine.explain import explain_call

        return explain_call(self._call, self._executable.classes, sync=sync)

    def explain_html(self, title: str = "") -> str:
        """The same as a page, with the graph, a timeline of each kernel, and its CUDA beside the
        lines of Python that it comes from. Kernels run on the simulator for it, at small sizes.

        Args:
            title: of the page.
        """
        from warpsmith.page.door import page_of

        return page_of(self._call, self._executable, self._inputs, title)


class _Joined(Mapping[str, str | bytes]):
    def __init__(self, fusion: Fusion, kernels: tuple[CompiledKernel, ...]) -> None:
        self._fusion = fusion
        self._kernels = kernels

    def __getitem__(self, name: str) -> str | bytes:
        if name == "fusion":
            return fusion_text(self._fusion)
        parts = [kernel.asm[name] for kernel in self._kernels]
        if len(parts) == 1:
            return parts[0]
        if any(isinstance(part, bytes) for part in parts):
            raise KeyError(f"there are {len(parts)} kernels: use kernels[i].asm[{name!r}]")
        return "\n".join(str(part) for part in parts)

    def __iter__(self) -> Iterator[str]:
        return iter(("fusion", "kernel", "cuda", "ptx", "cubin", "sass"))

    def __len__(self) -> int:
        return 6


def fusion_text(fusion: Fusion) -> str:
    """One operation a line."""
    lines = [f"inputs  {', '.join(map(repr, fusion.inputs))}"]
    for operation in fusion.operations:
        results = ", ".join(map(repr, operation.outputs))
        name = getattr(operation, "op", None) or getattr(operation, "kind", None)
        kind = name or type(operation).__name__.lower()
        sources = ", ".join(getattr(v, "name", repr(v)) for v in operation.inputs)
        lines.append(f"{results} = {kind}({sources})")
    lines.append(f"outputs {', '.join(output.value.name for output in fusion.outputs)}")
    return "\n".join(lines) + "\n"


def lower_call(
    fusion: Fusion, inputs: Sequence[object], asked: Mapping[str, object] = MappingProxyType({})
) -> Lowered:
    """The lowered stage of a traced program for these arrays; `asked` are knobs that it sets."""
    return Lowered(fusion, inputs, asked)
