"""Tensor maps and matrix products of the native core, called one at a time."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.sim.support.native_library import insn
from warpsmith.sim.isa import Flag, Mode, Op, Type

SOURCES = (
    *(f"tensor/{name}.c" for name in ("tensor", "tensor_box", "tensor_elements", "tensor_rules")),
    *(f"matrix/{name}.c" for name in ("elements", "factor", "product", "mma")),
    *("matrix/wgmma.c", "matrix/wgmma_layout.c", "arithmetic/formats.c"),
)
LANES = 32
Rows = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


class TensorMap(ctypes.Structure):
    """`tensor_map` of tensor.h."""

    _fields_ = (
        *(("address", ctypes.c_uint64), ("dim", ctypes.c_uint64 * 5)),
        *(("stride", ctypes.c_uint64 * 4), ("box", ctypes.c_uint32 * 5)),
        ("element_stride", ctypes.c_uint32 * 5),
        *((name, ctypes.c_uint8) for name in ("rank", "type", "interleave", "swizzle", "fill")),
    )


def tensor_map(**fields: Any) -> TensorMap:
    """A map from its fields; sequences may be shorter than their arrays."""
    made = TensorMap()
    for name, value in fields.items():
        if isinstance(value, int):
            setattr(made, name, value)
        else:
            getattr(made, name)[: len(value)] = value
    return made


class Segment(ctypes.Structure):
    """`segment` of tensor.h."""

    _fields_ = (
        *(("global_", ctypes.c_uint64), ("shared", ctypes.c_uint32), ("bytes", ctypes.c_uint16)),
        *(("inside", ctypes.c_bool), ("spills", ctypes.c_bool)),
    )


class Chunks(ctypes.Structure):
    """`wgmma_chunks` of mma.h."""

    _fields_ = (
        *(("address", ctypes.c_uint32 * 1024), ("count", ctypes.c_uint32)),
        ("transposed", ctypes.c_bool),
    )


class Operands(ctypes.Structure):
    """`wgmma_operands` of mma.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("a_data", "b_data", "a_poison", "b_poison")),
        *((name, ctypes.c_void_p) for name in ("a_rows", "a_row_poison")),
        *((name, ctypes.c_bool) for name in ("a_transposed", "b_transposed", "scale_d")),
        *((name, ctypes.c_int) for name in ("scale_a", "scale_b")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix product as its instruction names it: types and shape."""

    d: Type
    a: Type
    b: Type
    m: int
    n: int
    k: int
    flags: Flag = Flag.NONE

    def record(self, op: Op) -> Any:
        vector = self.b if self.b != self.a else 1
        shape = {"m": self.m, "n": self.n, "k": self.k}
        return insn(op, type=self.d, type2=self.a, vector=vector, flags=self.flags, **shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wgmma:
    """A wgmma of four warps, its operands in a simulated shared memory."""

    product: Product
    a: int | Rows  # descriptor, or registers of 128 lanes
    b: int
    a_transposed: bool = False
    b_transposed: bool = False
    scale_d: bool = False
    scale_a: int = 1
    scale_b: int = 1


def pointers(rows: Rows) -> Any:
    """A C array of pointers to the rows of 32 slots."""
    assert rows.dtype == np.uint64
    assert rows.flags.c_contiguous
    return (ctypes.c_void_p * len(rows))(*(rows[i].ctypes.data for i in range(len(rows))))


def address_of(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Parts:
    """The functions of tensor.h and mma.h."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.tensor_map_error.restype = ctypes.c_char_p
        library.tensor_copy_error.restype = ctypes.c_char_p
        library.tensor_segments.restype = ctypes.c_size_t
        for name in ("tensor_map_decode", "tensor_map_replace", "mma_run", "wgmma_run"):
            getattr(library, name).restype = ctypes.c_bool

    # ---- tensor maps ----------------------------------------------------------------------------

    def encode(self, made: TensorMap) -> bytes:
        data = (ctypes.c_uint8 * 128)()
        self.library.tensor_map_encode(ctypes.byref(made), data)
        return bytes(data)

    def decode(self, data: bytes) -> TensorMap | None:
        made = TensorMap()
        source = (ctypes.c_uint8 * 128)(*data)
        return made if self.library.tensor_map_decode(source, ctypes.byref(made)) else None

    def error(self, made: TensorMap) -> str | None:
        text = ctypes.create_string_buffer(200)
        found = self.library.tensor_map_error(ctypes.byref(made), text, ctypes.c_size_t(200))
        return None if found is None else found.decode()

    def copy_error(
        self, made: TensorMap, coordinates: list[int], shared: int, store: bool
    ) -> str | None:
        text = ctypes.create_string_buffer(200)
        at = (ctypes.c_int32 * 5)(*coordinates)
        found = self.library.tensor_copy_error(
            ctypes.byref(made), at, shared, store, text, ctypes.c_size_t(200)
        )
        return None if found is None else found.decode()

    def replace(self, made: TensorMap, field: Mode, ordinal: int, value: int) -> bool:
        done: bool = self.library.tensor_map_replace(
            ctypes.byref(made), field, ordinal, ctypes.c_uint64(value)
        )
        return done

    def box_bytes(self, made: TensorMap) -> int:
        count: int = self.library.tensor_box_bytes(ctypes.byref(made))
        return count

    def segments(self, made: TensorMap, coordinates: list[int], shared: int) -> list[Segment]:
        at = (ctypes.c_int32 * 5)(*coordinates)
        arguments = (ctypes.byref(made), at, shared)
        count = self.library.tensor_segments(*arguments, None, ctypes.c_size_t(0))
        out = (Segment * count)()
        self.library.tensor_segments(*arguments, out, ctypes.c_size_t(count))
        return list(out)

    def load(self, made: TensorMap, coordinates: list[int], start: int, memory: Bytes) -> Bytes:
        """What a load leaves in shared memory, 0xA5 where it writes nothing.

        `memory` begins at global address 0; the result at shared address `start`.
        """
        shared = np.full(1 << 16, 0xA5, np.uint8)
        for run in self.segments(made, coordinates, start):
            data = np.zeros(run.bytes, np.uint8)
            if run.inside:
                data[:] = memory[run.global_ : run.global_ + run.bytes]
                self.library.tensor_convert(ctypes.byref(made), address_of(data), len(data))
            else:
                self.library.tensor_fill(ctypes.byref(made), address_of(data), len(data))
            shared[run.shared - start :][: run.bytes] = data
        return shared

    def store(
        self, made: TensorMap, coordinates: list[int], start: int, shared: Bytes, memory: Bytes
    ) -> None:
        """Write a box from shared memory, which begins at `start`, to `memory`."""
        for run in self.segments(made, coordinates, start):
            if run.inside or run.spills:
                data = shared[run.shared - start :][: run.bytes]
                memory[run.global_ : run.global_ + run.bytes] = data

    # ---- matrix products ------------------------------------------------------------------------

    def mma(
        self, product: Product, a: Rows, b: Rows, c: Rows, poison: list[int] | None = None
    ) -> tuple[Rows, list[int]] | None:
        """D and its poison, or None where the combination is refused."""
        record = product.record(Op.MMA)
        d = np.zeros_like(c)
        sources = np.array(poison or [0] * (len(a) + len(b) + len(c)), np.uint32)
        undefined = np.zeros(len(c), np.uint32)
        registers = [pointers(rows) for rows in (d, a, b, c)]
        done = self.library.mma_run(
            ctypes.byref(record), *registers, address_of(sources), address_of(undefined)
        )
        return (d, undefined.tolist()) if done else None

    def locate(
        self, product: Product, is_b: bool, transposed: bool, descriptor: int, quarter: int
    ) -> npt.NDArray[np.int64]:
        """The addresses of an operand's chunks."""
        chunks = Chunks()
        record = product.record(Op.WGMMA)
        self.library.wgmma_locate(
            *(ctypes.byref(record), is_b, transposed, ctypes.c_uint64(descriptor), quarter),
            ctypes.byref(chunks),
        )
        return np.array(chunks.address[: chunks.count], np.int64)

    def wgmma(
        self, what: Wgmma, memory: Bytes, d: Rows, poison: Bytes | None = None
    ) -> npt.NDArray[np.uint32] | None:
        """Run four warps on D (registers x 128), in place; the poison of D, or None if refused.

        `poison` is nonzero for undefined bytes of shared memory.
        """
        undefined = np.zeros((4, len(d)), np.uint32)
        for quarter in range(4):
            lanes = slice(LANES * quarter, LANES * (quarter + 1))
            rows = np.ascontiguousarray(d[:, lanes])
            if not self._warp(what, quarter, memory, poison, rows, undefined[quarter]):
                return None
            d[:, lanes] = rows
        return undefined

    def _warp(
        self,
        what: Wgmma,
        quarter: int,
        memory: Bytes,
        poison: Bytes | None,
        rows: Rows,
        undefined: npt.NDArray[np.uint32],
    ) -> bool:
        product = what.product
        record = product.record(Op.WGMMA)
        if not isinstance(what.a, int):
            record.flags |= Flag.A_REGISTERS
        clean = np.zeros(1024, np.uint8)
        operands = Operands(
            a_transposed=what.a_transposed,
            b_transposed=what.b_transposed,
            scale_d=what.scale_d,
            scale_a=what.scale_a,
            scale_b=what.scale_b,
        )
        kept: list[Any] = [clean]

        def place(is_b: bool, transposed: bool, descriptor: int) -> tuple[Bytes, Bytes]:
            found = self.locate(product, is_b, transposed, descriptor, quarter)
            every = found[:, None] + np.arange(16)
            marks = clean if poison is None else poison[every].any(1).astype(np.uint8)
            return memory[every].reshape(-1).copy(), marks

        if isinstance(what.a, int):
            data, marks = place(False, what.a_transposed, what.a)
            operands.a_data, operands.a_poison = data.ctypes.data, marks.ctypes.data
            kept += [data, marks]
        else:
            own = np.ascontiguousarray(what.a[:, LANES * quarter : LANES * (quarter + 1)])
            table = pointers(own)
            operands.a_rows = ctypes.cast(table, ctypes.c_void_p)
            operands.a_row_poison = clean.ctypes.data
            kept += [own, table]
        data, marks = place(True, what.b_transposed, what.b)
        operands.b_data, operands.b_poison = data.ctypes.data, marks.ctypes.data
        done: bool = self.library.wgmma_run(
            *(ctypes.byref(record), ctypes.byref(operands)),
            *(pointers(rows), address_of(undefined)),
        )
        return done


def descriptor(start: int, leading: int, stride: int, code: int, base: int = 0) -> int:
    """A matrix descriptor; `code` is 0 for no swizzle, then 1 for 128, 2 for 64, 3 for 32 bytes."""
    fields = start >> 4, leading >> 4 << 16, stride >> 4 << 32, base << 49, code << 62
    return sum(fields)
