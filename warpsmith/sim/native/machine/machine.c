/* Building a machine for one launch, running it, and handing back what was seen. */
#include <stdlib.h>
#include <string.h>

#include "machine/run.h"

static void region_of_bytes(region *r, region_kind kind, const u8 *bytes, u64 size, u64 base,
                            bool read_only) {
    u8 *data = malloc(size + 16);
    if (size) memcpy(data, bytes, size);
    region_open(r, kind, data, base, 0, size, true);
    r->read_only = read_only;
}

static void region_release(machine *m, region *r) {
    region_close(m, r);
    free(r->data);
    r->data = NULL;
}

static void place_cta(machine *m, cta *c) {
    /* Clusters are boxes of the grid; the CTAs of one are neighbours in `m->ctas`. */
    u32 of[3], size[3];
    for (int i = 0; i < 3; i++) {
        size[i] = m->cluster[i];
        of[i] = m->grid[i] / size[i];
    }
    u32 k = c->cluster, r = c->rank;
    c->cluster_id[0] = k % of[0];
    c->cluster_id[1] = k / of[0] % of[1];
    c->cluster_id[2] = k / of[0] / of[1];
    c->rank_id[0] = r % size[0];
    c->rank_id[1] = r / size[0] % size[1];
    c->rank_id[2] = r / size[0] / size[1];
    for (int i = 0; i < 3; i++) c->id[i] = c->cluster_id[i] * size[i] + c->rank_id[i];
}

static machine *machine_new(const sim_launch *l, u8 *const *page_flags) {
    machine *m = calloc(1, sizeof *m);
    m->code = l->code;
    m->code_count = l->code_count;
    m->operands = l->operands;
    m->targets = l->targets;
    m->register_count = l->register_count;
    m->local_bytes = l->local_bytes;
    for (u32 i = 0; i < m->code_count; i++) m->has_wgmma |= l->code[i].op == OP_WGMMA;
    memcpy(m->grid, l->grid, sizeof m->grid);
    memcpy(m->block, l->block, sizeof m->block);
    memcpy(m->cluster, l->cluster, sizeof m->cluster);
    m->threads = m->block[0] * m->block[1] * m->block[2];
    m->warps_per_cta = (m->threads + LANES - 1) / LANES;
    m->cta_count = m->grid[0] * m->grid[1] * m->grid[2];
    m->cluster_size = m->cluster[0] * m->cluster[1] * m->cluster[2];
    m->shared_static = l->shared_static;
    m->shared_total = l->shared_total;
    m->entry_registers = l->entry_registers;
    m->resident = l->resident;
    m->order = l->order;
    m->early = l->early;
    m->seed = l->seed;
    m->budget = l->budget;
    m->events = l->events;
    m->event_capacity = l->event_capacity;
    m->printed = l->printed;
    m->printed_capacity = l->printed_capacity;
    m->findings = calloc(MAX_FINDINGS, sizeof *m->findings);
    m->buffer_count = l->buffer_count;
    m->buffers = calloc(l->buffer_count + 1, sizeof *m->buffers);
    for (u32 i = 0; i < l->buffer_count; i++) {
        const sim_buffer *b = &l->buffers[i];
        region *r = &m->buffers[i];
        memcpy(b->result, b->bytes, b->size);
        region_open(r, REGION_BUFFER, b->result, WINDOW_BUFFERS + ((u64)(i + 1) << 32), 0, b->size,
                    b->defined);
        r->id = i;
        r->open = b->open;
        r->settled = b->settled;
        if (page_flags[i]) memcpy(r->page_flags, page_flags[i], b->size / PAGE + 1);
    }
    region_of_bytes(&m->module, REGION_MODULE, l->module, l->module_size, WINDOW_MODULE, false);
    region_of_bytes(&m->constant, REGION_CONST, l->constant, l->constant_size, WINDOW_CONST, true);
    region_of_bytes(&m->params, REGION_PARAM, l->params, l->params_size, WINDOW_PARAM, true);
    m->ctas = calloc(m->cta_count, sizeof *m->ctas);
    m->clusters = calloc(m->cta_count / m->cluster_size + 1, sizeof *m->clusters);
    for (u32 i = 0; i < m->cta_count; i++) {
        cta *c = &m->ctas[i];
        *c = (cta){.m = m, .index = i, .cluster = i / m->cluster_size, .rank = i % m->cluster_size,
                   .warp_count = m->warps_per_cta, .live_warps = m->warps_per_cta,
                   .resident_sm = i % 132};
        place_cta(m, c);
    }
    return m;
}

