/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of checkpoints in a store: each is put by its own writer, the first behind the marks of all
 * others, and they go behind the last object that is the first of them. */
#include <glob.h>

#include "checkpoint/parts.h"
#include "uploads.h"

enum { PARTS = 3, VALUES = 6 };

/* Writers beside that of the world, which is the first's. */
typedef struct ranks {
    world *w;
    stk__checkpoint_writer *writers[PARTS];
} ranks;

static void open_ranks(ranks *r, world *w, uint64_t deadline_ns)
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

static void close_ranks(ranks *r)
{
    stk__checkpoint_writer_destroy(&r->w->writer);
    for (int k = 1; k < PARTS; k++)
        stk__checkpoint_writer_destroy(&r->writers[k]);
}

static stk__checkpoint_part draw(void)
{
    stk__checkpoint_part part = {.count = PARTS};

    stk__checkpoint_part_draw(&part);
    return part;
}

/* What rank `k` has of a tensor of 2 x 3 values that begin with the step. */
static void save_part(ranks *r, stk__checkpoint_part part, uint32_t k, const char *url, float step,
                      const char *replaces)
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
    assert_ok(stk__checkpoint_flush(r->writers[k], &err), &err);
}

static void save_all(ranks *r, const stk__checkpoint_part *part, const char *url, float step,
                     const char *replaces)
{
    for (uint32_t k = 0; k < PARTS; k++)
        save_part(r, *part, k, url, step, replaces);
}

/* The others first: what they have is waited for no longer. */
static void upload_all(ranks *r)
{
    for (uint32_t k = PARTS; k-- > 0;)
        stk__checkpoint_upload(r->writers[k]);
}

static void assert_whole(ranks *r, const char *url, float step)
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

static const char *part_url(const ranks *r, const char *url, const stk__checkpoint_part *part,
                            uint32_t k)
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
static int count_parts(const ranks *r, const char *url, const stk__checkpoint_part *part)
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

/* ---- Order ----------------------------------------------------------------------------------- */

static const char *logged(const world *w, const char *text)
{
    const char *found = strstr(w->log, text);

    if (!found)
        fail_msg("'%s' is not in\n%s", text, w->log);
    return found;
}

