/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that does with each read what a test says: end at once, end when the test or a thread of
 * its own lets it, fail, end short, hang until it is canceled. It counts, and knows all bytes.
 */
#ifndef STK_TESTS_UNIT_STORE_SCRIPTED_H
#define STK_TESTS_UNIT_STORE_SCRIPTED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store/fetch.h"
#include "support/support.h"

enum { SCRIPT_HELD = 4096 };

typedef enum act {
    ACT_NOW,    /* done() inside submit() */
    ACT_LATE,   /* done() when scripted_release() is called, or a thread of the test does */
    ACT_HANG,   /* the same with STK_ECANCELED, only by cancel() */
    ACT_REFUSE, /* submit() itself fails */
} act;

typedef struct scripted {
    stk_store base;
    stk_store_limits limits;
    uint64_t size; /* of every object but "absent" */
    /* What becomes of a read, the n-th of the store; NULL: ACT_NOW and STK_OK. No lock is held. */
    act (*script)(struct scripted *store, const stk_read *read, uint32_t n, stk_status *status);
    void *user;
    pthread_mutex_t mutex; /* guards the rest */
    stk_read *held[SCRIPT_HELD];
    stk_status statuses[SCRIPT_HELD];
    bool hangs[SCRIPT_HELD];
    uint32_t num_held;
    uint32_t reads, cancels, under_way, most;
    char order[4096]; /* first letters of the keys as they came */
} scripted;

/* The bytes of an object: a function of its key and the place. */
static inline unsigned char scripted_byte(const char *key, uint64_t at)
{
    uint64_t x = (at + 1) * UINT64_C(0x9E3779B97F4A7C15) + (unsigned char)key[0];

    return (unsigned char)((x ^ x >> 29) >> 13);
}

static inline void scripted_end(scripted *s, stk_read *read, stk_status status)
{
    uint64_t there = s->size - (read->offset < s->size ? read->offset : s->size);

    if (status == STK_OK && strcmp(read->key, "absent") == 0)
        status = STK_ENOENT;
    if (status == STK_OK && there < read->length && !read->up_to)
        status = STK_ETRUNCATED;
    if (status == STK_OK) {
        there = there < read->length ? there : read->length;
        for (uint64_t i = 0; i < there; i++)
            ((unsigned char *)read->data)[i] = scripted_byte(read->key, read->offset + i);
        if (read->up_to)
            read->got = there;
    } else if (read->data && read->length) {
        memset(read->data, 0xEE, read->length); /* what a failure leaves is worth nothing */
        read->system_error = 5;
    }
    pthread_mutex_lock(&s->mutex);
    s->under_way--;
    pthread_mutex_unlock(&s->mutex);
    read->done(read, status);
}

/* End one held read; false: there is none that may end by itself. */
static inline bool scripted_release(scripted *s, uint64_t which)
{
    pthread_mutex_lock(&s->mutex);
    for (uint32_t k = 0; k < s->num_held; k++) {
        const uint32_t i = (uint32_t)((which + k) % s->num_held);
        if (s->hangs[i])
            continue;
        stk_read *read = s->held[i];
        const stk_status status = s->statuses[i];
        s->num_held--;
        memmove(s->held + i, s->held + i + 1, (s->num_held - i) * sizeof *s->held);
        memmove(s->statuses + i, s->statuses + i + 1, (s->num_held - i) * sizeof *s->statuses);
        memmove(s->hangs + i, s->hangs + i + 1, (s->num_held - i) * sizeof *s->hangs);
        pthread_mutex_unlock(&s->mutex);
        scripted_end(s, read, status);
        return true;
    }
    pthread_mutex_unlock(&s->mutex);
    return false;
}

static inline stk_status scripted_submit(stk_store *store, stk_read *read)
{
    scripted *s = (scripted *)store;
    stk_status status = STK_OK;

    pthread_mutex_lock(&s->mutex);
    if (s->reads < sizeof s->order - 1)
        s->order[s->reads] = read->key[0];
    const uint32_t n = s->reads++;
    pthread_mutex_unlock(&s->mutex);
    const act what = s->script ? s->script(s, read, n, &status) : ACT_NOW;
    if (what == ACT_REFUSE)
        return status;
    pthread_mutex_lock(&s->mutex);
    if (++s->under_way > s->most)
        s->most = s->under_way;
    if (what != ACT_NOW) {
        assert_true(s->num_held < SCRIPT_HELD);
        s->held[s->num_held] = read;
        s->hangs[s->num_held] = what == ACT_HANG;
        s->statuses[s->num_held++] = status;
    }
    pthread_mutex_unlock(&s->mutex);
    if (what == ACT_NOW)
        scripted_end(s, read, status);
    return STK_OK;
}

static inline void scripted_cancel(stk_store *store, stk_read *read)
{
    scripted *s = (scripted *)store;
    bool found = false;

    pthread_mutex_lock(&s->mutex);
    s->cancels++;
    for (uint32_t i = 0; i < s->num_held && !found; i++)
        if (s->held[i] == read) {
            found = true;
            s->num_held--;
            s->held[i] = s->held[s->num_held];
            s->statuses[i] = s->statuses[s->num_held];
            s->hangs[i] = s->hangs[s->num_held];
        }
    pthread_mutex_unlock(&s->mutex);
    if (found)
        scripted_end(s, read, STK_ECANCELED);
}

static inline void scripted_limits(stk_store *store, stk_store_limits *out)
{
    *out = ((scripted *)store)->limits;
}

static const stk_store_ops scripted_ops = {.struct_size = sizeof(stk_store_ops),
                                           .name = "scripted",
                                           .submit = scripted_submit,
                                           .cancel = scripted_cancel,
                                           .limits = scripted_limits};

static inline void scripted_init(scripted *s, stk_context *ctx, uint32_t depth, uint64_t max_read,
                                 uint64_t size)
{
    memset(s, 0, sizeof *s);
    s->base.ops = &scripted_ops;
    s->base.context = ctx;
    s->limits = (stk_store_limits){
        .struct_size = sizeof s->limits, .max_read = max_read, .io_depth = depth};
    s->size = size;
    pthread_mutex_init(&s->mutex, NULL);
}

#endif