/* A CTA has its place and its memory; it runs once `started` is set. */
void cta_place(cta *c) {
    machine *m = c->m;
    u8 *data = malloc(m->shared_total + 16);
    memset(data, 0xa5, m->shared_total);
    region_open(&c->shared, REGION_SHARED, data, WINDOW_SHARED, WINDOW_SHARED_START, m->shared_total,
                false);
    c->shared.id = c->index;
    /* A warp is allotted registers in steps of 8 a lane; what it cannot name is the pool's. */
    c->register_pool = (i64)(-(i64)m->entry_registers & 7) * LANES * m->warps_per_cta;
    c->warps = calloc(c->warp_count, sizeof *c->warps);
    for (u32 i = 0; i < c->warp_count; i++) warp_start(c, i);
}

/* Everything but the clocks that others may still look up. */
void cta_free(cta *c) {
    if (!c->warps) return;
    for (u32 i = 0; i < c->warp_count; i++) warp_free(&c->warps[i]);
    for (u32 i = 0; i < c->barrier_count; i++) {
        mbarrier *b = &c->barriers[i];
        clock_free(&b->arrivals_cta);
        clock_free(&b->arrivals_cluster);
        clock_free(&b->done_cta);
        clock_free(&b->done_cluster);
        clock_free(&b->arrivals_read);
        clock_free(&b->done_read);
    }
    for (u32 i = 0; i < NAMED_BARRIERS; i++) {
        clock_free(&c->named[i].arrivals);
        clock_free(&c->named[i].done);
    }
    free(c->barriers);
    free(c->barrier_at);
    c->barriers = NULL;
    c->barrier_at = NULL;
    c->barrier_count = 0;
    if (c->shared.data) region_release(c->m, &c->shared);
}

static void machine_free(machine *m) {
    for (u32 i = 0; i < m->flight_count; i++) effect_free(m->flights[i]); /* they name warps */
    for (u32 i = 0; i < m->cta_count; i++) {
        cta_free(&m->ctas[i]);
        clock_free(&m->ctas[i].fenced);
        clock_free(&m->ctas[i].unfenced.clock);
        free(m->ctas[i].warps);
    }
    for (u32 i = 0; i < m->cta_count / m->cluster_size; i++) {
        clock_free(&m->clusters[i].arrivals);
        clock_free(&m->clusters[i].done);
    }
    for (u32 i = 0; i < m->buffer_count; i++) region_close(m, &m->buffers[i]);
    region_release(m, &m->module);
    region_release(m, &m->constant);
    region_release(m, &m->params);
    for (u32 i = 0; i < m->location_capacity; i++) {
        clock_free(&m->locations[i].clock);
        clock_free(&m->locations[i].unfenced.clock);
    }
    free(m->locations);
    free(m->flights);
    free(m->accesses);
    free(m->map_fences);
    free(m->findings);
    free(m->buffers);
    free(m->ctas);
    free(m->clusters);
    free(m);
}

void sim_run(const sim_launch *l, sim_result *result) {
    u8 **page_flags = calloc(l->buffer_count + 1, sizeof *page_flags);
    for (;;) {
        machine *m = machine_new(l, page_flags);
        machine_run(m);
        trace_finish(m);
        bool again = m->rerun && !m->stopped;
        for (u32 i = 0; again && i < m->buffer_count; i++) {
            u64 pages = m->buffers[i].size / PAGE + 1;
            if (!page_flags[i]) page_flags[i] = malloc(pages);
            for (u64 p = 0; p < pages; p++) page_flags[i][p] = m->buffers[i].page_flags[p] & PAGE_TRACKED;
        }
        result->finding_count = m->finding_count;
        memcpy(result->findings, m->findings, m->finding_count * sizeof *m->findings);
        for (u32 i = 0; i < m->next_cta; i++) /* those that are left when a run ends early */
            for (u32 k = 0; m->ctas[i].warps && k < m->ctas[i].warp_count; k++)
                if (m->ctas[i].warps[k].cycle > m->stats.cycles) m->stats.cycles = m->ctas[i].warps[k].cycle;
        result->stats = m->stats;
        result->printed_size = m->printed_size;
        result->event_count = m->event_count;
        result->events_lost = m->events_lost;
        machine_free(m);
        if (!again) break;
    }
    for (u32 i = 0; i < l->buffer_count; i++) free(page_flags[i]);
    free(page_flags);
}
