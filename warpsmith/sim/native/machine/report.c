/* Findings, kept once for each pair of places, and words for who did something. */
#include "machine/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool reported_before(machine *m, finding_kind kind, i32 pc) {
    for (u32 i = 0; i < m->finding_count; i++) {
        finding *f = &m->findings[i];
        if (f->kind != (u32)kind || f->pc != pc) continue;
        f->count++;
        return true;
    }
    return false;
}

finding *report(machine *m, finding_kind kind, const warp *w, i32 lane, i32 pc, const char *format,
                ...) {
    if (reported_before(m, kind, pc) || m->finding_count == MAX_FINDINGS) return NULL;
    finding *f = &m->findings[m->finding_count++];
    *f = (finding){.kind = kind, .pc = pc, .other_pc = -1, .lane = lane, .count = 1,
                   .cta = w ? (i32)w->cta->index : -1, .warp = w ? (i32)w->index : -1,
                   .address = ~0ull, .other_cta = -1, .other_warp = -1, .other_lane = -1, .buffer = -1,
                   .barrier = -1, .phase = -1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    return f;
}

void split_who(const machine *m, u32 who, i32 *cta_index, i32 *warp_index, i32 *lane) {
    *cta_index = *warp_index = *lane = -1;
    if (who == WHO_NOBODY) return;
    if (who & WHO_FLIGHT) {
        const effect *e = m->issuing;
        for (u32 i = 0; i < m->flight_count; i++)
            if (m->flights[i]->number == (who & ~WHO_FLIGHT)) e = m->flights[i];
        if (!e || e->number != (who & ~WHO_FLIGHT)) return;
        *cta_index = (i32)e->by->cta->index;
        *warp_index = (i32)e->by->index;
        *lane = (i32)e->lane;
        return;
    }
    u32 agent = (who >> 5 & (MAX_AGENTS - 1)) - 1;
    *cta_index = (i32)(who >> (AGENT_BITS + 5));
    *lane = (i32)(who & 31);
    if (agent < m->warps_per_cta * CHANNELS) *warp_index = (i32)(agent / CHANNELS);
}

const char *describe_who(const machine *m, u32 who, u32 time, char *text, size_t size) {
    static const char *const CHANNEL[] = {
        "", "a cp.async of ", "a bulk copy (reading its source) of ", "a bulk copy (writing) of ",
        "a wgmma of "};
    i32 c, w, lane;
    split_who(m, who, &c, &w, &lane);
    u32 agent = (who >> 5 & (MAX_AGENTS - 1)) - 1;
    if (who & WHO_FLIGHT)
        snprintf(text, size, w < 0 ? "an asynchronous copy" : "an asynchronous copy issued by warp %d lane %d of CTA %d", w, lane, c);
    else if (w >= 0)
        snprintf(text, size, "%swarp %d lane %d of CTA %d", CHANNEL[agent % CHANNELS], w, lane, c);
    else
        snprintf(text, size, "an asynchronous copy into CTA %d (its mbarrier's phase %u)", c,
                 time - 1);
    return text;
}
