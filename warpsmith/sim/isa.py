"""The instruction set that the reader writes and the machine runs.

One vocabulary for two languages: the reader builds `program.Instruction`s from these names, and
`header()` prints the same numbers for the C of `native/`. A PTX instruction becomes one record:
an `Op`, up to two `Type`s, a `Mode` where an operation has variants, `Flag`s, and operands.
Each `Op` says in its comment which operands it takes, destinations first; `[a]` is an address.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

Type = IntEnum(
    "Type",
    "NONE PRED B8 B16 B32 B64 B128 U8 U16 U32 U64 S8 S16 S32 S64 "
    "F16 F16X2 BF16 BF16X2 F32 F32X2 F64 TF32 E4M3 E5M2 E4M3X2 E5M2X2 "
    "U16X2 S16X2 U8X4 S8X4",
    start=0,
    module=__name__,
)
"""A PTX type suffix. Registers hold the bits in the low part of a 64-bit slot, zero above; B128 has
two slots, low half first."""


class Op(IntEnum):
    """What an instruction does."""

    NOP = 0  # prefetch, discard, applypriority, pmevent and kin: nothing that a result shows

    # Arithmetic: d, a[, b[, c]] of `type`.
    ADD = 1
    SUB = 2
    MUL = 3  # mode LO, HI, WIDE for integers
    MAD = 4  # mode LO, HI, WIDE for integers
    FMA = 5
    DIV = 6
    REM = 7
    ABS = 8
    NEG = 9
    MIN = 10  # optional third operand
    MAX = 11
    SAD = 12
    MUL24 = 13  # mode LO, HI
    MAD24 = 14
    RCP = 15
    SQRT = 16
    RSQRT = 17
    SIN = 18
    COS = 19
    LG2 = 20
    EX2 = 21
    TANH = 22
    TESTP = 23  # p, a; mode FINITE, INFINITE, NUMBER, NOTANUMBER, NORMAL, SUBNORMAL
    COPYSIGN = 24  # d, a, b: the sign of a, the magnitude of b

    # Carry chains: Flag.CC writes the carry, Flag.CARRY reads it; `add.cc` is ADDC with CC alone.
    ADDC = 25
    SUBC = 26
    MADC = 27

    # Bits: d, a[, b[, c]].
    AND = 30
    OR = 31
    XOR = 32
    NOT = 33
    CNOT = 34
    LOP3 = 35  # d[|p], a, b, c, table[, q]; mode AND, OR where a predicate is given
    SHL = 36
    SHR = 37
    SHF = 38  # d, low, high, shift; mode LEFT, RIGHT; Flag.WRAP, else clamp
    POPC = 39
    CLZ = 40
    BREV = 41
    BFIND = 42  # Flag.SHIFTAMT
    FNS = 43  # d, mask, base, offset
    BFE = 44
    BFI = 45
    SZEXT = 46  # Flag.WRAP, else clamp
    BMSK = 47  # Flag.WRAP, else clamp
    PRMT = 48  # d, a, b, selector; mode NONE, F4E, B4E, RC8, ECL, ECR, RC16
    DP4A = 49  # d, a, b, c; type of a, type2 of b
    DP2A = 50  # mode LO, HI

    # Comparison and selection.
    SET = 55  # d, a, b[, c]; type of d, type2 of a; `compare`, `combine`
    SETP = 56  # p[|q], a, b[, c]; type of a; `compare`, `combine`
    SELP = 57  # d, a, b, p
    SLCT = 58  # d, a, b, c; type2 of c

    # Data movement between registers.
    MOV = 60  # d, a; a may be a special register
    PACK = 61  # d, {a...}: a vector of equal parts into one register of `type`, low part first
    UNPACK = 62  # {d...}, a: one register into equal parts
    CVT = 63  # d, a[, b]; type of d, type2 of a; two sources give a packed d, a in the high half
    CVT_PACK = 64  # d, a, b[, c]: cvt.pack
    ISSPACEP = 65  # p, a; `space`
    CVTA = 66  # d, a; `space`; Flag.TO from generic to `space`, else the other way

    # Control. A guard that differs between lanes makes them diverge until `reconverge`.
    BRA = 70  # `target`
    BRX = 71  # a; targets are a list of the program
    EXIT = 72
    TRAP = 73
    BRKPT = 74
    NANOSLEEP = 75  # a
    PRINTF = 76  # d, format, arguments (both 64-bit addresses)
    ASSERT = 77  # message, file, line, function, size: a device assertion that failed
    GRIDDEP = 78  # mode LAUNCH, WAIT

    # Memory by threads. `space`, `semantics`, `scope`, `vector`.
    LD = 80  # {d...}, [a]
    ST = 81  # [a], {b...}
    ATOM = 82  # d, [a], b[, c]; mode ADD, MIN, MAX, INC, DEC, AND, OR, XOR, CAS, EXCH
    RED = 83  # [a], b
    LDMATRIX = 84  # {d...}, [a]; vector 1, 2, 4; Flag.TRANSPOSE
    STMATRIX = 85  # [a], {b...}
    MAPA = 86  # d, a, rank; space SHARED_CLUSTER when a is a shared address, else GENERIC
    GETCTARANK = 87  # d, a
    POLICY = 88  # d: createpolicy; the value means nothing here
    ST_ASYNC = 89  # [a], {b...}, [mbarrier]
    RED_ASYNC = 90  # [a], b, [mbarrier]

    # Asynchronous copies.
    CP_ASYNC = 95  # [shared], [global], bytes[, source bytes or ignore predicate]
    CP_ASYNC_COMMIT = 96
    CP_ASYNC_WAIT = 97  # n; Flag.ALL waits for all, committed or not
    CP_ASYNC_ARRIVE = 98  # [mbarrier]; Flag.NOINC
    BULK_LOAD = 99  # [shared], [global], bytes, [mbarrier][, mask]
    BULK_STORE = 100  # [global], [shared], bytes
    BULK_COPY = 101  # [shared::cluster], [shared::cta], bytes, [mbarrier]
    BULK_REDUCE = 102  # [d], [shared], bytes[, [mbarrier]]; mode as ATOM; `space` of d
    TENSOR_LOAD = 103  # [shared], [map], {coordinates...}, [mbarrier][, mask]; `vector` is the rank
    TENSOR_STORE = 104  # [map], {coordinates...}, [shared]
    TENSOR_REDUCE = 105  # [map], {coordinates...}, [shared]; mode as ATOM
    BULK_COMMIT = 106
    BULK_WAIT = 107  # n; Flag.READ
    TENSORMAP_REPLACE = 108  # [map], value or ordinal, value; mode names the field
    TENSORMAP_COPY = 109  # [global], [shared], 128: tensormap.cp_fenceproxy

    # Lanes of one warp together.
    SHFL = 115  # d[|p], a, b, c, members; mode UP, DOWN, BFLY, IDX
    VOTE = 116  # d or p, a, members; mode ALL, ANY, UNI, BALLOT
    MATCH = 117  # d[|p], a, members; mode ANY, ALL
    REDUX = 118  # d, a, members; mode ADD, MIN, MAX, AND, OR, XOR
    ELECT = 119  # d|p, members
    ACTIVEMASK = 120  # d
    WARP_SYNC = 121  # members

    # Rendezvous.
    BAR = 125  # [d or p,] id[, count[, p]]; mode SYNC, ARRIVE, AND, OR, POPC
    CLUSTER_BARRIER = 126  # mode ARRIVE, WAIT
    MBARRIER_INIT = 127  # [m], count
    MBARRIER_INVAL = 128  # [m]
    MBARRIER_EXPECT_TX = 129  # [m], bytes
    MBARRIER_COMPLETE_TX = 130  # [m], bytes
    MBARRIER_ARRIVE = 131  # state or _, [m][, count]; Flag.EXPECT_TX: count is bytes; Flag.DROP
    MBARRIER_TEST_WAIT = 132  # p, [m], state; Flag.PARITY: phase parity
    MBARRIER_TRY_WAIT = 133  # p, [m], state[, hint]
    MBARRIER_PENDING = 134  # d, state
    FENCE = 135  # mode MEMORY, PROXY_ASYNC, PROXY_ALIAS, PROXY_TENSORMAP ([a]), MBARRIER_INIT

    # Matrix products. Operand groups, each a register list: D, A, B, C.
    MMA = 140  # `shape`, type of D, type2 of A and B; Flag.TRANSPOSE unused
    WGMMA = 141  # D, A registers or descriptor, descriptor B, scale-d, scale-a, scale-b[, ta, tb]
    WGMMA_FENCE = 142
    WGMMA_COMMIT = 143
    WGMMA_WAIT = 144  # n

    SETMAXNREG = 150  # n; mode INC, DEC


Mode = IntEnum(
    "Mode",
    "NONE LO HI WIDE LEFT RIGHT UP DOWN BFLY IDX ALL ANY UNI BALLOT "
    "ADD MIN MAX INC DEC AND OR XOR CAS EXCH POPC SYNC ARRIVE WAIT LAUNCH "
    "MEMORY PROXY_ASYNC PROXY_ALIAS PROXY_TENSORMAP MBARRIER_INIT "
    "FINITE INFINITE NUMBER NOTANUMBER NORMAL SUBNORMAL F4E B4E RC8 ECL ECR RC16 "
    "GLOBAL_ADDRESS RANK BOX_DIM GLOBAL_DIM GLOBAL_STRIDE ELEMENT_STRIDE ELEMTYPE "
    "INTERLEAVE SWIZZLE FILL",
    start=0,
    module=__name__,
)
"""A variant of an operation; the last ones are fields of a tensor map, for TENSORMAP_REPLACE."""


class Flag(IntFlag):
    """Modifiers that several operations share."""

    NONE = 0
    FTZ = 1 << 0
    SAT = 1 << 1
    APPROX = 1 << 2
    FULL = 1 << 3  # div.full
    RELU = 1 << 4
    NAN = 1 << 5  # min.NaN, max.NaN
    XORSIGN = 1 << 6  # .xorsign.abs
    CC = 1 << 7
    CARRY = 1 << 8
    WRAP = 1 << 9
    SHIFTAMT = 1 << 10
    ABS = 1 << 11  # min.abs, max.abs
    ALIGNED = 1 << 12
    VOLATILE = 1 << 13
    NONCOHERENT = 1 << 14  # ld.global.nc
    TRANSPOSE = 1 << 15
    TO = 1 << 16
    UNIFORM = 1 << 17
    READ = 1 << 18
    ALL = 1 << 19
    NOINC = 1 << 20
    NOCOMPLETE = 1 << 21
    DROP = 1 << 22
    EXPECT_TX = 1 << 23
    PARITY = 1 << 24
    MULTICAST = 1 << 25
    A_REGISTERS = 1 << 26  # wgmma with A in registers
    SATFINITE = 1 << 27
    PREDICATE = 1 << 28  # an optional predicate destination or source is present
    ZERO_FILL = 1 << 29  # cp.async with a source size; with PREDICATE, an ignore-src predicate
    SIZED = 1 << 30  # an optional count or hint operand is present
    SHARED_CTA = 1 << 31  # a fence or copy limited to .shared::cta


Round = IntEnum("Round", "NONE RN RZ RM RP RNA RNI RZI RMI RPI", start=0, module=__name__)
"""Rounding: of floats, and to integers."""


Compare = IntEnum(
    "Compare",
    "NONE EQ NE LT LE GT GE EQU NEU LTU LEU GTU GEU NUM NAN LO LS HI HS",
    start=0,
    module=__name__,
)
"""Comparison of SET and SETP: ordered, then unordered, then unsigned."""


Combine = IntEnum("Combine", "NONE AND OR XOR", start=0, module=__name__)
"""How SET and SETP combine the comparison with a predicate."""


class Space(IntEnum):
    """State spaces."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 2  # .shared, .shared::cta
    SHARED_CLUSTER = 3
    LOCAL = 4  # also .param of a call, which the reader turns into local memory
    CONST = 5
    PARAM = 6  # parameters of the kernel


