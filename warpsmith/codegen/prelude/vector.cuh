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
//@ vector_pairs: vector
// A vector of 32 bytes or more, behind that of the lane before. Each lane alone would write half of a
// sector at a time; two write one half each of the first one's sectors, then of the other's.
template <class T, int N>
__device__ __forceinline__ void ws_store_by_pairs(T* to, const ws_vec<T, N>& from) {
    constexpr int bytes = sizeof(T) * N, sectors = bytes / 32;
    static_assert(bytes % 32 == 0, "ws_store_by_pairs: a vector has whole sectors");
    if (__activemask() != 0xffffffffu) return ws_store(to, from);
    union { ws_vec<T, N> vector; ws_words<16> words[2 * sectors]; };
    vector = from;
    const bool odd = threadIdx.x & 1;
    char* const first = (char*)to - (odd ? bytes - 16 : 0);
    #pragma unroll
    for (int s = 0; s < sectors; ++s) {
        ws_words<16> even, behind;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            const unsigned low = words[2 * s].w[k], high = words[2 * s + 1].w[k];
            const unsigned own = odd ? high : low;
            const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
            even.w[k] = odd ? other : own;
            behind.w[k] = odd ? own : other;
        }
        even.template store<0>(first + 32 * s);
        behind.template store<0>(first + bytes + 32 * s);
    }
}
//@ vector_where: vector
// Loads for threads that have something there; others keep what they have. Of a branch around a load of
// 16-bit values ptxas makes merges of each of them, or leaves it a branch, inside which the load is
// waited for as they are taken apart.
LOADS
template <int Hint, class T, int N>
__device__ __forceinline__ void ws_load_where(ws_vec<T, N>& to, bool there, const T* from) {
    constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
    union { ws_vec<T, N> vector; ws_words<step> words[bytes / step]; };
    vector = to;
    #pragma unroll
    for (int i = 0; i < bytes / step; ++i)
        ws_load_where<Hint>(words[i], there, (const char*)from + i * step);
    to = vector;
}
//@ vector_anywhere: vector_where
// N elements from any place of `count`, the first of which lies at a multiple of 8 bytes, by loads of 8
// bytes that do. What is outside is anything: threads that all read one place instead would have the
// L2 serve it to all multiprocessors, one after the other.
template <class I> struct ws_without_sign { typedef unsigned type; };
template <> struct ws_without_sign<long long> { typedef unsigned long long type; };
template <class T, int N, int Hint, class I>
__device__ __forceinline__ ws_vec<T, N> ws_load_anywhere(const T* from, I place, I count) {
    using U = typename ws_without_sign<I>::type;
    constexpr int each = 8 / sizeof(T), parts = (N - 1) / each + 2, words = N * sizeof(T) / 4;
    const int rest = (int)place & (each - 1);
    const I first = place - rest;
    const T* const begin = from + first;
    unsigned held[2 * parts];
    #pragma unroll
    for (int p = 0; p < parts; ++p) {
        ws_words<8> part = {};
        const bool inside = (U)(first + p * each) < (U)count;
        ws_load_where<Hint>(part, inside, begin + p * each);
        held[2 * p] = part.w[0];
        held[2 * p + 1] = part.w[1];
    }
    const bool moved = rest * sizeof(T) >= 4;  // by a word, and then by bytes
    #pragma unroll
    for (int k = 0; k + 1 < 2 * parts; ++k) held[k] = moved ? held[k + 1] : held[k];
    union { ws_vec<T, N> vector; unsigned found[words]; };
    #pragma unroll
    for (int k = 0; k < words; ++k)
        found[k] = sizeof(T) == 4 ? held[k]
                                  : __funnelshift_r(held[k], held[k + 1], rest * sizeof(T) % 4 * 8);
    return vector;
}
//@ vector_around: vector_anywhere
// The same from a place inside; what is behind the end is what stands at the beginning.
template <class T, int N, int Hint, class I>
__device__ __forceinline__ ws_vec<T, N> ws_load_around(const T* from, I place, I count) {
    constexpr int words = N * sizeof(T) / 4;
    union { ws_vec<T, N> vector; unsigned found[words]; };
    vector = ws_load_anywhere<T, N, Hint>(from, place, count);
    if (place > count - N) {
        union { ws_vec<T, N> lanes; unsigned others[words]; };
        #pragma unroll
        for (int k = 0; k < N; ++k) {
            lanes[k] = from[place];
            if (++place == count) place = 0;
        }
        #pragma unroll
        for (int k = 0; k < words; ++k) found[k] = others[k];
    }
    return vector;
}
//@ vector_shared_where: vector
SHARED
template <class T, int N>
__device__ __forceinline__ void ws_load_shared_where(ws_vec<T, N>& to, bool there, const T* from) {
    constexpr int bytes = sizeof(T) * N, step = bytes < 16 ? bytes : 16;
    union { ws_vec<T, N> vector; ws_words<step> words[bytes / step]; };
    vector = to;
    #pragma unroll
    for (int i = 0; i < bytes / step; ++i)
        ws_load_shared_where(
            words[i], there, (unsigned)__cvta_generic_to_shared((const char*)from + i * step));
    to = vector;
}
