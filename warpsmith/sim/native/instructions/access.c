/* Loads, stores and atomics of threads. */
#include "machine/machine.h"

#include <string.h>

#include "arithmetic/alu.h"

typedef struct {
    warp *w;
    const insn *in;
    i32 pc;
    u32 lane, bytes, behind; /* so many of the bytes lie behind a buffer's end */
    u64 address; /* generic */
    place at;
    bool local;
} target;

static bool is_local(u64 address) { return address >> 32 == WINDOW_LOCAL >> 32; }

static const char *region_words(const machine *m, u64 address) {
    (void)m;
    if (address >= WINDOW_BUFFERS) return "a buffer";
    if (address >= WINDOW_MODULE) return "a variable of the module";
    if (address >= WINDOW_CONST) return "constant memory";
    if (address >= WINDOW_PARAM) return "the parameters";
    if (address >= WINDOW_SHARED) return "shared memory";
    return "no memory of this launch";
}

static void out_of_bounds(const target *t, const char *how) {
    machine *m = t->w->m;
    u64 offset = t->address;
    i32 buffer = -1;
    if (t->address >= WINDOW_BUFFERS) {
        buffer = (i32)((t->address - WINDOW_BUFFERS) >> 32) - 1;
        if (buffer >= (i32)m->buffer_count) buffer = -1;
        else if (buffer >= 0) offset = t->address - m->buffers[buffer].base;
    } else if (t->address >= WINDOW_SHARED && t->address < WINDOW_PARAM) {
        offset = t->address - WINDOW_SHARED;
    }
    u64 size = buffer >= 0 ? m->buffers[buffer].size : m->shared_total;
    finding *f = report(m, FINDING_OUT_OF_BOUNDS, t->w, (i32)t->lane, t->pc,
                        "%s %u bytes at 0x%llx, outside of %s (%llu bytes)", how, t->bytes,
                        (unsigned long long)offset, region_words(m, t->address),
                        (unsigned long long)size);
    if (f) {
        f->address = offset;
        f->buffer = buffer;
    }
}

/* Find the bytes of one lane's access, or report why there are none. */
static bool find(target *t, u32 address_operand, const char *how) {
    warp *w = t->w;
    t->address = generic_address(t->in->space, address_of(w, t->in, address_operand, t->lane));
    if (t->address % (t->bytes < 16 ? t->bytes : 16)) {
        finding *f = report(w->m, FINDING_MISALIGNED, w, (i32)t->lane, t->pc,
                            "%s %u bytes at 0x%llx, which is not a multiple of %u", how, t->bytes,
                            (unsigned long long)t->address, t->bytes < 16 ? t->bytes : 16);
        if (f) f->address = t->address;
        return false;
    }
    t->local = is_local(t->address);
    t->behind = 0;
    if (t->local) {
        u64 offset = t->address - WINDOW_LOCAL;
        if (offset + t->bytes <= w->m->local_bytes) {
            t->at.offset = offset;
            return true;
        }
        out_of_bounds(t, how);
        return false;
    }
    if (t->in->op == OP_LD) t->behind = bytes_behind(w->m, t->address, t->bytes);
    t->at = memory_find(w->m, w->cta, t->address, t->bytes - t->behind);
    if (!t->at.in) {
        out_of_bounds(t, how);
        return false;
    }
    region *r = t->at.in;
    bool settled = r->settled && t->in->op == OP_LD;
    if (r->kind == REGION_BUFFER && !settled) check_start(w, t->pc, 1u << t->lane, how, (i32)r->id);
    if (r->kind == REGION_SHARED) {
        cta *owner = &w->m->ctas[r->id];
        if (owner->exited || !owner->started) {
            report(w->m, FINDING_EXIT_OUTSTANDING, w, (i32)t->lane, t->pc,
                   "%s shared memory of CTA %u, which %s", how, r->id,
                   owner->exited ? "has exited" : "has not started");
            return false;
        }
        if (owner->barrier_count && mbarrier_find(owner, (u32)t->at.offset & ~7u)) {
            report(w->m, FINDING_RACE, w, (i32)t->lane, t->pc,
                   "%s the mbarrier at shared address 0x%llx, which is live: only mbarrier "
                   "instructions may touch it",
                   how, (unsigned long long)t->at.offset);
        }
    }
    return true;
}

static u32 strength(const insn *in) {
    bool strong = in->semantics != SEMANTICS_WEAK || in->flags & FLAG_VOLATILE;
    u32 narrow = in->scope == SCOPE_CTA ? SHADOW_CTA_SCOPE : 0;
    return strong || in->op == OP_ATOM || in->op == OP_RED ? SHADOW_ATOMIC | narrow : 0;
}

/* ---- What an access publishes and learns ---- */

