/* Events for a timeline, kept only when somebody asked for them. Times are cycles of the timing
   model, in which a warp that waits jumps to the cycle at which its wait is over. */
#include "machine/machine.h"

static trace_event *event_new(machine *m, event_kind kind, u32 cta_index, i32 warp_index, i32 pc,
                              u64 begin, u64 end) {
    if (!m->events) return NULL;
    if (m->event_count == m->event_capacity) {
        m->events_lost++;
        return NULL;
    }
    trace_event *e = &m->events[m->event_count++];
    *e = (trace_event){.kind = kind, .cta = cta_index, .warp = warp_index, .pc = pc, .begin = begin,
                       .end = end, .executed = m->stats.instructions, .barrier = -1, .phase = -1};
    return e;
}

static void name_barrier(trace_event *e, u32 barrier, u32 phase) {
    if (!e) return;
    e->barrier = (i32)barrier;
    e->phase = (i32)phase;
}

/* The phase of a barrier that the instruction of a split waits for; `over` when it has come. */
static void name_wait(trace_event *e, const warp *w, const split *s, bool over) {
    const insn *in = &w->m->code[s->pc];
    if (in->op == OP_BAR && s->wait_id < NAMED_BARRIERS) {
        name_barrier(e, s->wait_id, s->wait_generation);
    } else if (in->op == OP_MBARRIER_TRY_WAIT || in->op == OP_MBARRIER_TEST_WAIT) {
        u64 address = address_of((warp *)w, in, 1, (u32)first_lane(s->mask)) & 0xffffff;
        const mbarrier *b = mbarrier_find(w->cta, (u32)address);
        if (b) name_barrier(e, b->address, b->phase - b->first_phase - over);
    }
}

void trace_wait(const warp *w, const split *s, u64 begin) {
    trace_event *e = event_new(w->m, EVENT_WAIT, w->cta->index, (i32)w->index, s->pc, begin, w->cycle);
    if (e) name_wait(e, w, s, true);
}

void trace_exit(const warp *w, i32 pc) {
    event_new(w->m, EVENT_EXIT, w->cta->index, (i32)w->index, pc, w->cycle, w->cycle);
}

void trace_landing(machine *m, const effect *e) {
    trace_event *t = event_new(m, EVENT_COPY, e->by->cta->index, (i32)e->by->index, (i32)e->pc,
                               e->issued_cycle, e->ready_cycle);
    if (!t) return;
    t->value = e->total_bytes;
    t->number = e->number;
    if (e->kind == EFFECT_LOAD) t->barrier = (i32)e->barrier_address;
}

void trace_phase(machine *m, u32 cta_index, const mbarrier *b) {
    name_barrier(event_new(m, EVENT_PHASE, cta_index, -1, -1, b->cycle, b->cycle), b->address,
                 b->phase - b->first_phase - 1);
}

void trace_arrival(const warp *w, i32 pc, u32 cta_index, const mbarrier *b, u32 lanes) {
    trace_event *e =
        event_new(w->m, EVENT_ARRIVAL, w->cta->index, (i32)w->index, pc, w->cycle, w->cycle);
    if (!e) return;
    name_barrier(e, b->address, b->phase - b->first_phase);
    e->value = (u64)__builtin_popcount(lanes);
    e->number = cta_index;
}

/* Its last phase; -1 where the barrier is fresh, as waits with parity 1 may find it. */
void trace_over(const warp *w, i32 pc, const mbarrier *b) {
    name_barrier(event_new(w->m, EVENT_OVER, w->cta->index, (i32)w->index, pc, w->cycle, w->cycle),
                 b->address, b->phase - b->first_phase - 1);
}

void trace_generation(machine *m, u32 cta_index, u32 id, const named_barrier *b) {
    name_barrier(event_new(m, EVENT_GENERATION, cta_index, -1, -1, b->cycle, b->cycle), id,
                 b->generation - 1);
}

void trace_finish(machine *m) {
    for (u32 c = 0; m->events && c < m->next_cta; c++)
        for (u32 i = 0; !m->ctas[c].exited && i < m->ctas[c].warp_count; i++) {
            const warp *w = &m->ctas[c].warps[i];
            for (u32 k = 0; k < w->split_count; k++) {
                const split *s = &w->splits[k];
                if (!s->mask) continue;
                trace_event *e = event_new(m, EVENT_STUCK, c, (i32)i, s->pc, w->cycle, w->cycle);
                if (e) name_wait(e, w, s, false);
            }
        }
}
