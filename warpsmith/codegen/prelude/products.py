"""Products of matrices by tensor cores, and the matrices that warps load and store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from warpsmith.codegen.prelude.piece import Piece, filled, pieces_of
from warpsmith.layouts.layout import Place
from warpsmith.layouts.matrices import WORD
from warpsmith.targets.atoms import MMA, WGMMA, Atom

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

COLUMNS = 8
"""Of one `mma.sync`."""

(_MULTIPLY,) = pieces_of("wgmma")

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
    return Piece(name=name, text=filled(_MULTIPLY.text, words))


def packs(piece: Piece) -> Iterator[Piece]:
    """Words of elements of each size, or of floats that are rounded to each type."""
    for kind, packed in _PACKED.items():
        words = {
            "NAME": str(kind),
            "EACH": _EACH.get(kind, "2"),
            "PACKED": packed.replace("PTX", _ROUNDED.get(str(kind), "")),
        }
        yield Piece(name=f"pack_{kind}", text=filled(piece.text, words))


def products(piece: Piece) -> Iterator[Piece]:
    """`mma.sync` of each row of the table."""
    return (_product(piece, atom) for atom in MMA)


def _product(piece: Piece, atom: Atom) -> Piece:
    """That of one row, with as many registers as its layouts have."""
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
    return Piece(name=words["NAME"], needs=needs, text=filled(piece.text, words))


def loads(piece: Piece) -> Iterator[Piece]:
    """Loads of so many matrices at once, as they lie or transposed."""
    yield from _matrices(piece, "load", (1, 2, 4), 0, '"=r"(words[%])')


def stores(piece: Piece) -> Iterator[Piece]:
    """Stores of as many, floats or integers, behind the operand that says where."""
    for name, bits in (("store", ".bits"), ("store_int", "")):
        held = replace(piece, text=filled(piece.text, {"BITS": bits}))
        yield from _matrices(held, name, (2, 4), 1, '"r"(pairs[%])')


def _matrices(
    piece: Piece, name: str, counts: tuple[int, ...], first: int, word: str
) -> Iterator[Piece]:
    for count, turned in product(counts, (False, True)):
        words = {
            "NAME": f"{name}_matrix_{count}{'_t' * turned}",
            "COUNT": str(count),
            "WAY": ".trans" * turned,
            "{PLACES}": _places(first, first + count),
            "WORDS": ", ".join(word.replace("%", str(number)) for number in range(count)),
        }
        yield replace(piece, name=words["NAME"], text=filled(piece.text, words))


def _places(start: int, end: int) -> str:
    return f"{{{', '.join(f'%{number}' for number in range(start, end))}}}"


def _rows(items: list[str], between: str) -> str:
    """The items with commas between them, eight in a line."""
    rows = [", ".join(items[start : start + 8]) for start in range(0, len(items), 8)]
    return f", {between}".join(rows)
