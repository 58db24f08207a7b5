"""Names of nvFuser that stand for what warpsmith does not have; each says why when it is used."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.failures import Unsupported, unsupported

_ONE_GPU = "a fusion runs on one GPU; torch.distributed runs several of them"
_BY_ITSELF = "warpsmith chooses, and `explain` tells"
_CUTLASS = "products are warpsmith's own"

ABSENT = {
    "Communicator": _ONE_GPU,
    "DeviceMesh": _ONE_GPU,
    "MultiDeviceExecutor": _ONE_GPU,
    "MultiDeviceExecutorParams": _ONE_GPU,
    "Sharding": _ONE_GPU,
    "execute_with_dtensors": _ONE_GPU,
    "shard_tensor": _ONE_GPU,
    "MmaMacro": _BY_ITSELF,
    "MmaMacroEncode": _BY_ITSELF,
    "grouped_mm": _CUTLASS,
    "mxfp8_scaled_mm": _CUTLASS,
    "nvfp4_scaled_grouped_mm": _CUTLASS,
    "nvfp4_scaled_mm": _CUTLASS,
    "nvfp4_scaled_mm_blockscale": _CUTLASS,
}
"""Why, by name."""

MULTIDEVICE = {name for name, why in ABSENT.items() if why is _ONE_GPU} - {"execute_with_dtensors"}
CUTLASS = {name for name, why in ABSENT.items() if why is _CUTLASS}
"""Those of two modules."""


class _Absent:
    """What can be imported, and says why it is not here when it is called."""

    def __init__(self, name: str, why: str) -> None:
        self.__name__ = name
        self.__doc__ = f"Not here: {why}."
        self._why = why

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._refusal()

    def _refusal(self) -> Unsupported:
        return unsupported(self.__name__, self._why)

    def __repr__(self) -> str:
        return f"<{self.__name__}, which is not here: {self._why}>"


def absent(name: str) -> Any:
    """What a name stands for."""
    return _Absent(name, ABSENT[name])
