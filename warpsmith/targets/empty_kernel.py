"""A kernel that does nothing, of which the driver says how many clusters run at once."""

from __future__ import annotations

import zlib
from binascii import a2b_base64
from typing import Final

ENTRY: Final = "cluster_probe"
TEXT: Final = f'extern "C" __global__ void {ENTRY}() {{}}\n'

KEPT: Final = {
    "sm_90a": """
eNrtVstu00AUvY6dEGhK0rKpVBaDVIkuWhNU+mCXtglQqQ+gVYUqhOU2ThPVj8h2QiMqkYIEWyQ2LLuDD2AL4hP4hIoNiBUf
UAjj8dixx07La4V6JPuO79zHmbnz8OPS4o0Ex82mwUUC3gMHXXzsc2WOGggbkCrADCShAFnHUrSqlm3a8iZuebKlEVlWNhvb
UsWUNQVE3bAVUW+K9k5Nrxjd760G/W6KfmPL0Oqy7evELbVh2Yop1U1jU3EtZFXdNuV6FURTUeVwKlvZtWN8rKpsKmVsbylm
EzfyNJdu2bJu5xkPBifyj0sanoAg6yg7j9aqpmiiUalYip0HSdKbkt+zVFqS3B4pL8lqTbZ+ZwRhODXmcRVZDBB9KqK/RPSZ
iH6S6IWIfo7oz0X0t/EzmMuEiWA8oDk8eBEf4gcd9EfivCLxz0f0HYyRQNsB5rfnyGxmv90ehXRnvz2aJk3XZuy4SXK4CN4r
Q72AzMQLZ3+cAVheXyguzKJ5w6zj/dN1xV0whZ+Ko6jbu7he842yjJzlXVNlu2boyDYM1RpDeBErsqWgqxPi5Bhad4Q4MQ1z
jZpaRlYLV1VDGi4uKiuVmq6gtZWVxVVpvXR3dWFlWSrdWystF0tFGG8iNC6bW1VkadL1vIwIT2frfuFZnhvw3BnWlTSpNhni
QNqvvDDYbSfOcpDAgRIJDvh+jkvgWEJf2p8m/nxBECoCrgfWTwskLo8LzQ93gJc4TrgoQM7pmxIIF34Hx9O6NXLkDyq/U3lE
ZdE/lyBmVf49njziOmSZOsQ+ZWGp5fW0efiahZutI8Kl03nKw4csDLUCzv/B9ylO8S/h3itRFKj8HH/E+ujr4X+ZGr49wf8C
PStYHFLDb4HzxNv2DoaoHI6JSf6DaNDqCflH6bnP0pihg3rD2LM35wz1LzChD6k/ot9Jyp31v+WKemQA1NC7G/ke+e/g51mM
/wjj34v/fZq/wPKihtcC+TMx/pY7p5H8e0J4/Cx/r477VMfmPxDCdeapHVv/l7SmkbsmGS44T23ajNlrGjOyhlPH/mL4eEd1
cz38c4FVFTd/3l3u/bezGOLCMh3g8ad+yeD89BpgjF8Kfv1SZ3n28vPmx5Oe308oJS/E
"""
}
"""What NVRTC 13.5 makes of it, by family, deflated: NVRTC takes 20 ms for each kernel, even for
this one, and the first of all would wait for that."""


def kept(arch: str) -> bytes | None:
    """Its cubin for a family; None where none is kept."""
    text = KEPT.get(arch)
    return None if text is None else zlib.decompress(a2b_base64(text))
