/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking what was read of a container. A thread on which the store below ends reads is not to be
 * held up: it hands the work to one of a few threads, which are started when there is something for
 * them to do. Where the read ended within submit(), and its caller goes on with the bytes, the
 * caller unpacks.
 */
#include "store/container_store.h"

#define NOW_MOST 16384 /* stored bytes of a run that are unpacked without a part */

/* ---- One run after the other ----------------------------------------------------------------- */

static stk__codec_state *take_state(stk__container_store *store)
{
    stk__codec_state *state = NULL;

    pthread_mutex_lock(&store->mutex);
    if (store->num_states)
        state = store->states[--store->num_states];
    pthread_mutex_unlock(&store->mutex);
    if (!state && stk__codec_state_create(store->base.context, &state, NULL) != STK_OK)
        return NULL;
    return state;
}

static void give_state(stk__container_store *store, stk__codec_state *state)
{
    pthread_mutex_lock(&store->mutex);
    if (store->num_states < STK_COUNT(store->states)) {
        store->states[store->num_states++] = state;
        state = NULL;
    }
    pthread_mutex_unlock(&store->mutex);
    stk__codec_state_destroy(&state);
}

/* Unpack one run into `out`, which has room for all of it. */
static stk_status unpack_run(stk__container_store *store, stk__codec_state *state,
                             const stk__container_run *run, const void *stored, void *out,
                             const char **reason)
{
    const stk__container *c = store->container;

    STK_TRY(c->format->decode(c, c->tables, state, run, stored, out, reason));
    if (!run->has_sum || stk__crc32(out, run->decoded) == run->sum)
        return STK_OK;
    *reason = "its checksum does not match its bytes; copy or download the archive again";
    return STK_ECHECKSUM;
}

bool stk__container_unpack_now(stk__container_store *store, const stk__container_run *run,
                               void *out)
{
    uint8_t stored[NOW_MOST];
    const char *reason = NULL;

    if (run->stored > sizeof stored ||
        !stk__store_read_now(store->inner, store->key, run->at, run->stored, stored))
        return false;
    stk__codec_state *state = take_state(store);
    if (!state)
        return false;
    const stk_status status = unpack_run(store, state, run, stored, out, &reason);
    give_state(store, state);
    return status == STK_OK;
}

/* Unpack the runs of a part, or the one that it carries. */
static stk_status unpack_all(stk__container_part *part, stk__codec_state *state,
                             const char **reason)
{
    stk__container_reading *r = part->reading;
    stk__container_run run;

    for (uint64_t done = 0; done < part->length; done += run.length) {
        STK_TRY(stk__container_find_run(r->store->container, r->file, part->from + done, &run));
        void *out = part->carries ? (void *)part->carries->data
                                  : stk__container_place_of(r, part->from + done);
        STK_TRY(unpack_run(r->store, state, &run, part->buffer + (run.at - part->at), out, reason));
    }
    return STK_OK;
}

static void run_job(stk__container_part *part)
{
    stk__container_reading *r = part->reading;
    stk__codec_state *state = take_state(r->store);
    const char *reason = NULL;
    stk_status status = STK_ENOMEM;

    if (state) {
        status = unpack_all(part, state, &reason);
        give_state(r->store, state);
    }
    if (status != STK_OK && reason)
        stk__container_warn(r->store, r->file, reason);
    if (part->carries)
        stk__container_block_end(part, status, 0);
    else
        stk__container_end_one(r, status, 0);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void work(void *argument)
{
    stk__container_store *store = argument;

    stk__thread_background();
    pthread_mutex_lock(&store->mutex);
    while (!store->stopping) {
        stk__container_part *part = store->first_job;
        if (!part) {
            store->idle_unpackers++;
            pthread_cond_wait(&store->work, &store->mutex);
            store->idle_unpackers--;
            continue;
        }
        store->first_job = part->next_job;
        if (!store->first_job)
            store->last_job = NULL;
        pthread_mutex_unlock(&store->mutex);
        run_job(part);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
}

/* Have a thread that can take a job, with the mutex held, which is let go meanwhile. False: there
 * is none. */
static bool find_thread_locked(stk__container_store *store)
{
    stk_cores cores = {.struct_size = sizeof cores};

    if (store->idle_unpackers)
        return true;
    stk_context_cores(store->base.context, &cores);
    if (store->num_unpackers >= STK_MIN(cores.usable, (uint32_t)STK__CONTAINER_UNPACKERS))
        return store->running_unpackers > 0;
    stk__thread *thread = &store->unpackers[store->num_unpackers++];
    pthread_mutex_unlock(&store->mutex);
    const stk_status status =
        stk__thread_start(store->base.context, thread, "stk-unpack", work, store, NULL);
    pthread_mutex_lock(&store->mutex);
    /* The place of one that failed stays taken: it is not tried again and again. */
    store->running_unpackers += status == STK_OK;
    return store->running_unpackers > 0;
}

void stk__container_unpack(stk__container_part *part)
{
    stk__container_store *store = part->reading->store;
    const bool here = part->inner.needed_next && pthread_equal(part->sender, pthread_self());

    pthread_mutex_lock(&store->mutex);
    const bool handed = !here && find_thread_locked(store);
    if (handed) {
        part->next_job = NULL;
        *(store->last_job ? &store->last_job->next_job : &store->first_job) = part;
        store->last_job = part;
        pthread_cond_signal(&store->work);
    }
    pthread_mutex_unlock(&store->mutex);
    if (!handed)
        run_job(part);
}

void stk__container_unpackers_end(stk__container_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->stopping = true;
    pthread_cond_broadcast(&store->work);
    pthread_mutex_unlock(&store->mutex);
    for (uint32_t i = 0; i < store->num_unpackers; i++)
        stk__thread_join(&store->unpackers[i]);
    for (uint32_t i = 0; i < store->num_states; i++)
        stk__codec_state_destroy(&store->states[i]);
}
