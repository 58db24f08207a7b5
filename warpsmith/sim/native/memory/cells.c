/* The cells of memory: one for each run of bytes that had the same accesses. Runs end with the 16 bytes
   that they lie in, which most accesses touch as a whole. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

static u32 begin_of(const cell_page *p, u32 group, u32 byte) {
    u32 below = p->begins[group] & ((2u << byte) - 1);
    return below ? 31 - (u32)__builtin_clz(below) : 0;
}

static u32 end_of(const cell_page *p, u32 group, u32 byte) {
    u32 above = (u32)p->begins[group] >> byte >> 1;
    return above ? byte + 1 + (u32)__builtin_ctz(above) : RUN_BYTES;
}

static cell *cell_at(cell_page *p, u32 group, u32 begin) {
    return begin ? &p->rest[group][begin] : &p->first[group];
}

u32 access_take(machine *m) {
    u32 index = m->access_free;
    if (index) {
        m->access_free = m->accesses[index].next;
        return index;
    }
    if (m->access_count == m->access_capacity) {
        m->access_capacity = m->access_capacity ? m->access_capacity * 2 : 4096;
        m->accesses = realloc(m->accesses, m->access_capacity * sizeof *m->accesses);
    }
    if (!m->access_count) m->access_count = 1; /* index 0 means none */
    return m->access_count++;
}

void access_drop(machine *m, u32 index) {
    m->accesses[index].next = m->access_free;
    m->access_free = index;
}

static u32 list_copied(machine *m, u32 list) {
    u32 head = 0, last = 0;
    for (u32 e = list; e; e = m->accesses[e].next) {
        u32 twin = access_take(m);
        m->accesses[twin] = m->accesses[e];
        m->accesses[twin].next = 0;
        if (last) m->accesses[last].next = twin;
        else head = twin;
        last = twin;
    }
    return head;
}

/* From now on a run begins at this byte. */
static void begin_run(machine *m, cell_page *p, u32 group, u32 byte) {
    if (!byte || byte >= RUN_BYTES || p->begins[group] >> byte & 1) return;
    if (!p->rest[group]) p->rest[group] = malloc(RUN_BYTES * sizeof(cell));
    const cell *whole = cell_at(p, group, begin_of(p, group, byte));
    cell *part = &p->rest[group][byte];
    *part = *whole;
    part->list = list_copied(m, whole->list);
    p->begins[group] |= (u16)(1u << byte);
}

cell *run_at(machine *m, region *r, u64 offset, u64 end, u32 *length) {
    cell_page **page = &r->pages[offset / PAGE];
    if (!*page) *page = calloc(1, sizeof **page);
    u32 group = (u32)(offset % PAGE / RUN_BYTES), byte = (u32)(offset % RUN_BYTES);
    begin_run(m, *page, group, byte);
    if (end - offset < RUN_BYTES) begin_run(m, *page, group, byte + (u32)(end - offset));
    *length = end_of(*page, group, byte) - byte;
    return cell_at(*page, group, byte);
}

void runs_join(region *r, u64 offset, u64 end) {
    for (u64 at = offset, next; at < end; at = next) {
        next = at - at % RUN_BYTES + RUN_BYTES;
        u32 first = (u32)(at % RUN_BYTES), behind = end < next ? (u32)(end % RUN_BYTES) : RUN_BYTES;
        u32 inside = ((1u << behind) - 1) & ~((2u << first) - 1);
        r->pages[at / PAGE]->begins[at % PAGE / RUN_BYTES] &= (u16)~inside;
    }
}

const cell *run_of(const region *r, u64 offset, u64 *end) {
    static const cell NOBODY = {0};
    cell_page *p = r->pages[offset / PAGE];
    if (!p) {
        *end = (offset / PAGE + 1) * PAGE;
        return &NOBODY;
    }
    u32 group = (u32)(offset % PAGE / RUN_BYTES), byte = (u32)(offset % RUN_BYTES);
    *end = offset - byte + end_of(p, group, byte);
    return cell_at(p, group, begin_of(p, group, byte));
}

const cell *cell_of(const region *r, u64 offset) {
    u64 end;
    return run_of(r, offset, &end);
}

void cells_free(machine *m, cell_page *p) {
    for (u32 group = 0; group < PAGE / RUN_BYTES; group++) {
        for (u32 begin = 0; begin < RUN_BYTES; begin = end_of(p, group, begin))
            for (u32 e = cell_at(p, group, begin)->list; e;) {
                u32 next = m->accesses[e].next;
                access_drop(m, e);
                e = next;
            }
        free(p->rest[group]);
    }
    free(p);
}
