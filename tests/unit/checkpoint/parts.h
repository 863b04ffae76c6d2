/* The state of state.h, saved in parts by several writers, as ranks do. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_CHECKPOINT_PARTS_H
#define STK_TESTS_CHECKPOINT_PARTS_H

#include <dirent.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "checkpoint/parts.h"
#include "state.h"

enum { MOST_PARTS = 5 };

/* What part `number` has of m->tensors[1], and beside that of the first the shape and the rest. */
typedef struct share {
    char range_name[64], shape_name[64];
    int64_t shape[2];
    stk_state_tensor tensors[4];
    size_t n;
} share;

static inline void take_share(share *s, const model *m, const stk__checkpoint_part *part)
{
    const stk_state_tensor *whole = &m->tensors[1];
    const uint64_t count = whole->bytes / sizeof(float);
    const uint64_t from = stk__part_from(count, part->count, part->number);
    const uint64_t to = stk__part_from(count, part->count, part->number + 1);

    snprintf(s->range_name, sizeof s->range_name, STK__CHECKPOINT_RANGE "%s", whole->name);
    snprintf(s->shape_name, sizeof s->shape_name, STK__CHECKPOINT_SHAPE "%s", whole->name);
    memcpy(s->shape, whole->shape, sizeof s->shape);
    s->tensors[0] = (stk_state_tensor){s->range_name,
                                       STK_FLOAT32,
                                       1,
                                       {(int64_t)(to - from)},
                                       (float *)whole->data + from,
                                       (to - from) * sizeof(float)};
    s->tensors[1] = (stk_state_tensor){s->shape_name, STK_INT64, 1, {2}, s->shape, sizeof s->shape};
    s->tensors[2] = m->tensors[0];
    s->tensors[3] = m->tensors[2];
    s->n = part->number ? 1 : 4;
}

/* Hand over one part of the state of a step. */
static inline void save_part(stk__checkpoint_writer *writer, const stk__checkpoint_part *part,
                             const char *path, int step, const char *replaces)
{
    stk_error err;
    share s;
    model m;

    fill(&m, step);
    take_share(&s, &m, part);
    assert_ok(stk__checkpoint_save_part(writer, part, path, s.tensors, s.n, m.texts,
                                        part->number ? 1 : 2, &replaces, replaces ? 1 : 0, &err),
              &err);
    memset(&m, 0xee, sizeof m);
}

/* By one writer after the other, the first at first. */
static inline stk__checkpoint_part save_all(stk__checkpoint_writer *const *writers, uint32_t count,
                                            const char *path, int step, const char *replaces)
{
    stk__checkpoint_part part = {.count = count};
    stk_error err;

    stk__checkpoint_part_draw(&part);
    for (; part.number < count; part.number++)
        save_part(writers[part.number], &part, path, step, replaces);
    for (uint32_t k = count; k-- > 0;)
        assert_ok(stk__checkpoint_flush(writers[k], &err), &err);
    part.number = 0;
    return part;
}

/* Files in the folder of parts beside those of `folder`. */
static inline int count_parts(const char *folder)
{
    char path[400];
    int n = 0;

    snprintf(path, sizeof path, "%s/" STK__CHECKPOINT_PARTS, folder);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

#endif
