"""Operations that draw: what looks random, of a block of bits that neighbouring indices share."""

from __future__ import annotations

OF_BLOCK = {"philox": 4, "kept": 8}
"""How many indices share a block of each; what they mean stands in `ops/table/random.py`."""