static void the_first_comes_last(void **state)
{
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    const stk__checkpoint_part part = draw();
    for (uint32_t k = 0; k < PARTS; k++) {
        save_part(&r, part, k, "noted://p/x.ckpt", 1, NULL);
        /* Not before all are there. */
        if (k + 1 < PARTS && k)
            stk__checkpoint_upload(r.writers[k]);
        if (k + 1 < PARTS)
            assert_false(is_there(w, "noted://p/x.ckpt"));
    }
    upload_all(&r);
    const char *first = logged(w, "put x.ckpt\n");
    for (uint32_t k = 1; k < PARTS; k++) {
        char mark[600];
        snprintf(mark, sizeof mark, "put %s" STK__UPLOAD_MARK "\n",
                 strrchr(part_url(&r, "noted://p/x.ckpt", &part, k), '/') + 1);
        assert_true(logged(w, mark) < first);
    }
    assert_true(first < logged(w, "put x.ckpt.complete\n"));
    assert_whole(&r, "noted://p/x.ckpt", 1);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
    assert_int_equal(left(w), 0);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void parts_go_behind_the_last_name(void **state)
{
    static const char *const a = "noted://n/a.ckpt", *const b = "noted://n/b.ckpt",
                             *const last = "noted://n/last.ckpt", *const other = "noted://o/c.ckpt";
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    const stk__checkpoint_part first = draw(), second = draw(), third = draw();
    save_all(&r, &first, a, 1, NULL);
    assert_ok(stk__checkpoint_link(w->writer, a, last, &err), &err);
    flush(w);
    upload_all(&r);
    save_all(&r, &second, b, 2, a);
    upload_all(&r);
    assert_false(is_there(w, a));
    assert_whole(&r, last, 1);
    assert_int_equal(count_parts(&r, a, &first), 4);
    /* The name is another's, and so are the parts. */
    assert_ok(stk__checkpoint_link(w->writer, b, last, &err), &err);
    flush(w);
    upload_all(&r);
    assert_whole(&r, last, 2);
    assert_int_equal(count_parts(&r, a, &first), 0);
    /* The mark of the first goes first. */
    const char *gone = logged(w, "remove a.ckpt.complete\nremove a.ckpt\n");
    assert_true(gone < logged(w, strrchr(part_url(&r, a, &first, 1), '/') + 1) ||
                gone < strstr(gone, "-00001-of-"));
    /* In another folder it has parts of its own. */
    assert_ok(stk__checkpoint_link(w->writer, b, other, &err), &err);
    flush(w);
    upload_all(&r);
    assert_whole(&r, other, 2);
    assert_int_equal(count_parts(&r, other, &second), 4);
    /* The same name once more. */
    save_all(&r, &third, b, 3, last);
    upload_all(&r);
    assert_whole(&r, b, 3);
    assert_whole(&r, other, 2);
    assert_false(is_there(w, last));
    assert_int_equal(count_parts(&r, b, &second), 0);
    assert_int_equal(count_parts(&r, b, &third), 4);
    /* And one file in its place. */
    save(w, b, 4, NULL);
    upload(w);
    assert_float_equal(value_of(w, b), 4, 0);
    assert_int_equal(count_parts(&r, b, &third), 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
}

/* ---- A slow store ---------------------------------------------------------------------------- */

/* Until the first looks for a part, as nothing else is looked at while puts wait. */
static void await_look(world *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->looks)
        stk__cond_wait_until(&w->moved, &w->lock, UINT64_MAX);
    pthread_mutex_unlock(&w->lock);
}

static void tell_voids(ranks *r, size_t expected)
{
    stk__checkpoint_part voids[8];
    const size_t n = stk__checkpoint_voids(r->w->writer, voids, 8);

    assert_int_equal(n, expected);
    for (uint32_t k = 1; k < PARTS; k++)
        stk__checkpoint_void(r->writers[k], voids, n);
}

/* Until the store has it; false: it never has. */
static bool await_put_of(world *w, const char *name)
{
    const uint64_t end = stk__now_ns() + UINT64_C(20000000000);
    bool there = false;

    pthread_mutex_lock(&w->lock);
    while (!there && stk__now_ns() < end) {
        there = strstr(w->log, name);
        if (!there)
            stk__cond_wait_until(&w->moved, &w->lock, stk__now_ns() + 1000000);
    }
    pthread_mutex_unlock(&w->lock);
    return there;
}

/* The first that was begun is sent to its end, and then what is new: all ranks know which. */
static void a_slow_store_gets_what_is_new(void **state)
{
    static const char *const urls[] = {"noted://s/1.ckpt", "noted://s/2.ckpt", "noted://s/3.ckpt"};
    const stk__checkpoint_part parts[] = {draw(), draw(), draw()};
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    hold(w, true);
    for (uint32_t k = PARTS; k-- > 0;)
        save_part(&r, parts[0], k, urls[0], 1, NULL);
    await_look(w);
    save_all(&r, &parts[1], urls[1], 2, urls[0]);
    tell_voids(&r, 0);
    for (uint32_t k = 0; k < PARTS - 1; k++)
        save_part(&r, parts[2], k, urls[2], 3, urls[1]);
    tell_voids(&r, 1);
    hold(w, false);
    assert_true(await_put_of(w, "put 1.ckpt.complete\n"));
    save_part(&r, parts[2], PARTS - 1, urls[2], 3, urls[1]);
    upload_all(&r);
    assert_null(strstr(w->log, "put 2.ckpt"));
    assert_false(is_there(w, urls[0]));
    assert_whole(&r, urls[2], 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(count_parts(&r, urls[i], &parts[i]), i == 2 ? 4 : 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
    assert_int_equal(left(w), 0);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* A part that nobody puts any more is not waited for: the first stays here, without a mark. */
static void a_part_that_does_not_come(void **state)
{
    static const char *const url = "noted://f/x.ckpt", *const next = "noted://f/y.ckpt";
    const stk__checkpoint_part lost = draw(), part = draw();
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_part(&r, lost, 0, url, 1, NULL);
    save_part(&r, lost, 2, url, 1, NULL);
    stk__checkpoint_upload(r.writers[2]);
    stk__checkpoint_upload(w->writer);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "the part of rank 1 of 3 is not in the store"));
    assert_false(is_there(w, url));
    assert_false(is_there(w, "noted://f/x.ckpt.complete"));
    /* What is saved later, and whole, is put; the one before is given up, and is void. */
    save_all(&r, &part, next, 2, NULL);
    upload_all(&r);
    assert_whole(&r, next, 2);
    assert_false(is_there(w, url));
    tell_voids(&r, 1);
    upload_all(&r);
    assert_int_equal(count_parts(&r, next, &part), 4);
    assert_int_equal(count_parts(&r, url, &lost), 0);
    close_ranks(&r);
    assert_int_equal(w->warnings, 2);
    assert_non_null(strstr(w->warning, "will not be in the store: the part of rank 1 of 3"));
    assert_int_equal(left(w), 0);
}

/* Without room here each goes straight to the store, in the same order. */
static void without_room_here(void **state)
{
    const stk__upload_options nowhere = {"/dev/null/x", 20000000, NULL, NULL};
    static const char *const url = "noted://r/x.ckpt";
    stk__checkpoint_part part = draw();
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, 20000000);
    for (int k = 0; k < PARTS; k++)
        assert_ok(stk__checkpoint_upload_by(r.writers[k], &nowhere, &err), &err);
    for (uint32_t k = PARTS; k-- > 0;)
        save_part(&r, part, k, url, 1, NULL);
    assert_whole(&r, url, 1);
    assert_true(is_there(w, "noted://r/x.ckpt.complete"));
    assert_int_equal(w->warnings, 0);
    /* A part that is lost so leaves none: once the others have failed, at once. */
    part = draw();
    w->failures = 1;
    save_part(&r, part, 1, "noted://r/y.ckpt", 2, NULL);
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "is lost, and training goes on"));
    close_ranks(&r);
}

