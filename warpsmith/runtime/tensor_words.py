"""Where a tensor of torch keeps what torch answers slowly: its dispatch keys, if it needs no
gradient, and what DLPack says of it.

Asked by their names these take 0.05 µs and more of each tensor of a call. Where they lie is no part
of any interface, so nothing is taken for granted: the places are those where a dozen tensors of
many kinds have what torch says of them. What is read there in place of asking DLPack is held
against its answer once for each kind of tensors, too (`runtime/native/look.c`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

_WORDS: Final = 24
"""So many of a tensor's record are looked at, 8 bytes each: fewer than any has."""

_STORAGE_WORDS: Final = 8
"""The same of a storage's."""

_TRIES: Final = 8
"""So often other tensors are looked at where a word that tells nothing is as one that does."""

INLINE: Final = 5
"""A record holds the sizes and strides of a tensor of so many dimensions at most itself."""

_KIND: Final = (1 << 40) - 1
"""The part of a word that is of the type (2 bytes), and of the device (3)."""


class Places(NamedTuple):
    """Bytes from the beginning of an object or a record to what is there; 0 where one is not sure.

    Attributes:
        record: in a tensor's object, the address of its record.
        keys, gradient: in the record, its dispatch keys, and a word that is 0 where it needs none.
        storage: the address of its storage's record; 0 where any of those below is not sure.
        sizes: how many dimensions, `INLINE` sizes and as many strides.
        offset: of its first element in the storage.
        kind: a word whose `_KIND` is of its type and device.
        data: in the storage's record, its address.
        checked: a byte that is not 0 where more is to be done before memory is touched.
    """

    record: int = 0
    keys: int = 0
    gradient: int = 0
    storage: int = 0
    sizes: int = 0
    offset: int = 0
    kind: int = 0
    data: int = 0
    checked: int = 0


UNKNOWN: Final = Places()


def places_of_words(torch: Any) -> Places:
    """The places, as far as one is sure of them: what a record has by chance, another has not."""
    failures = AttributeError, TypeError, RuntimeError, ValueError, IndexError
    found, kept = UNKNOWN, []
    for _ in range(_TRIES):
        with suppress(*failures):
            without_modes = torch.utils._python_dispatch._disable_current_modes
            with torch.inference_mode(False), without_modes(), torch.device("cpu"):
                samples = _samples(torch)
                kept.append(samples)  # so that the next ones lie elsewhere
                found = _places(torch, *samples)
                return _forms(torch, found)
    return found


def _samples(torch: Any) -> tuple[list[Any], list[Any]]:
    """Tensors that need no gradient and are no views, and others, of which some need one."""
    plain = [torch.empty(3, 5), torch.empty(2, dtype=torch.bool), torch.empty(2, device="meta")]
    complexes = torch.empty(4, dtype=torch.complex64)
    with torch.inference_mode():
        plain += [complexes, torch.empty(1, 2, 3)]
    recorded = [torch.empty(2, requires_grad=True), torch.nn.Parameter(torch.empty(3, 1))]
    views = [complexes.conj(), complexes.conj().imag, torch._neg_view(plain[0])]
    return plain, [*recorded, *views]


def _places(torch: Any, plain: Sequence[Any], others: Sequence[Any]) -> Places:
    both = (*plain, *others)
    objects = [_words(id(each), type(each).__basicsize__ // 8) for each in both]
    record = _only(_common(zip(objects, [each._cdata for each in both], strict=True)))
    told = [torch._C._dispatch_keys(each).raw_repr() for each in both]
    records = [_words(each._cdata, _WORDS) for each in both]
    keys = _only(_common(zip(records, told, strict=True)))
    zero = _common((_words(each._cdata, _WORDS), 0) for each in plain)
    needing = [_words(each._cdata, _WORDS) for each in others if each.requires_grad]
    gradient = _only({place for place in zero if all(words[place] for words in needing)})
    if len(set(told)) < 5 or not needing:
        raise ValueError("tensors are too few to tell")
    return Places(8 * record, 8 * keys, 8 * gradient)


def _forms(torch: Any, found: Places) -> Places:
    """The places with those of what DLPack says."""
    held = bytearray(256)  # memory that is no allocator's, so that its owner lies elsewhere
    lent = torch.frombuffer(held, dtype=torch.float32)
    dense = [
        torch.empty(3, 5),
        torch.empty(2, 3, 4, 5, 6).permute(4, 2, 0, 1, 3)[2:, 1:],
        torch.empty(7, dtype=torch.bool)[3:],
        torch.empty(4, dtype=torch.complex64).expand(2, 4),
        lent[9:37].view(2, 14)[:, ::3],
        torch.frombuffer(held, dtype=torch.int32)[11],
        torch.nn.Parameter(torch.empty(6, 1)),
    ]
    records = [_words(each._cdata, _WORDS) for each in dense]
    storages = [each.untyped_storage() for each in dense]
    storage = _only(_common(zip(records, [each._cdata for each in storages], strict=True)))
    offset = _only(_common(zip(records, [t.storage_offset() for t in dense], strict=True)))
    sizes = _only(_where(lambda at: all(map(_has_form, records, dense, [at] * len(dense)))))
    others = [torch.empty(3, device="meta"), torch.empty(2, 2, dtype=torch.bool, device="meta")]
    kinds = [(each.dtype, each.device) for each in (*dense, *others)]
    records += [_words(each._cdata, _WORDS) for each in others]
    kind = _only(_where(lambda at: _tells([words[at] & _KIND for words in records], kinds)))

    words = [_words(each._cdata, _STORAGE_WORDS) for each in storages]
    data = _only(_common(zip(words, [each.data_ptr() for each in storages], strict=True)))
    late = torch.empty(8)
    lazy = [torch._lazy_clone(late), late]  # share memory, which the first to write copies
    bytes_of = [_bytes(each._cdata) for each in storages]
    bytes_of_lazy = [_bytes(each.untyped_storage()._cdata) for each in lazy]
    checked = _only(
        {
            place
            for place in range(8 * _STORAGE_WORDS)
            if {one[place] for one in bytes_of} == {0}
            and {one[place] for one in bytes_of_lazy} == {1}
        }
    )
    return found._replace(
        storage=8 * storage, sizes=8 * sizes, offset=8 * offset, kind=8 * kind, data=8 * data,
        checked=checked,
    )  # fmt: skip


def _has_form(words: Sequence[int], tensor: Any, at: int) -> bool:
    rank, own = tensor.ndim, list(words[at + 1 :])
    forms = own[:rank], own[INLINE : INLINE + rank]
    return (words[at], *forms) == (rank, list(tensor.shape), list(tensor.stride()))


def _tells(words: Sequence[int], kinds: Sequence[object]) -> bool:
    """Whether words are equal where kinds are, and only there."""
    pairs = set(zip(words, kinds, strict=True))
    return len(pairs) == len(set(words)) == len(set(kinds))


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _bytes(address: int) -> bytes:
    return ctypes.string_at(address, 8 * _STORAGE_WORDS)


def _where(holds: Callable[[int], bool]) -> set[int]:
    """Places in a record at which something holds."""
    return {place for place in range(_WORDS) if holds(place)}


def _common(found: Iterable[tuple[Sequence[int], int]]) -> set[int]:
    """Places at which all have the word that is asked of them."""
    sets = [{place for place, word in enumerate(words) if word == asked} for words, asked in found]
    return set.intersection(*sets)


def _only(places: set[int]) -> int:
    (place,) = places
    return place
