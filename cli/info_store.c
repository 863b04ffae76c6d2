/* SPDX-License-Identifier: Apache-2.0 */
/* stoker info --store: what a store gives: latency, reads a second, bandwidth; in order and at
 * random, one read at a time and many. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stoker/measure.h>
#include <stoker/store.h>

#include "info.h"

enum { OBJECTS = 256, FOLDERS = 16, DEPTH = 32, SMALL = 4096, LARGE = 1 << 20, READS = 4096 };

#define SECONDS 0.4 /* of each measurement, at most */
#define NS      1e-9

const stk_option_table *info_store_table(void)
{
    static const stk_option rows[] = {
        {"store", STK_OPTION_BOOL, offsetof(struct info_store_options, store), "false", 0, 0, NULL,
         NULL,
         "Measure the store at a URL or path instead: latency, reads a second, bandwidth, in order "
         "and at random."},
    };
    static const stk_option_table table = {.name = "",
                                           .doc = "A store",
                                           .struct_size = sizeof(struct info_store_options),
                                           .options = rows,
                                           .count = 1};

    return &table;
}

/* ---- What there is to read ------------------------------------------------------------------- */

struct object {
    char *key;
    uint64_t size;
};

struct found {
    struct object objects[OBJECTS];
    char *folders[FOLDERS];
    size_t num_objects, num_folders;
    uint64_t bytes;
};

static stk_status take_object(void *user, const char *key, const stk_object_info *info)
{
    struct found *found = user;
    char *copy = strdup(key);

    if (!copy)
        return STK_ENOMEM;
    if (info->is_folder && found->num_folders < FOLDERS) {
        found->folders[found->num_folders++] = copy;
        return STK_OK;
    }
    if (info->is_folder || info->size == 0 || found->num_objects == OBJECTS) {
        free(copy);
        return STK_OK;
    }
    found->objects[found->num_objects++] = (struct object){copy, info->size};
    found->bytes += info->size;
    return STK_OK;
}

static stk_status find_objects(stk_store *store, const char *key, struct found *found,
                               stk_error *err)
{
    if (*key) {
        stk_object_info info = {.struct_size = sizeof info};
        stk_status status = stk_store_stat(store, key, &info, err);
        return status == STK_OK ? take_object(found, key, &info) : status;
    }
    stk_status status = stk_store_list(store, "", take_object, found, err);
    for (size_t i = 0; i < found->num_folders && found->num_objects < OBJECTS && status == STK_OK;
         i++)
        status = stk_store_list(store, found->folders[i], take_object, found, err);
    return status;
}

static void release(struct found *found)
{
    for (size_t i = 0; i < found->num_objects; i++)
        free(found->objects[i].key);
    for (size_t i = 0; i < found->num_folders; i++)
        free(found->folders[i]);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

struct meter;

struct slot {
    stk_read read;
    struct meter *meter;
    uint64_t start_ns;
    bool busy;
};

/* Reads of one kind. */
struct meter {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    struct slot slots[DEPTH];
    uint64_t reads, bytes, failures, under_way;
    double took[READS];
};

static void on_done(stk_read *read, stk_status status)
{
    struct slot *slot = read->user;
    struct meter *m = slot->meter;
    const uint64_t now = cli_now_ns();

    pthread_mutex_lock(&m->lock);
    m->failures += status != STK_OK;
    if (m->reads < READS)
        m->took[m->reads] = NS * (double)(now - slot->start_ns);
    m->reads++;
    m->bytes += status == STK_OK ? read->length : 0;
    m->under_way--;
    slot->busy = false;
    pthread_cond_signal(&m->ended);
    pthread_mutex_unlock(&m->lock);
}

/* The next place to read: in order through the objects, or anywhere. */
struct cursor {
    const struct found *found;
    bool random;
    uint64_t state, at;
    size_t object;
};

static void next_place(struct cursor *c, struct slot *slot, uint64_t length)
{
    const struct object *o;

    if (c->random) {
        c->state = c->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        o = &c->found->objects[(c->state >> 33) % c->found->num_objects];
        const uint64_t blocks = o->size / length;
        slot->read.offset = blocks ? (c->state >> 11) % blocks * length : 0;
    } else {
        if (c->at >= c->found->objects[c->object].size) {
            c->object = (c->object + 1) % c->found->num_objects;
            c->at = 0;
        }
        o = &c->found->objects[c->object];
        slot->read.offset = c->at;
        c->at += length;
    }
    slot->read.key = o->key;
    slot->read.length = o->size - slot->read.offset < length ? o->size - slot->read.offset : length;
}

static struct slot *free_slot(struct meter *m, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++)
        if (!m->slots[i].busy)
            return &m->slots[i];
    return NULL;
}

