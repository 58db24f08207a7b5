"""Fusion form: tensors over iteration domains, the expressions on them, and scalar arithmetic."""

from warpsmith.ir import arithmetic as arithmetic  # without it expressions have no operators
