"""Kernels with roles of the size and shape that the check meets every day, lowered."""

from tests.support import role_chains, role_streams
from tests.support.lowered_products import SMALL, product_kernel, sizes
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind
from tests.support.role_feeds import Feed
from tests.support.role_kernels import RoleCase


def fed_by(producers: int, *, size: int = 6000) -> RoleCase:
    """So many load roles, a tensor each, and one role that adds up what they bring."""
    roles = tuple(f"load{number}" for number in range(producers))
    kernel = lowered(role_streams.single_dim(Feed(Kind.bulk, 3), roles))
    return RoleCase(kernel, {"T0_size0": size}, {}, {})


def chain(tiles: int = 60) -> RoleCase:
    """Tiles of two rows are loaded, transformed, computed and stored, by a role each."""
    kernel = lowered(role_chains.transformed(Feed(Kind.bulk, 4), stores=True))
    return RoleCase(kernel, {"T0_size0": 2, "T0_size1": 128 * tiles}, {}, {})


def matmul(tiles: int = 16, depth: int = 128) -> RoleCase:
    """Tiles of a product: one role loads, and two groups of 128 threads take tiles in turn."""
    kernel = product_kernel(**SMALL | {"ping_pong": 2, "stages": 4})
    return RoleCase(kernel, sizes(64 * tiles, 64, 64 * depth), {}, {})
