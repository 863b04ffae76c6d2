/* What tests of uploads share: a store that notes, a writer, and looks at what there is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_CHECKPOINT_UPLOADS_H
#define STK_TESTS_UNIT_CHECKPOINT_UPLOADS_H

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/store.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/upload_send.h"
#include "store/store.h"
#include "support/over_mem.h"
#include "support/support.h"

/* The store of memory: what is put into it is noted, can be held up, and can fail. */
typedef struct world {
    stk_context *ctx;
    stk__checkpoint_writer *writer;
    char dir[256]; /* of what is not uploaded */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int failures;          /* so many puts; -1: all */
    bool held;             /* puts wait */
    bool waits;            /* one does */
    bool clings;           /* removals wait */
    bool clung;            /* one does */
    bool shortens;         /* it says of what it holds that it is shorter */
    double age;            /* of objects, in seconds */
    bool unread;           /* reads fail */
    unsigned reads, looks; /* looks: at what an object is */
    char log[4096];
    unsigned warnings;
    char warning[1024];
    bool told;
    bool keeps;    /* what is to be removed is refused */
    bool releases; /* who asks whether the program is to end lets puts go on */
} world;

static world *at; /* of the test at work */
static stk_store_ops noted;

static inline void note(const char *what, const char *key)
{
    const size_t used = strlen(at->log);

    snprintf(at->log + used, sizeof at->log - used, "%s %s\n", what, key);
}

static inline stk_status noted_put(stk_store *store, const char *key, const stk_store_call *call,
                                   stk_put **out, stk_error *err)
{
    bool canceled = false;

    pthread_mutex_lock(&at->lock);
    at->waits = at->held;
    pthread_cond_broadcast(&at->moved);
    while (at->held && !canceled) {
        stk__cond_wait_until(&at->moved, &at->lock, stk__now_ns() + 1000000);
        canceled = call->canceled && call->canceled(call->user);
    }
    at->waits = false;
    const bool fails = at->failures != 0;
    at->failures -= at->failures > 0;
    if (!fails && !canceled)
        note("put", key);
    pthread_mutex_unlock(&at->lock);
    if (canceled)
        return stk__fail(err, STK_ECANCELED, STK_STAGE_STORE, "canceled");
    if (fails)
        return stk__fail(err, STK_EIO, STK_STAGE_STORE, "not now");
    return stk__store_mem.put(store, key, call, out, err);
}

static inline stk_status noted_remove(stk_store *store, const char *key, const stk_store_call *call,
                                      stk_error *err)
{
    pthread_mutex_lock(&at->lock);
    at->clung = at->clings;
    pthread_cond_broadcast(&at->moved);
    while (at->clings && !(call->canceled && call->canceled(call->user)))
        stk__cond_wait_until(&at->moved, &at->lock, stk__now_ns() + 1000000);
    at->clung = false;
    note("remove", key);
    const bool refused = at->keeps;
    pthread_mutex_unlock(&at->lock);
    if (refused)
        return stk__fail(err, STK_EACCES, STK_STAGE_STORE, "nothing is removed here");
    return stk__store_mem.remove(store, key, call, err);
}

static inline stk_status noted_stat(stk_store *store, const char *key, const stk_store_call *call,
                                    stk_object_info *out, stk_error *err)
{
    pthread_mutex_lock(&at->lock);
    at->looks++;
    pthread_cond_broadcast(&at->moved);
    pthread_mutex_unlock(&at->lock);
    STK_TRY(stk__store_mem.stat(store, key, call, out, err));
    pthread_mutex_lock(&at->lock);
    out->size -= at->shortens;
    at->shortens = false;
    pthread_mutex_unlock(&at->lock);
    return STK_OK;
}

typedef struct listing {
    stk_list_fn *each;
    void *user;
} listing;

static inline stk_status list_one(void *user, const char *key, const stk_object_info *info)
{
    const listing *l = user;
    stk_object_info dated = *info;

    dated.mtime_ns = (int64_t)((stk__wall_seconds() - at->age) * 1e9);
    return l->each(l->user, key, &dated);
}

/* The store of memory has no times: all of it is as old as the test says. */
static inline stk_status noted_list(stk_store *store, const char *prefix,
                                    const stk_store_call *call, stk_list_fn *each, void *user,
                                    stk_error *err)
{
    listing l = {each, user};

    return stk__store_mem.list(store, prefix, call, list_one, &l, err);
}

static inline stk_status noted_submit(stk_store *store, stk_read *read)
{
    pthread_mutex_lock(&at->lock);
    at->reads++;
    const bool fails = at->unread;
    pthread_mutex_unlock(&at->lock);
    return fails ? STK_EIO : stk__store_mem.submit(store, read);
}

static inline stk_status noted_open(stk_context *ctx, const char *url, const void *options,
                                    stk_store **out, stk_error *err)
{
    return test_open_over_mem(&noted, ctx, url, out, err);
}