static bool scopes_meet(const warp *w, const location *l, u8 scope) {
    if (l->cta == w->cta->index) return true;
    u8 narrow = l->scope < scope ? l->scope : scope;
    bool same_cluster = w->m->ctas[l->cta].cluster == w->cta->cluster;
    return same_cluster ? narrow >= SCOPE_CLUSTER : narrow >= SCOPE_GPU;
}

static u8 scope_of(const insn *in) { return in->scope == SCOPE_NONE ? SCOPE_SYS : in->scope; }

/* A relaxed read leaves what it found to an acquire fence of a scope that has the writer in it. */
static void learn_later(const target *t, const location *l) {
    warp *w = t->w;
    const machine *m = w->m;
    w->acquire_lanes |= 1u << t->lane;
    if (w->learned_version == l->version) return; /* who spins reads the same again and again */
    w->learned_version = l->version;
    bool near = m->ctas[l->cta].cluster == w->cta->cluster;
    clock_join(&w->to_acquire[l->cta == w->cta->index ? 0 : near ? 1 : 2], &l->clock);
}

static void learn(const target *t) {
    warp *w = t->w;
    location *l = location_at(w->m, t->at.in->base + t->at.offset, false);
    if (!l) return;
    bool acquires = t->in->semantics == SEMANTICS_ACQUIRE || t->in->semantics == SEMANTICS_ACQ_REL;
    signal_seen(w, l, acquires);
    if (!scopes_meet(w, l, scope_of(t->in))) return;
    if (acquires) acquire(w, 1u << t->lane, &l->clock);
    else learn_later(t, l);
}

static void publish(const target *t, bool extends) {
    warp *w = t->w;
    bool releases = t->in->semantics == SEMANTICS_RELEASE || t->in->semantics == SEMANTICS_ACQ_REL;
    bool fenced = w->has_released && lane_in(w->released_lanes, (int)t->lane);
    bool signals = !releases && !clock_is_empty(&w->cta->fenced) && scope_of(t->in) >= SCOPE_GPU;
    u64 address = t->at.in->base + t->at.offset;
    location *l = location_at(w->m, address, releases || fenced || signals);
    if (!l) return;
    l->version = ++w->m->location_version;
    if (!extends) clock_free(&l->clock);
    if (signals) signal_sent(w, t->lane, t->pc, l, extends);
    if (!releases && !fenced) return;
    u8 scope = releases ? scope_of(t->in) : w->released_scope;
    l->scope = extends && !clock_is_empty(&l->clock) && l->scope < scope ? l->scope : scope;
    l->cta = w->cta->index;
    if (releases) release_into(w, 1u << t->lane, &l->clock);
    else clock_join(&l->clock, &w->released_by_fence);
}

static void count_bytes(machine *m, const region *r, const warp *w, u32 bytes, bool writes) {
    if (r->kind == REGION_PARAM || r->kind == REGION_CONST) return;
    bool peer = r->kind == REGION_SHARED && r->id != w->cta->index;
    u64 *to = peer                       ? &m->stats.peer
              : r->kind == REGION_SHARED ? (writes ? &m->stats.shared_written : &m->stats.shared_read)
              : writes                   ? &m->stats.global_written
                                         : &m->stats.global_read;
    *to += bytes;
}

/* ---- Loads and stores ---- */

static u64 extend(int type, u64 value) {
    switch (type) {
    case TYPE_S8: return (u64)(i64)(i8)value & 0xffffffff;
    case TYPE_S16: return (u64)(i64)(i16)value & 0xffffffff;
    default: return value;
    }
}

enum { MOST_ELEMENTS = 8 };

/* Which of an access's elements hold undefined bits, one bit each. */
static u32 undefined_elements(const target *t, u32 count, u32 size) {
    u32 found = 0;
    for (u32 i = 0; i < count; i++) {
        u64 at = t->at.offset + (u64)i * size;
        u32 left = t->bytes - t->behind, there = i * size >= left ? 0 : left - i * size;
        const u8 *local = t->w->local_undefined + (u64)t->lane * t->w->m->local_bytes + at;
        if (there > size) there = size;
        bool bad = t->local ? memchr(local, 1, size) != NULL : shadow_undefined(t->at.in, at, there);
        if (bad) found |= 1u << i;
    }
    return found;
}

/* ld.global.nc may only read what nobody writes while the kernel runs. */
static void check_constant(const target *t) {
    machine *m = t->w->m;
    for (u32 i = 0; i < t->bytes - t->behind; i++) {
        const cell *c = cell_of(t->at.in, t->at.offset + i);
        if (c->who == WHO_NOBODY || reported_before(m, FINDING_RACE, t->pc)) continue;
        char text[160];
        finding *f = report(m, FINDING_RACE, t->w, (i32)t->lane, t->pc,
                            "reads through the non-coherent path what %s wrote in this launch",
                            describe_who(m, c->who, c->time, text, sizeof text));
        if (!f) return;
        f->other_pc = (i32)(c->pc & SHADOW_PC);
        split_who(m, c->who, &f->other_cta, &f->other_warp, &f->other_lane);
        f->address = t->at.offset + i;
        f->buffer = t->at.in->kind == REGION_BUFFER ? (i32)t->at.in->id : -1;
    }
}

