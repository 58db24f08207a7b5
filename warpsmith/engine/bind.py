"""Every argument of a call against the definition; sizes, strides and scalars by name.

What can be said once is said once: a `Binder` collects what the definition asks of the arguments,
and each call is held against that list. After it, lowering's assumptions hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from warpsmith.engine.agreements import Agreement, agreements, emptied, whole_numbers
from warpsmith.errors import ArgumentError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.places import strides_of_parts
from warpsmith.ir.program import Output
from warpsmith.ir.scalar import Apply, Const, Symbol, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.reshape import without_reshapes
from warpsmith.ops.single_rows import (
    Ones,
    has_narrow_rows,
    sizes_of_one,
    with_rows,
    with_single_rows,
)
from warpsmith.runtime.arrays import ArrayInfo, describe
from warpsmith.runtime.kept import CUTS
from warpsmith.runtime.recent import Recent
from warpsmith.values import dataclass

_WIDEST = 16
"""Elements: strides that are multiples of it suit vectors of 16 bytes, and the TMA unit."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A call that fits.

    Attributes:
        values: sizes `T0_size1` and strides `T0_stride1` of the input tensors, and the scalars.
        infos: the input tensors, in order.
        fusion: what the call computes: the definition, less what has no meaning at its sizes.
        form: of the program, among those of other calls.
    """

    values: dict[str, float]
    infos: tuple[ArrayInfo, ...]
    fusion: Fusion
    form: Form = ((), frozenset(), False)


Form = tuple[tuple[int, ...], Ones, bool]
"""Numbers of the tensors of zeros in a program that are reshapes in its definition, sizes of 1 with
which its products are sums, and whether those of one row are none of these."""

_Held = tuple[Fusion, tuple[Agreement, ...]]
"""A program, and what its operations ask of sizes."""


class Binder:
    """Checks the arguments of calls of one fusion.

    Args:
        scheduled: the user laid a schedule on its reshapes, so that all of them are done.
    """

    def __init__(self, fusion: Fusion, *, scheduled: bool = False) -> None:
        written = {o.alias_of.name: o for o in fusion.outputs if o.alias_of is not None}
        self._checks = tuple(
            _ScalarCheck(position, value)
            if isinstance(value, Symbol)
            else _TensorCheck(position, value, written.get(value.name))
            for position, value in enumerate(fusion.inputs)
        )
        self._tensors = [check for check in self._checks if isinstance(check, _TensorCheck)]
        self._scheduled = scheduled
        self._fusion = fusion
        self._held: Recent[Form, _Held] = Recent(CUTS)

    def __call__(self, inputs: Sequence[object]) -> Binding:
        """The binding of one call's arguments.

        Raises ArgumentError that names the argument, what it got and what it needs.
        """
        if len(inputs) != len(self._checks):
            raise ArgumentError(
                f"got {len(inputs)} arguments, and the definition has {len(self._checks)} inputs",
                code="WS0301",
                remedy="pass one argument for each input, in the order of their definition",
            )
        values: dict[str, float] = {}
        infos: list[ArrayInfo] = []
        first = ""
        for check, given in zip(self._checks, inputs, strict=True):
            if isinstance(check, _ScalarCheck):
                values[check.name] = check.value(given)
                continue
            info = check.info(given)
            if infos:
                _check_device(check.who, info, first, infos[0])
            first = first or check.who
            check.bind(info, values)
            infos.append(info)
        numbers = whole_numbers(values)
        for check, info in zip(self._tensors, infos, strict=True):
            check.check_composed(info, numbers)
        values |= strides_of_parts(self._fusion, numbers)
        (fusion, asked), form = self._meant(values, numbers)
        for agreement in asked:
            agreement.check(numbers)
        return Binding(values, tuple(infos), fusion, form)

    def asked(self, form: Form) -> tuple[Agreement, ...]:
        """What the program of this form asks of sizes."""
        known = self._held.get(form)
        return () if known is None else known[1]

    def _meant(self, values: dict[str, float], numbers: dict[str, int]) -> tuple[_Held, Form]:
        """The program without the reshapes that mean nothing at these sizes, and whose products of
        one row are sums.
        """
        form: Form = (), frozenset(), False
        if not self._scheduled:
            rows = has_narrow_rows(self._fusion, numbers)
            ones = frozenset() if rows else sizes_of_one(self._fusion, values)
            form = tuple(emptied(self._fusion, values)), ones, rows
        known = self._held.get(form)
        if known is None:
            gone, ones, rows = form
            fusion = without_reshapes(self._fusion, gone) if gone else self._fusion
            asked = agreements(fusion)
            if self._scheduled:
                asked = tuple(replace(each, elements=None) for each in asked)
            else:
                for agreement in asked if ones else ():
                    agreement.check(numbers)
                fusion = with_rows(fusion) if rows else with_single_rows(fusion, ones)
            known = self._held.put(form, (fusion, asked))
        return known, form


def bind(fusion: Fusion, inputs: Sequence[object]) -> Binding:
    """`Binder` for a single call."""
    return Binder(fusion)(inputs)


class _TensorCheck:
    """What one input tensor asks of its argument; `written` is the output that goes into it."""

    def __init__(self, position: int, tensor: TensorView, written: Output | None) -> None:
        self.who = f"argument {position} ({tensor.name})"
        self._tensor = tensor
        self._line = tensor.line
        self._written = written
        self._dtype = tensor.dtype
        self._fast_to_slow = tuple(reversed(tensor.memory_order()))
        self._extents = [axis.extent for axis in tensor.shape_axes]

    def info(self, given: object) -> ArrayInfo:
        if isinstance(given, bool | int | float | np.generic):
            raise ArgumentError(
                f"{self.who} is the number {given!r}, and must be a tensor of dtype "
                f"{self._dtype.name}",
                code="WS0302",
                remedy="pass an array, or define the input as a scalar",
                line=self._line,
            )
        try:
            info = describe(given)
        except ArgumentError as error:
            raise ArgumentError(
                f"{self.who}: {error.message}",
                code=error.code,
                remedy=error.remedy,
                line=self._line,
            ) from None
        if info.dtype != self._dtype.value:
            raise ArgumentError(
                f"{self.who} has dtype {DataType(info.dtype).name}, and must have "
                f"{self._dtype.name}",
                code="WS0303",
                remedy=f"convert the argument to {self._dtype.value}",
                line=self._line,
            )
        if len(info.shape) != self._tensor.rank:
            raise ArgumentError(
                f"{self.who} has {len(info.shape)} dimensions, shape {tuple(info.shape)}, and must "
                f"have {self._tensor.rank}",
                code="WS0305",
                remedy="reshape the argument, or define the input with its rank",
                line=self._line,
            )
        if info.pointer % self._dtype.size and 0 not in info.shape:
            raise ArgumentError(
                f"{self.who} starts at address {info.pointer:#x}, which is no multiple of the "
                f"{self._dtype.size} bytes of an element",
                code="WS0320",
                remedy="pass a copy",
                line=self._line,
            )
        return info

    def bind(self, info: ArrayInfo, values: dict[str, float]) -> None:
        name = self._tensor.name
        for d, (got, wanted) in enumerate(zip(info.shape, self._extents, strict=True)):
            if isinstance(wanted, Symbol):
                if values.setdefault(wanted.name, got) != got:
                    raise self._wrong_extent(d, got, int(values[wanted.name]))
            elif isinstance(wanted, Const) and wanted.value != got:
                raise self._wrong_extent(d, got, int(wanted.value))
        for d, stride in enumerate(self._strides(info)):
            values[f"{name}_stride{d}"] = stride

    def check_composed(self, info: ArrayInfo, numbers: dict[str, int]) -> None:
        """Hold extents that are defined by sizes of other inputs against those."""
        for d, wanted in enumerate(self._extents):
            if isinstance(wanted, Apply) and evaluate(wanted, numbers) != info.shape[d]:
                raise self._wrong_extent(d, info.shape[d], evaluate(wanted, numbers))

    def _wrong_extent(self, d: int, got: int, wanted: int) -> ArgumentError:
        broadcast = " (it is a broadcast dimension)" if wanted == 1 else ""
        return ArgumentError(
            f"{self.who} has extent {got} in dimension {d}, and must have {wanted}{broadcast}",
            code="WS0306",
            remedy="pass such an array, or define the extent as -1",
            line=self._line,
        )

    def _strides(self, info: ArrayInfo) -> list[int]:
        """The strides that kernels see. Those of dimensions of one element, and of empty arrays,
        are never walked, and libraries leave anything there: they are as if there were no gaps, and
        in empty arrays multiples of what any access needs.
        """
        strides = list(info.strides)
        empty = 0 in info.shape
        expected = 1
        for d in self._fast_to_slow:
            if empty or info.shape[d] == 1:
                strides[d] = expected
            else:
                self._check_stride(info, d, expected)
            expected = strides[d] * max(info.shape[d], 1)
            if empty:
                expected = -(-expected // _WIDEST) * _WIDEST
        return strides

    def _check_stride(self, info: ArrayInfo, d: int, expected: int) -> None:
        stride = info.strides[d]
        if stride < 0:
            raise ArgumentError(
                f"{self.who} has stride {stride} in dimension {d}",
                code="WS0307",
                remedy="pass a copy: negative strides are not supported",
                line=self._line,
            )
        if self._tensor.contiguity[d] and stride != expected:
            raise ArgumentError(
                f"{self.who} has stride {stride} in dimension {d}, and must have {expected}: "
                f"it is defined as contiguous there and has shape {tuple(info.shape)}",
                code="WS0308",
                remedy="pass a contiguous copy, or define the input with contiguity=False",
                line=self._line,
            )
        if stride == 0 and self._written is not None:
            raise ArgumentError(
                f"{self.who} has stride 0 in dimension {d}: its elements are one in memory, and "
                f"output {self._written.value.name} is written into it",
                code="WS0317",
                remedy="pass an array with an element in memory for each of its elements",
                line=self._written.line,
            )


class _ScalarCheck:
    """What one scalar input asks of its argument."""

    def __init__(self, position: int, symbol: Symbol) -> None:
        self.name = symbol.name
        self._who = f"argument {position} ({symbol.name})"
        self._dtype = symbol.dtype

    def value(self, given: object) -> float:
        number = given.item() if isinstance(given, np.generic) else given
        if isinstance(number, bool) or self._dtype is DataType.Bool:
            fits = isinstance(number, bool) and self._dtype is DataType.Bool
        elif isinstance(number, int):
            fits = True
            bits = 31 if self._dtype is DataType.Int32 else 63
            if not self._dtype.is_float and not -(2**bits) <= number < 2**bits:
                raise ArgumentError(
                    f"{self._who} is {number}, which is outside the range of {self._dtype.name}",
                    code="WS0309",
                    remedy="pass a smaller number",
                )
        else:
            fits = isinstance(number, float) and self._dtype.is_float
        if not fits or not isinstance(number, bool | int | float):
            raise ArgumentError(
                f"{self._who} is {given!r} of type {type(given).__name__}, and must be a scalar of "
                f"dtype {self._dtype.name}",
                code="WS0310",
                remedy="pass a Python number of that kind",
            )
        return float(number) if self._dtype.is_float else number


def _check_device(who: str, info: ArrayInfo, first: str, wanted: ArrayInfo) -> None:
    if (info.device_kind, info.ordinal) == (wanted.device_kind, wanted.ordinal):
        return
    places = ["the CPU" if i.device_kind == "cpu" else f"cuda:{i.ordinal}" for i in (info, wanted)]
    raise ArgumentError(
        f"{who} is on {places[0]}, and {first} is on {places[1]}",
        code="WS0304",
        remedy="move all tensors to one device; a number can be passed as a scalar input",
    )