Semantics = IntEnum(
    "Semantics",
    "WEAK RELAXED ACQUIRE RELEASE ACQ_REL SC",
    start=0,
    module=__name__,
)
"""Memory semantics of an access, arrival, wait or fence."""


Scope = IntEnum("Scope", "NONE CTA CLUSTER GPU SYS", start=0, module=__name__)
"""Threads among which semantics hold."""


class Kind(IntEnum):
    """Kind of an operand."""

    SINK = 0  # `_`
    REGISTER = 1  # `index`, complemented when `negated` (predicates)
    IMMEDIATE = 2  # `value`: the bits, or a sign-extended integer
    SPECIAL = 3  # `index` is a Special
    ADDRESS = 4  # register `index` (or -1 for none) plus `value`
    OWN_SHARED = 5  # the address `value` of shared memory, with what tells the CTA in its cluster


Special = IntEnum(
    "Special",
    "TID_X TID_Y TID_Z NTID_X NTID_Y NTID_Z "
    "CTAID_X CTAID_Y CTAID_Z NCTAID_X NCTAID_Y NCTAID_Z "
    "LANEID WARPID NWARPID SMID NSMID GRIDID "
    "LANEMASK_EQ LANEMASK_LE LANEMASK_LT LANEMASK_GE LANEMASK_GT "
    "CLOCK CLOCK_HI CLOCK64 GLOBALTIMER GLOBALTIMER_LO GLOBALTIMER_HI "
    "CLUSTERID_X CLUSTERID_Y CLUSTERID_Z NCLUSTERID_X NCLUSTERID_Y NCLUSTERID_Z "
    "CLUSTER_CTAID_X CLUSTER_CTAID_Y CLUSTER_CTAID_Z "
    "CLUSTER_NCTAID_X CLUSTER_NCTAID_Y CLUSTER_NCTAID_Z CLUSTER_CTARANK CLUSTER_NCTARANK "
    "IS_EXPLICIT_CLUSTER DYNAMIC_SMEM_SIZE TOTAL_SMEM_SIZE AGGR_SMEM_SIZE",
    start=0,
    module=__name__,
)
"""Special registers."""


