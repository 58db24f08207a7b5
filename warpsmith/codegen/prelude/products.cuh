/// Products of matrices by tensor cores, and the matrices that warps load and store.

//@ matrix: address
// Where a buffer starts, in units of 16 bytes. In a cluster, the upper bits of an address say which
// block's memory it is of, and a descriptor has other fields there.
__device__ __forceinline__ unsigned ws_matrix_start(const void* buffer) {
    return (ws_address(buffer) & 0x3ffff) >> 4;
}
// Describes rows of `Row` bytes, whose chunks of 16 bytes trade places, in units of 16 bytes from
// the start of a buffer on. Addresses take 14 bits of the low word; so sums of units stay there.
template <int Row>
__device__ __forceinline__ unsigned long long ws_matrix(const void* buffer, int units) {
    constexpr unsigned swizzle = Row == 128 ? 1 : Row == 64 ? 2 : 3, eight_rows = 8 * Row / 16;
    const unsigned low = (ws_matrix_start(buffer) | 1u << 16) + units;
    return (unsigned long long)(swizzle << 30 | eight_rows) << 32 | low;
}

//@ matrix_across: matrix
// The same of k lines of `Row` bytes each along m or n: `Leading` bytes from one such piece to the
// next, `Stride` from eight lines to the next eight.
template <int Row, int Leading, int Stride>
__device__ __forceinline__ unsigned long long ws_matrix_across(const void* buffer, int units) {
    constexpr unsigned swizzle = Row == 128 ? 1 : Row == 64 ? 2 : 3, stride = Stride / 16;
    constexpr unsigned leading = Leading < 16 ? 1 : Leading / 16;
    const unsigned low = (ws_matrix_start(buffer) | leading << 16) + units;
    return (unsigned long long)(swizzle << 30 | stride) << 32 | low;
}

//@ products
// Written registers are there for the products that follow.
__device__ __forceinline__ void ws_fence_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void ws_commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until all but so many of the warp group's groups of products are done.
template <int Pending>
__device__ __forceinline__ void ws_await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(Pending) : "memory");
}
// The compiler sees here that registers change: no access to them moves to the other side.
template <int Count>
__device__ __forceinline__ void ws_changed(float (&registers)[Count]) {
    #pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i]) :: "memory");
}

//@ products_int: products
template <int Count>
__device__ __forceinline__ void ws_changed(int (&registers)[Count]) {
    #pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i]) :: "memory");
}

//@ unknown
// The same number, of which the compiler knows nothing.
__device__ __forceinline__ int ws_unknown(int number) {
    int same;
    asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(number));
    return same;
}

//@ pack
// Words of a thread's elements, as products read them from registers: in the order of the waits
// and fences around, so that nothing is written that is still read.
template <class T, int Words, int Count>
__device__ __forceinline__ void ws_pack_NAME(int (&words)[Words], const T (&elements)[Count]) {
    static_assert(Words * EACH == Count, "whole words");
    #pragma unroll
    for (int i = 0; i < Words; ++i) {
        PACKED
    }
}

//@ store_matrix: address
// 8 x 8 matrices of 16-bit elements, two elements of each thread; `row` is of 16 bytes.
template <class T>
__device__ __forceinline__ void ws_NAME(T* row, const T* elements) {
    unsigned pairs[COUNT];
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
        asm("mov.b32 %0, {%1, %2};"
            : "=r"(pairs[i]) : "h"(elements[2 * i]BITS), "h"(elements[2 * i + 1]BITS));
    asm volatile("stmatrix.sync.aligned.m8n8.xCOUNTWAY.shared.b16 [%0], {PLACES};"
                 :: "r"(ws_address(row)), WORDS
                 : "memory");
}

//@ load_matrix: address
// Matrices of 8 rows of 16 bytes, one of which each lane names.
template <class T>
__device__ __forceinline__ void ws_NAME(T* elements, const T* row) {
    unsigned words[COUNT];
    asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNTWAY.shared.b16 {PLACES}, [%COUNT];"
                 : WORDS
                 : "r"(ws_address(row)) : "memory");
    memcpy(elements, words, sizeof(words));
}

//@ word
// What tensor cores read as one register: neighbours, or a float as TF32.
template <class T>
__device__ __forceinline__ unsigned ws_word(const T* elements, int number) {
    unsigned word;
    memcpy(&word, elements + number * 4 / sizeof(T), 4);
    return word;
}
__device__ __forceinline__ unsigned ws_word(const float* elements, int number) {
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(elements[number]));
    return word;
}

//@ mma
template <class A, class B>
__device__ __forceinline__ void ws_NAME(TYPE* sums, const A* a, const B* b) {
    asm volatile("mma.sync.aligned.SHAPE.row.col.PTX {SUMS}, {LEFT}, {RIGHT}, {SUMS};"
                 : OPERANDS
                 : INPUTS);
}
