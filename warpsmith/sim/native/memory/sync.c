/* How knowledge moves: acquire, release, fences, and the lanes of a warp among themselves. */
#include "machine/machine.h"

#include <stdlib.h>

static bool whole(const warp *w, u32 lanes) { return (w->live & ~lanes) == 0; }

static u32 own_agent(const warp *w) { return 1 + w->index * CHANNELS + CHANNEL_THREADS; }

static knowledge *own(warp *w) { return clock_at(&w->known, w->cta->index, own_agent(w)); }

/* The clock that exactly these lanes share beyond what the warp knows. */
static vclock *clock_of_lanes(warp *w, u32 lanes) {
    for (u32 i = 0; i < w->lane_clock_count; i++)
        if (w->lane_clocks[i].lanes == lanes) return &w->lane_clocks[i].clock;
    if (w->lane_clock_count == MAX_LANE_CLOCKS) {
        /* More subsets than there is room for: the last one takes these lanes in, too. */
        lane_clock *last = &w->lane_clocks[MAX_LANE_CLOCKS - 1];
        last->lanes |= lanes;
        return &last->clock;
    }
    lane_clock *made = &w->lane_clocks[w->lane_clock_count++];
    *made = (lane_clock){.lanes = lanes};
    return &made->clock;
}

void acquire(warp *w, u32 lanes, const vclock *from) {
    clock_join(whole(w, lanes) ? &w->known : clock_of_lanes(w, lanes), from);
}

void acquire_reads(warp *w, u32 lanes, const vclock *from) {
    if (clock_is_empty(from)) return;
    if (w->reader_lanes != lanes) clock_free(&w->known_reads);
    w->reader_lanes = lanes;
    clock_join(&w->known_reads, from);
}

void release_into(warp *w, u32 lanes, vclock *into) {
    clock_join(into, &w->known);
    for (u32 i = 0; i < w->lane_clock_count; i++)
        if (w->lane_clocks[i].lanes & lanes) clock_join(into, &w->lane_clocks[i].clock);
    knowledge mine = {.full = whole(w, lanes) ? w->time : 0, .part = w->time, .lanes = lanes};
    knowledge_join(clock_at(into, w->cta->index, own_agent(w)), &mine);
    w->time++;
}

void proxy_fence(warp *w, u32 lanes, bool shared, bool global) {
    knowledge mine = {0};
    if (shared) mine.async_part = w->time, mine.async_lanes = lanes;
    if (global) mine.global_part = w->time, mine.global_lanes = lanes;
    if (!(w->reader_lanes & ~lanes)) clock_fence(&w->known_reads, shared, global);
    if (whole(w, lanes)) {
        clock_fence(&w->known, shared, global);
        for (u32 i = 0; i < w->lane_clock_count; i++)
            clock_fence(&w->lane_clocks[i].clock, shared, global);
        mine.async_full = shared ? w->time : 0;
        mine.global_full = global ? w->time : 0;
    } else {
        vclock fenced = {0};
        clock_join(&fenced, &w->known);
        for (u32 i = 0; i < w->lane_clock_count; i++)
            if (w->lane_clocks[i].lanes & lanes) clock_join(&fenced, &w->lane_clocks[i].clock);
        clock_fence(&fenced, shared, global);
        clock_join(clock_of_lanes(w, lanes), &fenced);
        clock_free(&fenced);
    }
    knowledge_join(own(w), &mine);
    w->time++;
}

void warp_synchronize(warp *w, u32 lanes) {
    if (whole(w, lanes)) {
        for (u32 i = 0; i < w->lane_clock_count; i++) {
            clock_join(&w->known, &w->lane_clocks[i].clock);
            clock_free(&w->lane_clocks[i].clock);
        }
        w->lane_clock_count = 0;
        own(w)->full = w->time;
    } else {
        vclock together = {0};
        for (u32 i = 0; i < w->lane_clock_count; i++)
            if (w->lane_clocks[i].lanes & lanes) clock_join(&together, &w->lane_clocks[i].clock);
        knowledge mine = {.part = w->time, .lanes = lanes};
        knowledge_join(clock_at(&together, w->cta->index, own_agent(w)), &mine);
        clock_join(clock_of_lanes(w, lanes), &together);
        clock_free(&together);
    }
    w->time++;
}

static u32 phase_in(const vclock *clock, u32 cta_index, u32 agent) {
    const knowledge *k = clock_look(clock, cta_index, agent);
    return k->seen > k->full ? k->seen : k->full;
}

u32 known_phase(const warp *w, u32 lane, u32 cta_index, u32 agent) {
    u32 known = phase_in(&w->known, cta_index, agent);
    for (u32 i = 0; i < w->lane_clock_count; i++) {
        const lane_clock *l = &w->lane_clocks[i];
        u32 phase = lane_in(l->lanes, (int)lane) ? phase_in(&l->clock, cta_index, agent) : 0;
        if (phase > known) known = phase;
    }
    return known;
}

void see_into(const warp *w, u32 lanes, vclock *into) {
    clock_join_seen(into, &w->known);
    for (u32 i = 0; i < w->lane_clock_count; i++)
        if (w->lane_clocks[i].lanes & lanes) clock_join_seen(into, &w->lane_clocks[i].clock);
}

location *location_at(machine *m, u64 address, bool make) {
    u32 mask = m->location_capacity - 1;
    if (make && (m->location_count + 1) * 2 > m->location_capacity) {
        u32 capacity = m->location_capacity ? m->location_capacity * 2 : 256;
        location *moved = calloc(capacity, sizeof *moved);
        for (u32 i = 0; i < m->location_capacity; i++) {
            if (!m->locations[i].address) continue;
            u32 h = (u32)((m->locations[i].address * 0x9e3779b97f4a7c15ull) >> 40) & (capacity - 1);
            while (moved[h].address) h = (h + 1) & (capacity - 1);
            moved[h] = m->locations[i];
        }
        free(m->locations);
        m->locations = moved;
        m->location_capacity = capacity;
        mask = capacity - 1;
    }
    if (!m->location_capacity) return NULL;
    u32 h = (u32)((address * 0x9e3779b97f4a7c15ull) >> 40) & mask;
    for (; m->locations[h].address; h = (h + 1) & mask)
        if (m->locations[h].address == address) return &m->locations[h];
    if (!make) return NULL;
    m->location_count++;
    m->locations[h].address = address;
    return &m->locations[h];
}
