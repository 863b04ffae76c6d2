/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of rechunkings of drawn shapes: every element is written once, every piece of the temporary
 * file is a place of its own, no slab is larger than the memory, no source chunk is decoded more
 * often than is said. All is counted element by element.
 */
#include <stdlib.h>
#include <string.h>

#include "convert/rechunk.h"
#include "support/support.h"

#define DRAWS 3000
#define MOST  4000 /* elements of a region */

typedef struct drawn {
    stk__rechunk_question q;
    int64_t shape[STK_ARRAY_MAX_RANK]; /* of the array */
} drawn;

static int64_t between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(test_random(state) % (uint64_t)(high - low + 1));
}

static drawn draw(uint64_t *state)
{
    static const uint64_t items[] = {1, 2, 4, 8};
    drawn d = {.q = {.rank = (uint32_t)between(state, 0, 4),
                     .read_item = items[test_random(state) % 4],
                     .write_item = items[test_random(state) % 4]}};
    int64_t left = MOST;

    for (uint32_t i = 0; i < d.q.rank; i++) {
        d.shape[i] = between(state, 1, left < 40 ? left : 40);
        left /= d.shape[i];
        left += left == 0;
        d.q.source[i] = between(state, 1, d.shape[i] + 3);
        d.q.object[i] = between(state, 1, d.shape[i] + 3);
        d.q.extent[i] = d.shape[i];
        /* Sometimes a part: whole objects of one dimension. */
        const int64_t objects = (d.shape[i] + d.q.object[i] - 1) / d.q.object[i];
        if (test_random(state) % 4 == 0) {
            d.q.start[i] = between(state, 0, objects - 1) * d.q.object[i];
            d.q.extent[i] = between(state, 1, d.shape[i] - d.q.start[i]);
            const int64_t end = d.q.start[i] + d.q.extent[i];
            if (end % d.q.object[i] != 0)
                d.q.extent[i] = d.shape[i] - d.q.start[i];
        }
    }
    d.q.memory = (uint64_t)between(state, 1, 3000);
    return d;
}

static uint64_t elements(const stk__rechunk_question *q)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < q->rank; d++)
        n *= (uint64_t)q->extent[d];
    return n;
}

/* Add 1 to each element of a box in a field of the region. */
static void count(const stk__rechunk_question *q, const stk__rechunk_box *box, uint8_t *field)
{
    int64_t at[STK_ARRAY_MAX_RANK] = {0};

    for (;;) {
        uint64_t place = 0;
        uint32_t d = q->rank;
        for (uint32_t i = 0; i < q->rank; i++) {
            const int64_t x = box->start[i] + at[i] - q->start[i];
            assert_in_range(x, 0, q->extent[i] - 1);
            place = place * (uint64_t)q->extent[i] + (uint64_t)x;
        }
        field[place]++;
        while (d > 0 && ++at[d - 1] == box->shape[d - 1])
            at[--d] = 0;
        if (d == 0)
            return;
    }
}

static void all_once(const uint8_t *field, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(field[i], 1);
}

/* How often a source chunk meets slabs of one kind, at most. */
static uint32_t decodes(const drawn *d, const stk__rechunk_plan *p)
{
    const uint64_t slabs = p->direct ? p->num_writes : p->num_reads;
    uint64_t chunks = 1;
    uint32_t most = 0;

    for (uint32_t i = 0; i < d->q.rank; i++)
        chunks *= (uint64_t)((d->shape[i] + d->q.source[i] - 1) / d->q.source[i]);
    uint32_t *met = calloc(chunks, sizeof *met);
    assert_non_null(met);
    for (uint64_t s = 0; s < slabs; s++) {
        stk__rechunk_box box;
        (p->direct ? stk__rechunk_write_slab : stk__rechunk_read_slab)(p, s, &box);
        for (uint64_t c = 0; c < chunks; c++) {
            uint64_t rest = c;
            bool meets = true;
            for (uint32_t i = d->q.rank; i-- > 0;) {
                const int64_t n = (d->shape[i] + d->q.source[i] - 1) / d->q.source[i];
                const int64_t begin = (int64_t)(rest % (uint64_t)n) * d->q.source[i];
                rest /= (uint64_t)n;
                meets &=
                    begin < box.start[i] + box.shape[i] && box.start[i] < begin + d->q.source[i];
            }
            met[c] += meets;
            most = met[c] > most ? met[c] : most;
        }
    }
    free(met);
    return most;
}

