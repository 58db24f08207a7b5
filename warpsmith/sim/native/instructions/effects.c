/* Asynchronous effects landing: bytes move, marks change hands, barriers count. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "arithmetic/alu.h"
#include "tensor/tensor.h"

static u32 barrier_agent(const cta *c, u32 address) {
    const mbarrier *b = mbarrier_find((cta *)c, address);
    return b ? b->agent : 0;
}

static u32 reduced_type(const effect *e, u32 *bytes) {
    static const u8 OF_TENSOR[] = {TYPE_U8, TYPE_U16, TYPE_U32, TYPE_S32, TYPE_U64, TYPE_S64, TYPE_F16,
                                   TYPE_F32, TYPE_F64, TYPE_BF16, TYPE_F32, TYPE_F32, TYPE_F32};
    u32 type = e->type != TYPE_NONE ? e->type : OF_TENSOR[e->map->type];
    *bytes = type_bytes((int)type);
    return type;
}

/* The bytes of a copy arrive: they replace what is there, or are reduced into it. */
static void put(const effect *e, u8 *to, const u8 *from, u32 bytes) {
    if (e->mode == MODE_NONE) {
        memcpy(to, from, bytes);
        return;
    }
    u32 size, type = reduced_type(e, &size);
    for (u32 b = 0; b + size <= bytes; b += size) {
        u64 old = 0, new = 0;
        memcpy(&old, to + b, size);
        memcpy(&new, from + b, size);
        new = atomic_apply(e->mode, (int)type, old, new, 0);
        memcpy(to + b, &new, size);
    }
}

static void land_load(machine *m, effect *e) {
    for (u32 d = 0; d < e->destination_count; d++) {
        cta *c = &m->ctas[e->destination_cta[d]];
        if (c->exited) continue;
        mbarrier *b = mbarrier_find(c, e->barrier_address);
        u32 time = b ? b->phase + 1 : 1, who = who_of(c, b ? barrier_agent(c, e->barrier_address) : 0, 0);
        u32 offset = 0;
        for (u32 i = 0; i < e->run_count; i++) {
            const copy_run *r = &e->runs[i];
            u8 *to = c->shared.data + r->shared;
            bool poison = false;
            if (e->payload) {
                put(e, to, e->payload + offset, r->bytes);
                offset += r->bytes;
            } else if (r->inside) {
                u64 from = e->from_shared ? WINDOW_SHARED + r->global : r->global;
                place at = memory_find(m, e->by->cta, from, r->bytes);
                poison = at.in->kind != REGION_PARAM && shadow_undefined(at.in, at.offset, r->bytes);
                put(e, to, at.in->data + at.offset, r->bytes);
                if (e->map) tensor_convert(e->map, to, r->bytes);
                shadow_land(m, at.in, at.offset, r->bytes, e->number, who, time, false);
            } else if (e->map) {
                tensor_fill(e->map, to, r->bytes);
            } else { /* behind the end of a buffer */
                memset(to, 0xff, r->bytes);
            }
            shadow_land(m, &c->shared, r->shared, r->bytes, e->number, who, time, poison);
        }
        m->stats.copied_in += e->total_bytes;
        mbarrier_transact(m, c, e->barrier_address, e->total_bytes, e);
    }
}

static void land_store(machine *m, effect *e) {
    for (u32 i = 0; i < e->run_count; i++) {
        const copy_run *r = &e->runs[i];
        if (!r->inside) continue;
        place from = memory_find(m, e->by->cta, WINDOW_SHARED + r->shared, r->bytes);
        place to = memory_find(m, e->by->cta, r->global, r->bytes);
        put(e, to.in->data + to.offset, from.in->data + from.offset, r->bytes);
    }
    m->stats.copied_out += e->total_bytes;
}

static void land_small(machine *m, effect *e) {
    cta *c = &m->ctas[e->destination_cta[0]];
    for (u32 i = 0; i < e->run_count; i++) {
        const copy_run *r = &e->runs[i];
        u8 *to = c->shared.data + r->shared;
        if (!r->inside) {
            memset(to, 0, r->bytes);
            continue;
        }
        place at = memory_find(m, e->by->cta, r->global, r->bytes);
        memcpy(to, at.in->data + at.offset, r->bytes);
    }
    m->stats.copied_in += e->total_bytes;
}

/* cp.async.mbarrier.arrive fires when every earlier cp.async of its threads has landed. */
static bool can_land(const machine *m, const effect *e) {
    if (e->kind != EFFECT_CP_ARRIVE) return true;
    for (u32 i = 0; i < m->flight_count; i++) {
        const effect *other = m->flights[i];
        if (other->by == e->by && other->kind == EFFECT_CP_ASYNC && other->group <= e->group &&
            other->number < e->number)
            return false;
    }
    return true;
}

static void land_arrive(machine *m, effect *e) {
    (void)m;
    mbarrier *b = mbarrier_find(e->by->cta, e->barrier_address);
    if (!b) return;
    clock_at(&b->arrivals_cta, e->by->cta->index, 1 + e->by->index * CHANNELS + CHANNEL_CP_ASYNC)->full =
        e->group;
    mbarrier_arrive_async(e->by, e->arrive_lanes, e->barrier_address, e->noinc, (i32)e->pc);
}

void effect_land(machine *m, u32 index) {
    effect *e = m->flights[index];
    while (!can_land(m, e)) { /* the copies that it waits for land first */
        for (index = 0; index < m->flight_count; index++) {
            const effect *other = m->flights[index];
            if (other->by == e->by && other->kind == EFFECT_CP_ASYNC && other->group <= e->group) break;
        }
        e = m->flights[index];
    }
    switch (e->kind) {
    case EFFECT_LOAD: land_load(m, e); break;
    case EFFECT_STORE:
    case EFFECT_REDUCE: land_store(m, e); break;
    case EFFECT_CP_ASYNC: land_small(m, e); break;
    default: land_arrive(m, e); break;
    }
    if (e->kind != EFFECT_LOAD && e->ready_cycle > e->by->landed_cycle) e->by->landed_cycle = e->ready_cycle;
    trace_landing(m, e);
    for (u32 i = index; i + 1 < m->flight_count; i++) m->flights[i] = m->flights[i + 1];
    m->flight_count--;
    m->progress++;
    effect_free(e);
}
