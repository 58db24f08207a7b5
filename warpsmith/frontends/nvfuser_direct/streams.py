"""Loops that run on streams: products of a call in pieces, each on a stream of its own.

PyTorch multiplies the pieces. Such a loop is the outer part of a dimension, which is one of rows or
columns of the products (or of their batches): pieces of what is summed would have to be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from warpsmith.engine.bind import bind
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.ir import domains
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.scalars import ScalarEvaluator, symbols_of_call
from warpsmith.runtime import arrays
from warpsmith.schedule.transforms import axis_position

_WHAT = "ParallelType.stream"


def split_input(tensor: TensorView, axis: int, factor: int | Expr, inner_split: bool) -> None:
    """Divide an axis of an input; kernels read it as they did."""
    position = axis_position(tensor, axis)
    size = literal(factor) if isinstance(factor, int) else factor
    made = domains.split(tensor.loop[position], size, inner_split=inner_split)
    tensor.transforms.append(made)
    tensor.loop[position : position + 1] = [made.outer, made.inner]


class Streams:
    """What a fusion is to run in pieces."""

    def __init__(self, definition: FusionDefinition) -> None:
        self._definition = definition
        self._cut: Split | None = None

    @property
    def is_used(self) -> bool:
        return self._cut is not None

    def cut(self, tensor: TensorView, loop: IterDomain) -> None:
        """Run this loop on streams.

        Raises:
            Unsupported: WS0190 where it is no outer part of a dimension, or another one runs so.
        """
        for made in tensor.transforms:
            if isinstance(made, Split) and made.outer is loop and made.axis in tensor.logical:
                if self._cut is not None:
                    raise unsupported(_WHAT, "one loop of a fusion runs on streams", "use one")
                self._cut = made
                return
        raise unsupported(
            _WHAT, f"{loop!r} is no outer part of a dimension of {tensor.name}", "use outer_split"
        )

    def run(self, given: Sequence[Any]) -> list[Any]:
        """Results of a call, whose pieces overlap on a GPU; what is written into inputs is no
        result.

        Raises:
            Unsupported: WS0190 for anything but products whose rows, columns or batches are cut.
            ArgumentError: for what was not defined so.
        """
        assert self._cut is not None
        program = self._definition.fusion
        places = _places(program, self._cut)
        bind(program, given)
        sizes = ScalarEvaluator(symbols_of_call(zip(program.inputs, given, strict=True)))
        results = [_empty(output.value, sizes, given) for output in program.outputs]
        whole = sizes.integer(self._cut.axis.extent)
        step = max(1, sizes.integer(self._cut.inner.extent))
        for number, first in enumerate(range(0, max(1, whole), step)):
            count = min(step, whole - first)
            with _stream(number, results):
                values = {
                    tensor: value
                    if (dim := places.get(tensor)) is None
                    else value.narrow(dim, first, count)
                    for tensor, value in _tensors(program, given, results)
                }
                _multiply(program, values)
        return _returned(program, given, results)


def _tensors(
    program: Any, given: Sequence[Any], results: Sequence[Any]
) -> Iterator[tuple[TensorView, Any]]:
    for tensor, value in zip(program.inputs, given, strict=True):
        if isinstance(tensor, TensorView):
            yield tensor, value
    for output, value in zip(program.outputs, results, strict=True):
        yield output.value, value


def _returned(program: Any, given: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The results that are not written into an input, as the others are here."""
    passed = dict(zip(program.inputs, given, strict=True))
    returned = []
    for output, value in zip(program.outputs, results, strict=True):
        if output.alias_of is None:
            returned.append(value)
        else:
            passed[output.alias_of].copy_(value)
    return returned


def _places(program: Any, cut: Split) -> dict[TensorView, int]:
    """Which dimension of each tensor is cut; one that is broadcast there is taken whole."""
    groups = DomainMap(program, through_inputs=True)
    wanted = groups.group(cut.axis)
    for operation in program.operations:
        is_product = isinstance(operation, Matmul) and _is_plain(operation)
        if not is_product and not _is_cast_of_product(operation):
            raise unsupported(
                _WHAT,
                f"{operation.outputs[0].name} is no product of matrices, and these run in pieces",
                "compute it in a fusion of its own",
            )
        if any(a.is_reduction and groups.group(a) == wanted for a in operation.output.root):
            raise unsupported(_WHAT, f"{operation.output.name} sums over it", "cut rows or columns")
    return {
        tensor: dim
        for tensor in program.tensors
        for dim, axis in enumerate(tensor.shape_axes)
        if groups.group(axis) == wanted and not axis.is_broadcast
    }


def _is_cast_of_product(operation: Any) -> bool:
    is_cast = isinstance(operation, Pointwise) and operation.op == "cast"
    return is_cast and isinstance(operation.inputs[0].definition, Matmul)


def _is_plain(product: Matmul) -> bool:
    """Whether both operands are matrices in the same batches, or the second one is a matrix."""
    rows, columns = ({*axes} - {len(product.output.root) - 1} for axes in product.axes)
    is_one = len(rows - columns) == 1 or not rows & columns
    return product.ends is None and is_one and len(columns - rows) == 1


def _empty(tensor: TensorView, sizes: ScalarEvaluator, given: Sequence[Any]) -> Any:
    import torch

    device = next(value.device for value in given if hasattr(value, "device"))
    shape = [sizes.integer(axis.extent) for axis in tensor.shape_axes]
    order = tensor.memory_order()
    made = torch.empty([shape[d] for d in order], dtype=_torch_type(tensor), device=device)
    return made.permute([order.index(d) for d in range(len(order))])


@contextmanager
def _stream(number: int, results: Sequence[Any]) -> Iterator[None]:
    """A stream that begins behind what was asked for so far, and that what follows waits for."""
    import torch

    if not results[0].is_cuda:
        yield
        return
    before = torch.cuda.current_stream(results[0].device)
    own = torch.cuda.Stream(results[0].device)
    own.wait_stream(before)
    with torch.cuda.stream(own):
        yield
    before.wait_stream(own)


def _multiply(program: Any, values: dict[TensorView, Any]) -> None:
    """The products of a piece and their casts, into what there is for results.

    PyTorch gives a product its operands' type; what is cast is that.
    """
    import torch

    for operation in program.operations:
        into = values.get(operation.output)
        if not isinstance(operation, Matmul):
            made = values[operation.inputs[0]]
            if into is None:
                values[operation.output] = made.to(_torch_type(operation.output))
            elif into is not made:
                into.copy_(made)
            continue
        a, b = (
            values[tensor].permute(sorted(range(len(axes)), key=axes.__getitem__))
            for tensor, axes in zip(operation.operands, operation.axes, strict=True)
        )
        last = b.ndim - 1
        b = b.movedim(last, last - 1)  # its columns stood before what is summed
        multiply = torch.mm if a.ndim == b.ndim == 2 else torch.matmul
        rounded = _rounded(program, operation)
        into = values.get(rounded)
        made = multiply(a, b) if into is None else multiply(a, b, out=into)
        values |= {operation.output: made, rounded: made}


def _rounded(program: Any, product: Matmul) -> TensorView:
    """The product in its operands' type."""
    for operation in program.operations:
        casts = _is_cast_of_product(operation) and operation.inputs[0] is product.output
        (made,) = operation.outputs
        if casts and made.dtype is product.a.dtype:
            assert isinstance(made, TensorView)
            return made
    return product.output


def _torch_type(tensor: TensorView) -> Any:
    return arrays.torch_dtypes()[tensor.dtype.value]