class Window(IntEnum):
    """Where state spaces lie in the generic address space of the machine.

    Addresses within `.shared` and `.local` are 32-bit offsets; their generic form adds the window.
    A shared address of another CTA of the cluster carries its rank plus one in bits 24 and up.
    """

    SHARED_START = 1 << 10  # the first kilobyte of shared memory belongs to the system
    LOCAL = 0x7100_0000_0000
    SHARED = 0x7200_0000_0000
    PARAM = 0x7300_0000_0000
    CONST = 0x7400_0000_0000
    MODULE = 0x7500_0000_0000  # .global variables of the module
    BUFFERS = 0x7600_0000_0000  # the arrays of the launch


def header() -> str:
    """The same vocabulary as C enumerators: `OP_ADD`, `TYPE_F32`, `FLAG_FTZ` and so on."""
    families: tuple[type[IntEnum] | type[IntFlag], ...] = (
        *(Type, Op, Mode, Flag, Round, Compare, Combine),
        *(Space, Semantics, Scope, Kind, Special, Window),
    )
    lines = ["/* Printed by warpsmith/sim/isa.py. */", "#pragma once"]
    for family in families:
        prefix = family.__name__.upper()
        for name, member in family.__members__.items():
            suffix = "ull" if member.value >> 32 else "u"
            lines.append(f"#define {prefix}_{name} {hex(member.value)}{suffix}")
    return "\n".join(lines) + "\n"
