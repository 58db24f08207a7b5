"""Where a tensor of torch keeps what torch answers slowly: its dispatch keys, and if it needs no
gradient.

Asked by their names these take 0.1 µs and more of each tensor of a call. Where they lie is no part
of any interface, so nothing is taken for granted: the places are those where a dozen tensors of
many kinds have what torch says of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, Final

_WORDS: Final = 24
"""So many of a tensor's record are looked at, 8 bytes each: fewer than any has."""

UNKNOWN: Final = (0, 0, 0)


def places_of_words(torch: Any) -> tuple[int, int, int]:
    """Bytes from a tensor's object to the address of its record, and in the record to its dispatch
    keys and to a word that is 0 where it needs no gradient. `UNKNOWN` where one is not sure.
    """
    try:
        with torch.inference_mode(False), torch.device("cpu"):
            plain, recorded = _samples(torch)
        return _places(torch, plain, recorded)
    except (AttributeError, TypeError, RuntimeError, ValueError):
        return UNKNOWN


def _samples(torch: Any) -> tuple[list[Any], list[Any]]:
    """Tensors that need no gradient and are no views, and others, of which some need one."""
    plain = [torch.empty(3, 5), torch.empty(2, dtype=torch.bool), torch.empty(2, device="meta")]
    complexes = torch.empty(4, dtype=torch.complex64)
    with torch.inference_mode():
        plain += [complexes, torch.empty(1, 2, 3)]
    recorded = [torch.empty(2, requires_grad=True), torch.nn.Parameter(torch.empty(3, 1))]
    views = [complexes.conj(), complexes.conj().imag, torch._neg_view(plain[0])]
    return plain, [*recorded, *views]


def _places(torch: Any, plain: Sequence[Any], others: Sequence[Any]) -> tuple[int, int, int]:
    both = (*plain, *others)
    objects = [_words(id(each), type(each).__basicsize__ // 8) for each in both]
    record_at = _only(_common(zip(objects, [each._cdata for each in both], strict=True)))
    keys = [torch._C._dispatch_keys(each).raw_repr() for each in both]
    records = [_words(each._cdata, _WORDS) for each in both]
    keys_at = _only(_common(zip(records, keys, strict=True)))
    zero = _common((_words(each._cdata, _WORDS), 0) for each in plain)
    needing = [_words(each._cdata, _WORDS) for each in others if each.requires_grad]
    gradient_at = _only({place for place in zero if all(words[place] for words in needing)})
    if len(set(keys)) < 5 or not needing:
        raise ValueError("tensors are too few to tell")
    return 8 * record_at, 8 * keys_at, 8 * gradient_at


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _common(found: Iterable[tuple[Sequence[int], int]]) -> set[int]:
    """Places at which all have the word that is asked of them."""
    sets = [{place for place, word in enumerate(words) if word == asked} for words, asked in found]
    return set.intersection(*sets)


def _only(places: set[int]) -> int:
    (place,) = places
    return place
