/// Device code of numbers that look random; `ops/table/random.py` says what they are.

//@ philox
/// Products of 32 bits are written apart, not as one of 64: the compiler then keeps all else in 32
/// bits, and joins the two halves again.
// Word 0 to 3 of Philox4x32-10 under the key `seed`, of the counter (offset, block), as a multiple
// of 2^-24 in [0, 1).
__device__ __forceinline__ float ws_philox_word(
    long long block, long long word, long long seed, long long offset) {
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
    const unsigned even = word & 2 ? c : a, odd = word & 2 ? d : b;
    return (float)((word & 1 ? odd : even) >> 8) * 5.9604644775390625e-08f;
}
__device__ __forceinline__ float ws_philox(long long index, long long seed, long long offset) {
    return ws_philox_word((unsigned long long)index >> 2, index & 3, seed, offset);
}