static inline void hear(void *user, stk_message_level level, const char *text)
{
    world *w = user;

    pthread_mutex_lock(&w->lock);
    if (level == STK_MESSAGE_WARNING) {
        w->warnings++;
        snprintf(w->warning, sizeof w->warning, "%s", text);
    }
    pthread_mutex_unlock(&w->lock);
}

static inline void hold(world *w, bool held)
{
    pthread_mutex_lock(&w->lock);
    w->held = held;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

static inline void cling(world *w, bool clings)
{
    pthread_mutex_lock(&w->lock);
    w->clings = clings;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

static inline bool is_told(void *user)
{
    world *w = user;

    if (w->releases)
        hold(w, false);
    return w->told;
}

static inline void open_writer(world *w, uint64_t deadline_ns)
{
    const stk__upload_options options = {w->dir, deadline_ns, is_told, w};
    stk_error err;

    assert_ok(stk__checkpoint_writer_create(w->ctx, &w->writer, &err), &err);
    assert_ok(stk__checkpoint_upload_by(w->writer, &options, &err), &err);
}

static inline int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    stk_context_options options;
    stk_error err;

    at = *state = w;
    pthread_mutex_init(&w->lock, NULL);
    stk__cond_init(&w->moved);
    stk_context_options_init(&options);
    options.on_message = hear;
    options.on_message_user = w;
    assert_ok(stk_context_create(&options, &w->ctx, &err), &err);
    noted = stk__store_mem;
    noted.name = "noted";
    noted.open = noted_open;
    noted.put = noted_put;
    noted.stat = noted_stat;
    noted.submit = noted_submit;
    noted.remove = noted_remove;
    noted.list = noted_list;
    noted.copy = NULL;
    assert_ok(stk_driver_add(w->ctx, STK_DRIVER_STORE, &noted, &err), &err);
    test_folder(w->dir);
    open_writer(w, 20000000);
    return 0;
}

static inline int tear_down(void **state)
{
    world *w = *state;

    stk__checkpoint_writer_destroy(&w->writer);
    stk_context_destroy(&w->ctx);
    test_folder_remove(w->dir);
    pthread_cond_destroy(&w->moved);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return 0;
}

/* As a step of training whose number is the tensor's first value. */
static inline stk_status try_save(world *w, const char *url, float step, const char *replaces,
                                  stk_error *err)
{
    const float values[4] = {step, 2, 3, 4};
    const stk_state_tensor tensor = {.name = "w",
                                     .dtype = STK_FLOAT32,
                                     .rank = 1,
                                     .shape = {4},
                                     .data = (void *)values,
                                     .bytes = sizeof values};
    char text[32];

    snprintf(text, sizeof text, "%d", (int)step);
    const stk__checkpoint_text step_text = {STK__CHECKPOINT_STEP, text};
    return stk__checkpoint_save(w->writer, url, &tensor, 1, &step_text, 1, &replaces,
                                replaces ? 1 : 0, NULL, err);
}

static inline void save(world *w, const char *url, float step, const char *replaces)
{
    stk_error err;

    assert_ok(try_save(w, url, step, replaces, &err), &err);
}

static inline void upload(world *w)
{
    stk_error err;

    assert_ok(stk__checkpoint_flush(w->writer, &err), &err);
    stk__checkpoint_upload(w->writer);
}

/* Until a put waits, which cannot but begin. */
static inline void await_put(world *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->waits)
        stk__cond_wait_until(&w->moved, &w->lock, UINT64_MAX);
    pthread_mutex_unlock(&w->lock);
}

static inline void flush(world *w)
{
    stk_error err;

    assert_ok(stk__checkpoint_flush(w->writer, &err), &err);
}

static inline float value_of(world *w, const char *path)
{
    stk__checkpoint *checkpoint = NULL;
    stk_error err;

    assert_ok(stk__checkpoint_open(w->ctx, path, &checkpoint, &err), &err);
    const float value = *(const float *)stk__checkpoint_find(checkpoint, "w")->data;
    stk__checkpoint_close(&checkpoint);
    return value;
}

static inline void put_bytes(world *w, const char *url, const void *bytes, size_t n)
{
    stk__put_place place = {.context = w->ctx};
    stk_error err;

    assert_ok(stk__url_put(&place, url, bytes, n, &err), &err);
    stk__put_place_close(&place);
}

static inline bool is_there(world *w, const char *url)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    const bool is = stk_store_open(w->ctx, url, &store, key, sizeof key, NULL) == STK_OK &&
                    key[0] && stk_store_stat(store, key, NULL, &info, NULL) == STK_OK;
    stk_store_close(&store);
    return is;
}

/* Entries of the folder of what is not uploaded. */
static inline unsigned left(const world *w)
{
    unsigned n = 0;
    struct dirent *entry;
    DIR *dir = opendir(w->dir);

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

#endif
