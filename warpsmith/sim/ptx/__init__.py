"""The PTX reader: a text in, a `warpsmith.sim.program.Program` out."""

from warpsmith.sim.ptx.reading import read

__all__ = ["read"]
