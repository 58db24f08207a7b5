"""A kernel as the machine takes it: records with numbers for names."""

from __future__ import annotations

from warpsmith.sim.isa import (
    Combine,
    Compare,
    Flag,
    Kind,
    Mode,
    Op,
    Round,
    Scope,
    Semantics,
    Space,
    Type,
)
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand; `Kind` says which of the fields count."""

    kind: Kind
    index: int = -1
    value: int = 0
    negated: bool = False

    @property
    def is_register(self) -> bool:
        """Whether `index` is a register: the operand, or what its address is in."""
        return self.kind is Kind.REGISTER or (self.kind is Kind.ADDRESS and self.index >= 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an instruction stands: its PTX line and, with `-lineinfo`, its CUDA file and line.

    `caller` is `file:line` of where the function of that line is inlined; empty where it is not.
    """

    line: int
    file: str = ""
    source_line: int = 0
    caller: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What an instruction does, whatever its operands are; instructions of one form share it.

    `vector` is the vector length of LD, ST, ATOM, RED, ST_ASYNC, LDMATRIX and STMATRIX, the rank of
    tensor copies, the bytes of a CVT's destination register where they are more than those of
    `type`, and the type of B where a matrix product has another one than `type2` for it.
    `shape` is (m, n, k) of a matrix product.
    """

    op: Op
    type: Type = Type.NONE
    type2: Type = Type.NONE
    mode: Mode = Mode.NONE
    flags: Flag = Flag.NONE
    round: Round = Round.NONE
    compare: Compare = Compare.NONE
    combine: Combine = Combine.NONE
    space: Space = Space.GENERIC
    semantics: Semantics = Semantics.WEAK
    scope: Scope = Scope.NONE
    vector: int = 1
    shape: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One PTX instruction.

    `groups` counts the operands of each PTX operand: 1 for a scalar, n for a vector in braces.
    `target` and `reconverge` are indices into the instructions; `reconverge` is the immediate
    post-dominator of a branch, or -1 where its paths meet only at the end of the kernel.
    A 128-bit register is two operands, low half first, in one group.
    """

    does: Meaning
    place: Place
    guard: Operand | None = None
    operands: tuple[Operand, ...] = ()
    groups: tuple[int, ...] = ()
    target: int = -1
    reconverge: int = -1
    targets: tuple[int, ...] = ()
    text: str = ""

    @property
    def op(self) -> Op:
        return self.does.op


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A module or function variable in memory.

    `address` is the one that instructions use in its space: see `isa.Window`. `initial` holds its
    bytes where it is initialized.
    """

    name: str
    space: Space
    address: int
    size: int
    initial: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A kernel parameter: its place in the parameter buffer, in bytes."""

    name: str
    offset: int
    size: int
    align: int
    type: Type
    is_array: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One entry function, its calls inlined, ready to run.

    `slots` has the 64-bit slot of each register that operands name. `registers` is the number of
    slots, and `register_names` has the first register of each.
    `bound` is the launch bound (`.maxntid`, `.reqntid`) as threads, 0 when none; `min_blocks` is
    `.minnctapersm`; `max_registers` is `.maxnreg`; `cluster` is `.reqnctapercluster`.
    Shared variables start at `Window.SHARED_START`; an `.extern .shared` array, if there is one,
    starts behind them, at the aligned end `dynamic_start`.
    """

    name: str
    version: tuple[int, int]
    target: str
    instructions: tuple[Instruction, ...]
    parameters: tuple[Parameter, ...]
    slots: tuple[int, ...]
    registers: int
    register_names: tuple[str, ...]
    variables: tuple[Variable, ...] = ()
    shared_bytes: int = 0
    local_bytes: int = 0
    global_bytes: int = 0
    const_bytes: int = 0
    dynamic_start: int | None = None
    bound: int = 0
    min_blocks: int = 0
    max_registers: int = 0
    cluster: tuple[int, int, int] | None = None
