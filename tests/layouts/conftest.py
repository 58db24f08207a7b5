"""The simulator's tensor cores, which judge what layouts say of fragments."""

from tests.sim.native.conftest import parts

__all__ = ["parts"]
