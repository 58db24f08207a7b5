/// Device code of numbers that look random; `ops/table/random.py` says what they are.

//@ philox
/// Products of 32 bits are written apart, not as one of 64: the compiler then keeps all else in 32
/// bits, and joins the two halves again.
// Word 0 to 3 of Philox4x32-10 under the key `seed`, of the counter (offset, block).
__device__ __forceinline__ void ws_philox_words(
    unsigned (&words)[4], long long block, long long seed, long long offset) {
    unsigned a = (unsigned)offset, b = (unsigned)((unsigned long long)offset >> 32);
    unsigned c = (unsigned)block, d = (unsigned)((unsigned long long)block >> 32);
    unsigned low = (unsigned)seed, high = (unsigned)((unsigned long long)seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
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
// The multiple of 2^-24 in [0, 1) that a word is, and whether that is no less than `least` of them.
__device__ __forceinline__ float ws_philox_number(unsigned word) {
    return (float)(word >> 8) * 5.9604644775390625e-08f;
}
__device__ __forceinline__ bool ws_philox_at_least(unsigned word, unsigned least) {
    return word >= least << 8;
}
__device__ __forceinline__ float ws_philox_word(
    long long block, long long word, long long seed, long long offset) {
    unsigned words[4];
    ws_philox_words(words, block, seed, offset);
    const unsigned even = word & 2 ? words[2] : words[0], odd = word & 2 ? words[3] : words[1];
    return ws_philox_number(word & 1 ? odd : even);
}
__device__ __forceinline__ float ws_philox(long long index, long long seed, long long offset) {
    return ws_philox_word((unsigned long long)index >> 2, index & 3, seed, offset);
}

//@ philox_pairs: philox
// Words 0 and 1 of both blocks in even lanes, 2 and 3 in odd ones: each lane draws one block, and
// gives the one beside it the other two words of that.
__device__ __forceinline__ void ws_philox_pairs(
    int (&words)[4], bool odd, long long first, long long second, long long seed,
    long long offset) {
    unsigned own[4];
    ws_philox_words(own, odd ? second : first, seed, offset);
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const unsigned kept = odd ? own[n + 2] : own[n], given = odd ? own[n] : own[n + 2];
        const unsigned got = __shfl_xor_sync(0xffffffffu, given, 1);
        words[n] = odd ? got : kept;
        words[n + 2] = odd ? kept : got;
    }
}