/* ---- Together -------------------------------------------------------------------------------- */

/* Threads that add their numbers up. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t met;
    int here, round;
    double sums[STK__UPLOAD_SUMS], last[STK__UPLOAD_SUMS];
} meeting;

static stk_status meet(void *user, double sums[STK__UPLOAD_SUMS])
{
    meeting *m = user;

    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < STK__UPLOAD_SUMS; i++)
        m->sums[i] += sums[i];
    const int round = m->round;
    if (++m->here == PARTS) {
        memcpy(m->last, m->sums, sizeof m->last);
        memset(m->sums, 0, sizeof m->sums);
        m->here = 0;
        m->round++;
        pthread_cond_broadcast(&m->met);
    }
    while (m->round == round)
        pthread_cond_wait(&m->met, &m->lock);
    memcpy(sums, m->last, sizeof m->last);
    pthread_mutex_unlock(&m->lock);
    return STK_OK;
}

typedef struct waiter {
    pthread_t thread;
    stk__checkpoint_writer *writer;
    meeting *m;
    bool all;
} waiter;

static void *wait_with_others(void *argument)
{
    waiter *self = argument;

    self->all = stk__checkpoint_upload_together(self->writer, meet, self->m);
    return NULL;
}

/* All hear the same. */
static bool upload_together(ranks *r)
{
    meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER, .met = PTHREAD_COND_INITIALIZER};
    waiter waiters[PARTS];

    for (int k = 0; k < PARTS; k++) {
        waiters[k] = (waiter){.writer = r->writers[k], .m = &m};
        assert_int_equal(pthread_create(&waiters[k].thread, NULL, wait_with_others, &waiters[k]),
                         0);
    }
    for (int k = 0; k < PARTS; k++)
        pthread_join(waiters[k].thread, NULL);
    for (int k = 1; k < PARTS; k++)
        assert_int_equal(waiters[k].all, waiters[0].all);
    return waiters[0].all;
}