/* Read until the time is over or an answer is known well enough; seconds that it took. */
static double read_for(stk_store *store, struct meter *m, struct cursor *c, uint64_t length,
                       uint32_t depth)
{
    const uint64_t start = cli_now_ns(), until = start + (uint64_t)(SECONDS / NS);

    pthread_mutex_lock(&m->lock);
    m->reads = m->bytes = m->failures = 0;
    while (m->reads < READS && !cli_interrupted() && (cli_now_ns() < until || m->reads == 0)) {
        struct slot *slot = free_slot(m, depth);
        if (!slot) {
            pthread_cond_wait(&m->ended, &m->lock);
            continue;
        }
        next_place(c, slot, length);
        slot->busy = true;
        slot->start_ns = cli_now_ns();
        m->under_way++;
        pthread_mutex_unlock(&m->lock);
        if (store->ops->submit(store, &slot->read) != STK_OK)
            on_done(&slot->read, STK_EIO);
        pthread_mutex_lock(&m->lock);
    }
    while (m->under_way)
        pthread_cond_wait(&m->ended, &m->lock);
    pthread_mutex_unlock(&m->lock);
    return NS * (double)(cli_now_ns() - start);
}

enum { ONE, MANY, ALONE, IN_ORDER, RANDOM, TESTS };

static const struct test {
    const char *name;
    uint64_t length;
    uint32_t depth;
    bool random;
} tests[TESTS] = {
    [ONE] = {"random 4 KiB, 1 at a time", SMALL, 1, true},
    [MANY] = {"random 4 KiB, 32 at a time", SMALL, DEPTH, true},
    [ALONE] = {"in order 1 MiB, 1 at a time", LARGE, 1, false},
    [IN_ORDER] = {"in order 1 MiB, 8 at a time", LARGE, 8, false},
    [RANDOM] = {"random 1 MiB, 8 at a time", LARGE, 8, true},
};

/* What a test gave: seconds of a read, the median; reads and bytes a second. */
struct outcome {
    double latency, reads, bytes;
};

static struct outcome measure(stk_store *store, struct meter *m, const struct found *found,
                              const struct test *test, struct lines *lines)
{
    struct cursor c = {.found = found, .random = test->random, .state = test->length + test->depth};
    char text[200];
    stk_spread spread;

    const double seconds = read_for(store, m, &c, test->length, test->depth);
    stk_spread_of(m->took, m->reads < READS ? m->reads : READS, &spread);
    const struct outcome out = {spread.p50, (double)m->reads / seconds, (double)m->bytes / seconds};
    snprintf(text, sizeof text, "%.0f reads/s, %.1f MB/s, %.3g ms each (p95 %.3g ms)%s", out.reads,
             out.bytes / 1e6, 1e3 * out.latency, 1e3 * spread.p95,
             m->failures ? ", some failed" : "");
    lines_add(lines, test->name, text);
    return out;
}

