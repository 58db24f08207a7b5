"""Graphs that another process finds on disk, with torch's cache of AOTAutograd's results.

Torch keeps what it knows of a graph of dynamo's (how results are views of inputs, what is saved)
beside what the compilers gave, if that can be written, under a key of the graph, its inputs' sizes,
torch's settings and version. Who finds it traces, divides and compiles nothing.
"""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd.autograd_cache import (
    BypassAOTAutogradCache,
    check_cacheable,
    sanitize_gm_for_cache,
    should_use_local_autograd_cache,
)
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from warpsmith import knobs as knob_module
from warpsmith.engine.emitted import files, keeps_own
from warpsmith.knobs import Knobs, planned_by
from warpsmith.torch_backend.options import Options
from warpsmith.torch_backend.report import Account, Record, Start, remember
from warpsmith.torch_backend.source import Boxed, Source
from warpsmith.torch_backend.stored import NotStored, read, written
from warpsmith.torch_backend.undefined import Like, Places, for_undefined
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Made:
    """A graph of AOTAutograd's that was compiled.

    Attributes:
        recording: a `cuda_graphs.Recording`, where calls are recorded.
    """

    source: Source
    account: Account
    recording: Any = None

    def started(self, start: Start) -> Boxed:
        """What runs it, and lets reports know it as long as it can be run."""
        run = self.source.function()
        run.record = remember(Record(self.account, start))  # type: ignore[attr-defined]
        return run if self.recording is None else self.recording.recorded(run)


class Kept(OutputCode):  # type: ignore[misc]  # torch is not analysed
    """What runs one of AOTAutograd's graphs, and can be written.

    Args:
        made: by the gradients that are undefined, as `for_undefined` takes them; () of all graphs.
        gradients: that may be undefined.
        compiled: compiles it for other undefined gradients, in the process that traced it.
    """

    def __init__(
        self,
        made: Mapping[Places, Made],
        gradients: Mapping[int, Like],
        compiled: Callable[[Places], Made] | None = None,
    ) -> None:
        super().__init__()
        self._boxed_call = True  # what AOTAutograd looks for
        self._compiled = compiled
        self._content = b""
        self.made = made
        self.gradients = gradients
        self._run: Boxed | None = None

    def begin(self, start: Start) -> Boxed:
        """What runs it, for a call of the backend."""

        def started(missing: Places) -> Boxed:
            made = self.made.get(missing)
            if made is None:
                assert self._compiled is not None, "others are not asked for"
                made = self._compiled(missing)
            return made.started(start)

        known = None if self._compiled else self.made
        self._run = for_undefined(self.gradients, started, known) if self.gradients else started(())
        return self._run

    def write(self) -> None:
        """Find the bytes that torch keeps.

        Raises:
            NotStored: where there are none.
        """
        self._content = written((dict(self.made), dict(self.gradients)))

    def __call__(self, inputs: Sequence[Any]) -> Any:
        run = self._run or self.begin(Start(from_disk=True))
        return run(inputs)  # type: ignore[arg-type]

    def __copy__(self) -> Kept:
        return self

    def __reduce__(self) -> Any:
        return _read, (self._content, hashlib.sha256(self._content).digest())

    def prepare_for_serialization(self) -> None:
        """Torch is about to write it.

        Raises:
            BypassAOTAutogradCache: where it cannot be written; the report has said why.
        """
        if not self._content:
            raise BypassAOTAutogradCache("warpsmith cannot write it")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Torch has read it."""
        reading = _READING.get()
        if reading is not None:
            reading.found.append(self)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is no Triton in it."""


def _read(content: bytes, digest: bytes) -> Kept:
    if hashlib.sha256(content).digest() != digest:
        raise NotStored("it is damaged")
    reading = _READING.get()
    return Kept(*read(content, knob_module.current() if reading is None else reading.knobs))


@dataclass(frozen=True, slots=True)
class _Reading:
    """A call of the backend that is under way, and what torch has read for it."""

    knobs: Knobs
    found: list[Kept] = field(default_factory=list)


_READING: ContextVar[_Reading | None] = ContextVar("warpsmith_reading", default=None)


def keeps(options: Options) -> bool:
    """Whether graphs are to be kept: by the knob, and where torch has its cache on."""
    return keeps_own(options.knobs) and files() is not None and should_use_local_autograd_cache()


def why_not(options: Options, module: GraphModule, inputs: Sequence[Any]) -> str:
    """Why a graph of dynamo's, of these inputs, cannot be kept; empty where it can."""
    if options.fallback == "inductor":
        return "Inductor compiles parts of it"
    if any(map(is_traceable_wrapper_subclass, inputs)):
        return "an input is of a subclass of tensors"
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            operation = isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
            if operation and str(node.target).partition(".")[0] not in _TORCHS:
                return f"{node.target} is an operator of the user's, whose formulas may change"
    try:
        with sanitize_gm_for_cache(module):
            check_cacheable(module)
    except Exception as failure:  # whatever torch says
        return " ".join(str(failure).split())
    return ""


_TORCHS = frozenset(("aten", "prims", "warpsmith", "_c10d_functional", "c10d_functional"))
"""Libraries of operators that are the same in processes with the same versions."""


@contextmanager
def keeping(options: Options, start: Start) -> Iterator[list[Kept]]:
    """Let torch look for graphs of a call of the backend, and keep those that it makes.

    Yields what it finds, which has begun at the end.
    """
    tag = torch.compiler.config.cache_key_tag
    hits, saved = _counted()
    reading = _Reading(options.knobs)
    token = _READING.set(reading)
    try:
        with (
            torch.compiler.config.patch(cache_key_tag=f"{tag} warpsmith {_key(options)}"),
            torch._functorch.config.patch(
                bundled_autograd_cache=True, force_non_lazy_backward_lowering=True
            ),
            patch.dict(copyreg.dispatch_table, {torch.memory_format: _reduced}),
        ):
            yield reading.found
    finally:
        _READING.reset(token)
    start.from_disk = _counted()[0] > hits
    if not start.from_disk:
        reading.found.clear()  # what did not fit
    for each in reading.found:
        each.begin(start)
    if not start.from_disk and _counted()[1] == saved:
        start.not_kept = start.not_kept or "torch cannot write what it knows of it"


def _counted() -> tuple[int, int]:
    """How many graphs torch has found so far, and how many it has kept."""
    known = counters["aot_autograd"]
    return known["autograd_cache_hit"], known["autograd_cache_saved"]


def _reduced(given: torch.memory_format) -> tuple[Any, ...]:
    """How a key tells it: by itself it is pickled as a name of whichever module had torch first."""
    return _memory_format, (str(given).removeprefix("torch."),)


def _memory_format(name: str) -> torch.memory_format:
    return getattr(torch, name)


def _key(options: Options) -> str:
    """Of all that graphs follow from and that torch's key has not."""
    kinds = torch._C._autocast_supported_devices()
    cuda = torch.backends.cuda
    parts = (
        files(),
        planned_by(options.knobs),
        (options.fallback, options.products, options.cuda_graphs, options.precision),
        torch.backends.cudnn.allow_tf32,
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds],
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()
