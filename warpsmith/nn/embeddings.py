"""An embedding's gradient: rows of equal words are summed in order, with the same bits always.

Torch sorts the words. Equal ones are summed `PART` rows at a time, what these give up to a run of
`RUN` rows, of these up to a chunk of `CHUNK`, and that again where there are more; each row of the
result finds its sum, or 0. These kernels move the gradients, the sums and the result once, and no
order of blocks decides anything. Where rows are few, each looks itself for the last of its word, up
to a run, and only whole runs are summed before. Where the result is added to another gradient, as
that of weights which logits are made of too, only rows that have a word are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
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

_OF_FEW = 6
"""Tensors of places where rows are few."""

FEW, MOST = 3072, 1 << 20
"""Of no more words than `FEW` torch sums in one kernel; of more than `MOST`, sums of chunks would
take too many.
"""

ASKED = 1 << 24
"""Elements that are asked of words in less time than the kernels of a sort take to start: 7 to 16
µs in place of 28 to 69 (nine drawn sizes, one H200; four times as many took 70).
"""


def summed(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    """For each of so many rows the sum of the rows of `dy` with that word; 0 for `padding`."""
    if dy.numel() == 0:
        return dy.new_zeros((rows, dy.shape[-1]))
    if words.numel() > MOST:
        return _by_torch(dy, words, rows, padding)
    return sums_at(dy, places_of(words, rows, padding))


def places_of(words: Tensor, rows: int, padding: int) -> list[Tensor]:
    """Where what `sums_at` adds up for each of so many rows stands, for any gradient of words."""
    found, order = _sorted(words, rows)
    few = rows * RUN <= words.numel() * PART  # then fewer places are looked at
    places = _places_of_few if few else _places
    return [*places(found, order, *_uses(found, rows, padding))]


def sums_at(dy: Tensor, places: Sequence[Tensor]) -> Tensor:
    """`summed`, of words whose places are known."""
    kind, given = NAMES[dy.dtype], dy.reshape(-1, dy.shape[-1])
    made: Tensor
    if len(places) == _OF_FEW:
        last, whole, runs_of, chunks_of, *at = places
        chunks = _sums(_sums(given, whole), runs_of)
        made = _few_rows(given, last, chunks, _sums(chunks, chunks_of), *at, kind)
    else:
        made = _rows(*_runs(given, places), kind)
    return made


def of_few(words: Tensor, weight: Tensor, padding: int) -> Tensor | None:
    """An embedding whose gradient torch sums, in one kernel; None of many words, and of 16 bits,
    to which torch rounds on the way.
    """
    if words.numel() > FEW or weight.dtype in NARROW or not weight.requires_grad:
        return None
    return torch.embedding(weight, words, padding) if torch.is_grad_enabled() else None


def summed_by_each(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    """`summed` in one kernel, where each row asks which words are its own: those that are negative
    count from the end. Words of no row are nobody's.
    """
    if dy.numel() == 0:
        return dy.new_zeros((rows, dy.shape[-1]))
    given = dy.reshape(-1, dy.shape[-1])
    made: Tensor = _by_each(given, words.reshape(-1), rows, padding, NAMES[dy.dtype])
    return made


def few_ask(words: int, rows: int, width: int) -> bool:
    """Whether rows that ask each word take less time than a sort of the words."""
    return words <= FEW and words * rows * width <= ASKED


def add_sums(into: Tensor, dy: Tensor, words: Tensor, padding: int) -> Tensor:
    """`into`, to whose rows the sums of those of `dy` with their word were added, in place.

    Rows of no word are neither read nor written.
    """
    rows, width = into.shape
    if not FEW < words.numel() <= MOST:
        return into.add_(_by_torch(dy, words, rows, padding))
    found, order = _sorted(words, rows)
    places = _places(found, order, *_uses(found, None, padding))
    made = _added(into, found, *_runs(dy.reshape(-1, width), places))
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


def _runs(dy: Tensor, places: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Sums of parts, of runs, of chunks and of longer ones, and where each row, or each place in
    the order, finds what it adds up of these.
    """
    rows_of, parts_of, runs_of, chunks_of, *at = places
    parts = _sums(dy, rows_of)
    runs = _sums(parts, parts_of)
    chunks = _sums(runs, runs_of)
    return (parts, runs, chunks, _sums(chunks, chunks_of), *at)


