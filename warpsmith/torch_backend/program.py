"""A region of a graph as one fusion, that runs on tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import sympy
import torch
from torch.fx import Node

from warpsmith import knobs as knob_module
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.lives import peak_of
from warpsmith.engine.signatures import signature
from warpsmith.errors import TorchCompileWarning
from warpsmith.frontends.memory_format import memory_format_of
from warpsmith.ir.exprs import Precision
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.knobs import Knobs
from warpsmith.runtime.kept import PLANS, TRACES
from warpsmith.runtime.recent import Recent
from warpsmith.torch_backend.aten import SAME_ORDER, name_of
from warpsmith.torch_backend.definition import (
    Definition,
    inputs_first,
    is_scalar,
    tensors_of,
    value_of,
)
from warpsmith.torch_backend.sizes import expression_of, hint_of
from warpsmith.torch_backend.source import Step, source_of
from warpsmith.torch_backend.writes import is_whole_write
from warpsmith.values import dataclass

Ready = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a region computes.

    Attributes:
        nodes: in an order in which each comes behind what it reads.
        results: those of the nodes that others read.
        precision: of products of float32.
        beside: a tensor that says where a region runs that reads none.
        reads: nodes outside that are read, in the order in which they are met.
        tensors: those of them that are tensors, in the order in which they are inputs.
    """

    nodes: tuple[Node, ...]
    results: tuple[Node, ...]
    precision: Precision
    beside: tuple[Node, ...] = ()
    reads: tuple[Node, ...] = field(init=False)
    tensors: tuple[Node, ...] = field(init=False)

    def __post_init__(self) -> None:
        own = set(self.nodes)
        met = (each for node in self.nodes for each in node.all_input_nodes if each not in own)
        reads = (*self.beside, *dict.fromkeys(met))
        tensors = inputs_first(node for node in reads if not is_scalar(node))
        object.__setattr__(self, "reads", reads)
        object.__setattr__(self, "tensors", tuple(tensors))

    def key(self) -> object:
        """What is equal for recipes that differ in nothing but names of nodes and of symbols."""
        numbers = {node: k for k, node in enumerate((*self.reads, *self.nodes))}
        symbols: dict[Any, Any] = {}

        def size(given: Any) -> str:
            found = expression_of(given)
            for symbol in sorted(getattr(found, "free_symbols", ()), key=str):
                symbols.setdefault(symbol, sympy.Symbol(f"z{len(symbols)}"))
            return str(found.xreplace(symbols) if symbols and hasattr(found, "xreplace") else found)

        def value(given: Any) -> str:
            if isinstance(given, Node):
                return f"%{numbers[given]}"
            if isinstance(given, tuple | list):
                return f"[{', '.join(map(value, given))}]"
            return f"{type(given).__name__} {given!r}"

        def shown(node: Node) -> tuple[str, ...]:
            if is_scalar(node):
                return (size(value_of(node)),)
            tensors = tensors_of(node)
            sizes = [[size(s) for s in (*t.shape, *t.stride())] for t in tensors]
            return tuple(f"{t.dtype} {t.device} {s}" for t, s in zip(tensors, sizes, strict=True))

        body = tuple(
            (str(node.target), value(node.args), value(tuple(node.kwargs.items())), shown(node))
            for node in self.nodes
        )
        results = tuple(numbers[node] for node in self.results)
        return tuple(map(shown, self.reads)), body, results

    def defined(self, formats: Sequence[MemoryFormat]) -> Definition:
        """The region as a fusion whose inputs lie in memory so."""
        made = Definition(self.precision)
        made.add_tensors(self.tensors, formats)
        written = (node.args[1] for node in self.nodes if is_whole_write(node))
        leaving = {each for node in (*self.results, *written) for each in self._reshaped(node)}
        for node in self.nodes:
            made.add(node)
            if node in leaving:
                made.round(node)
            if node in self.results:
                made.lay(node)
        for node in self.results:
            made.result(node)
        return made

    def _reshaped(self, node: Node) -> Iterator[Node]:
        """A result, and what it is a reshape of, where that is read by others as well."""
        yield node
        while name_of(node.target) in SAME_ORDER:
            view, node = node, node.args[0]
            if any(user in self.nodes for user in node.users if user is not view):
                yield node

    def as_traced(self) -> Definition:
        """The fusion of inputs that lie as torch expected when it traced the graph."""
        return self.defined([_expected_format(node) for node in self.tensors])