/* The one that gets on keeps all from giving up, and one that cannot fails all. */
static void all_hear_of_one(void **state)
{
    static const char *const url = "noted://t/x.ckpt";
    stk__checkpoint_part part = draw();
    world *w = *state;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_all(&r, &part, url, 1, NULL);
    assert_true(upload_together(&r));
    assert_whole(&r, url, 1);
    /* One part is nowhere: the others have theirs in the store and do not wait. */
    part = draw();
    save_part(&r, part, 0, url, 2, NULL);
    save_part(&r, part, 1, url, 2, NULL);
    assert_false(upload_together(&r));
    assert_int_equal(w->warnings, 1);
    assert_non_null(strstr(w->warning, "the part of rank 2 of 3 is not in the store"));
    assert_whole(&r, url, 1);
    close_ranks(&r);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void put_bytes(world *w, const char *url, const void *bytes, size_t n)
{
    stk__put_place place = {.context = w->ctx};
    stk_error err;

    assert_ok(stk__url_put(&place, url, bytes, n, &err), &err);
    stk__put_place_close(&place);
}

static size_t get_bytes(world *w, const char *url, uint8_t *bytes, size_t room)
{
    stk_object_info info = {.struct_size = sizeof info};
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store;
    stk_error err;

    assert_ok(stk_store_open(w->ctx, url, &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    assert_true(info.size <= room);
    assert_ok(stk_store_read(store, key, 0, info.size, bytes, &err), &err);
    stk_store_close(&store);
    return (size_t)info.size;
}

/* It is no checkpoint, whoever asks, and the one before is the newest. */
static void assert_torn(world *w, const char *url, stk_status status, const char *message)
{
    const stk__newest_where where = {.runs = "noted://torn"};
    stk__checkpoint *c = NULL;
    char file[400], found[300];
    stk_error err;

    snprintf(file, sizeof file, "%s/file.ckpt", w->dir);
    assert_fails(stk__checkpoint_open(w->ctx, url, &c, &err), status, &err, message);
    assert_fails(stk__checkpoint_verify(w->ctx, url, &err), status, &err, message);
    assert_fails(stk_checkpoint_consolidate(w->ctx, url, file, NULL, &err), status, &err, message);
    assert_int_not_equal(access(file, F_OK), 0);
    assert_ok(stk__checkpoint_newest(w->ctx, &where, found, sizeof found, &err), &err);
    assert_string_equal(found, "noted://torn/1.ckpt");
}

static void torn_parts(void **state)
{
    static const char *const url = "noted://torn/2.ckpt";
    uint8_t bytes[8192], other[8192];
    char found[300], file[400];
    world *w = *state;
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save(w, "noted://torn/1.ckpt", 1, NULL);
    const stk__checkpoint_part part = draw(), foreign = draw();
    save_all(&r, &part, url, 2, NULL);
    save_all(&r, &foreign, "noted://torn/other/x.ckpt", 2, NULL);
    upload_all(&r);
    const char *one = part_url(&r, url, &part, 1);
    const size_t n = get_bytes(w, one, bytes, sizeof bytes);

    stk__put_place place = {.context = w->ctx};
    assert_ok(stk__url_remove(&place, "noted://torn/other/x.ckpt.complete", &err), &err);
    assert_ok(stk__url_remove(&place, one, &err), &err);
    stk__put_place_close(&place);
    assert_torn(w, url, STK_ENOENT, "lies in 3 parts, and part 1 is not there");
    put_bytes(w, one, bytes, n - 8);
    assert_torn(w, url, STK_ETRUNCATED, one);
    bytes[n - 1] ^= 1;
    put_bytes(w, one, bytes, n);
    assert_torn(w, url, STK_ECHECKSUM, one);
    bytes[n - 1] ^= 1;
    size_t m = get_bytes(w, part_url(&r, url, &part, 2), other, sizeof other);
    put_bytes(w, one, other, m);
    assert_torn(w, url, STK_EFORMAT, "it is of another save");
    m = get_bytes(w, part_url(&r, "noted://torn/other/x.ckpt", &foreign, 1), other, sizeof other);
    put_bytes(w, one, other, m);
    assert_torn(w, url, STK_EFORMAT, "it is of another save");

    put_bytes(w, one, bytes, n);
    const stk__newest_where where = {.runs = "noted://torn"};
    assert_ok(stk__checkpoint_newest(w->ctx, &where, found, sizeof found, &err), &err);
    assert_string_equal(found, url);
    snprintf(file, sizeof file, "%s/file.ckpt", w->dir);
    assert_ok(stk_checkpoint_consolidate(w->ctx, url, file, NULL, &err), &err);
    assert_whole(&r, file, 2);
    close_ranks(&r);
}

/* ---- What nobody needs ----------------------------------------------------------------------- */

/* Parts of a save that ended before its first was put go when a run goes on, where nobody may be at
 * work. */
static void left_parts_are_removed(void **state)
{
    static const char *const a = "noted://v/version_0/a.ckpt";
    const stk__newest_where goes_on = {.runs = "noted://v", .goes_on = true},
                            looks = {.runs = "noted://v"};
    const stk__checkpoint_part needed = draw(), orphan = draw();
    world *w = *state;
    char found[300];
    stk_error err;
    ranks r;

    open_ranks(&r, w, UINT64_C(60000000000));
    save_all(&r, &needed, a, 1, NULL);
    save_part(&r, orphan, 1, a, 2, NULL);
    save_part(&r, orphan, 2, a, 2, NULL);
    upload_all(&r);
    put_bytes(w, "noted://v/version_0/checkpoint.parts/notes.safetensors", "x", 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_parts(&r, a, &orphan), 4);
        w->age = i == 1 ? 1000 : i == 2 ? 500 : 0;
        const stk__newest_where *where = i == 1 ? &looks : &goes_on;
        assert_ok(stk__checkpoint_newest(w->ctx, where, found, sizeof found, &err), &err);
    }
    w->age = 1000;
    assert_ok(stk__checkpoint_newest(w->ctx, &goes_on, found, sizeof found, &err), &err);
    assert_string_equal(found, a);
    assert_int_equal(count_parts(&r, a, &orphan), 0);
    assert_true(is_there(w, "noted://v/version_0/checkpoint.parts/notes.safetensors"));
    assert_whole(&r, a, 1);
    /* As one file in its own place it needs none. */
    assert_ok(stk_checkpoint_consolidate(w->ctx, a, a, NULL, &err), &err);
    assert_whole(&r, a, 1);
    assert_int_equal(count_parts(&r, a, &needed), 0);
    assert_int_equal(w->warnings, 0);
    close_ranks(&r);
}

/* ---- What a run left ------------------------------------------------------------------------- */

/* A byte of a file that waits for its upload. */
static void damage(const world *w, const char *name)
{
    char pattern[700];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*/*/%s", w->dir, name);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    FILE *f = fopen(found.gl_pathv[0], "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    fputc(byte ^ 1, f);
    fclose(f);
    globfree(&found);
}

/* One process finds what all have left, in whatever order, and puts the first last; a damaged part
 * stays, and so does the first. */
static void what_runs_left_is_put(void **state)
{
    static const char *const url = "noted://l/run/x.ckpt";
    world *w = *state;
    stk_error err;

    for (int damaged = 0; damaged < 2; damaged++) {
        const stk__checkpoint_part part = draw();
        ranks r;
        open_ranks(&r, w, 20000000);
        w->failures = -1;
        save_all(&r, &part, url, 1, NULL);
        close_ranks(&r);
        assert_int_equal(left(w), PARTS);
        w->failures = 0;
        w->warnings = 0;
        *w->log = 0;
        if (damaged)
            damage(w, strrchr(part_url(&r, url, &part, 1), '/') + 1);
        open_writer(w, UINT64_C(60000000000));
        assert_ok(stk__checkpoint_upload_left(w->writer, "noted://l/run", &err), &err);
        stk__checkpoint_upload(w->writer);
        if (damaged) {
            assert_null(strstr(w->log, "put x.ckpt\n"));
            assert_int_equal(w->warnings, 2);
            assert_non_null(strstr(w->warning, "the part of rank 1 of 3 is not in the store"));
        } else {
            assert_whole(&r, url, 1);
            assert_true(logged(w, "-00002-of-00003.safetensors.complete\n") <
                        logged(w, "put x.ckpt\n"));
            assert_int_equal(w->warnings, 0);
            stk__put_place place = {.context = w->ctx};
            assert_ok(stk__url_remove(&place, "noted://l/run/x.ckpt.complete", &err), &err);
            stk__put_place_close(&place);
        }
        stk__checkpoint_writer_destroy(&w->writer);
        assert_int_equal(left(w), damaged ? 2 : 0);
        open_writer(w, UINT64_C(60000000000));
    }
}

/* ---- Which stores ---------------------------------------------------------------------------- */

static void stores_of_all_machines(void **state)
{
    static const struct {
        const char *url;
        bool is;
    } urls[] = {{"s3://b/run/x.ckpt", true},
                {"gs://b/x.ckpt", true},
                {"slow+s3://b/x.ckpt?latency=1ms", true},
                {"mem://b/x.ckpt", false},
                {"http://h/x.ckpt", false},
                {"zip:s3://b/a.zip!/x.ckpt", false},
                {"/tmp/x.ckpt", false},
                {"file:///tmp/x.ckpt", false},
                {"nobody://b/x.ckpt", false}};
    const world *w = *state;

    for (size_t i = 0; i < STK_COUNT(urls); i++)
        if (stk__checkpoint_parts_store(w->ctx, urls[i].url) != urls[i].is)
            fail_msg("%s", urls[i].url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_comes_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_go_behind_the_last_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_store_gets_what_is_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_that_does_not_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_room_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_hear_of_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(torn_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(left_parts_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_runs_left_is_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stores_of_all_machines, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("checkpoint/upload_parts", tests, NULL, NULL);
}
