"""Device code that emitted kernels stand on, in pieces that each kernel picks from.

No CUDA header is included: NVRTC knows the builtins that are used here without one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from warpsmith.codegen.prelude.block import BLOCK
from warpsmith.codegen.prelude.clusters import CLUSTERS
from warpsmith.codegen.prelude.grid import GRID
from warpsmith.codegen.prelude.groups import GROUPS
from warpsmith.codegen.prelude.math import MATH
from warpsmith.codegen.prelude.piece import Piece
from warpsmith.codegen.prelude.places import PLACES
from warpsmith.codegen.prelude.products import PRODUCTS, multiply_piece
from warpsmith.codegen.prelude.random import DRAWS
from warpsmith.codegen.prelude.reduce import REDUCE
from warpsmith.codegen.prelude.rings import RINGS
from warpsmith.codegen.prelude.roles import ROLES
from warpsmith.codegen.prelude.scan import SCAN
from warpsmith.codegen.prelude.storage import STORAGE
from warpsmith.codegen.prelude.succession import SUCCESSION
from warpsmith.codegen.prelude.tile_scheduler import TILES
from warpsmith.codegen.prelude.vector import VECTOR, LoadHint, StoreHint
from warpsmith.errors import InternalError

_ALL = (
    *VECTOR,
    *STORAGE,
    *MATH,
    *DRAWS,
    *REDUCE,
    *BLOCK,
    *GRID,
    *SCAN,
    *RINGS,
    *ROLES,
    *PRODUCTS,
    *CLUSTERS,
    *SUCCESSION,
    *TILES,
    *GROUPS,
    *PLACES,
)

PIECES: Mapping[str, Piece] = MappingProxyType({piece.name: piece for piece in _ALL})
assert len(PIECES) == len(_ALL), "two pieces have one name"


def prelude_text(pieces: Collection[str]) -> str:
    """The text of `pieces` and of all that they need, each once, needed ones first.

    Equal sets give equal texts, whatever their order, so that kernels stay cached.
    """
    wanted: set[str] = set()
    made = {name: piece for name in sorted(pieces) if (piece := multiply_piece(name))}
    pending = [name for name in pieces if name not in made]
    while pending:
        name = pending.pop()
        if name not in PIECES:
            raise InternalError(f"the prelude has no piece {name!r}, only {', '.join(PIECES)}")
        if name not in wanted:
            wanted.add(name)
            pending.extend(PIECES[name].needs)
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