static step load(warp *w, const insn *in, u32 mask) {
    u32 count = in->operand_count - 1, element = type_bytes(in->type), slots = element == 16 ? 2 : 1;
    u32 size = element / slots;
    target t = {.w = w, .in = in, .pc = pc_of(w, in), .bytes = element * in->vector};
    u32 undefined[MOST_ELEMENTS] = {0};
    u32 anywhere = undefined_of(w, in, count); /* an undefined address within bounds does no harm */
    FOR_LANES(lane, mask) {
        t.lane = (u32)lane;
        u8 bytes[64];
        memset(bytes, 0xa5, sizeof bytes);
        u32 bad = ~0u;
        if (find(&t, count, "reads")) {
            if (t.local) {
                u64 at = (u64)lane * w->m->local_bytes + t.at.offset;
                memcpy(bytes, w->local + at, t.bytes);
                bad = undefined_elements(&t, count, size);
            } else {
                if (in->flags & FLAG_NONCOHERENT) check_constant(&t);
                actor a = actor_thread(w, t.lane, t.pc);
                a.pc |= strength(in);
                u32 there = t.bytes - t.behind;
                bool some = shadow_read(&a, t.at.in, t.at.offset, there);
                bad = some ? undefined_elements(&t, count, size) : 0;
                memset(bytes + there, 0xff, t.behind);
                memcpy(bytes, t.at.in->data + t.at.offset, there);
                if (strength(in)) learn(&t);
                count_bytes(w->m, t.at.in, w, t.bytes, false);
            }
        }
        if (lane_in(anywhere, lane)) bad = ~0u;
        for (u32 i = 0; i < count; i++) {
            undefined[i] |= (bad >> i & 1) << lane;
            u64 value = 0;
            memcpy(&value, bytes + (size_t)i * size, size);
            u64 *d = destination(w, in, i);
            if (d) d[lane] = extend(in->type, value);
        }
    }
    for (u32 i = 0; i < count; i++) define(w, in, i, mask, undefined[i], (u32)t.pc);
    return STEP_NEXT;
}

/* Threads that store the same value to one place agree, in whatever order. */
static bool agrees(const actor *a, const target *t) {
    for (u32 i = 0; i < t->bytes; i++) {
        const cell *c = cell_of(t->at.in, t->at.offset + i);
        if (c->who == WHO_NOBODY || c->who & WHO_FLIGHT || c->pc & SHADOW_POISON || c->list) return false;
        if (known_to(a, c->who, c->time) == KNOWN) return false;
    }
    return true;
}

static step store(warp *w, const insn *in, u32 mask) {
    u32 count = in->operand_count - 1, element = type_bytes(in->type), slots = element == 16 ? 2 : 1;
    u32 size = element / slots, undefined[MOST_ELEMENTS] = {0}, any = 0;
    target t = {.w = w, .in = in, .pc = pc_of(w, in), .bytes = element * in->vector};
    require_defined(w, in, 0, mask, "the address of a store");
    row scratch[MOST_ELEMENTS];
    const u64 *rows[MOST_ELEMENTS];
    for (u32 i = 0; i < count; i++) {
        rows[i] = source(w, in, 1 + i, scratch[i], mask);
        undefined[i] = undefined_of(w, in, 1 + i) | w->undefined_guard;
        any |= undefined[i];
    }
    w->time++;
    FOR_LANES(lane, mask) {
        t.lane = (u32)lane;
        if (!find(&t, 0, "writes")) continue;
        u8 bytes[64];
        for (u32 i = 0; i < count; i++) memcpy(bytes + (size_t)i * size, &rows[i][lane], size);
        if (t.local) {
            u64 at = (u64)lane * w->m->local_bytes + t.at.offset;
            memcpy(w->local + at, bytes, t.bytes);
            for (u32 i = 0; i < count; i++)
                memset(w->local_undefined + at + (u64)i * size, lane_in(undefined[i], lane), size);
            continue;
        }
        if (t.at.in->kind == REGION_CONST || t.at.in->kind == REGION_PARAM) {
            out_of_bounds(&t, "writes to read-only memory:");
            continue;
        }
        bool poison = lane_in(any, lane);
        if (poison && t.at.in->kind != REGION_SHARED)
            for (u32 i = 0; i < count; i++)
                require_defined(w, in, 1 + i, 1u << lane, "a value stored to global memory");
        actor a = actor_thread(w, t.lane, t.pc);
        a.pc |= strength(in);
        u8 *data = t.at.in->data + t.at.offset;
        bool changes = memcmp(data, bytes, t.bytes) != 0;
        if (poison)
            for (u32 i = 0; i < count; i++)
                shadow_write(&a, t.at.in, t.at.offset + (u64)i * size, size, lane_in(undefined[i], lane));
        else if (changes || !agrees(&a, &t))
            shadow_write(&a, t.at.in, t.at.offset, t.bytes, false);
        memcpy(data, bytes, t.bytes);
        if (changes || strength(in)) w->m->progress++;
        if (strength(in)) publish(&t, false);
        count_bytes(w->m, t.at.in, w, t.bytes, true);
    }
    return STEP_NEXT;
}

