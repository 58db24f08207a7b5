/// Kernels of one stream that overlap.

//@ await_previous
// The kernel before this one is over, and what it wrote is there.
__device__ __forceinline__ void ws_await_previous() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

//@ admit_next
// The next kernel may start, if it was launched early, once all blocks of this one have come here.
__device__ __forceinline__ void ws_admit_next() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
