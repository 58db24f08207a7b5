"""Norms, softmaxes and losses with gradients, as torch has them. Importing it needs torch.

`functional` has the functions, and here are the modules.
"""

from __future__ import annotations

from warpsmith.nn import functional
from warpsmith.nn.modules import CrossEntropyLoss, LayerNorm, LogSoftmax, RMSNorm, Softmax

__all__ = ["CrossEntropyLoss", "LayerNorm", "LogSoftmax", "RMSNorm", "Softmax", "functional"]
