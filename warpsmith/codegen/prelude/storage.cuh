/// How elements are stored that no C++ type of their size holds: narrow floats, and single bits.

//@ words
// Neighbouring elements of a thread as one word, which shuffles move, and back.
template <class Word, int Packed, class T>
__device__ __forceinline__ Word ws_word(const T* elements) {
    Word word = 0;
    memcpy(&word, elements, Packed * sizeof(T));
    return word;
}
template <int Packed, class Word, class T>
__device__ __forceinline__ void ws_put_word(T* elements, Word word) {
    memcpy(elements, &word, Packed * sizeof(T));
}

//@ float16
/// One template for both types. A float holds every value of either type, so `double` goes out
/// through float exactly. On the way in it would be rounded twice, so each type has an instruction
/// that rounds a double once. (PyTorch rounds twice: the results differ in rare ties.)
struct NAME {
    unsigned short bits;
    NAME() = default;
    __device__ __forceinline__ explicit NAME(float x) {
        asm("cvt.rn.PTX.f32 %0, %1;" : "=h"(bits) : "f"(x));
    }
    __device__ __forceinline__ explicit NAME(double x) {
        asm("cvt.rn.PTX.f64 %0, %1;" : "=h"(bits) : "d"(x));
    }
    __device__ __forceinline__ explicit operator float() const { WIDEN }
    __device__ __forceinline__ explicit operator double() const { return (double)(float)*this; }
};

//@ widen_again: bfloat16, half
// A float of 16 bits as one of 32, for the second `time`, or the third. No thread's number has more
// than 16 bits, so what is put to the bits is 0; but ptxas does not know, and so does not keep the
// float that it made before. Other registers of that kind it reads again for each element.
__device__ __forceinline__ unsigned short ws_nothing(int time) {
    unsigned thread;
    asm("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return (unsigned short)(thread >> (14 + time));
}
__device__ __forceinline__ float ws_widen_again(ws_bfloat16 x, int time) {
    unsigned wide;
    asm("mov.b32 %0, {%1, %2};" : "=r"(wide) : "h"(ws_nothing(time)), "h"(x.bits));
    return __uint_as_float(wide);
}
__device__ __forceinline__ float ws_widen_again(ws_half x, int time) {
    x.bits ^= ws_nothing(time);
    return (float)x;
}

//@ float8
/// Instructions take pairs: the other one is 0. A double comes through float, as in PyTorch.
struct NAME {
    unsigned char bits;
    NAME() = default;
    __device__ __forceinline__ explicit NAME(float x) {
        unsigned short pair;
        asm("cvt.rn.satfinite.PTX.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
        bits = (unsigned char)pair;BEYOND
    }
    __device__ __forceinline__ explicit operator float() const {
        float x;
        asm("{ .reg .b32 pair; .reg .b16 low, high; cvt.rn.f16x2.PTX pair, %1; "
            "mov.b32 {low, high}, pair; cvt.f32.f16 %0, low; }"
            : "=f"(x) : "h"((unsigned short)bits));
        return x;
    }
    __device__ __forceinline__ explicit operator double() const { return (double)(float)*this; }
};

//@ bits
/// All are zero at first, so that compilers know what a write to a constant place leaves.
// A bit of a register, as a bool that is read and written.
struct ws_bit {
    unsigned& word;
    const int place;
    __device__ __forceinline__ operator bool() const { return (word >> place) & 1u; }
    __device__ __forceinline__ void operator=(bool value) {
        word = (word & ~(1u << place)) | ((unsigned)value << place);
    }
    __device__ __forceinline__ void operator=(const ws_bit& other) { *this = (bool)other; }
};
// N bools in registers, a bit each.
template <int N>
struct ws_bits {
    unsigned words[(N + 31) / 32] = {};
    __device__ __forceinline__ ws_bit operator[](int i) { return {words[i / 32], i % 32}; }
};

//@ narrow_extremes: bfloat16, half
// NaN when one is NaN. ptxas makes one instruction of two.
/// A function for each of both extremes, of each type.
__device__ __forceinline__ NAME ws_EXTREMEimum(NAME a, NAME b) {
    asm("EXTREME.NaN.PTX %0, %0, %1;" : "+h"(a.bits) : "h"(b.bits));
    return a;
}