/* What kind of store gives that, and what to do about it. */
static void conclude(const struct outcome outcomes[TESTS], struct lines *lines)
{
    const struct outcome *one = &outcomes[ONE], *many = &outcomes[MANY],
                         *in_order = &outcomes[IN_ORDER], *random = &outcomes[RANDOM];
    stk_storage_answer answer = {.struct_size = sizeof answer};
    char text[200];

    stk_storage_judge(&(stk_storage_figures){.struct_size = sizeof(stk_storage_figures),
                                             .latency = one->latency,
                                             .one_per_s = one->reads,
                                             .many_per_s = many->reads,
                                             .in_order_bytes = in_order->bytes,
                                             .random_bytes = random->bytes,
                                             .small = SMALL,
                                             .many = DEPTH},
                      &answer);
    snprintf(text, sizeof text, "like %s: %.3g ms a small read, %.1f times as many with %d at once",
             stk_storage_name(answer.storage), 1e3 * one->latency,
             one->reads > 0 ? many->reads / one->reads : 0, DEPTH);
    lines_add(lines, "answers", text);
    snprintf(text, sizeof text, "%" PRIu32 "%s", answer.io_depth,
             answer.io_depth > DEPTH ? " or more: the rate still grew with the reads at once"
                                     : ": more reads at once give no more");
    lines_add(lines, "io_depth", text);
    snprintf(text, sizeof text, "%.1f times as fast as at random%s",
             random->bytes > 0 ? in_order->bytes / random->bytes : 0,
             answer.in_order ? ": shuffle: block, chunks and shards read whole"
                             : "; any order will do");
    lines_add(lines, "in order", text);
    snprintf(text, sizeof text, "%.1f times the bytes a second of small reads%s",
             many->bytes > 0 ? in_order->bytes / many->bytes : 0,
             answer.pack ? ": many small files want packing" : "; small files cost little");
    lines_add(lines, "large reads", text);
}

/* ---- The command ----------------------------------------------------------------------------- */

int info_store(struct cli *cli, stk_context *context, const char *url, struct lines *lines)
{
    struct found *found = calloc(1, sizeof *found);
    struct meter *m = calloc(1, sizeof *m);
    char *room = calloc(DEPTH, LARGE), key[4096], text[100];
    struct outcome outcomes[TESTS] = {{0}};
    stk_store *store = NULL;
    stk_error err;
    int code = CLI_FAILED;

    if (m) {
        pthread_mutex_init(&m->lock, NULL);
        pthread_cond_init(&m->ended, NULL);
    }
    if (!found || !m || !room) {
        cli_error("no memory to measure a store");
        goto out;
    }
    for (size_t i = 0; i < DEPTH; i++) {
        m->slots[i].meter = m;
        m->slots[i].read = (stk_read){.struct_size = sizeof m->slots[i].read,
                                      .data = room + i * LARGE,
                                      .done = on_done,
                                      .user = &m->slots[i]};
    }
    stk_status status = stk_store_open(context, url, &store, key, sizeof key, &err);
    if (status == STK_OK)
        status = find_objects(store, key, found, &err);
    if (status != STK_OK) {
        code = cli_fail(cli, status, &err);
        goto out;
    }
    if (found->num_objects == 0) {
        cli_error("%s: no file in it, nor in its folders: there is nothing to read", url);
        goto out;
    }
    snprintf(text, sizeof text, "%zu files read, %.1f MB in all", found->num_objects,
             (double)found->bytes / 1e6);
    lines_add(lines, "store", url);
    lines_add(lines, "objects", text);
    for (size_t i = 0; i < TESTS && !cli_interrupted(); i++)
        outcomes[i] = measure(store, m, found, &tests[i], lines);
    if (!cli_interrupted())
        conclude(outcomes, lines);
    lines_add(
        lines, "note",
        "files in the page cache cost no disk: drop it first, or take files that nobody read");
    code = cli_interrupted() ? cli_interrupted() : CLI_GOOD;
out:
    stk_store_close(&store);
    if (found)
        release(found);
    if (m) {
        pthread_cond_destroy(&m->ended);
        pthread_mutex_destroy(&m->lock);
    }
    free(found);
    free(m);
    free(room);
    return code;
}
