"""Copies of tiles by threads, in pieces of a few bytes, as CUDA text."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from warpsmith.codegen.teams import Team
from warpsmith.codegen.values import ValueText
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import TileDim
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.values import dataclass

WORD = 4
"""Bytes of a register."""

UNROLLED = 16
"""Pieces that a thread copies one after the other without a branch."""


def place_in_shared(copy: TileCopy, value: ValueText) -> str:
    """The address of a tile's first element."""
    if copy.index == integers.ZERO:
        return copy.shared.name
    return f"{copy.shared.name} + {value(copy.index)}"


def by_threads(copy: TileCopy, team: Team, value: ValueText) -> list[str]:
    """Pieces of the box in turn over all threads, each where it is inside."""
    value.pieces |= {"address", "cp_async"}
    size = copy.memory.dtype.size
    if copy.zeros and copy.width < WORD and copy.how is LoadStoreOpType.set:
        rows = _in_rows(copy, WORD // size, team, value)
        if rows is not None:
            return _by_words(copy, rows, value)
    rows = _in_rows(copy, copy.width // size, team, value)
    return _anyhow(copy, team, value) if rows is None else _by_pieces(copy, rows, value)


def _anyhow(copy: TileCopy, team: Team, value: ValueText) -> list[str]:
    """Each piece finds its place by itself."""
    kind = value.type_name(DataType.Index)
    step = copy.width // copy.memory.dtype.size
    count = value.operand(integers.floordiv(copy.elements, step))
    lines = [
        f"for (int piece = {team.thread}; piece < {count}; piece += {team.threads}) {{",
        "  int left = piece;",
    ]
    indices = []
    for number, dim in reversed(list(enumerate(copy.dims))):
        last = number == len(copy.dims) - 1
        box = integers.floordiv(dim.box, step) if last else integers.index(dim.box)
        pieces = value.operand(box)
        stride = dim.step * (step if last else 1)
        inside = f"left % {pieces} * {stride}" if box != integers.ONE else "0"
        lines.append(f"  const {kind} k{number} = {value.operand(dim.first)} + {inside};")
        if box != integers.ONE:
            lines.append(f"  left /= {pieces};")
        indices.append((f"k{number}", dim))
    bounds = _bounds(copy, indices, value)
    place = _place(indices, value)
    lines.append(f"  const int stage = {_permuted(copy, f'piece * {step}')};")
    shared, memory = f"{place_in_shared(copy, value)} + stage", f"{copy.memory.name} + {place}"
    if copy.zeros:
        lines.append(f"  const bool inside = {' && '.join(bounds)};")
        return [*lines, f"  {_piece(copy, shared, memory, value)}", "}"]
    lines += [f"  if ({' && '.join(bounds)}) {{", f"    {_piece(copy, shared, memory, value)}"]
    return [*lines, "  }", "}"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Pieces of a box, of which all threads copy some at once: whole rows of it, so that each stays
    in its column, and all but numbers that are known of its place is found once.

    Attributes:
        head: lines that find the thread's first piece, `from` there, and `to` its tile.
        turns: pieces of each thread.
        inside: the condition that the piece of a `turn` is inside.
        source: where it is in memory.
        next: lines that move `from` on to the next one.
        target: where it goes to.
        room: the condition that the tile has it; empty where it has all.
        left: elements from the piece to the end of its row.
    """

    head: list[str]
    turns: int
    inside: str
    source: str
    next: list[str]
    target: str
    room: str
    left: str


def _in_rows(copy: TileCopy, step: int, team: Team, value: ValueText) -> _Rows | None:
    """The pieces of `step` elements so; None where threads cannot walk a box like that."""
    boxes = [integers.constant(integers.index(dim.box)) for dim in copy.dims]
    threads = integers.constant(integers.mul(*team.extents))
    if threads is None or None in boxes or any(dim.step > 1 for dim in copy.dims):
        return None
    *heights, width = (box for box in boxes if box is not None)
    walked = [number for number, height in enumerate(heights) if height > 1]
    pieces = width // step
    if not pieces or threads % pieces or not walked:
        return None
    *slower, row = walked
    at_once = threads // pieces
    if slower and heights[row] % at_once:
        return None
    kind, memory = value.type_name(DataType.Index), value.type_name(copy.memory.dtype)
    indices = [(f"k{number}", dim) for number, dim in enumerate(copy.dims)]
    starts = [value.operand(dim.first) for dim in copy.dims]
    starts[-1] += f" + {team.thread} % {pieces} * {step}"
    starts[row] += f" + {team.thread} / {pieces}"
    fixed = [each for number, each in enumerate(indices) if number not in walked]
    ways, inside, inner = [], ["some"], 1
    for number in reversed(walked):
        name, dim = indices[number]
        line = f"turn * {at_once}" + (f" / {inner}" if inner > 1 else "")
        line += f" % {heights[number]}" if number != walked[0] else ""
        inside.append(f"{line} < {value.operand(dim.size)} - {name}")
        ways.append(f"{line} * {value.operand(dim.stride)}")
        inner *= heights[number]
    moved = threads * step
    repeats = _repeats(copy, moved)
    places = (f"at + {number * moved}u" if number else "at" for number in range(repeats))
    found = ", ".join(f"(int)({_permuted(copy, place)})" for place in places)
    turns = -(-prod(heights) // at_once)
    stride = value.operand(copy.dims[row].stride)
    return _Rows(
        head=[
            *(f"const {kind} k{n} = {start};" for n, start in enumerate(starts)),
            f"const bool some = {' && '.join(_bounds(copy, fixed, value))};",
            f"{'' if copy.stores else 'const '}{memory}* from = {copy.memory.name} + "
            f"{_place(indices, value)};",
            f"auto* const to = {place_in_shared(copy, value)};",
            f"const unsigned at = (unsigned){team.thread} * {step};",
            f"const int places[{repeats}] = {{{found}}};",
        ],
        turns=turns,
        inside=" && ".join(inside),
        source=f"from + {' + '.join(ways)}" if slower else "from",
        next=[] if slower or turns == 1 else [f"from += (long long){at_once} * {stride};"],
        target=f"to + places[turn % {repeats}] + turn / {repeats} * {repeats * moved}",
        room=f"{team.thread} + turn * {threads} < {prod(heights) * pieces}"
        if prod(heights) % at_once
        else "",
        left=f"{value.operand(copy.dims[-1].size)} - k{len(heights)}",
    )


def _by_pieces(copy: TileCopy, rows: _Rows, value: ValueText) -> list[str]:
    """A piece in each turn."""
    asked = [*filter(None, [rows.room]), *([] if copy.zeros else ["inside"])]
    moved = _piece(copy, rows.target, rows.source, value)
    lines = [
        *rows.head,
        "#pragma unroll" if rows.turns <= 2 * UNROLLED else f"#pragma unroll {UNROLLED}",
        f"for (int turn = 0; turn < {rows.turns}; ++turn) {{",
        f"  const bool inside = {rows.inside};",
        f"  if ({' && '.join(asked)}) {moved}" if asked else f"  {moved}",
        *(f"  {line}" for line in rows.next),
        "}",
    ]
    return ["{", *(f"  {line}" for line in lines), "}"]


def _by_words(copy: TileCopy, rows: _Rows, value: ValueText) -> list[str]:
    """Words of elements that begin anywhere: many are on their way at once."""
    value.pieces.add("word_anywhere")
    size = copy.memory.dtype.size
    at_once = min(rows.turns, UNROLLED)
    while rows.turns % at_once:
        at_once -= 1
    inside = " && ".join(filter(None, (rows.room, rows.inside)))
    store = f"*(unsigned*)({rows.target}) = words[n] & mask;"
    lines = [
        *rows.head,
        f"const int bytes = min(({rows.left}) * {size}, {WORD});",
        f"const unsigned mask = 0xffffffffu >> ({8 * WORD} - 8 * max(bytes, 1));",
        "#pragma unroll 1",
        f"for (int first = 0; first < {rows.turns}; first += {at_once}) {{",
        f"  unsigned words[{at_once}];",
        "  #pragma unroll",
        f"  for (int n = 0; n < {at_once}; ++n) {{",
        "    const int turn = first + n;",
        f"    words[n] = {inside} ? ws_word_anywhere({rows.source}, bytes) : 0;",
        *(f"    {line}" for line in rows.next),
        "  }",
        "  #pragma unroll",
        f"  for (int n = 0; n < {at_once}; ++n) {{",
        "    const int turn = first + n;",
        f"    if ({rows.room}) {store}" if rows.room else f"    {store}",
        "  }",
        "}",
    ]
    return ["{", *(f"  {line}" for line in lines), "}"]


def _repeats(copy: TileCopy, moved: int) -> int:
    """How many steps of so many elements it takes until chunks trade places as before."""
    if not copy.swizzle:
        return 1
    line, lines, _ = HARDWARE[copy.swizzle].terms(copy.memory.dtype.size)
    return line * lines // gcd(line * lines, moved)


def _bounds(copy: TileCopy, indices: Sequence[tuple[str, TileDim]], value: ValueText) -> list[str]:
    """Where indices are inside of the tensor, and the tile is asked for."""
    bounds = [f"{name} < {value.operand(dim.size)}" for name, dim in indices]
    if copy.condition != integers.TRUE:
        bounds.insert(0, f"({value(copy.condition)})")
    return bounds


def _place(indices: Sequence[tuple[str, TileDim]], value: ValueText) -> str:
    """The place of indices in memory."""
    steps = [(f"({name} - {dim.before})" if dim.before else name, dim) for name, dim in indices]
    return " + ".join(
        name if dim.stride == integers.ONE else f"{name} * {value.operand(dim.stride)}"
        for name, dim in steps
    )


def _permuted(copy: TileCopy, index: str) -> str:
    """An element's place once the chunks of its row have traded places."""
    if not copy.swizzle:
        return index
    line, lines, chunk = HARDWARE[copy.swizzle].terms(copy.memory.dtype.size)
    return f"({index}) ^ (({index}) / {line} % {lines} * {chunk})"


def _piece(copy: TileCopy, shared: str, memory: str, value: ValueText) -> str:
    """One piece; where zeros are asked for, as `inside` says."""
    if copy.how is LoadStoreOpType.cp_async:
        if copy.zeros:
            value.pieces.add("cp_async_or_zeros")
            return f"ws_cp_async_or_zeros<{copy.width}>({shared}, {memory}, inside);"
        return f"ws_cp_async<{copy.width}>({shared}, {memory});"
    value.pieces.add("vector")
    kind = value.type_name(copy.memory.dtype)
    vector = f"ws_vec<{kind}, {copy.width // copy.memory.dtype.size}>"
    target, source = (memory, shared) if copy.stores else (shared, memory)
    read = f"*(const {vector}*)({source})"
    read = f"inside ? {read} : {vector}{{}}" if copy.zeros else read
    return f"*({vector}*)({target}) = {read};"
