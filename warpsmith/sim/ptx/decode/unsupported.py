"""Instructions that PTX has and the simulator has not, with the reason."""

from __future__ import annotations

import re

_TEXTURES = "it has no textures and surfaces"
_NEWER = "it belongs to architectures after sm_90a"
_HEADS = {
    "wmma": "use `mma.sync` or `wgmma`",
    "tex": _TEXTURES,
    "tld4": _TEXTURES,
    "txq": _TEXTURES,
    "istypep": _TEXTURES,
    "suld": _TEXTURES,
    "sust": _TEXTURES,
    "sured": _TEXTURES,
    "suq": _TEXTURES,
    "multimem": "it has one GPU only",
    "alloca": "stacks of variable size are not simulated",
    "stacksave": "stacks of variable size are not simulated",
    "stackrestore": "stacks of variable size are not simulated",
    "clusterlaunchcontrol": _NEWER,
    "tcgen05": _NEWER,
}
_VIDEO = re.compile(r"v(add|sub|absdiff|min|max|avrg|shl|shr|mad|set)[24]?$")
_STARTS = {
    "mma.sp": "sparse products are not simulated",
    "wgmma.mma_async.sp": "sparse products are not simulated",
    "cp.async.bulk.tensor.im2col": "only the tile mode of tensor copies is simulated",
    "st.bulk": _NEWER,
    "vote.all": "use `vote.sync`",
    "vote.any": "use `vote.sync`",
    "vote.uni": "use `vote.sync`",
    "vote.ballot": "use `vote.sync`",
    "shfl.up": "use `shfl.sync`",
    "shfl.down": "use `shfl.sync`",
    "shfl.bfly": "use `shfl.sync`",
    "shfl.idx": "use `shfl.sync`",
}


def reason(mnemonic: str) -> str:
    """Why an instruction is not supported; empty if nothing is known against it."""
    head = mnemonic.partition(".")[0]
    if head in _HEADS:
        return _HEADS[head]
    if _VIDEO.match(head):
        return "video instructions are not simulated"
    if ".im2col" in mnemonic or ".tile::" in mnemonic:
        return "only the tile mode of tensor copies is simulated"
    if "oob" in mnemonic.split("."):
        return "out-of-bounds NaNs of `fma.oob` are not simulated"
    if ".cp_mask" in mnemonic or ".cta_group" in mnemonic:
        return _NEWER
    return next((why for start, why in _STARTS.items() if mnemonic.startswith(start)), "")
