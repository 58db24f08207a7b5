"""Nodes of a graph of torch's as operations of a fusion."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from warpsmith import ops
from warpsmith.frontends.inputs import define_input, define_scalar_input, own_size
from warpsmith.frontends.memory_format import memory_format_of
from warpsmith.frontends.outputs import add_output
from warpsmith.frontends.tensor import Tensor
from warpsmith.ir.arithmetic import convert
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Precision
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.values import as_tensor
from warpsmith.torch_backend.aten import TABLE, TYPES, name_of
from warpsmith.torch_backend.meanings import At, NotTaken
from warpsmith.torch_backend.sizes import Sizes, UnknownSize, hint_of, is_free, is_number
from warpsmith.torch_backend.writes import element_write, is_whole_write

_SCALARS = {
    torch.SymInt: DataType.Int,
    torch.SymFloat: DataType.Double,
    torch.SymBool: DataType.Bool,
    int: DataType.Int,
    float: DataType.Double,
    bool: DataType.Bool,
}


def value_of(node: Node) -> Any:
    """What torch knows of a node's result: fake tensors, symbolic numbers, numbers."""
    return node.meta.get("val")


def tensors_of(node: Node) -> tuple[torch.Tensor, ...]:
    """The fake tensors of a node's result, those of several in order."""
    value = value_of(node)
    several = value if isinstance(value, tuple | list) else (value,)
    return tuple(each for each in several if isinstance(each, torch.Tensor))


def bytes_of(node: Node) -> int:
    """How much memory the tensors of a node's result take."""
    return sum(prod(map(hint_of, t.shape)) * t.dtype.itemsize for t in tensors_of(node))


def is_scalar(node: Node) -> bool:
    return type(value_of(node)) in _SCALARS


def inputs_first(nodes: Iterable[Node]) -> list[Node]:
    """Tensors that fusions read, those first whose dimensions tell more symbols by themselves."""

    def composed(node: Node) -> int:
        (tensor,) = tensors_of(node)
        return sum(not (is_number(size) or is_free(size)) for size in tensor.shape)

    return sorted(nodes, key=composed)


def stride_order_of(tensor: torch.Tensor) -> list[int] | None:
    """The rank of each dimension in memory, 0 the fastest; None for row-major tensors.

    Raises:
        NotTaken: for tensors with gaps or repetitions.
    """
    shape, strides = ([hint_of(size) for size in each] for each in (tensor.shape, tensor.stride()))
    layout = memory_format_of(shape, strides)
    if False in layout.contiguity or any(
        stride == 0 and extent > 1 for stride, extent in zip(strides, shape, strict=True)
    ):
        raise NotTaken("its result has gaps in memory")
    return None if layout.stride_order is None else list(layout.stride_order)


