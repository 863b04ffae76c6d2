/* Parts of a checkpoint in the store of uploads.h, each by a writer of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_CHECKPOINT_UPLOAD_PARTS_H
#define STK_TESTS_UNIT_CHECKPOINT_UPLOAD_PARTS_H

#include "checkpoint/parts.h"
#include "uploads.h"

enum { PARTS = 3, VALUES = 6 };

/* Writers beside that of the world, which is the first's. */
typedef struct ranks {
    world *w;
    stk__checkpoint_writer *writers[PARTS];
} ranks;

static inline void open_ranks(ranks *r, world *w, uint64_t deadline_ns)
{
    const stk__upload_options options = {w->dir, deadline_ns, is_told, w};
    stk_error err;

    r->w = w;
    r->writers[0] = w->writer;
    assert_ok(stk__checkpoint_upload_by(w->writer, &options, &err), &err);
    for (int k = 1; k < PARTS; k++) {
        assert_ok(stk__checkpoint_writer_create(w->ctx, &r->writers[k], &err), &err);
        assert_ok(stk__checkpoint_upload_by(r->writers[k], &options, &err), &err);
    }
}

static inline void close_ranks(ranks *r)
{
    stk__checkpoint_writer_destroy(&r->w->writer);
    for (int k = 1; k < PARTS; k++)
        stk__checkpoint_writer_destroy(&r->writers[k]);
}

static inline stk__checkpoint_part draw(void)
{
    stk__checkpoint_part part = {.count = PARTS};

    stk__checkpoint_part_draw(&part);
    return part;
}

/* What rank `k` has of a tensor of 2 x 3 values that begin with the step. */
static inline void hand_part(ranks *r, stk__checkpoint_part part, uint32_t k, const char *url,
                             float step, const char *replaces)
{
    const int64_t shape[] = {2, 3};
    const float values[VALUES] = {step, 1, 2, 3, 4, 5};
    const uint64_t each = VALUES / PARTS;
    const stk_state_tensor tensors[] = {
        {STK__CHECKPOINT_RANGE "w",
         STK_FLOAT32,
         1,
         {(int64_t)each},
         (float *)values + k * each,
         each * sizeof *values},
        {STK__CHECKPOINT_SHAPE "w", STK_INT64, 1, {2}, (void *)shape, sizeof shape}};
    char text[32];
    stk_error err;

    snprintf(text, sizeof text, "%d", (int)step);
    const stk__checkpoint_text step_text = {STK__CHECKPOINT_STEP, text};
    part.number = k;
    assert_ok(stk__checkpoint_save_part(r->writers[k], &part, url, tensors, k ? 1 : 2, &step_text,
                                        1, &replaces, replaces ? 1 : 0, &err),
              &err);
}

static inline void save_part(ranks *r, stk__checkpoint_part part, uint32_t k, const char *url,
                             float step, const char *replaces)
{
    stk_error err;

    hand_part(r, part, k, url, step, replaces);
    assert_ok(stk__checkpoint_flush(r->writers[k], &err), &err);
}

static inline void save_all(ranks *r, const stk__checkpoint_part *part, const char *url, float step,
                            const char *replaces)
{
    for (uint32_t k = 0; k < PARTS; k++)
        save_part(r, *part, k, url, step, replaces);
}

/* The others first: what they have is waited for no longer. */
static inline void upload_all(ranks *r)
{
    for (uint32_t k = PARTS; k-- > 0;)
        stk__checkpoint_upload(r->writers[k]);
}

static inline void assert_whole(ranks *r, const char *url, float step)
{
    stk__checkpoint *c = NULL;
    stk_error err;

    assert_ok(stk__checkpoint_open(r->w->ctx, url, &c, &err), &err);
    const stk_state_tensor *w = stk__checkpoint_find(c, "w");
    const float expected[VALUES] = {step, 1, 2, 3, 4, 5};
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->shape[1], 3);
    assert_memory_equal(w->data, expected, sizeof expected);
    stk__checkpoint_close(&c);
}

static inline const char *part_url(const ranks *r, const char *url,
                                   const stk__checkpoint_part *part, uint32_t k)
{
    static char file[4][500];
    static int n;
    char *made = stk__part_path(r->w->ctx, url, part, k);

    assert_non_null(made);
    char *to = file[n++ % 4];
    snprintf(to, sizeof file[0], "%s", made);
    stk__free(r->w->ctx, made);
    return to;
}

/* Of the parts of a save, and their marks. */
static inline int count_parts(const ranks *r, const char *url, const stk__checkpoint_part *part)
{
    char mark[600];
    int n = 0;

    for (uint32_t k = 1; k < PARTS; k++) {
        const char *file = part_url(r, url, part, k);
        snprintf(mark, sizeof mark, "%s" STK__UPLOAD_MARK, file);
        n += is_there(r->w, file) + is_there(r->w, mark);
    }
    return n;
}

static inline const char *logged(const world *w, const char *text)
{
    const char *found = strstr(w->log, text);

    if (!found)
        fail_msg("'%s' is not in\n%s", text, w->log);
    return found;
}

#endif