/* ---- Atomics ---- */

/* Float additions in global memory take subnormal values as zeros, those in shared memory do not. */
static bool flushes(const insn *in, const target *t) {
    return in->mode == MODE_ADD && in->type == TYPE_F32 && t->at.in->kind != REGION_SHARED;
}

static u64 flushed(u64 bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

/* atom.exch and atom.cas of 128 bits: operands in two slots, low half first. */
static bool exchange_wide(const target *t, u32 address, u8 *data) {
    warp *w = t->w;
    const insn *in = t->in;
    u64 old[2], b[2], c[2];
    bool compares = in->mode == MODE_CAS;
    memcpy(old, data, sizeof old);
    for (u32 i = 0; i < 2; i++) {
        b[i] = scalar(w, in, address + 1 + i, t->lane);
        c[i] = compares ? scalar(w, in, address + 3 + i, t->lane) : b[i];
        u64 *d = in->op == OP_ATOM ? destination(w, in, i) : NULL;
        if (d) d[t->lane] = old[i];
    }
    if (compares && memcmp(old, b, sizeof old) != 0) return false;
    if (memcmp(old, c, sizeof old) != 0) w->m->progress++;
    memcpy(data, c, sizeof c);
    return true;
}

static step atomic(warp *w, const insn *in, u32 mask) {
    bool returns = in->op == OP_ATOM;
    u32 address = returns ? in->groups[0] : 0, count = in->vector;
    u32 size = type_bytes(in->type), undefined = 0;
    target t = {.w = w, .in = in, .pc = pc_of(w, in), .bytes = size * count};
    require_defined(w, in, address, mask, "the address of an atomic operation");
    for (u32 i = address + 1; i < in->operand_count; i++)
        require_defined(w, in, i, mask, "an operand of an atomic operation");
    w->time++;
    FOR_LANES(lane, mask) {
        t.lane = (u32)lane;
        if (!find(&t, address, "updates")) continue;
        if (t.local) {
            out_of_bounds(&t, "updates atomically in local memory:");
            continue;
        }
        actor a = actor_thread(w, t.lane, t.pc);
        a.pc |= strength(in);
        if (shadow_undefined(t.at.in, t.at.offset, t.bytes)) {
            undefined |= 1u << lane;
            report(w->m, FINDING_UNINITIALIZED, w, lane, t.pc,
                   "an atomic operation updates bytes that nobody wrote");
        }
        learn(&t);
        shadow_write(&a, t.at.in, t.at.offset, t.bytes, false);
        u8 *data = t.at.in->data + t.at.offset;
        bool writes = size == 16 ? exchange_wide(&t, address, data) : true;
        for (u32 i = 0; i < count && size < 16; i++) {
            u64 old = 0;
            memcpy(&old, data + (size_t)i * size, size);
            u64 b = scalar(w, in, address + 1 + i, t.lane);
            u64 c = in->mode == MODE_CAS ? scalar(w, in, address + 2, t.lane) : 0;
            u64 new = atomic_apply(in->mode, in->type, old, b, c);
            if (flushes(in, &t)) new = flushed(atomic_apply(in->mode, in->type, flushed(old), flushed(b), 0));
            memcpy(data + (size_t)i * size, &new, size);
            u64 *d = returns ? destination(w, in, i) : NULL;
            if (d) d[lane] = old;
            if (new != old) w->m->progress++;
            if (in->mode == MODE_CAS) writes = old == b; /* a failed one only reads */
        }
        if (writes) publish(&t, true);
        count_bytes(w->m, t.at.in, w, t.bytes, true);
    }
    if (returns)
        for (u32 i = 0; i < address; i++) define(w, in, i, mask, undefined, (u32)t.pc);
    return STEP_NEXT;
}

step run_access(warp *w, split *s, const insn *in, u32 mask) {
    (void)s;
    switch (in->op) {
    case OP_LD: return load(w, in, mask);
    case OP_ST: return store(w, in, mask);
    default: return atomic(w, in, mask);
    }
}
