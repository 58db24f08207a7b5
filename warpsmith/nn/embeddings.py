"""An embedding's gradient: rows of equal words are summed in order, with the same bits always.

Torch sorts the words. A run of equal ones is summed `RUN` rows at a time, and what these give again
where it is longer; each row of the result finds its run's sum, or 0. These three kernels move the
gradients, the sums and the result once, and no order of blocks decides anything. Where the result
is added to another gradient, as that of weights which logits are made of too, only rows that have
a word are touched.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith import ops
from warpsmith.frontends.fuse import fuse
from warpsmith.ir.dtypes import DataType
from warpsmith.nn.calls import NAMES

_BITS = 5
RUN = 1 << _BITS
"""Rows that one sum takes: at each of them a kernel looks where the next one is."""

FEW, MOST = 3072, 1 << 15
"""Of no more words than `FEW` torch sums in one kernel; of more than `MOST`, sums of sums would
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of runs, of longer ones, and which of both each row has, or each place in the order."""
    rows_of, sums_of, short, long = _places(found, order, rows, padding)
    sums = _sums(dy.reshape(-1, dy.shape[-1]), rows_of)
    return sums, _sums(sums, sums_of), short, long


@fuse
def _places(found: Any, order: Any, rows: int, padding: int) -> Any:
    """Where what is summed stands, -1 for none.

    Returns:
        of each place in the order, where the rows of up to `RUN` equal words from there on are;
        of each `RUN` places, where the sums of a longer run are that begins in them;
        of each row its run's sum, and of a longer run which of these places it begins in; of each
        place in the order, where it is told of no rows.
    """
    count, kind = ops.size(found, 0), DataType.Int32
    slots = (count + RUN - 1) // RUN

    def before(words: Any) -> Any:
        return ops.cast(ops.count_up_to(found, words - 1), kind)

    def behind(words: Any) -> Any:
        return ops.cast(ops.count_up_to(found, words), kind)

    def both(a: Any, b: Any) -> Any:
        return ops.logical_and(a, b)

    start, end = before(found), behind(found)
    place = found.new_iota(count, dtype=kind)
    near = place[:, None] + found.new_iota(RUN, dtype=kind)[None, :]
    begins: Any = ops.eq((place - start) % RUN, 0)
    inside = both(begins[:, None], ops.lt(near, end[:, None]))
    row: Any = ops.cast(order, kind)
    rows_of = _at(row[:, None] + 1, ops.where(inside, near, -1)) - 1

    slot = found.new_iota(slots, dtype=kind)
    last: Any = ops.minimum((slot + 1) * RUN, count)
    first, over = _at(start, last - 1), _at(end, last - 1)
    longer = both(ops.gt(over - first, RUN), ops.ge(first, slot * RUN))
    far = first[:, None] + slot[None, :] * RUN
    sums_of = ops.where(both(longer[:, None], ops.lt(far, over[:, None])), far, -1)

    word = found if rows is None else found.new_iota(rows, dtype=kind)
    first = before(word)
    uses = ops.where(ops.eq(word, padding), 0, behind(word) - first)
    short = ops.where(both(ops.gt(uses, 0), ops.le(uses, RUN)), first, -1)
    long = ops.where(ops.gt(uses, RUN), ops.bitwise_right_shift(first, _BITS), -1)
    return rows_of, sums_of, short, long


@fuse
def _sums(rows: Any, at: Any) -> Any:
    """Of each place the sum of the rows at up to `RUN` others."""
    found = _at(rows[:, None, :], at[:, :, None])
    return ops.sum(found.to(rows.dtype.compute), [1])


@fuse
def _rows(sums: Any, longer: Any, short: Any, long: Any, out: str) -> Any:
    """The sums of words' runs, at their rows."""
    return (_at(sums, short[:, None]) + _at(longer, long[:, None])).to(DataType(out))


@fuse
def _added(into: Any, found: Any, sums: Any, longer: Any, short: Any, long: Any) -> Any:
    """Of each place in the order the row of its word, with the sum of its run."""
    sum_of_run = _at(sums, short[:, None]) + _at(longer, long[:, None])
    return (_at(into, found[:, None]) + sum_of_run).to(into.dtype)


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