static void check_objects(const drawn *d, const stk__rechunk_plan *p, const stk__rechunk_box *slab,
                          uint8_t *field)
{
    for (uint64_t k = 0; k < stk__rechunk_objects(p, slab); k++) {
        stk__rechunk_box box;
        uint64_t number, expected = 0;
        stk__rechunk_object(p, slab, k, d->shape, &box, &number);
        for (uint32_t i = 0; i < d->q.rank; i++) {
            const int64_t end = box.start[i] + box.shape[i];
            assert_int_equal(box.start[i] % d->q.object[i], 0);
            assert_true(box.shape[i] == d->q.object[i] || end == d->shape[i]);
            expected = expected * (uint64_t)((d->shape[i] + d->q.object[i] - 1) / d->q.object[i]) +
                       (uint64_t)(box.start[i] / d->q.object[i]);
        }
        assert_int_equal(number, expected);
        count(&d->q, &box, field);
    }
}

/* Every byte of the temporary file belongs to one piece, and a write slab is one run of it. */
static void check_pieces(const drawn *d, const stk__rechunk_plan *p)
{
    const uint64_t n = elements(&d->q), item = d->q.write_item;
    uint8_t *field = calloc(n, 1), *file = calloc(n, 1);
    uint64_t end = 0;

    assert_int_equal(p->temp_bytes, n * item);
    for (uint64_t w = 0; w < p->num_writes; w++) {
        stk__rechunk_box slab, piece;
        stk__rechunk_write_slab(p, w, &slab);
        const uint64_t met = stk__rechunk_met(p, false, &slab);
        uint64_t low = UINT64_MAX, high = 0;
        for (uint64_t k = 0; k < met; k++) {
            uint64_t offset;
            const uint64_t r = stk__rechunk_met_at(p, false, &slab, k);
            stk__rechunk_piece(p, r, w, &piece, &offset);
            const uint64_t size = stk__rechunk_elements(p, &piece);
            assert_true(size > 0 && offset % item == 0 && offset / item + size <= n);
            for (uint64_t i = 0; i < size; i++)
                assert_int_equal(file[offset / item + i]++, 0);
            count(&d->q, &piece, field);
            low = offset < low ? offset : low;
            high = offset + size * item > high ? offset + size * item : high;
            /* The same pair is found from the other side. */
            stk__rechunk_box read;
            bool found = false;
            stk__rechunk_read_slab(p, r, &read);
            for (uint64_t j = 0; j < stk__rechunk_met(p, true, &read); j++)
                found |= stk__rechunk_met_at(p, true, &read, j) == w;
            assert_true(found);
        }
        assert_int_equal(high - low, stk__rechunk_elements(p, &slab) * item);
        end += high - low;
    }
    all_once(field, n);
    all_once(file, n);
    assert_int_equal(end, p->temp_bytes);
    free(field);
    free(file);
}

static void check_reads(const drawn *d, const stk__rechunk_plan *p)
{
    uint8_t *field = calloc(elements(&d->q), 1);

    for (uint64_t r = 0; r < p->num_reads; r++) {
        stk__rechunk_box box;
        stk__rechunk_read_slab(p, r, &box);
        assert_true(stk__rechunk_elements(p, &box) * d->q.read_item <= d->q.memory);
        count(&d->q, &box, field);
    }
    all_once(field, elements(&d->q));
    free(field);
}

