/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks that share a training out write a checkpoint in parts: where they have one folder
 * or store to write it to. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/url.h"
#include "train/trainer.h"

/* ---- One folder ------------------------------------------------------------------------------ */

/* A file that stands for rank 0 in the folder until all have looked for it. */
typedef struct sign {
    stk__durable file;
    int folder; /* -1: it could not be made */
} sign;

static void put_up(stk_trainer *t, const char *folder, sign *s)
{
    stk_error unheard;

    s->folder = -1;
    if (stk__durable_path(t->ctx, &stk__file_calls_system, folder, &unheard) != STK_OK)
        return;
    s->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->folder < 0 ||
        stk__durable_begin(&s->file, &stk__file_calls_system, s->folder, "sign", 0, false) == 0)
        return;
    close(s->folder);
    s->folder = -1;
}

static void take_down(sign *s)
{
    if (s->folder < 0)
        return;
    stk__durable_abandon(&s->file);
    close(s->folder);
}

static bool is_seen(stk_trainer *t, const char *folder, const char *name)
{
    char *path = stk__format(t->ctx, "%s/%s", folder, name);
    const bool seen = path && access(path, F_OK) == 0;

    stk__free(t->ctx, path);
    return seen;
}

/* Ranks of several machines may each have a folder of that name. */
static stk_status look_together(stk_trainer *t, const char *folder, bool *all, stk_error *err)
{
    const bool first = t->ranks.strategy.rank == 0;
    char name[NAME_MAX + 1] = "";
    sign s = {.folder = -1};

    if (first)
        put_up(t, folder, &s);
    if (s.folder >= 0)
        snprintf(name, sizeof name, "%s", s.file.temporary);
    stk_status status = stk__share_text(t, name, sizeof name, err);
    double seen = status == STK_OK && *name && is_seen(t, folder, name);
    if (status == STK_OK)
        status = stk__reduce(t, &seen, 1, STK_COMBINE_MIN, err);
    take_down(&s);
    *all = seen > 0;
    if (status == STK_OK && first && *name && !*all)
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "'%.300s' is not one folder to all ranks: rank 0 puts checkpoints together "
                     "and writes them alone",
                     folder);
    return status;
}

/* The same, asked once for a folder. */
static stk_status is_shared(stk_trainer *t, const char *folder, bool *shared, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    if (!s->parts || strcmp(s->parts, folder) != 0) {
        stk__free(t->ctx, s->parts);
        s->parts = NULL;
        STK_TRY(look_together(t, folder, &s->parts_seen, err));
        s->parts = stk__strdup(t->ctx, folder);
        if (!s->parts)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    }
    *shared = s->parts_seen;
    return STK_OK;
}

/* ---- The save -------------------------------------------------------------------------------- */

/* A plain path of this machine; a URL of it has other names for its folder. */
static bool is_plain(const stk_trainer *t, const char *path)
{
    stk__url url;

    stk__url_scan(t->ctx, path, &url);
    return url.plain && !url.inner;
}

/* Whether parts may lie there, where all ranks see it; a store is the same to all of them. */
static bool takes_parts(const stk_trainer *t, const char *path)
{
    return t->ranks.strategy.world_size <= STK__CHECKPOINT_MOST_PARTS &&
           strlen(path) < STK_MAX_OBJECT_KEY &&
           (is_plain(t, path) || stk__checkpoint_parts_store(t->ctx, path));
}

bool stk__state_in_parts(const stk_trainer *t)
{
    return stk__shards_stage(t) && takes_parts(t, t->options.default_root_dir);
}

/* What rank 0 says of a save. */
enum { VOIDS = 8 }; /* at a time */
typedef struct save_name {
    stk__checkpoint_part voids[VOIDS]; /* saves before that will not be in the store */
    uint64_t num_voids;
    uint64_t number[2];
    char path[STK_MAX_OBJECT_KEY]; /* empty: it writes all of it */
} save_name;

static void hear_voids(stk_trainer *t, const stk__checkpoint_part *voids, uint64_t n)
{
    if (t->ranks.strategy.rank)
        stk__checkpoint_void(t->writer, voids, STK_MIN(n, VOIDS));
}

static void take_name(const stk_trainer *t, const save_name *name, stk__checkpoint_part *part,
                      char *first)
{
    memcpy(part->save, name->number, sizeof part->save);
    memcpy(first, name->path, sizeof name->path);
    part->number = (uint32_t)t->ranks.strategy.rank;
    part->count = (uint32_t)t->ranks.strategy.world_size;
}

stk_status stk__state_parts(stk_trainer *t, const char *path, stk__checkpoint_part *part,
                            char *first, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    save_name name = {.path = ""};
    bool shared = false;

    *part = (stk__checkpoint_part){.count = 0};
    *first = 0;
    if (t->ranks.shards.stage == 0)
        return STK_OK;
    if (s->rank == 0 && takes_parts(t, path)) {
        stk__checkpoint_part_draw(part);
        memcpy(name.number, part->save, sizeof name.number);
        snprintf(name.path, sizeof name.path, "%s", path);
        name.num_voids = stk__checkpoint_voids(t->writer, name.voids, VOIDS);
    }
    STK_TRY(stk__share_text(t, (char *)&name, sizeof name, err));
    if (!*name.path)
        return STK_OK;
    if (!is_plain(t, name.path)) {
        t->ranks.parts_stored = true;
        hear_voids(t, name.voids, name.num_voids);
        take_name(t, &name, part, first);
        return STK_OK;
    }
    char *folder = stk__checkpoint_parts_folder(t->ctx, name.path);
    if (!folder)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    const stk_status status = is_shared(t, folder, &shared, err);
    stk__free(t->ctx, folder);
    if (status == STK_OK && shared)
        take_name(t, &name, part, first);
    return status;
}

/* ---- Uploads --------------------------------------------------------------------------------- */

static stk_status add_up(void *user, double sums[STK__UPLOAD_SUMS])
{
    stk_error unheard;

    return stk__reduce(user, sums, STK__UPLOAD_SUMS, STK_COMBINE_SUM, &unheard);
}

/* What rank 0 has given up is not waited for. *told: how much that is. */
static stk_status share_voids(stk_trainer *t, uint64_t *told, stk_error *err)
{
    struct {
        stk__checkpoint_part parts[VOIDS];
        uint64_t n;
    } voids;

    *told = 0;
    do {
        memset(&voids, 0, sizeof voids);
        if (t->ranks.strategy.rank == 0)
            voids.n = stk__checkpoint_voids(t->writer, voids.parts, VOIDS);
        STK_TRY(stk__share_text(t, (char *)&voids, sizeof voids, err));
        hear_voids(t, voids.parts, voids.n);
        *told += voids.n;
    } while (voids.n == VOIDS);
    return STK_OK;
}

/* Rank 0 may give something up while all wait, which the others have then put. */
static bool upload_together(stk_trainer *t)
{
    stk_error unheard;
    uint64_t told;
    bool all = true;

    do
        all &= stk__checkpoint_upload_together(t->writer, add_up, t);
    while (share_voids(t, &told, &unheard) == STK_OK && told > 0);
    return all;
}

void stk__state_upload(stk_trainer *t, bool together)
{
    stk_error unheard;
    uint64_t told;

    together = together && !stk__is_alone(t) && share_voids(t, &told, &unheard) == STK_OK;
    if (!together)
        stk__checkpoint_upload(t->writer);
    else if (!upload_together(t) && t->ranks.strategy.rank)
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "not all checkpoints are in the store: a rank could not upload its part, and "
                     "says why");
}
