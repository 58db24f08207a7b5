"""An embedding's gradient: rows of equal words are summed in order, with the same bits always.

Torch sorts the words. Equal ones are summed `PART` rows at a time, what these give up to a run of
`RUN` rows, of these up to a chunk of `CHUNK`, and that again where there are more; each row of the
result finds its sum, or 0. These kernels move the gradients, the sums and the result once, and no
order of blocks decides anything. Where the result is added to another gradient, as that of weights
which logits are made of too, only rows that have a word are touched.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith import ops
from warpsmith.frontends.fuse import fuse
from warpsmith.ir.dtypes import DataType
from warpsmith.nn.calls import NAMES
from warpsmith.nn.modes import NARROW

PART, RUN, CHUNK = 4, 32, 1024
"""Rows of a part, of a run of parts, and of a chunk of runs. At each of a part, of each word, a
kernel looks where the next row is: most words of a text come once or twice.
"""

FEW, MOST = 3072, 1 << 20
"""Of no more words than `FEW` torch sums in one kernel; of more than `MOST`, sums of chunks would
take too many.
"""


def summed(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    """For each of so many rows the sum of the rows of `dy` with that word; 0 for `padding`."""
    if dy.numel() == 0:
        return dy.new_zeros((rows, dy.shape[-1]))
    if words.numel() > MOST:
        return _by_torch(dy, words, rows, padding)
    found, order = _sorted(words, rows)
    made: Tensor = _rows(*_runs(dy, found, order, rows, padding), NAMES[dy.dtype])
    return made


def of_few(words: Tensor, weight: Tensor, padding: int) -> Tensor | None:
    """An embedding whose gradient torch sums, in one kernel; None of many words, and of 16 bits,
    to which torch rounds on the way.
    """
    if words.numel() > FEW or weight.dtype in NARROW or not weight.requires_grad:
        return None
    return torch.embedding(weight, words, padding) if torch.is_grad_enabled() else None


def add_sums(into: Tensor, dy: Tensor, words: Tensor, padding: int) -> Tensor:
    """`into`, to whose rows the sums of those of `dy` with their word were added, in place.

    Rows of no word are neither read nor written.
    """
    rows, width = into.shape
    if not FEW < words.numel() <= MOST:
        return into.add_(_by_torch(dy, words, rows, padding))
    found, order = _sorted(words, rows)
    made = _added(into, found, *_runs(dy, found, order, None, padding))
    # What stands for one word is the same wherever it stands, so the order of copies says nothing.
    wide = width * into.element_size() % 8 == 0 and into.is_contiguous()
    whole, part = (each.view(torch.int64) if wide else each for each in (into, made))
    whole.index_copy_(0, found.to(torch.int64), part)
    return into


def _sorted(words: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Words in order, and where each of them stood."""
    few = torch.int16 if rows <= 1 << 15 else torch.int32  # a sort goes over each eight bits
    found, order = torch.sort(words.reshape(-1).to(few), stable=True)
    return found.to(torch.int32), order


def _runs(
    dy: Tensor, found: Tensor, order: Tensor, rows: int | None, padding: int
) -> tuple[Tensor, ...]:
    """Sums of parts, of runs, of chunks and of longer ones, and of each row, or of each place in
    the order, where it finds what it adds up of these.
    """
    rows_of, parts_of, runs_of, chunks_of, *places = _places(found, order, rows, padding)
    parts = _sums(dy.reshape(-1, dy.shape[-1]), rows_of)
    runs = _sums(parts, parts_of)
    chunks = _sums(runs, runs_of)
    return (parts, runs, chunks, _sums(chunks, chunks_of), *places)


