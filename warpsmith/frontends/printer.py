"""A fusion as Python: text that defines it again when it is executed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from string import ascii_letters

from warpsmith.errors import InternalError
from warpsmith.ir.carry import Carry
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, Scan, takes_moments
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Read, Search
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, literal
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.ops.contraction import result_of
from warpsmith.ops.evaluate import is_rfactored, reduction_origin
from warpsmith.runtime import arrays

_INDENT = "    "
_MOVE_ARGUMENT = {
    "broadcast": "is_broadcast_dim",
    "expand": "shape",
    "squeeze": "dims",
    "permute": "dims",
    "reshape": "new_shape",
}


def python_text(fusion: Fusion) -> str:
    """`def nvfuser_fusion(fd)`, which defines the fusion's inputs, operations and outputs.

    Operations that no output needs are left out, once there are outputs.
    Caches that a schedule put in are copies in the text; what else it says (loops, parallel types,
    memory, what carries copies, circular buffers) is not told.
    """
    writer = _Writer(fusion)
    lines = [writer.declaration(value) for value in fusion.inputs]
    results = [output.value for output in fusion.outputs]
    for operation in fusion.depends_on(results) if results else fusion.operations:
        if not is_rfactored(operation.outputs[0]):
            lines.append(writer.definition(operation))
    for output in fusion.outputs:
        alias = "" if output.alias_of is None else f", {_name(output.alias_of)}"
        place = output.place
        at = "" if place is None else f", at=({place.dimension}, {_name(place.index)})"
        lines.append(f"fd.add_output({_name(output.value)}{alias}{at})")
    body = "".join(f"{_INDENT}{line}\n" for line in lines or ["pass"])
    return f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{body}"


def script_text(fusion: Fusion, inputs: Sequence[str]) -> str:
    """A script that defines and executes the fusion; `inputs` are expressions (`input_text`)."""
    given = "".join(f"{_INDENT}{text},\n" for text in inputs)
    modules = [
        name
        for name in ("ml_dtypes", "numpy", "torch")
        if any(f"{name}." in text for text in inputs)
    ]
    imports = "".join(f"import {name}\n" for name in modules)
    text = python_text(fusion)
    rules = "CarryRule, " if "CarryRule(" in text else ""
    return (
        f"{imports}from warpsmith import {rules}DataType, FusionDefinition\n\n\n"
        f"{text}\n\n"
        "with FusionDefinition() as fd:\n"
        f"{_INDENT}nvfuser_fusion(fd)\n\n"
        f"inputs = [\n{given}]\n"
        "fd.execute(inputs)\n"
    )


def input_text(value: object) -> str:
    """An expression that makes an array with the shape, strides, type and place of `value`."""
    if isinstance(value, bool | int | float):
        return _literal(value)
    info = arrays.describe(value)
    shape, strides = tuple(info.shape), tuple(info.strides)
    if info.kind == "torch":
        dtype = str(getattr(value, "dtype", None))
        place = "cpu" if info.device_kind == "cpu" else f"cuda:{info.ordinal}"
        kind = DataType(info.dtype)
        fill = "normal_()" if kind.is_float else "random_(0, 2)"
        if kind.is_float8:
            fill = "fill_(1)"
        return f'torch.empty_strided({shape}, {strides}, dtype={dtype}, device="{place}").{fill}'
    named = arrays.NUMPY_DTYPES[info.dtype]
    foreign = named.type.__module__ == "ml_dtypes"
    dtype = f"ml_dtypes.{named.name}" if foreign else f'"{named.name}"'
    reach = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    in_bytes = tuple(stride * DataType(info.dtype).size for stride in strides)
    memory = f'numpy.ones({max(reach, 0)}, {dtype}).view("u1")'  # NumPy views no float8 by strides
    return f"numpy.ndarray({shape}, {dtype}, {memory}, strides={in_bytes})"


def _name(tensor: TensorView) -> str:
    return f"tv{tensor.number}"


def _dtype(dtype: DataType) -> str:
    return f"DataType.{dtype.name}"


def _product(operation: Matmul) -> str:
    """The call that defines it: `linear`, `matmul`, or `einsum` where it is neither."""
    if operation.ends is not None:
        operands = map(_name, (*operation.operands, operation.ends))
        return f"fd.ops.grouped_matmul({', '.join((*operands, *_result(operation)))})"
    of_a, of_b = operation.axes
    last = max(of_a)
    linear = ((*range(last - 1), last), (last - 1, last))
    standard = all(
        list(own[:-2]) == list(range(last - len(own), last - 2)) for own in operation.axes
    )
    ends = (of_a[-2:], of_b[-2:]) == ((last - 2, last), (last, last - 1))
    arguments = [_name(operation.a), _name(operation.b), *_result(operation)]
    name = "linear" if operation.axes == linear else "matmul" if standard and ends else "einsum"
    if name == "einsum":
        first, second, result = (
            "".join(ascii_letters[place] for place in own) for own in (of_a, of_b, range(last))
        )
        arguments.insert(0, f'"{first},{second}->{result}"')
    return f"fd.ops.{name}({', '.join(arguments)})"


def _result(operation: Matmul) -> Iterator[str]:
    """Arguments of a product about what it gives, where they are not the usual ones."""
    if operation.output.dtype is not result_of(operation.a.dtype):
        yield f"dtype={_dtype(operation.output.dtype)}"
    if operation.precision != "exact":
        yield f'precision="{operation.precision}"'


def _literal(value: float | bool) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


class _Writer:
    """Text of declarations and operations; knows which size belongs to which input."""

    def __init__(self, fusion: Fusion) -> None:
        self._sizes = {
            axis.extent.name: f"fd.ops.size({_name(tensor)}, dim={d})"
            for tensor in fusion.input_tensors
            for d, axis in enumerate(tensor.shape_axes)
            if isinstance(axis.extent, Symbol)
        }

    def declaration(self, value: TensorView | Symbol) -> str:
        if isinstance(value, Symbol):
            return f"{value.name} = fd.define_scalar(dtype={_dtype(value.dtype)})"
        shape = [
            int(axis.extent.value) if isinstance(axis.extent, Const) else -1
            for axis in value.shape_axes
        ]
        flags = [
            None if value.shape_axes[d].is_broadcast else value.contiguity[d]
            for d in value.memory_order()
        ]
        order = "" if value.stride_order is None else f", stride_order={list(value.stride_order)}"
        return (
            f"{_name(value)} = fd.define_tensor(shape={shape}, contiguity={flags}, "
            f"dtype={_dtype(value.dtype)}, is_cpu=False{order})"
        )

    def definition(self, operation: Operation) -> str:
        if isinstance(operation, Pointwise):
            text = self._pointwise(operation)
        elif isinstance(operation, Move):
            text = self._move(operation)
        elif isinstance(operation, Reduction):
            text = self._reduction(operation)
        elif isinstance(operation, Matmul):
            text = _product(operation)
        elif isinstance(operation, Scan):
            text = self._scan(operation)
        elif isinstance(operation, Read):
            text = self._read(operation)
        elif isinstance(operation, Search):
            text = f"fd.ops.{operation.op}({_name(operation.source)}, {_name(operation.wanted)})"
        elif isinstance(operation, Full):
            shape = self._extents([axis.extent for axis in operation.output.shape_axes])
            value = self.scalar(operation.value)
            dtype = _dtype(operation.output.dtype)
            text = f"fd.ops.full(shape={shape}, fill_value={value}, dtype={dtype})"
        else:
            assert isinstance(operation, Iota)
            text = self._iota(operation)
        results = [_name(output) for output in operation.outputs]
        if takes_moments(operation):
            results[2] = "_"  # the operation's own count; users get a tensor that is full of it
        return f"{', '.join(results)} = {text}"

    def _pointwise(self, operation: Pointwise) -> str:
        operands = [self._operand(value) for value in operation.inputs]
        if operation.op == "cast":
            source = operation.inputs[0]
            if isinstance(source, TensorView) and source.dtype is operation.output.dtype:
                return f"fd.ops.set({operands[0]})"  # as text it would be no operation
            return f"fd.ops.cast({operands[0]}, dtype={_dtype(operation.output.dtype)})"
        if operation.op == "set" and operation.output.stride_order is not None:
            order = list(operation.output.stride_order)
            return f"fd.ops.stride_order({operands[0]}, stride_order={order})"
        return f"fd.ops.{operation.op}({', '.join(operands)})"

    def _move(self, operation: Move) -> str:
        if operation.kind == "repeat_interleave":
            text, order = _name(operation.source), list(operation.origin)
            if order != sorted(order, key=str):
                text = f"fd.ops.permute({text}, dims={order})"
            for dim, times in enumerate(operation.repeats):
                if times > 1:
                    size = self.scalar(operation.output.root[dim].extent)
                    words = f"repeats={times}, dim={dim}, output_size={size}"
                    text = f"fd.ops.repeat_interleave({text}, {words})"
            return text
        if operation.kind == "tiles":
            dim, count = operation.tiles
            return f"fd.ops.tiles({_name(operation.source)}, dim={dim}, size={count})"
        keyword = _MOVE_ARGUMENT.get(operation.kind)
        if keyword is None:
            raise InternalError(f"a move of kind {operation.kind} cannot be printed")
        (values,) = operation.arguments
        assert isinstance(values, tuple)
        return (
            f"fd.ops.{operation.kind}({_name(operation.source)}, {keyword}={self._extents(values)})"
        )

    def _read(self, operation: Read) -> str:
        sources = ", ".join(map(_name, operation.sources))
        said = [f"[{sources}]" if operation.kind == "cat" else sources]
        indices = [_name(index) for index in operation.indices]
        said += [f"[{', '.join(indices)}]"] if operation.kind == "choose" else indices
        said += [
            self._extents(value) if isinstance(value, tuple) else self._said(value)
            for value in operation.arguments
        ]
        return f"fd.ops.{operation.kind}({', '.join(said)})"

    def _said(self, value: object) -> str:
        return self.scalar(value) if isinstance(value, Expr) else repr(value)

    def _reduction(self, operation: Reduction) -> str:
        source, dims = reduction_origin(operation)
        if takes_moments(operation):
            return f"fd.ops.welford({_name(source)}, dims={list(dims)})"
        if not operation.carry.is_simple:
            return self._by_rule(operation, dims)
        dtype = (
            f", dtype={_dtype(operation.output.dtype)}" if operation.op in ("sum", "prod") else ""
        )
        return f"fd.ops.{operation.op}({_name(source)}, dims={list(dims)}, keepdim=False{dtype})"

    def _by_rule(self, operation: Reduction, dims: Sequence[int]) -> str:
        """A reduction by a rule that has no name of its own; elements are states already."""
        sources = ", ".join(map(self._operand, operation.sources))
        return f"fd.ops.reduce([{sources}], {self._rule(operation.carry)}, dims={list(dims)})"

    def _scan(self, operation: Scan) -> str:
        sources = ", ".join(map(self._operand, operation.sources))
        carry, said = operation.carry, f", dim={operation.dim}"
        said += ", exclusive=True" if operation.exclusive else ""
        said += ", reverse=True" if operation.reverse else ""
        if carry.is_simple and carry.name in ("sum", "prod"):
            return f"fd.ops.cum{carry.name}({sources}{said}, dtype={_dtype(carry.dtypes[0])})"
        return f"fd.ops.scan([{sources}], {self._rule(carry)}{said})"

    def _rule(self, carry: Carry) -> str:
        """Python that makes the rule."""
        identity = ", ".join(
            f'"{name}": {_literal(start.value)}'
            for name, start in zip(carry.states, carry.identity, strict=True)
        )
        join = ", ".join(map(self.scalar, carry.join))
        said = "".join(
            f", {name}={value}"
            for name, value, usual in (
                ("commutative", carry.commutative, True),
                ("needs_elements", carry.needs_elements, False),
            )
            if value is not usual
        )
        return (
            f'CarryRule(name="{carry.name}", identity={{{identity}}}, '
            f"join=lambda a, b: ({join},){said})"
        )

    def _iota(self, operation: Iota) -> str:
        (length,) = operation.output.shape_axes
        start, step = self.scalar(operation.start), self.scalar(operation.step)
        return (
            f"fd.ops.iota({self.scalar(length.extent)}, {start}, {step}, "
            f"dtype={_dtype(operation.output.dtype)})"
        )

    def _operand(self, value: Value) -> str:
        return self.scalar(value) if isinstance(value, Expr) else _name(value)

    def _extents(self, values: Sequence[object]) -> str:
        return f"[{', '.join(map(self._said, values))}]"

    def scalar(self, expr: Expr, *, exact: bool = False) -> str:
        """Text of a scalar; constants without their type unless `exact`: operands convert them."""
        if isinstance(expr, Const):
            text = _literal(expr.value)
            plain = expr.dtype in (DataType.Index, literal(expr.value).dtype)
            return text if plain or not exact else f"fd.define_scalar({text}, {_dtype(expr.dtype)})"
        if isinstance(expr, Symbol):
            return self._sizes.get(expr.name, expr.name)
        if not isinstance(expr, Apply):
            raise InternalError(f"{expr!r} cannot be printed")
        args = [self.scalar(arg, exact=True) for arg in expr.args]
        if expr.op == "cast":
            return self._cast(expr, args[0])
        if expr.op == "ceildiv":
            return f"fd.ops.div(fd.ops.sub(fd.ops.add({args[0]}, {args[1]}), 1), {args[1]})"
        op = "div" if expr.op == "floordiv" else expr.op
        if op in ("add", "mul"):
            text = args[0]
            for arg in args[1:]:
                text = f"fd.ops.{op}({text}, {arg})"
            return text
        return f"fd.ops.{op}({', '.join(args)})"

    def _cast(self, expr: Apply, arg: str) -> str:
        if expr.dtype is DataType.Index:
            return arg  # shapes take any integer
        return f"fd.ops.cast({arg}, dtype={_dtype(expr.dtype)})"