@fuse
def _by_each(dy: Any, words: Any, rows: int, padding: int, out: str) -> Any:
    """Of each row the sum of the rows of `dy` with its word, or with its number from the end."""
    word: Any = ops.cast(words, DataType.Int32)
    number = _numbers(words, rows)
    word = ops.where(ops.lt(word, 0), word + rows, word)
    asks: Any = ops.where(ops.eq(number, padding), -1, number)
    mine: Any = ops.eq(word[None, :], asks[:, None])
    at = _where(mine, _numbers(words, ops.size(words, 0))[None, :])
    found: Any = ops.sum(_at(dy[None, :, :], at[:, :, None], 1).to(dy.dtype.compute), [1])
    return found.to(DataType(out))


@fuse
def _uses(found: Any, rows: int | None, padding: int) -> Any:
    """Of each place in the order, where its word begins; of each row, or of each place where it is
    told of no rows, where its word begins, and how often it is there: padding never.
    """

    def up_to(words: Any) -> Any:
        return ops.cast(ops.count_up_to(found, words), DataType.Int32)

    start, word = up_to(found - 1), found if rows is None else _numbers(found, rows)
    first = up_to(word - 1)
    return start, first, ops.where(ops.eq(word, padding), 0, up_to(word) - first)


@fuse
def _places(found: Any, order: Any, start: Any, first: Any, uses: Any) -> Any:
    """Where what is summed stands, -1 for none.

    Returns:
        of each place in the order, where the rows of up to `PART` equal words from there on are;
        of each `PART` places, where the parts of up to `RUN` equal words are that begin in them;
        of each `RUN` places, where the runs of a chunk are, and of each `CHUNK` places the chunks
        of longer ones, that begin in them; of each row where its part is, its run, its chunk, and
        its longer one, in these; of each place in the order, where it is told of no rows. What is
        left at the end of runs may be a part, and at that of chunks a run.
    """
    place = _numbers(found, ops.size(found, 0))
    near = place[:, None] + _numbers(found, PART)[None, :]
    begins: Any = ops.eq((place - start) % PART, 0)
    inside = ops.logical_and(begins[:, None], _same(found, near, found[:, None]))
    rows_of = _rows_at(order, _where(inside, near))
    left, late = ((uses - 1) // size * size for size in (RUN, CHUNK))  # before what is left
    short = _where(ops.logical_and(ops.gt(uses, 0), ops.le(uses - left, PART)), first + left)
    apart = ops.logical_and(ops.gt(uses - late, PART), ops.le(uses - late, RUN))
    run = _where(apart, (first + late) // PART)
    chunk = _where(ops.logical_and(ops.gt(uses, RUN), ops.le(uses, CHUNK)), first // RUN)
    long = _where(ops.gt(uses, CHUNK), first // CHUNK)
    sizes = (PART, RUN, 0), (RUN, CHUNK, PART), (CHUNK, None, RUN)
    return rows_of, *(_begun(found, start, *each) for each in sizes), short, run, chunk, long


@fuse
def _places_of_few(found: Any, order: Any, start: Any, first: Any, uses: Any) -> Any:
    """Where what is summed stands, -1 for none.

    Returns:
        of each row, where the last of `dy` with its word are, up to `RUN`; of each `RUN` places in
        the order, where these are of a whole run that begins in them, and has more behind it; of
        each `RUN` places, where the runs of a chunk are, and of each `CHUNK` places the chunks of
        longer ones, that begin in them; of each row where its chunk is, and its longer one.
    """
    left = (uses - 1) // RUN * RUN
    near = _numbers(found, RUN)[None, :]
    inside = ops.logical_and(ops.gt(uses, 0)[:, None], ops.lt(left[:, None] + near, uses[:, None]))
    last = _rows_at(order, _where(inside, (first + left)[:, None] + near))
    whole = _rows_at(order, _begun(found, start, RUN, RUN, 0, each=1))
    chunk = _where(ops.logical_and(ops.gt(uses, RUN), ops.le(uses, CHUNK)), first // RUN)
    long = _where(ops.gt(uses, CHUNK), first // CHUNK)
    sizes = (RUN, CHUNK, RUN), (CHUNK, None, RUN)
    return last, whole, *(_begun(found, start, *each) for each in sizes), chunk, long


def _numbers(found: Any, extent: Any) -> Any:
    return found.new_iota(extent, dtype=DataType.Int32)


def _where(inside: Any, places: Any) -> Any:
    return ops.where(inside, places, -1)


def _same(found: Any, places: Any, words: Any) -> Any:
    """Whether words stand at places in the order, which may lie behind it."""
    there = ops.lt(places, ops.size(found, 0))
    return ops.logical_and(there, ops.eq(_at(found[:, None], _where(there, places)), words))


def _rows_at(order: Any, places: Any) -> Any:
    """Which rows stand at places in the order."""
    found = _at(order[:, None], places)
    return _where(ops.ge(places, 0), ops.cast(found, DataType.Int32))


def _begun(
    found: Any, start: Any, size: int, whole: int | None, least: int, *, each: int | None = None
) -> Any:
    """Where sums of up to `each` rows stand, or `size`, of up to `whole` that begin among `size`
    places: what begins there and has more behind it than these reaches the last of them. They stand
    by `least` places, and have more rows than that.
    """
    count, step = ops.size(found, 0), each or size
    slots = (count + size - 1) // size
    slot = _numbers(found, slots)
    last: Any = ops.minimum((slot + 1) * size, count) - 1
    word, first = _at(found, last), _at(start, last)
    if whole is not None:
        first += (last - first) // whole * whole
    begins, first = ops.ge(first, slot * size)[:, None], first[:, None]
    more = ops.logical_and(begins, _same(found, first + size, word[:, None]))
    far = first + _numbers(found, slots if whole is None else whole // step)[None, :] * step
    inside = ops.logical_and(more, _same(found, far + least, word[:, None]))
    return _where(inside, far // max(least, 1))


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
def _few_rows(dy: Any, last: Any, chunks: Any, longer: Any, chunk: Any, long: Any, out: str) -> Any:
    """Of each row what the last with its word add up to, its chunk and its longer one."""
    found = ops.sum(_at(dy[:, None, :], last[:, :, None]).to(dy.dtype.compute), [1])
    return (found + _added_up((chunks, chunk), (longer, long))).to(DataType(out))


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


def _at(values: Any, places: Any, dim: int = 0) -> Any:
    """Values at places along a dimension, 0 at -1."""
    return ops.or_zero(values, places, dim)


def _by_torch(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    made: Tensor = torch.ops.aten.embedding_dense_backward(dy, words, rows, padding, False)
    return made


def _sooner(dy: Tensor, words: Tensor, rows: int, padding: int) -> Tensor:
    few = few_ask(words.numel(), rows, dy.shape[-1])
    by = summed_by_each if few else _by_torch if words.numel() <= FEW else summed
    return by(dy, words, rows, padding)


_OPERATOR = torch.library.custom_op("warpsmith::sums_of_words", _sooner, mutates_args=())
_OPERATOR.register_fake(lambda dy, words, rows, padding: dy.new_empty((rows, dy.shape[-1])))
SUMMED = torch.ops.warpsmith.sums_of_words.default
"""`summed` as an operator, for graphs; of few words torch's."""

_EACH = torch.library.custom_op("warpsmith::sums_by_each", summed_by_each, mutates_args=())
_EACH.register_fake(lambda dy, words, rows, padding: dy.new_empty((rows, dy.shape[-1])))
BY_EACH = torch.ops.warpsmith.sums_by_each.default
"""`summed_by_each` as an operator."""


def _shapes(words: Tensor, rows: int, padding: int) -> list[Tensor]:
    """Tensors as those of `places_of`."""
    count = words.numel()
    slots = {size: -(-count // size) for size in (PART, RUN, CHUNK)}
    above = [(slots[RUN], CHUNK // RUN), (slots[CHUNK], slots[CHUNK])]
    if rows * RUN <= count * PART:
        shapes = [(rows, RUN), (slots[RUN], RUN), *above, (rows,), (rows,)]
    else:
        shapes = [(count, PART), (slots[PART], RUN // PART), *above, *[(rows,)] * 4]
    return [words.new_empty(shape, dtype=torch.int32) for shape in shapes]


_PLACED = torch.library.custom_op("warpsmith::places_of_words", places_of, mutates_args=())
_PLACED.register_fake(_shapes)
PLACES = torch.ops.warpsmith.places_of_words.default
"""`places_of` as an operator, for graphs that sum several gradients by the same words."""

_AT_PLACES = torch.library.custom_op("warpsmith::sums_at_places", sums_at, mutates_args=())
_AT_PLACES.register_fake(lambda dy, places: dy.new_empty((places[-1].shape[0], dy.shape[-1])))
SUMS_AT = torch.ops.warpsmith.sums_at_places.default
"""`sums_at` as an operator."""


def _with_sums(into: Tensor, dy: Tensor, words: Tensor, padding: int) -> Tensor:
    return add_sums(into.clone(), dy, words, padding)


_ADDED = torch.library.custom_op("warpsmith::with_sums_of_words", _with_sums, mutates_args=())
_ADDED.register_fake(lambda into, dy, words, padding: torch.empty_like(into))
ADDED = torch.ops.warpsmith.with_sums_of_words.default
"""`add_sums` to a copy, as an operator."""
