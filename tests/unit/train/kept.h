/* Runs whose checkpoints have scores that a test chooses, and the names of those kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_KEPT_H
#define STK_TESTS_UNIT_TRAIN_KEPT_H

#include <dirent.h>

#include "train/callbacks/callback.h"
#include "unit/train/said.h"

static double series[16];

static inline stk_status log_series(stk_module *module, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    return stk_trainer_log(t, "val_loss", series[at->epoch], 0, 0, err);
}

static inline int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a b c": the files of a folder, sorted, without their extension. */
static inline const char *list(const char *folder)
{
    static char text[4096];
    char *names[64];
    size_t n = 0, used = 0;
    DIR *dir = opendir(folder);

    *text = 0;
    if (!dir)
        return "";
    for (struct dirent *entry; (entry = readdir(dir)) && n < 64;) {
        char *dot = strstr(entry->d_name, ".safetensors");
        if (!dot || strcmp(dot, ".safetensors") != 0)
            continue;
        *dot = 0;
        names[n++] = strdup(entry->d_name);
    }
    closedir(dir);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
    return text;
}

typedef struct run {
    bench b;
    tiny m;
    stk_trainer *t;
    char dir[300];
} run;

static inline void run_open(run *r, uint64_t epochs)
{
    bench_open(&r->b);
    tiny_init(&r->m);
    r->m.ops.validation_step = log_series;
    r->b.options.enable_checkpointing = STK_SWITCH_TRUE;
    r->b.options.max_epochs = (int64_t)epochs;
    snprintf(r->dir, sizeof r->dir, "%s/kept", r->b.folder);
    assert_ok(stk_trainer_create(r->b.ctx, &r->b.options, &r->t, &r->b.err), &r->b.err);
    listen_to(r->t);
}

static inline void run_fit(run *r)
{
    assert_ok(stk_trainer_fit(r->t, &r->m.base, &r->b.data, NULL, &r->b.err), &r->b.err);
}

static inline void run_close(run *r)
{
    stk_trainer_destroy(&r->t);
    bench_close(&r->b);
}

#endif
