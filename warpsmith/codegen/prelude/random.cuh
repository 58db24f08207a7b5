/// Device code of numbers that look random; `ops/table/random.py` says what they are.

//@ philox
/// Products of 32 bits are written apart, not as one of 64: the compiler then keeps all else in 32
/// bits, and joins the two halves again.
// Words 0 to 3 of Philox4x32 under the key `seed`, of the counter (offset, block).
template <int rounds>
__device__ __forceinline__ void ws_philox_words(
    unsigned (&words)[4], long long block, long long seed, long long offset) {
    unsigned a = (unsigned)offset, b = (unsigned)((unsigned long long)offset >> 32);
    unsigned c = (unsigned)block, d = (unsigned)((unsigned long long)block >> 32);
    unsigned low = (unsigned)seed, high = (unsigned)((unsigned long long)seed >> 32);
    #pragma unroll
    for (int round = 0; round < rounds; ++round) {
        const unsigned first = 0xD2511F53u * a, upper = __umulhi(0xD2511F53u, a);
        const unsigned second = 0xCD9E8D57u * c;
        a = __umulhi(0xCD9E8D57u, c) ^ b ^ low;
        b = second;
        c = upper ^ d ^ high;
        d = first;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}
__device__ __forceinline__ unsigned ws_philox_chosen(const unsigned (&words)[4], int word) {
    const unsigned even = word & 2 ? words[2] : words[0], odd = word & 2 ? words[3] : words[1];
    return word & 1 ? odd : even;
}
__device__ __forceinline__ float ws_philox_word(
    long long block, long long word, long long seed, long long offset) {
    unsigned words[4];
    ws_philox_words<10>(words, block, seed, offset);
    return (float)(ws_philox_chosen(words, word) >> 8) * 5.9604644775390625e-08f;
}
__device__ __forceinline__ float ws_philox(long long index, long long seed, long long offset) {
    return ws_philox_word((unsigned long long)index >> 2, index & 3, seed, offset);
}
// Whether the number of a half of a word, the other half behind it, is no less than `least`.
__device__ __forceinline__ bool ws_kept_half(unsigned word, bool odd, long long least) {
    return (odd ? __funnelshift_l(word, word, 16) : word) >> 8 >= least;
}
__device__ __forceinline__ bool ws_kept_word(
    long long block, long long place, long long least, long long seed, long long offset) {
    unsigned words[4];
    ws_philox_words<7>(words, block, seed, offset);
    return ws_kept_half(ws_philox_chosen(words, place >> 1), place & 1, least);
}
__device__ __forceinline__ bool ws_kept(
    long long index, long long least, long long seed, long long offset) {
    return ws_kept_word((unsigned long long)index >> 3, index & 7, least, seed, offset);
}

//@ philox_quads: philox
// Word `lane` of the blocks of four lanes, each of which draws its own.
__device__ __forceinline__ void ws_philox_quads(
    int* words, int lane, long long block, long long seed, long long offset) {
    unsigned own[4];
    ws_philox_words<7>(own, block, seed, offset);
    #pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool upper = lane & step;
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            if (n & step) continue;
            const unsigned given = upper ? own[n] : own[n + step];
            const unsigned got = __shfl_xor_sync(0xffffffffu, given, step);
            own[n] = upper ? got : own[n];
            own[n + step] = upper ? own[n + step] : got;
        }
    }
    #pragma unroll
    for (int n = 0; n < 4; ++n) words[n] = own[n];
}
