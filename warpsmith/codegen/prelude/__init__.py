"""Device code that emitted kernels stand on, in pieces that each kernel picks from.

No CUDA header is included: NVRTC knows the builtins that are used here without one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from warpsmith.codegen.prelude import products, storage
from warpsmith.codegen.prelude.boxes import of_each_rank
from warpsmith.codegen.prelude.piece import Piece, pieces_of
from warpsmith.codegen.prelude.vector import LoadHint, StoreHint, with_conditions, with_words
from warpsmith.errors import InternalError
from warpsmith.reach import reached

_FILES = (
    "vector",
    "storage",
    "math",
    "random",
    "reduce",
    "block",
    "grid",
    "moments",
    "scan",
    "rings",
    "roles",
    "products",
    "clusters",
    "succession",
    "tile_scheduler",
    "groups",
    "places",
)
"""Each behind those whose pieces its own ones need."""

_FILLED: Mapping[str, Callable[[Piece], Iterable[Piece]]] = {
    "vector": with_words,
    "vector_where": with_conditions,
    "vector_shared_where": with_conditions,
    "float16": storage.types,
    "float8": storage.types,
    "narrow_extremes": storage.extremes,
    "tensor": of_each_rank,
    "prefetch": of_each_rank,
    "tensor_multicast": of_each_rank,
    "tensor_multicast_once": of_each_rank,
    "tensor_load_once": of_each_rank,
    "pack": products.packs,
    "load_matrix": products.loads,
    "store_matrix": products.stores,
    "mma": products.products,
}
"""What pieces are made of the parts of these names, which have words to be filled."""


def _all() -> Iterable[Piece]:
    for file in _FILES:
        for piece in pieces_of(file):
            yield from _FILLED[piece.name](piece) if piece.name in _FILLED else (piece,)


_ALL = tuple(_all())

PIECES: Mapping[str, Piece] = MappingProxyType({piece.name: piece for piece in _ALL})
assert len(PIECES) == len(_ALL), "two pieces have one name"


def prelude_text(pieces: Collection[str]) -> str:
    """The text of `pieces` and of all that they need, each once, needed ones first.

    Equal sets give equal texts, whatever their order, so that kernels stay cached.
    """

    def needs(name: str) -> Sequence[str]:
        if name not in PIECES:
            raise InternalError(f"the prelude has no piece {name!r}, only {', '.join(PIECES)}")
        return PIECES[name].needs

    made = {name: piece for name in sorted(pieces) if (piece := products.multiply_piece(name))}
    wanted = {*reached((name for name in pieces if name not in made), needs)}
    # PIECES lists each piece after all that it needs.
    listed = [piece for name, piece in PIECES.items() if name in wanted]
    return "".join(piece.text for piece in (*listed, *made.values()))


__all__ = [
    "PIECES",
    "LoadHint",
    "Piece",
    "StoreHint",
    "prelude_text",
]
