/* Tensor maps that the device changes: tensormap.replace and the fences of their proxy. */
#pragma once
#include "machine/machine.h"

step run_map(warp *w, split *s, const insn *in, u32 mask);
void map_fence(warp *w, const insn *in, u32 mask);
/* Report the use of a map that was written in this launch and not fenced for its proxy. */
void map_fence_check(warp *w, u32 lane, i32 pc, const place *at, u64 address);