class Definition:
    """A fusion that is being defined from nodes.

    Args:
        precision: of products of float32.

    Attributes:
        inputs: the nodes whose values a call passes, in order.
    """

    def __init__(self, precision: Precision = "exact") -> None:
        self.fusion = Fusion(tensor_type=Tensor)
        self.inputs: list[Node] = []
        self._precision = precision
        self._sizes = Sizes()
        self._values: dict[Node, Any] = {}

    def add_tensors(self, nodes: Sequence[Node], formats: Sequence[MemoryFormat]) -> None:
        """Define inputs that lie in memory so. Those that tell a size by itself should come first:
        see `inputs_first`."""
        for node, layout in zip(nodes, formats, strict=True):
            (tensor,) = tensors_of(node)
            known = [self._told(size, d) for d, size in enumerate(tensor.shape)]
            contiguity = [
                None if is_number(size) and size == 1 else bool(flag is None or flag)
                for size, flag in zip(tensor.shape, layout.contiguity, strict=True)
            ]
            made = define_input(
                self.fusion, known, contiguity, TYPES[tensor.dtype], layout.stride_order
            )
            self._values[node] = made
            self.inputs.append(node)

    def _told(self, size: Any, dimension: int) -> Expr:
        """The extent of a dimension of the next input: its own where no dimension before told it,
        of that input neither."""
        try:
            return self._sizes.extent(size)
        except UnknownSize:
            extent = own_size(self.fusion, dimension)
            self._sizes.learn(size, extent)
            return extent

    def add(self, node: Node) -> None:
        """Define what a node computes.

        Raises:
            NotTaken, UnknownSize, WarpsmithError: where no fusion can.
        """
        if written := element_write(node):
            base, value = self._values[written.base], self._values[written.value]
            self._values[node] = base
            index = self._values[written.index]
            add_output(self.fusion, value, base, (written.dimension, index))
            return
        if is_whole_write(node):
            base, value = map(self._values.__getitem__, node.args)
            order = base.stride_order
            laid = value if order is None else ops.stride_order(value, order)
            add_output(self.fusion, laid, base, apart=True)
            self._values[node] = base
            return
        if node.target is operator.getitem:
            source, place = node.args
            assert isinstance(source, Node)
            self._values[node] = self._values[source][place]
            return
        name = name_of(node.target)
        meaning = TABLE.get(name)
        if meaning is None:
            raise NotTaken("warpsmith does not know it")
        first, *others = tensors_of(node)
        self._learn_arguments(node)
        at = At(
            self.fusion,
            TYPES[first.dtype],
            tuple(self._sizes.extent(size) for size in first.shape),
            first.device,
            self._precision,
        )
        args, kwargs = self._arguments(node)
        made = meaning(at, *args, **kwargs)
        several = made if isinstance(made, tuple) else (made,)
        typed = tuple(map(self._typed, several, (first, *others)))
        self._values[node] = typed if isinstance(made, tuple) else typed[0]

    def _learn_arguments(self, node: Node) -> None:
        """Numbers that no dimension tells become inputs of the fusion."""
        for source in node.all_input_nodes:
            if not is_scalar(source) or source in self._values:
                continue
            value = value_of(source)
            try:
                found: Expr | None = self._sizes.extent(value)
            except (UnknownSize, TypeError):
                found = None
            if found is not None and (is_free(value) or not _is_of_call(found)):
                self._values[source] = found
                continue
            symbol = define_scalar_input(self.fusion, _SCALARS[type(value)])
            self._values[source] = symbol
            self.inputs.append(source)
            if symbol.dtype is DataType.Int and found is None:
                self._sizes.learn(value, convert(symbol, DataType.Index))

    def _arguments(self, node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = map_arg((node.args, node.kwargs), self._values.__getitem__)
        return found[0], dict(found[1])

    def _typed(self, made: Any, wanted: torch.Tensor) -> TensorView:
        dtype = TYPES[wanted.dtype]
        if not isinstance(made, TensorView):
            made = ops.full([], made, dtype, fusion=self.fusion)
        if made.rank != wanted.ndim:
            raise NotTaken(f"its result has {wanted.ndim} dimensions, and ours {made.rank}")
        return made if made.dtype is dtype else as_tensor(ops.cast(made, dtype), "cast")

    def round(self, node: Node) -> None:
        """Let what reads a node read it as others will: in its type.

        A gradient reads what is saved for it; where a norm had read more digits than that, what
        cancels in its gradient would not.
        """
        value = self._values[node]
        if value.dtype.is_narrow:
            self._values[node] = ops.cast(value, value.dtype)

    def lay(self, node: Node) -> None:
        """Let what reads a node, a result, read it as it lies in memory in torch."""
        (tensor,) = tensors_of(node)
        order = stride_order_of(tensor)
        if order is not None:
            self._values[node] = ops.stride_order(self._values[node], order)

    def result(self, node: Node) -> None:
        """Make a node's tensor a result of the fusion."""
        add_output(self.fusion, self._values[node])

    def finished(self) -> Fusion:
        """The fusion, without what nobody reads."""
        remove_dead(self.fusion)
        return self.fusion


def _is_of_call(extent: Expr) -> bool:
    """Whether a number among the arguments is in it: such may be negative, or beyond sizes."""
    leaves = (part for part in extent.walk() if isinstance(part, Symbol))
    return any(leaf.dtype is not DataType.Index for leaf in leaves)
