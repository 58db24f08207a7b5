/* Device printf, and the words of a failed assertion. */
#include "machine/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FORMAT = 1024, MOST_STRING = 512, MOST_FIELD = 400 };

/* ---- Bytes of one lane's memory ---- */

typedef struct {
    warp *w;
    u32 lane;
    i32 pc;
} reader;

/* Reads bytes as a load of the lane does. `what` is what they are, for reports. */
static bool fetch(const reader *r, u64 address, u32 bytes, void *into, const char *what) {
    warp *w = r->w;
    machine *m = w->m;
    bool undefined;
    if (address >> 32 == WINDOW_LOCAL >> 32) {
        u64 offset = address - WINDOW_LOCAL;
        if (offset + bytes > m->local_bytes) goto outside;
        u64 at = (u64)r->lane * m->local_bytes + offset;
        memcpy(into, w->local + at, bytes);
        undefined = memchr(w->local_undefined + at, 1, bytes) != NULL;
    } else {
        place at = memory_find(m, w->cta, address, bytes);
        if (!at.in) goto outside;
        actor a = actor_thread(w, r->lane, r->pc);
        undefined = shadow_read(&a, at.in, at.offset, bytes);
        memcpy(into, at.in->data + at.offset, bytes);
    }
    if (undefined)
        report(m, FINDING_UNINITIALIZED, w, (i32)r->lane, r->pc, "%s holds bits that nobody wrote", what);
    return true;
outside:
    report(m, FINDING_OUT_OF_BOUNDS, w, (i32)r->lane, r->pc, "%s at 0x%llx is outside of all memory", what,
           (unsigned long long)address);
    return false;
}

/* A string that ends with a zero, cut to `size - 1` characters. */
static bool fetch_string(const reader *r, u64 address, char *text, u32 size, const char *what) {
    u32 length = 0;
    while (length + 1 < size) {
        if (!fetch(r, address + length, 1, &text[length], what)) return false;
        if (!text[length]) return true;
        length++;
    }
    text[length] = 0;
    return true;
}

/* ---- Text ---- */

__attribute__((format(printf, 2, 3))) static void put(machine *m, const char *format, ...) {
    if (!m->printed || m->printed_size >= m->printed_capacity) return;
    va_list arguments;
    va_start(arguments, format);
    u64 room = m->printed_capacity - m->printed_size;
    int size = vsnprintf(m->printed + m->printed_size, room, format, arguments);
    va_end(arguments);
    m->printed_size += size < 0 ? 0 : (u64)size < room ? (u64)size : room;
}

/* ---- Conversions ---- */

typedef struct {
    char flags[8];
    int width, precision; /* -1 where there is none */
    bool wide; /* 8 bytes: l, ll, j, t, z */
    u32 halves; /* h, hh */
    char letter;
} conversion;

/* Arguments lie one behind the other, each aligned to its size. */
typedef struct {
    const reader *from;
    u64 next;
    u32 count;
    bool broken;
} arguments;

static u64 take(arguments *a, u32 bytes) {
    u64 value = 0;
    a->next = (a->next + bytes - 1) / bytes * bytes;
    if (!a->broken) a->broken = !fetch(a->from, a->next, bytes, &value, "an argument of printf");
    a->next += bytes;
    a->count++;
    return value;
}

static int number(const char **at, arguments *a) {
    if (**at == '*') {
        ++*at;
        return (i32)take(a, 4);
    }
    int value = 0;
    while (**at >= '0' && **at <= '9') {
        if (value < MOST_FIELD) value = value * 10 + (**at - '0');
        ++*at;
    }
    return value;
}

static conversion parse(const char **at, arguments *a) {
    conversion c = {.width = -1, .precision = -1};
    for (size_t n = 0; **at && strchr("-+ #0", **at); ++*at)
        if (n + 1 < sizeof c.flags && !strchr(c.flags, **at)) c.flags[n++] = **at;
    if (**at == '*' || (**at >= '1' && **at <= '9')) c.width = number(at, a);
    if (**at == '.') {
        ++*at;
        c.precision = number(at, a);
    }
    for (; **at && strchr("hljztLq", **at); ++*at) {
        if (**at == 'h') c.halves++;
        else c.wide = true;
    }
    c.letter = **at;
    if (c.letter) ++*at;
    if (c.width < -MOST_FIELD || c.width > MOST_FIELD) c.width = MOST_FIELD;
    if (c.precision > MOST_FIELD) c.precision = MOST_FIELD;
    return c;
}

/* The conversion as the host's printf takes it: integers as long long, with width and precision
   behind each other as arguments. */
