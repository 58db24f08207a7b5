/* Conversions of two numbers at once. */
#include "arithmetic/encode.h"

/* Two floats into one register, the first into the high half. */
bool pair_from_floats(const insn *in, u64 *d, const u64 *high, const u64 *low, u32 mask) {
    const u32 flags = in->flags;
    const int round = in->round;
    const bool ftz = flags & FLAG_FTZ;
#define PAIR(type, width)                                                                   \
    EACH(d[i] = encode(type, decode(TYPE_F32, high[i], ftz), round, flags) << width |       \
                encode(type, decode(TYPE_F32, low[i], ftz), round, flags))
    switch (in->type) {
    case TYPE_F16X2:
        PAIR(TYPE_F16, 16);
        return true;
    case TYPE_BF16X2:
        PAIR(TYPE_BF16, 16);
        return true;
    case TYPE_E4M3X2:
        PAIR(TYPE_E4M3, 8);
        return true;
    case TYPE_E5M2X2:
        PAIR(TYPE_E5M2, 8);
        return true;
    default:
        return false;
    }
}

/* Between halves and eight-bit floats, pair by pair. */
bool pair_from_pair(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const u32 flags = in->flags;
    const int round = in->round;
    switch ((u32)in->type << 8 | in->type2) {
#define NARROW(type)                                                                       \
    EACH(d[i] = encode(type, half_as_float((u32)x[i] >> 16), round, flags) << 8 |          \
                encode(type, half_as_float((u32)x[i]), round, flags))
    case TYPE_E4M3X2 << 8 | TYPE_F16X2:
        NARROW(TYPE_E4M3);
        return true;
    case TYPE_E5M2X2 << 8 | TYPE_F16X2:
        NARROW(TYPE_E5M2);
        return true;
#define WIDEN(as_float)                                                                    \
    EACH(d[i] = encode(TYPE_F16, as_float((u8)(x[i] >> 8)), round, flags) << 16 |          \
                encode(TYPE_F16, as_float((u8)x[i]), round, flags))
    case TYPE_F16X2 << 8 | TYPE_E4M3X2:
        WIDEN(e4m3_to_float);
        return true;
    case TYPE_F16X2 << 8 | TYPE_E5M2X2:
        WIDEN(e5m2_to_float);
        return true;
    default:
        return false;
    }
}

/* cvt.pack.sat: a and b saturated side by side, a above b; bytes below the low half of c. */
bool pack_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const integer_type to = integer_of(in->type), from = {32, true};
    const u64 *x = a[0], *y = a[1], *z = a[2];
    if (to.width != 8 && to.width != 16) return false;
    const int width = to.width;
    const u64 field = (1ull << width) - 1;
#define PACKED                                                                             \
    ((clamp(as_i128(extend(x[i], from), from), to) & field) << width |                     \
     (clamp(as_i128(extend(y[i], from), from), to) & field))
    if (width == 16)
        EACH(d[i] = PACKED);
    else
        EACH(d[i] = (z[i] & 0xffff) << 16 | PACKED);
    return true;
}
