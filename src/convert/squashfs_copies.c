/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are alike are stored once: found by a hash of their blocks, and compared. */
#include "convert/squashfs.h"

#define COMPARED (UINT64_C(64) << 10) /* bytes that are compared at a time */

stk_status stk__squashfs_copies_init(stk__squashfs_copies *c, stk__squashfs_run *s, stk_error *err)
{
    uint64_t places = 16;

    while (places < 2 * s->tree.files)
        places *= 2;
    *c = (stk__squashfs_copies){.s = s, .mask = places - 1};
    c->nodes = stk__calloc(s->context, places, sizeof *c->nodes);
    c->a = stk__alloc(s->context, COMPARED);
    c->b = stk__alloc(s->context, COMPARED);
    if (!c->nodes || !c->a || !c->b)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to compare files");
    for (uint64_t i = 0; i < places; i++)
        c->nodes[i] = STK__SQUASHFS_NONE;
    return STK_OK;
}

void stk__squashfs_copies_release(stk__squashfs_copies *c)
{
    if (!c->s)
        return;
    stk__free(c->s->context, c->nodes);
    stk__free(c->s->context, c->a);
    stk__free(c->s->context, c->b);
}

/* Whether the blocks of two files are the same; what they are encoded to is a function of their
 * bytes. */
static stk_status compare(stk__squashfs_copies *c, const stk__squashfs_node *one,
                          const stk__squashfs_node *other, bool *same, stk_error *err)
{
    stk__squashfs_run *s = c->s;

    *same = one->hash == other->hash && one->size == other->size && one->stored == other->stored &&
            memcmp(s->sizes + one->first, s->sizes + other->first,
                   stk__squashfs_blocks(s, one) * sizeof *s->sizes) == 0;
    for (uint64_t at = 0; *same && at < one->stored; at += COMPARED) {
        const uint64_t n = STK_MIN(COMPARED, one->stored - at);
        STK_TRY(stk__squashfs_read(&s->file, one->at + at, n, c->a, err));
        STK_TRY(stk__squashfs_read(&s->file, other->at + at, n, c->b, err));
        *same = memcmp(c->a, c->b, n) == 0;
    }
    return STK_OK;
}

stk_status stk__squashfs_copies_take(stk__squashfs_copies *c, uint32_t index, stk_error *err)
{
    stk__squashfs_run *s = c->s;
    stk__squashfs_node *node = &s->tree.nodes[index];
    uint64_t at = node->hash & c->mask;
    bool same = false;

    for (; c->nodes[at] != STK__SQUASHFS_NONE; at = (at + 1) & c->mask) {
        const stk__squashfs_node *other = &s->tree.nodes[c->nodes[at]];
        STK_TRY(compare(c, other, node, &same, err));
        if (!same)
            continue;
        STK_TRY(stk__squashfs_rewind(&s->file, node->at, err));
        node->at = other->at;
        node->is_copy = true;
        s->report->repeated++;
        return STK_OK;
    }
    c->nodes[at] = index;
    return STK_OK;
}
