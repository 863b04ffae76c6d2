/* Many cells of a table at once: each waits far more than it works. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_MATRIX_H
#define STK_TESTS_SUPPORT_MATRIX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "support/http_server.h"
#include "support/support.h"

#define MATRIX_THREADS 32
#define MATRIX_TEXT    800

/* Seconds that a cell waits for a byte: few only where none, or hardly one, comes, as a busy
 * machine is slow. */
static inline const char *matrix_patience(const http_fault *fault)
{
    return fault->cut == HTTP_STALL || fault->bandwidth ? "1" : "20";
}

/* What is wrong with a cell is written into `wrong`, which is empty otherwise: an assertion is the
 * main thread's. */
typedef void matrix_cell(void *user, size_t cell, char wrong[MATRIX_TEXT]);

typedef struct matrix {
    matrix_cell *run;
    void *user;
    size_t cells;
    atomic_size_t next;
    char (*wrong)[MATRIX_TEXT];
} matrix;

static inline void *matrix_work(void *argument)
{
    matrix *m = argument;
    size_t cell;

    while ((cell = atomic_fetch_add(&m->next, 1)) < m->cells)
        m->run(m->user, cell, m->wrong[cell]);
    return NULL;
}

/* Run all cells, and fail if one is wrong. */
static inline void matrix_run(size_t cells, matrix_cell *run, void *user)
{
    matrix m = {.run = run, .user = user, .cells = cells};
    pthread_t threads[MATRIX_THREADS];
    size_t wrong = 0;

    m.wrong = calloc(cells, sizeof *m.wrong);
    assert_non_null(m.wrong);
    for (size_t i = 0; i < MATRIX_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, matrix_work, &m), 0);
    for (size_t i = 0; i < MATRIX_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < cells; i++) {
        if (!m.wrong[i][0])
            continue;
        print_error("%s\n", m.wrong[i]);
        wrong++;
    }
    free(m.wrong);
    assert_int_equal(wrong, 0);
}

/* One read, straight at the driver. */
typedef struct matrix_read {
    stk_read read;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t cond;
    bool ended;
    stk_status status;
} matrix_read;

static inline void matrix_read_done(stk_read *read, stk_status status)
{
    matrix_read *r = read->user;

    pthread_mutex_lock(&r->mutex);
    r->ended = true;
    r->status = status;
    pthread_cond_signal(&r->cond);
    pthread_mutex_unlock(&r->mutex);
}

static inline stk_status matrix_read_now(stk_store *store, matrix_read *r, stk_error *err)
{
    stk_error_init(err);
    r->read.struct_size = sizeof r->read;
    r->read.got = r->read.length;
    r->read.done = matrix_read_done;
    r->read.user = r;
    r->read.error = err;
    r->ended = false;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->cond, NULL);
    const stk_status status = store->ops->submit(store, &r->read);
    pthread_mutex_lock(&r->mutex);
    if (status != STK_OK) { /* done() is not called */
        r->ended = true;
        r->status = status;
    }
    while (!r->ended)
        pthread_cond_wait(&r->cond, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
    pthread_cond_destroy(&r->cond);
    pthread_mutex_destroy(&r->mutex);
    return r->status;
}

#endif