static void host_format(const conversion *c, const char *length, char *text, size_t size) {
    snprintf(text, size, "%%%s%s%s%s%c", c->flags, c->width == -1 ? "" : "*",
             c->precision < 0 ? "" : ".*", length, c->letter);
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
#define PUT(m, c, text, value) \
    ((c)->width == -1 ? ((c)->precision < 0 ? put(m, text, value) : put(m, text, (c)->precision, value)) \
     : (c)->precision < 0 ? put(m, text, (c)->width, value) \
                          : put(m, text, (c)->width, (c)->precision, value))

static u64 narrowed(const conversion *c, u64 value, bool is_signed) {
    switch (c->halves) {
    case 0: return c->wide ? value : is_signed ? (u64)(i64)(i32)value : (u32)value;
    case 1: return is_signed ? (u64)(i64)(i16)value : (u16)value;
    default: return is_signed ? (u64)(i64)(i8)value : (u8)value;
    }
}

static void convert(machine *m, const reader *r, const conversion *c, arguments *a) {
    char text[32];
    switch (c->letter) {
    case 'd':
    case 'i': {
        long long value = (long long)narrowed(c, take(a, c->wide ? 8 : 4), true);
        host_format(c, "ll", text, sizeof text);
        PUT(m, c, text, value);
        break;
    }
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
        unsigned long long value = narrowed(c, take(a, c->wide ? 8 : 4), false);
        host_format(c, "ll", text, sizeof text);
        PUT(m, c, text, value);
        break;
    }
    case 'c': {
        int value = (int)take(a, 4) & 0xff;
        host_format(c, "", text, sizeof text);
        PUT(m, c, text, value);
        break;
    }
    case 'p': {
        const void *value = (const void *)(uintptr_t)take(a, 8);
        host_format(c, "", text, sizeof text);
        PUT(m, c, text, value);
        break;
    }
    case 's': {
        char words[MOST_STRING] = "";
        u64 address = take(a, 8);
        const char *value = words;
        if (!address) value = "(null)";
        else if (a->broken || !fetch_string(r, address, words, sizeof words, "a string that printf is given"))
            break;
        host_format(c, "", text, sizeof text);
        PUT(m, c, text, value);
        break;
    }
    default: {
        double value;
        u64 bits = take(a, 8);
        memcpy(&value, &bits, sizeof value);
        host_format(c, "", text, sizeof text);
        PUT(m, c, text, value);
    }
    }
}

static i32 print(const reader *r, const char *format, u64 block) {
    machine *m = r->w->m;
    arguments a = {.from = r, .next = block};
    for (const char *at = format; *at;) {
        size_t plain = strcspn(at, "%");
        put(m, "%.*s", (int)plain, at);
        at += plain;
        if (!*at) break;
        at++;
        if (*at == '%') {
            put(m, "%%");
            at++;
            continue;
        }
        const char *start = at;
        conversion c = parse(&at, &a);
        if (!c.letter || !strchr("diouxXcpsfFeEgGaA", c.letter)) {
            report(m, FINDING_ILLEGAL_ARGUMENT, r->w, (i32)r->lane, r->pc,
                   "printf has no conversion %%%.*s", (int)(at - start), start);
            return -1;
        }
        convert(m, r, &c, &a);
    }
    return (i32)a.count;
}

step run_printf(warp *w, const insn *in, u32 mask) {
    i32 pc = pc_of(w, in);
    require_defined(w, in, 1, mask, "the format of printf");
    u64 *d = destination(w, in, 0);
    FOR_LANES(lane, mask) {
        reader r = {w, (u32)lane, pc};
        char format[MOST_FORMAT];
        bool ok = fetch_string(&r, scalar(w, in, 1, (u32)lane), format, sizeof format, "the format of printf");
        i32 count = ok ? print(&r, format, scalar(w, in, 2, (u32)lane)) : -1;
        if (d) d[lane] = (u32)count;
    }
    define(w, in, 0, mask, 0, 0);
    return STEP_NEXT;
}

/* __assertfail(message, file, line, function, size of a character) */
step run_assert(warp *w, const insn *in, u32 mask) {
    i32 pc = pc_of(w, in);
    u32 lane = (u32)first_lane(mask);
    reader r = {w, lane, pc};
    char message[160] = "", file[160] = "", function[120] = "";
    fetch_string(&r, scalar(w, in, 0, lane), message, sizeof message, "the text of an assertion");
    fetch_string(&r, scalar(w, in, 1, lane), file, sizeof file, "the file of an assertion");
    fetch_string(&r, scalar(w, in, 3, lane), function, sizeof function, "the function of an assertion");
    report(w->m, FINDING_TRAP, w, (i32)lane, pc, "a device assertion failed: `%s` at %s:%u in %s", message,
           file, (u32)scalar(w, in, 2, lane), function);
    w->m->stopped = true;
    return STEP_YIELD;
}
