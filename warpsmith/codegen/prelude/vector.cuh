/// Vectors of elements, and their loads and stores as single instructions.

//@ vector
// The L2's policy for what is to be the last to go.
__device__ __forceinline__ unsigned long long ws_lasting() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
    return policy;
}
// N elements, aligned for one access of all of them, or of 16 bytes where they are more.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) ws_vec {
    static_assert((N & (N - 1)) == 0, "ws_vec: the number of elements must be a power of two");
    T values[N];
    __device__ __forceinline__ T& operator[](int i) { return values[i]; }
    __device__ __forceinline__ const T& operator[](int i) const { return values[i]; }
};
template <int Bytes> struct ws_words;
WORDS
// One instruction for up to 16 bytes, one for every 16 bytes beyond. The vector's address must be
// a multiple of its size, or of 16.
template <class T, int N, int Hint = 0>
__device__ __forceinline__ ws_vec<T, N> ws_load(const T* from) {
    constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
    union { ws_vec<T, N> vector; ws_words<step> words[bytes / step]; };
    #pragma unroll
    for (int i = 0; i < bytes / step; ++i)
        words[i].template load<Hint>((const char*)from + i * step);
    return vector;
}
template <class T, int N, int Hint = 0>
__device__ __forceinline__ void ws_store(T* to, const ws_vec<T, N>& from) {
    constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
    union { ws_vec<T, N> vector; ws_words<step> words[bytes / step]; };
    vector = from;
    #pragma unroll
    for (int i = 0; i < bytes / step; ++i)
        words[i].template store<Hint>((char*)to + i * step);
}