class Program:
    """A recipe with what it was compiled to, for each way in which its inputs lie in memory.

    Args:
        knobs: that hold for its kernels.
        inputs: where those are known already.

    Attributes:
        inputs: nodes of its arguments: the recipe's tensors, and numbers that it reads.
        executables: by the formats of inputs.
        failures: what made calls run eagerly.
    """

    def __init__(self, recipe: Recipe, knobs: Knobs, inputs: Sequence[Node] = ()) -> None:
        self.recipe = recipe
        self.knobs = knobs
        self.inputs = tuple(inputs or recipe.as_traced().inputs)
        self.executables: Recent[tuple[MemoryFormat, ...], Executable] = Recent(TRACES)
        self.failures: list[str] = []
        self._last: tuple[Executable | None, list[Callable[[], Any]]] = (None, [])
        self._ready: Recent[tuple[object, ...], Ready] = Recent(PLANS)
        self._launch: Callable[[Sequence[Any]], Any] = lambda values: NotImplemented

    def __call__(self, values: list[Any]) -> Sequence[Any]:
        """Results for values, which may leave the list as soon as they are read."""
        done = self._launch(values)
        if done is not NotImplemented:
            return done  # type: ignore[no-any-return]
        key = signature(values)
        ready = self._ready.get(key) or self._ready.put(key, self._prepared(values))
        return ready(values)

    def _prepared(self, values: list[Any]) -> Ready:
        self._last = None, [_like(value) for value in values]
        try:
            with knob_module.within(self.knobs):
                executable = self.executable_for(values)
                self._last = executable, self._last[1]
                ready = executable.prepared(values)
        except Exception as failure:  # whatever it is, torch can run the region
            self._note(failure)
            return self._eager()
        if ready != executable.run:
            if not getattr(ready, "in_turns", True):
                executable.shortcut.keep(tuple(values), ready, range(len(values)), 2)
                self._launch = executable.launch
            return getattr(ready, "consumed", ready)

        def scoped(values: list[Any]) -> Sequence[Any]:
            with knob_module.within(self.knobs):
                return executable.run(values)

        return scoped

    @property
    def last_plan(self) -> CallPlan | None:
        """The kernels of the last call that was planned; None where there are none."""
        executable, _ = self._last
        return None if executable is None else executable.last_plan

    @property
    def last_peak(self) -> int | None:
        """Bytes that the last planned call held at most at one time, beside its arguments."""
        executable, _ = self._last
        call = self.last_plan
        return None if executable is None or call is None else peak_of(executable.fusion, call)

    def example(self) -> list[Any] | None:
        """Arguments like those of the last call that was planned, of random numbers."""
        return [make() for make in self._last[1]] or None

    def executable_for(self, values: Sequence[Any]) -> Executable:
        """The fusion for tensors that lie in memory as these do."""
        formats = tuple(
            memory_format_of(value.shape, value.stride())
            for value in values
            if isinstance(value, torch.Tensor)
        )
        found = self.executables.get(formats)
        return found or self.executables.put(
            formats, Executable(self.recipe.defined(formats).finished())
        )

    def _eager(self) -> Ready:
        told = (node for node in self.recipe.reads if node not in self.inputs)
        steps = [_size_step(node, self.inputs) for node in told]
        steps += map(Step.of, self.recipe.nodes)
        return source_of(self.inputs, {}, steps, self.recipe.results).function()

    def _note(self, failure: Exception) -> None:
        self.failures.append(f"{type(failure).__name__}: {failure}")
        warn_of(len(self.recipe.nodes), failure)


def _size_step(node: Node, inputs: tuple[Node, ...]) -> Step:
    """Finds a size that nodes read, and that fusions have from dimensions of their inputs."""
    wanted = sympy.sympify(expression_of(value_of(node)))
    told = [value_of(each) for each in inputs]
    sizes = [value.shape if isinstance(value, torch.Tensor) else (value,) for value in told]

    def found(*given: Any) -> int:
        known: dict[Any, int] = {}
        for own, value in zip(sizes, given, strict=True):
            now = value.shape if isinstance(value, torch.Tensor) else (value,)
            known |= zip(map(expression_of, own), now, strict=True)
        return int(known[wanted] if wanted in known else wanted.xreplace(known))

    return Step((node,), found, inputs, {})


def warn_of(nodes: int, failure: Exception) -> None:
    """Say that torch runs a region of so many nodes."""
    warnings.warn(
        f"[WS0370] a region of {nodes} operations runs in torch, since warpsmith cannot compile "
        f"it: {failure}; please report it",
        TorchCompileWarning,
        stacklevel=3,
    )


def _like(value: Any) -> Callable[[], Any]:
    """Makes values that a call cannot tell from one."""
    if not isinstance(value, torch.Tensor):
        return lambda: value
    shape, strides, device = tuple(value.shape), value.stride(), value.device
    dtype = value.dtype

    def made() -> torch.Tensor:
        tensor = torch.empty_strided(shape, strides, dtype=dtype, device=device)
        return tensor.normal_() if dtype.is_floating_point else tensor.zero_()

    return made


def _expected_format(node: Node) -> MemoryFormat:
    (tensor,) = tensors_of(node)
    shape, strides = ([hint_of(size) for size in each] for each in (tensor.shape, tensor.stride()))
    return memory_format_of(shape, strides)
