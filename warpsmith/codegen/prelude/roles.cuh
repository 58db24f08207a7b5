/// Roles: which warp this is, how some of a block's warps meet, and how many registers they have.

//@ roles: elect
// Number of this warp in a block of one dimension. All lanes read it from one of them, so that
// ptxas knows that they agree, and that a branch by it is taken by whole warps.
__device__ __forceinline__ int ws_warp() {
    return __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
}

//@ meet
// `threads`, a multiple of 32, meet at one of the barriers 1 to 15 of the block.
__device__ __forceinline__ void ws_meet(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
// Whether some thread of those that meet says yes. A vote tells ptxas that whole warps know: else
// what they do next, products in a loop too, has each warp gather first.
__device__ __forceinline__ bool ws_meet_any(int barrier, int threads, bool mine) {
    unsigned found;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %3, 0; bar.red.or.pred q, %1, %2, p;"
                 " selp.u32 %0, 1, 0, q; }"
                 : "=r"(found) : "r"(barrier), "r"(threads), "r"((unsigned)mine) : "memory");
    return __any_sync(0xffffffffu, found != 0);
}
// The threads of a role that meet: a team for reductions.
struct ws_role_group {
    int x, y, z, barrier, threads;
    __device__ __forceinline__ int tx() const { return x; }
    __device__ __forceinline__ int ty() const { return y; }
    __device__ __forceinline__ int tz() const { return z; }
    __device__ __forceinline__ void meet() const { ws_meet(barrier, threads); }
    __device__ __forceinline__ bool meet_any(bool mine) const {
        return ws_meet_any(barrier, threads, mine);
    }
};

//@ registers
// All four warps of a warp group call one of these, once.
template <int Registers>
__device__ __forceinline__ void ws_fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(Registers) : "memory");
}
template <int Registers>
__device__ __forceinline__ void ws_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(Registers) : "memory");
}
