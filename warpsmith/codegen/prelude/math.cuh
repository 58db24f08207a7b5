/// Functions that the spellings of `ops/table` call, where C++ has no operator or builtin.

//@ minimum_maximum
// NaN when one is NaN. A float takes one instruction.
__device__ __forceinline__ float ws_maximum(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
__device__ __forceinline__ float ws_minimum(float a, float b) {
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
__device__ __forceinline__ double ws_maximum(double a, double b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ double ws_minimum(double a, double b) { return a < b || a != a ? a : b; }
// Of unsigned numbers in the same order: ptxas (13.0) makes one instruction of two nested maxima of
// signed ones, and loses the minus sign of a negated operand of it.
__device__ __forceinline__ unsigned ws_order(int a) { return (unsigned)a ^ 0x80000000u; }
__device__ __forceinline__ int ws_maximum(int a, int b) {
    unsigned c;
    asm("max.u32 %0, %1, %2;" : "=r"(c) : "r"(ws_order(a)), "r"(ws_order(b)));
    return (int)ws_order((int)c);
}
__device__ __forceinline__ int ws_minimum(int a, int b) {
    unsigned c;
    asm("min.u32 %0, %1, %2;" : "=r"(c) : "r"(ws_order(a)), "r"(ws_order(b)));
    return (int)ws_order((int)c);
}
__device__ __forceinline__ long long ws_maximum(long long a, long long b) { return a > b ? a : b; }
__device__ __forceinline__ long long ws_minimum(long long a, long long b) { return a < b ? a : b; }

//@ at_least
/// ptxas (13.0, 13.5) takes `x * x >= 0` to be true of NaN, too: it knows below what a square, a
/// magnitude or a power of 2 never is, and forgets that it may be no number. It does not conclude
/// anything from the opposite question, which is the same instruction in the end.
// Comparisons that are false of NaN.
__device__ __forceinline__ bool ws_at_least(float a, float b) {
    unsigned no;
    asm("{ .reg .pred p; setp.ltu.f32 p, %1, %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(no) : "f"(a), "f"(b));
    return no == 0;
}
__device__ __forceinline__ bool ws_above(float a, float b) {
    unsigned no;
    asm("{ .reg .pred p; setp.leu.f32 p, %1, %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(no) : "f"(a), "f"(b));
    return no == 0;
}

//@ float_bits
/// `__float_as_int` of an array's elements makes NVVM hold the whole array as integers, and copy it
/// from and to floats around each `asm` that has it: for the sums of wgmma, before their group is
/// awaited, so that ptxas waits for it there (C7517).
__device__ __forceinline__ int ws_float_bits(float x) {
    int bits;
    asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

//@ from_byte
// An integer of a byte, exactly: as the last bits of a float of which one stands for 1. The instruction
// that converts has a quarter of these ones' rate. One is for the sign in all bits, others for a part of
// a register, of which others are beside it: its lowest number is then 0.
__device__ __forceinline__ float ws_from_int(int a) {
    return __int_as_float(0x4b400000 + a) - 12582912.0f;
}
__device__ __forceinline__ float ws_from_byte(signed char a) {
    return __int_as_float(((int)a & 0xff) ^ 0x4b000080) - 8388736.0f;
}
__device__ __forceinline__ float ws_from_byte(unsigned char a) {
    return __int_as_float(__byte_perm(a, 0x4b000000, 0x7550)) - 8388608.0f;
}
//@ divide_full
// Quotient within 2 ulp over the full range, without the slow path of the exact one.
__device__ __forceinline__ float ws_divide_full(float a, float b) {
    float c;
    asm("div.full.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

//@ divide_near
// Quotient within 2 ulp over the full range. Both are scaled by 2^64 or 2^-64 where b is not in between,
// by instructions that NVCC makes no branches of; of the same b, two multiplications are left for each a.
__device__ __forceinline__ float ws_scale_of_divisor(float b) {
    float scale;
    asm("{ .reg .pred p; .reg .f32 t; abs.f32 t, %1; setp.lt.f32 p, t, 0f1F800000;\n"
        "  selp.f32 %0, 0f5F800000, 0f3F800000, p; setp.gt.f32 p, t, 0f5F800000;\n"
        "  selp.f32 %0, 0f1F800000, %0, p; }"
        : "=&f"(scale) : "f"(b));
    return scale;
}
__device__ __forceinline__ float ws_reciprocal_near(float b) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
    return r;
}
__device__ __forceinline__ float ws_divide_near(float a, float b) {
    const float scale = ws_scale_of_divisor(b);
    return (a * scale) * ws_reciprocal_near(b * scale);
}

//@ divide_whole: divide_near
// The same with what is left of a: within 1 ulp, and exact where the quotient has no more bits than a
// float. Where nothing is left that is a number, it is infinite, or 0 by an infinite b.
__device__ __forceinline__ float ws_divide_whole(float a, float b) {
    const float scale = ws_scale_of_divisor(b);
    a *= scale;
    b *= scale;
    const float r = ws_reciprocal_near(b), quotient = a * r;
    const float better = __fmaf_rn(__fmaf_rn(-b, quotient, a), r, quotient);
    return better == better ? better : quotient;
}

//@ nearest_int
__device__ __forceinline__ int ws_nearest_int(float x) { return __float2int_rn(x); }

//@ times_parts
// x times the sum of two floats, rounded once where the first product is exact in 48 bits.
__device__ __forceinline__ float ws_times_parts(float x, float high, float low) {
    return __fmaf_rn(x, high, __fmul_rn(x, low));
}

//@ exp_near
// e to the power x, within 2 ulp and one more for each unit of |x|; 0 below the normal numbers.
__device__ __forceinline__ float ws_exp_near(float x) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * 1.44269504f));
    return e;
}

//@ sigmoid_near
// 1 / (1 + exp(-x)), within 4 ulp, and one more for each unit of x below 0; 0 below the normal numbers.
__device__ __forceinline__ float ws_sigmoid_near(float x) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
    return r;
}
__device__ __forceinline__ float ws_silu_near(float x) { return x * ws_sigmoid_near(x); }

//@ tanh
/// The C library's tanhf branches and takes some thirty instructions, which made a fused GELU bound
/// by arithmetic (docs/lessons/pointwise.md). Near 0 a polynomial, fitted for the least relative
/// error on |x| < 0.55; else 1 - 2 / (exp(2 x) + 1). Both are computed and one is kept.
// Within 3 ulp.
__device__ __forceinline__ float ws_tanh(float x) {
    const float s = x * x;
    float p = 0.01641070f;
    p = fmaf(p, s, -0.05265554f);
    p = fmaf(p, s, 0.13320422f);
    p = fmaf(p, s, -0.33332929f);
    const float near = fmaf(p * s, x, x);
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * 2.88539008f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
    return fabsf(x) < 0.55f ? near : fmaf(-2.0f, r, 1.0f);
}
__device__ __forceinline__ double ws_tanh(double x) { return tanh(x); }
// 2 / (1 + exp(-2 x)); its relative error grows by an ulp for each unit of |x| below 0.
__device__ __forceinline__ float ws_one_plus_tanh(float x) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -2.88539008f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(fmaf(0.5f, e, 0.5f)));
    return r;
}

//@ divide
// x / d for 0 <= x < 2^31, with the magic number and shift that the launch worked out for d.
__device__ __forceinline__ int ws_divide(int x, int magic, int shift) {
    return (int)((__umulhi((unsigned)x, (unsigned)magic) + (unsigned)x) >> shift);
}

//@ silu: divide_full
__device__ __forceinline__ float ws_silu(float x) { return ws_divide_full(x, 1.0f + expf(-x)); }
__device__ __forceinline__ double ws_silu(double x) { return x / (1.0 + exp(-x)); }

//@ frac
__device__ __forceinline__ float ws_frac(float x) { return x - truncf(x); }
__device__ __forceinline__ double ws_frac(double x) { return x - trunc(x); }

//@ sign
template <class T>
__device__ __forceinline__ T ws_sign(T x) { return (T)((int)(x > (T)0) - (int)(x < (T)0)); }

//@ lerp
template <class T>
__device__ __forceinline__ T ws_lerp(T start, T end, T weight) {
    const T step = end - start;
    return weight > (T)-0.5f && weight < (T)0.5f ? start + weight * step
                                                 : end - step * ((T)1 - weight);
}

//@ threshold
template <class T>
__device__ __forceinline__ T ws_threshold(T x, T limit, T value) { return x <= limit ? value : x; }

//@ remainder
template <class T>
__device__ __forceinline__ T ws_with_sign_of(T remainder, T divisor) {
    return remainder != (T)0 && (remainder < (T)0) != (divisor < (T)0) ? remainder + divisor
                                                                        : remainder;
}
__device__ __forceinline__ float ws_remainder(float a, float b) {
    return ws_with_sign_of(fmodf(a, b), b);
}
__device__ __forceinline__ double ws_remainder(double a, double b) {
    return ws_with_sign_of(fmod(a, b), b);
}
__device__ __forceinline__ int ws_remainder(int a, int b) {
    return b == 0 ? -1 : ws_with_sign_of(a % b, b);
}
__device__ __forceinline__ long long ws_remainder(long long a, long long b) {
    return b == 0 ? -1 : ws_with_sign_of(a % b, b);
}

//@ integer_quotient
// By 0 as well: the compiler takes what a byte divided by 0 gives for a byte, and it has more bits,
// that went into bytes beside it in a word.
template <class A, class B>
__device__ __forceinline__ auto ws_quotient(A a, B b) -> decltype(a / b) {
    return b == 0 ? -1 : a / b;
}
template <class A, class B>
__device__ __forceinline__ auto ws_rest(A a, B b) -> decltype(a % b) {
    return b == 0 ? -1 : a % b;
}

//@ unsigned
/// Unsigned arithmetic inside: overflow of signed numbers would be undefined, not wrapping.
template <class T> struct ws_unsigned;
template <> struct ws_unsigned<int> { using type = unsigned; };
template <> struct ws_unsigned<long long> { using type = unsigned long long; };

//@ integer_pow: unsigned
template <class T>
__device__ __forceinline__ T ws_pow(T base, T exponent) {
    using U = typename ws_unsigned<T>::type;
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    U result = 1, square = (U)base;
    for (U left = (U)exponent; left; left >>= 1) {
        if (left & 1) result *= square;
        square *= square;
    }
    return (T)result;
}

//@ shift: unsigned
template <class T>
__device__ __forceinline__ bool ws_shiftable(T count) {
    return count >= 0 && count < (T)(8 * sizeof(T));
}
template <class T>
__device__ __forceinline__ T ws_shift_left(T x, T count) {
    return ws_shiftable(count) ? (T)((typename ws_unsigned<T>::type)x << count) : (T)0;
}
template <class T>
__device__ __forceinline__ T ws_shift_right(T x, T count) {
    return x >> (ws_shiftable(count) ? count : (T)(8 * sizeof(T) - 1));
}
template <class T>
__device__ __forceinline__ T ws_shift_right_logical(T x, T count) {
    return ws_shiftable(count) ? (T)((typename ws_unsigned<T>::type)x >> count) : (T)0;
}

//@ gcd: unsigned
template <class T>
__device__ __forceinline__ T ws_gcd(T x, T y) {
    using U = typename ws_unsigned<T>::type;
    U a = x < 0 ? (U)0 - (U)x : (U)x, b = y < 0 ? (U)0 - (U)y : (U)y;
    while (b) {
        const U rest = a % b;
        a = b;
        b = rest;
    }
    return (T)a;
}