@fuse
def _places(found: Any, order: Any, rows: int | None, padding: int) -> Any:
    """Where what is summed stands, -1 for none.

    Returns:
        of each place in the order, where the rows of up to `PART` equal words from there on are;
        of each `PART` places, where the parts of up to `RUN` equal words are that begin in them;
        of each `RUN` places, where the runs of a chunk are, and of each `CHUNK` places the chunks
        of longer ones, that begin in them; of each row where its part is, its run, its chunk, and
        its longer one, in these; of each place in the order, where it is told of no rows. What is
        left at the end of runs may be a part, and at that of chunks a run.
    """
    count, kind = ops.size(found, 0), DataType.Int32

    def before(words: Any) -> Any:
        return ops.cast(ops.count_up_to(found, words - 1), kind)

    def behind(words: Any) -> Any:
        return ops.cast(ops.count_up_to(found, words), kind)

    def both(a: Any, b: Any) -> Any:
        return ops.logical_and(a, b)

    def numbers(extent: Any) -> Any:
        return found.new_iota(extent, dtype=kind)

    def where_inside(inside: Any, places: Any) -> Any:
        return ops.where(inside, places, -1)

    place = numbers(count)
    near = place[:, None] + numbers(PART)[None, :]
    begins: Any = ops.eq((place - before(found)) % PART, 0)
    inside = both(begins[:, None], ops.lt(near, behind(found)[:, None]))
    rows_of = where_inside(inside, ops.cast(_at(order[:, None], where_inside(inside, near)), kind))

    def begun(size: int, whole: int | None, least: int) -> Any:
        """Where sums of `size` rows stand, of up to `whole` that begin among as many places: what
        begins there and has more behind it than these reaches the last of them. They stand by
        `least` places, and have more rows than that.
        """
        slots = (count + size - 1) // size
        slot = numbers(slots)
        last: Any = ops.minimum((slot + 1) * size, count) - 1
        word = _at(found, last)
        first, over = before(word), behind(word)
        if whole is not None:
            first += (last - first) // whole * whole
        more = both(ops.gt(over - first, size), ops.ge(first, slot * size))
        each = numbers(slots if whole is None else whole // size)
        far = first[:, None] + each[None, :] * size
        inside = both(more[:, None], ops.lt(far + least, over[:, None]))
        return where_inside(inside, far // max(least, 1))

    word = found if rows is None else numbers(rows)
    first = before(word)
    uses: Any = ops.where(ops.eq(word, padding), 0, behind(word) - first)
    left, late = ((uses - 1) // size * size for size in (RUN, CHUNK))  # before what is left
    short = where_inside(both(ops.gt(uses, 0), ops.le(uses - left, PART)), first + left)
    apart = both(ops.gt(uses - late, PART), ops.le(uses - late, RUN))
    run = where_inside(apart, (first + late) // PART)
    chunk = where_inside(both(ops.gt(uses, RUN), ops.le(uses, CHUNK)), first // RUN)
    long = where_inside(ops.gt(uses, CHUNK), first // CHUNK)
    levels = begun(PART, RUN, 0), begun(RUN, CHUNK, PART), begun(CHUNK, None, RUN)
    return (rows_of, *levels, short, run, chunk, long)


@fuse
def _sums(rows: Any, at: Any) -> Any:
    """Of each place the sum of the rows at up to `RUN` others."""
    found = _at(rows[:, None, :], at[:, :, None])
    return ops.sum(found.to(rows.dtype.compute), [1])


@fuse
def _rows(
    parts: Any, runs: Any, chunks: Any, longer: Any, a: Any, b: Any, c: Any, d: Any, out: str
) -> Any:
    """Of each row what its part, its run, its chunk and its longer one add up to, which stand at
    the places `a`, `b`, `c` and `d`.
    """
    return _added_up((parts, a), (runs, b), (chunks, c), (longer, d)).to(DataType(out))


@fuse
def _added(
    into: Any,
    found: Any,
    parts: Any,
    runs: Any,
    chunks: Any,
    longer: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any,
) -> Any:
    """Of each place in the order the row of its word, with the sum of that as `_rows` has it."""
    total = _added_up((parts, a), (runs, b), (chunks, c), (longer, d))
    return (_at(into, found[:, None]) + total).to(into.dtype)


def _added_up(*sums: tuple[Any, Any]) -> Any:
    """What sums have at places, added up."""
    first, *others = (_at(values, places[:, None]) for values, places in sums)
    return sum(others, first)


def _at(values: Any, places: Any) -> Any:
    """Values at places along the first dimension, 0 at -1."""
    return ops.or_zero(values, places, 0)


def _by_torch(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    made: Tensor = torch.ops.aten.embedding_dense_backward(dy, words, rows, padding, False)
    return made


def _sooner(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    return (_by_torch if words.numel() <= FEW else summed)(dy, words, rows, padding)


_OPERATOR = torch.library.custom_op("warpsmith::sums_of_words", _sooner, mutates_args=())
_OPERATOR.register_fake(lambda dy, words, rows, padding: dy.new_empty((rows, dy.shape[-1])))
SUMMED = torch.ops.warpsmith.sums_of_words.default
"""`summed` as an operator, for graphs; of few words torch's."""


def _with_sums(into: Tensor, dy: Tensor, words: Tensor, padding: int) -> Tensor:
    return add_sums(into.clone(), dy, words, padding)


_ADDED = torch.library.custom_op("warpsmith::with_sums_of_words", _with_sums, mutates_args=())
_ADDED.register_fake(lambda into, dy, words, padding: torch.empty_like(into))
ADDED = torch.ops.warpsmith.with_sums_of_words.default
"""`add_sums` to a copy, as an operator."""
