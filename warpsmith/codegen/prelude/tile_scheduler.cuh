/// Tiles that blocks are handed while they run.

//@ tiles
// The next of `count` numbers; past them, one number for each block, after which it is 0 again.
__device__ __forceinline__ int ws_take(int* counter, int count) {
    unsigned taken;
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
        : "=r"(taken) : "l"(counter), "r"((unsigned)count + gridDim.x - 1u) : "memory");
    return (int)taken;
}
