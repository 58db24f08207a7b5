/// Products of tiles by a warp group. Kernels have one for each number of columns that they use.

//@ multiply
__device__ __forceinline__ void ws_multiply_NAME_COLUMNS(
    TYPE* sums, KIND_A a, unsigned long long b, bool keep) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %KEEP, 0;"
        " wgmma.mma_async.sync.aligned.m64nCOLUMNSkDEPTH.PTX"
        " {PLACES},"
        " %A, %B, FLAGS; }"
        : OPERANDS
        : INPUT_A, "l"(b), "r"((int)keep) : "memory");
}
