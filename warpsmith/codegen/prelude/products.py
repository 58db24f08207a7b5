"""Products of matrices by tensor cores, and the matrices that warps load and store."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpsmith.codegen.prelude.piece import Piece
from warpsmith.layouts.layout import Place
from warpsmith.layouts.matrices import WORD
from warpsmith.targets.atoms import MMA, WGMMA, Atom

_MATRIX = """
// Where a buffer starts, in units of 16 bytes. In a cluster, the upper bits of an address say which
// block's memory it is of, and a descriptor has other fields there.
__device__ __forceinline__ unsigned ws_matrix_start(const void* buffer) {
    return (ws_address(buffer) & 0x3ffff) >> 4;
}
// Describes rows of `Row` bytes, whose chunks of 16 bytes trade places, in units of 16 bytes from
// the start of a buffer on. Addresses take 14 bits of the low word; so sums of units stay there.
template <int Row>
__device__ __forceinline__ unsigned long long ws_matrix(const void* buffer, int units) {
    constexpr unsigned swizzle = Row == 128 ? 1 : Row == 64 ? 2 : 3, eight_rows = 8 * Row / 16;
    const unsigned low = (ws_matrix_start(buffer) | 1u << 16) + units;
    return (unsigned long long)(swizzle << 30 | eight_rows) << 32 | low;
}
"""

_MATRIX_ACROSS = """
// The same of k lines of `Row` bytes each along m or n: `Leading` bytes from one such piece to the
// next, `Stride` from eight lines to the next eight.
template <int Row, int Leading, int Stride>
__device__ __forceinline__ unsigned long long ws_matrix_across(const void* buffer, int units) {
    constexpr unsigned swizzle = Row == 128 ? 1 : Row == 64 ? 2 : 3, stride = Stride / 16;
    constexpr unsigned leading = Leading < 16 ? 1 : Leading / 16;
    const unsigned low = (ws_matrix_start(buffer) | leading << 16) + units;
    return (unsigned long long)(swizzle << 30 | stride) << 32 | low;
}
"""

_PRODUCTS = """
// Written registers are there for the products that follow.
__device__ __forceinline__ void ws_fence_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void ws_commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until all but so many of the warp group's groups of products are done.
template <int Pending>
__device__ __forceinline__ void ws_await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(Pending) : "memory");
}
// The compiler sees here that registers change: no access to them moves to the other side.
template <int Count>
__device__ __forceinline__ void ws_changed(float (&registers)[Count]) {
    #pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i]) :: "memory");
}
"""

_PRODUCTS_INT = """
template <int Count>
__device__ __forceinline__ void ws_changed(int (&registers)[Count]) {
    #pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i]) :: "memory");
}
"""

_UNKNOWN = """
// The same number, of which the compiler knows nothing.
__device__ __forceinline__ int ws_unknown(int number) {
    int same;
    asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(number));
    return same;
}
"""

_STORE_MATRIX = """
// Four 8 x 8 matrices of 16-bit elements, eight elements of each thread; `row` is of 16 bytes.
template <class T>
__device__ __forceinline__ void ws_store_matrix(T* row, const T* elements) {
    unsigned pairs[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        asm("mov.b32 %0, {%1, %2};"
            : "=r"(pairs[i]) : "h"(elements[2 * i].bits), "h"(elements[2 * i + 1].bits));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(ws_address(row)), "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]),
                    "r"(pairs[3])
                 : "memory");
}
"""

_LOAD_MATRIX = """
// Matrices of 8 rows of 16 bytes, one of which each lane names.
template <class T>
__device__ __forceinline__ void ws_NAME(T* elements, const T* row) {
    unsigned words[COUNT];
    asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNTWAY.shared.b16 {PLACES}, [%COUNT];"
                 : WORDS
                 : "r"(ws_address(row)) : "memory");
    memcpy(elements, words, sizeof(words));
}
"""

_WORD = """
// What tensor cores read as one register: neighbours, or a float as TF32.
template <class T>
__device__ __forceinline__ unsigned ws_word(const T* elements, int number) {
    unsigned word;
    memcpy(&word, elements + number * 4 / sizeof(T), 4);
    return word;
}
__device__ __forceinline__ unsigned ws_word(const float* elements, int number) {
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(elements[number]));
    return word;
}
"""

_MMA = """
template <class A, class B>
__device__ __forceinline__ void ws_NAME(TYPE* sums, const A* a, const B* b) {
    asm volatile("mma.sync.aligned.SHAPE.row.col.PTX {SUMS}, {LEFT}, {RIGHT}, {SUMS};"
                 : OPERANDS
                 : INPUTS);
}
"""

_PACK = """
// Words of a thread's elements, as products read them from registers: in the order of the waits
// and fences around, so that nothing is written that is still read.
template <class T, int Words, int Count>
__device__ __forceinline__ void ws_pack_NAME(int (&words)[Words], const T (&elements)[Count]) {
    static_assert(Words * EACH == Count, "whole words");
    #pragma unroll
    for (int i = 0; i < Words; ++i) {
        PACKED
    }
}
"""

_PACKED: dict[int | str, str] = {
    1: """unsigned word = 0;
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            word |= (unsigned)*(const unsigned char*)&elements[4 * i + j] << 8 * j;
        asm volatile("mov.b32 %0, %1;" : "=r"(words[i]) : "r"(word));""",
    2: """asm volatile("mov.b32 %0, {%1, %2};" : "=r"(words[i])
            : "h"(elements[2 * i].bits), "h"(elements[2 * i + 1].bits));""",
    "float": """asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(words[i]) : "f"(elements[i]));""",
    **dict.fromkeys(
        ("bfloat16", "half"),
        """asm volatile("cvt.rn.PTXx2.f32 %0, %1, %2;" : "=r"(words[i])
            : "f"(elements[2 * i + 1]), "f"(elements[2 * i]));""",
    ),
}
"""How a word is made of elements of so many bytes, or of floats that are rounded to a type; tensor
cores would cut floats off.
"""

_EACH: dict[int | str, str] = {1: "4", "float": "1"}
"""Elements of a word, where these are not two."""

_ROUNDED = {"bfloat16": "bf16", "half": "f16"}
"""What PTX calls these types."""

_MULTIPLY = """
__device__ __forceinline__ void ws_multiply_NAME_COLUMNS(
    TYPE* sums, KIND_A a, unsigned long long b, bool keep) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %KEEP, 0;"
        " wgmma.mma_async.sync.aligned.m64nCOLUMNSkDEPTH.PTX"
        " {PLACES},"
        " %A, %B, FLAGS; }"
        : OPERANDS
        : INPUT_A, "l"(b), "r"((int)keep) : "memory");
}
"""

COLUMNS = 8
"""Of one `mma.sync`."""

_ATOMS = {atom.name: atom for atom in WGMMA}
_NAME = re.compile(rf"multiply_({'|'.join(_ATOMS)})_(\d+)(_ta|_ra)?(_tb)?")
_SUMS = {"float": ("float", "f"), "int32": ("int", "r"), "double": ("double", "d")}
"""By the type of accumulators: what C calls it, and the letter of its registers."""


def multiply_piece(name: str) -> Piece | None:
    """`multiply_bfloat16_256` and the like: `wgmma` for operands of a type, and for columns.

    `_ta` and `_tb` say which operands are transposed: contiguous along m or n, not along k; `_ra`
    that a is in registers. Made when asked for, as there are hundreds of them. None for any other
    name.
    """
    found = _NAME.fullmatch(name)
    if found is None or not _ATOMS[found[1]].takes(int(found[2])):
        return None
    atom, count = _ATOMS[found[1]], int(found[2]) // 2
    held, turned = found[3] == "_ra", (found[3] == "_ta", found[4] is not None)
    if any(turned) and not atom.any_major:
        return None
    kind, letter = _SUMS[atom.sums]
    majors = tuple(f"{int(each)}" for each in turned[held:]) if atom.any_major else ()
    behind = count + (4 if held else 1)
    words = {
        "NAME_COLUMNS": name.removeprefix("multiply_"),
        "COLUMNS": found[2],
        "TYPE": kind,
        "DEPTH": str(atom.depth),
        "PTX": atom.ptx,
        "FLAGS": ", ".join(("p", *atom.signs, *majors)),
        "PLACES": _rows([f"%{i}" for i in range(count)], '"\n        "'),
        "OPERANDS": _rows([f'"+{letter}"(sums[{i}])' for i in range(count)], "\n          "),
        "KIND_A": "const int*" if held else "unsigned long long",
        "INPUT_A": ", ".join(f'"r"(a[{i}])' for i in range(4)) if held else '"l"(a)',
        "%KEEP": f"%{behind + 1}",
        "%A": f"{{{', '.join(f'%{count + i}' for i in range(4))}}}" if held else f"%{count}",
        "%B": f"%{behind}",
    }
    return Piece(name=name, text=_filled(_MULTIPLY, words))


def _mma_piece(atom: Atom) -> Piece:
    """`mma.sync` of one row of the table, with as many registers as its layouts have."""
    kind, letter = _SUMS[atom.sums]
    packed, inputs = max(1, WORD // atom.size), []
    sums, *held = (
        layout.extent(Place.REGISTER)
        for layout in (atom.sums_layout(COLUMNS), atom.a_layout(), atom.b_layout(COLUMNS))
    )
    for operand, count in zip("ab", held, strict=True):
        each = f'"r"(ws_word({operand}, %))' if atom.size <= WORD else f'"d"({operand}[%])'
        inputs += [each.replace("%", str(number)) for number in range(count // packed)]
    left = sums + held[0] // packed
    words = {
        "NAME": f"mma_{atom.name}",
        "TYPE": kind,
        "SHAPE": f"m{atom.rows}n{COLUMNS}k{atom.depth}",
        "PTX": atom.ptx,
        "{SUMS}": _places(0, sums),
        "{LEFT}": _places(sums, left),
        "{RIGHT}": _places(left, sums + len(inputs)),
        "OPERANDS": ", ".join(f'"+{letter}"(sums[{number}])' for number in range(sums)),
        "INPUTS": ", ".join(inputs),
    }
    needs = ("word",) if atom.size <= WORD else ()
    return Piece(name=words["NAME"], needs=needs, text=_filled(_MMA, words))


def _load_piece(count: int, transposed: bool) -> Piece:
    words = {
        "NAME": f"load_matrix_{count}{'_t' * transposed}",
        "COUNT": str(count),
        "WAY": ".trans" * transposed,
        "{PLACES}": _places(0, count),
        "WORDS": ", ".join(f'"=r"(words[{number}])' for number in range(count)),
    }
    return Piece(name=words["NAME"], needs=("address",), text=_filled(_LOAD_MATRIX, words))


def _places(start: int, end: int) -> str:
    return f"{{{', '.join(f'%{number}' for number in range(start, end))}}}"


def _filled(text: str, words: Mapping[str, str]) -> str:
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text


def _rows(items: list[str], between: str) -> str:
    """The items with commas between them, eight in a line."""
    rows = [", ".join(items[start : start + 8]) for start in range(0, len(items), 8)]
    return f", {between}".join(rows)


PRODUCTS = (
    Piece(name="matrix", needs=("address",), text=_MATRIX),
    Piece(name="matrix_across", needs=("matrix",), text=_MATRIX_ACROSS),
    Piece(name="products", text=_PRODUCTS),
    Piece(name="products_int", needs=("products",), text=_PRODUCTS_INT),
    Piece(name="unknown", text=_UNKNOWN),
    *(
        Piece(
            name=f"pack_{kind}",
            text=_filled(
                _PACK,
                {
                    "NAME": str(kind),
                    "EACH": _EACH.get(kind, "2"),
                    "PACKED": line.replace("PTX", _ROUNDED.get(str(kind), "")),
                },
            ),
        )
        for kind, line in _PACKED.items()
    ),
    Piece(name="store_matrix", needs=("address",), text=_STORE_MATRIX),
    *(_load_piece(count, turned) for count in (1, 2, 4) for turned in (False, True)),
    Piece(name="word", text=_WORD),
    *map(_mma_piece, MMA),
)