static void check_plan(const drawn *d, const stk__rechunk_plan *p)
{
    const uint64_t n = elements(&d->q);
    const uint64_t item =
        p->direct && d->q.read_item > d->q.write_item ? d->q.read_item : d->q.write_item;
    uint8_t *field = calloc(n, 1), *objects = calloc(n, 1);

    assert_true(p->slab_bytes <= d->q.memory);
    for (uint64_t w = 0; w < p->num_writes; w++) {
        stk__rechunk_box box;
        stk__rechunk_write_slab(p, w, &box);
        assert_true(stk__rechunk_elements(p, &box) * item <= p->slab_bytes);
        count(&d->q, &box, field);
        check_objects(d, p, &box, objects);
    }
    all_once(field, n);
    all_once(objects, n);
    free(field);
    free(objects);
    assert_true(decodes(d, p) <= p->decodes);
    assert_true(p->decodes <= (p->direct ? STK__RECHUNK_DECODES : 1));
    assert_true(p->decoded >= 1 && p->decoded <= 2);
    if (!p->direct) {
        check_reads(d, p);
        check_pieces(d, p);
    }
}

static void test_drawn(void **state)
{
    uint64_t seed = 20;
    int direct = 0, through = 0, refused = 0, twice = 0;
    stk_error err;

    for (int i = 0; i < DRAWS; i++) {
        const drawn d = draw(&seed);
        stk__rechunk_plan plan;
        const stk_status status = stk__rechunk_plan_make(&d.q, &plan, &err);
        if (status != STK_OK) {
            /* Only where a chunk of one of both alone does not fit. */
            uint64_t chunk = d.q.read_item, object = d.q.write_item;
            for (uint32_t k = 0; k < d.q.rank; k++) {
                chunk *= (uint64_t)(d.q.source[k] < d.q.extent[k] ? d.q.source[k] : d.q.extent[k]);
                object *= (uint64_t)(d.q.object[k] < d.q.extent[k] ? d.q.object[k] : d.q.extent[k]);
            }
            assert_int_equal(status, STK_EBUDGET);
            assert_true(chunk > d.q.memory || object > d.q.memory);
            refused++;
            continue;
        }
        check_plan(&d, &plan);
        direct += plan.direct;
        through += !plan.direct;
        twice += plan.decodes == 2;
    }
    assert_true(direct > 300 && through > 100 && refused > 100 && twice > 50);
}

/* A source that can be read in any box needs no temporary file, however small the memory. */
static void test_plain_source(void **state)
{
    stk__rechunk_question q = {.rank = 2,
                               .extent = {1000, 1000},
                               .source = {1, 1},
                               .object = {1000, 1},
                               .read_item = 4,
                               .write_item = 4,
                               .memory = 4000};
    stk__rechunk_plan plan;
    stk_error err;

    assert_ok(stk__rechunk_plan_make(&q, &plan, &err), &err);
    assert_true(plan.direct && plan.num_writes == 1000 && plan.decodes == 1);
    q.source[1] = 1000; /* rows: a transposition within 4000 bytes takes 1000 slabs of both */
    assert_ok(stk__rechunk_plan_make(&q, &plan, &err), &err);
    assert_false(plan.direct);
    assert_int_equal(plan.num_reads, 1000);
    assert_int_equal(plan.num_writes, 1000);
    assert_int_equal(plan.temp_bytes, 4000000);
    q.memory = 3999;
    assert_fails(stk__rechunk_plan_make(&q, &plan, &err), STK_EBUDGET, &err, "4000 bytes");
}

/* Sides near the ends of their type. */
static void test_giants(void **state)
{
    stk__rechunk_question q = {.rank = 3,
                               .extent = {INT64_MAX / 2, 1, 1},
                               .source = {INT64_MAX / 2 - 1, 5, 1},
                               .object = {INT64_MAX / 3, 7, 1},
                               .read_item = 8,
                               .write_item = 8,
                               .memory = 1 << 20};
    stk__rechunk_plan plan;
    stk_error err;

    assert_fails(stk__rechunk_plan_make(&q, &plan, &err), STK_EBUDGET, &err, "memory_budget");
    q.object[0] = q.source[0] = 1;
    assert_ok(stk__rechunk_plan_make(&q, &plan, &err), &err);
    assert_true(plan.direct);
    q.source[0] = 3;
    q.object[0] = 7;
    assert_ok(stk__rechunk_plan_make(&q, &plan, &err), &err);
    assert_true(plan.slab_bytes <= q.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_plain_source),
        cmocka_unit_test(test_giants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
