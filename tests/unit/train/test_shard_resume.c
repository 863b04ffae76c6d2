/* SPDX-License-Identifier: Apache-2.0 */
/* Going on from checkpoints in parts: each rank reads its own part where the ranks are as many and
 * share as much out as before, else ranges, and each part is verified by one of them; a part that
 * is not there, damaged or another's is named by all. */
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/parts.h"
#include "unit/train/shards.h"

enum { MANY_PARTS = 5 };

/* ---- A store that counts --------------------------------------------------------------------- */

/* Bytes that each rank has read of each file of a checkpoint; part 0 is the first. */
static struct {
    uint64_t bytes[MAX_RANKS + 1][MANY_PARTS];
    char elsewhere[256]; /* where one rank reads from, `away`; empty: where all do */
    uint64_t away;
} seen;

static _Thread_local uint64_t number; /* of the rank of this thread */
static stk_store_ops counting;

static stk_status counting_submit(stk_store *store, stk_read *read)
{
    const char *slash = strrchr(read->key, '/');
    stk__checkpoint_part part;

    if (!stk__part_name_parse(slash ? slash + 1 : read->key, &part))
        part.number = 0;
    seen.bytes[number][part.number] += read->length;
    return stk__store_file.submit(store, read);
}

static stk_status counting_open(stk_context *ctx, const char *url, const void *options,
                                stk_store **out, stk_error *err)
{
    const bool away = *seen.elsewhere && number == seen.away;
    char file[600];

    if (away)
        snprintf(file, sizeof file, "file:%s%s", seen.elsewhere, strstr(url, "/checkpoints"));
    else
        snprintf(file, sizeof file, "file%s", strchr(url, ':'));
    STK_TRY(stk__store_file.open(ctx, file, options, out, err));
    (*out)->ops = &counting;
    return STK_OK;
}

/* On the thread of a rank. */
static void counts(one *o)
{
    number = o->self.number;
    assert_ok(stk_driver_add(o->b.ctx, STK_DRIVER_STORE, &counting, &o->b.err), &o->b.err);
}

static void an_epoch(one *o)
{
    clips(o);
    o->b.options.max_epochs = 1;
}

static void counts_and_clips(one *o)
{
    clips(o);
    counts(o);
}

static void begin_counting(void)
{
    memset(&seen, 0, sizeof seen);
    counting = stk__store_file;
    counting.name = "counting";
    counting.open = counting_open;
    counting.submit = counting_submit;
    counting.read_now = NULL;
}

/* ---- A checkpoint ---------------------------------------------------------------------------- */

typedef struct saved {
    char folder[256], path[512], url[600];
    uint64_t count, bytes[MANY_PARTS]; /* of files, and of each */
    char part[MANY_PARTS][600];
} saved;

static uint64_t size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void find_files(saved *s)
{
    stk_context *ctx = test_context();
    stk__checkpoint_part part;

    s->bytes[0] = size_of(s->path);
    s->count = 1;
    if (stk__parts_of(ctx, s->path, &part))
        for (; s->count < part.count; s->count++) {
            char *path = stk__part_path(ctx, s->path, &part, (uint32_t)s->count);
            assert_non_null(path);
            snprintf(s->part[s->count], sizeof s->part[0], "%s", path);
            s->bytes[s->count] = size_of(path);
            stk__free(ctx, path);
        }
    stk_context_destroy(&ctx);
}

/* An epoch of so many ranks. */
static void save_one(saved *s, uint64_t world, const char *strategy)
{
    memset(s, 0, sizeof *s);
    test_folder(s->folder);
    train(s->path, world, strategy, s->folder, NULL, an_epoch);
    snprintf(s->url, sizeof s->url, "counting:%s", s->path);
    find_files(s);
}

/* ---- What is read ---------------------------------------------------------------------------- */

/* Bytes of the head of a file, for each time that it is looked at. */
enum { HEAD = 6000, LOOKS = 4 };

static void resume(const saved *s, uint64_t world, const char *strategy, char path[512])
{
    char folder[256];

    begin_counting();
    test_folder(folder);
    train(path, world, strategy, folder, s->url, counts_and_clips);
}

/* As one that ddp has saved and gone on from. */
static void assert_as_ddp(const char *path, uint64_t from, uint64_t to)
{
    char folder[256], wanted[512];
    saved whole;

    save_one(&whole, from, "ddp");
    test_folder(folder);
    train(wanted, to, "ddp", folder, whole.path, clips);
    assert_same_checkpoints(wanted, path);
    test_folder_remove(folder);
    test_folder_remove(whole.folder);
}

static void remove_run(char *path)
{
    *strstr(path, "/checkpoints") = 0;
    test_folder_remove(path);
}

/* Each rank its own part, and the first. */
static void its_own_part(void **state)
{
    char path[512];
    saved s;

    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        const uint64_t world = i == 1 ? 2 : 3;
        save_one(&s, world, sharing[i]);
        assert_int_equal(s.count, world);
        resume(&s, world, sharing[i], path);
        for (uint64_t r = 0; r < world; r++)
            for (uint64_t p = 0; p < world; p++) {
                const uint64_t least = p == 0 || p == r ? s.bytes[p] : 0;
                const uint64_t most = least ? least + LOOKS * HEAD : 0;
                if (seen.bytes[r][p] < least || seen.bytes[r][p] > most)
                    fail_msg("%s: rank %d has read %d bytes of part %d, which has %d", sharing[i],
                             (int)r, (int)seen.bytes[r][p], (int)p, (int)s.bytes[p]);
            }
        assert_as_ddp(path, world, world);
        test_folder_remove(s.folder);
        remove_run(path);
    }
}

/* What a rank of so many may read of all parts but the first: the parts that it answers for, and
 * its share of what lies in them. */
static void assert_share(const saved *s, uint64_t rank, uint64_t world, bool whole)
{
    uint64_t all = 0, answered = 0, read = 0;

    for (uint64_t p = 1; p < s->count; p++) {
        const bool answers = p * world / s->count == rank;
        all += s->bytes[p];
        answered += answers ? s->bytes[p] : 0;
        read += seen.bytes[rank][p];
        if (answers)
            assert_true(seen.bytes[rank][p] >= s->bytes[p]);
    }
    const uint64_t share = (all + s->bytes[s->count - 1]) / world; /* the first has as much */
    const uint64_t most = (whole ? all : answered + share) + s->count * LOOKS * HEAD;
    if (read > most || seen.bytes[rank][0] > s->bytes[0] + LOOKS * HEAD)
        fail_msg("rank %d of %d has read %d bytes of parts, more than %d", (int)rank, (int)world,
                 (int)read, (int)most);
}

static const struct {
    uint64_t from;
    const char *first;
    uint64_t to;
    const char *second;
} pairs[] = {{3, "zero_1", 2, "zero_2"},
             {2, "zero_3", 5, "zero_3"},
             {5, "zero_2", 1, "ddp"},
             {3, "zero_3", 3, "zero_1"},
             {2, "zero_2", 2, "ddp"}};

/* By other ranks than have saved it: ranges, with the bits that ddp goes on with. */
static void ranges_of_parts(void **state)
{
    char path[512];
    saved s;

    for (size_t i = 0; i < STK_COUNT(pairs); i++) {
        const uint64_t world = pairs[i].to;
        /* All parameters are wanted of what has them in parts, and of moments by ddp. */
        const bool all =
            strcmp(pairs[i].second, "ddp") == 0 ||
            (strcmp(pairs[i].first, "zero_3") == 0 && strcmp(pairs[i].second, "zero_3") != 0);
        save_one(&s, pairs[i].from, pairs[i].first);
        resume(&s, world, pairs[i].second, path);
        for (uint64_t r = 0; r < world; r++)
            assert_share(&s, r, world, all);
        assert_as_ddp(path, pairs[i].from, world);
        test_folder_remove(s.folder);
        remove_run(path);
    }
}

/* What a search takes for one that has come there as a whole; the path of the last. */
static void mark(saved *s)
{
    char path[600];

    snprintf(path, sizeof path, "%s.complete", s->path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(strrchr(s->url, '/'), 10, "/last");
}

/* Rank 0 looks for the last one, and reads no more for it than the others. */
static void the_search_is_shared(void **state)
{
    char path[512];
    saved s;

    save_one(&s, 3, "zero_1");
    mark(&s);
    resume(&s, 3, "zero_1", path);
    for (uint64_t r = 0; r < 3; r++)
        for (uint64_t p = 1; p < 3; p++)
            assert_in_range(seen.bytes[r][p], p == r ? 2 * s.bytes[p] : 0,
                            (p == r ? 2 * s.bytes[p] : 0) + (p == r || r == 0 ? LOOKS * HEAD : 0));
    remove_run(path);
    test_folder_remove(s.folder);
}

/* ---- Other tasks ----------------------------------------------------------------------------- */

/* Weights are all that validation takes; moments are verified, each part by one rank. */
static void validation_takes_weights(void **state)
{
    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        one like = {.layers = odd, .validates = true, .change = counts};
        saved s;

        save_one(&s, 3, sharing[i]);
        const uint64_t hash = all_ranks[0].hash;
        like.folder = s.folder;
        like.ckpt_path = s.url;
        for (uint64_t world = 1; world <= 2; world++) {
            like.strategy = "ddp";
            begin_counting();
            run_world(all_ranks, world, &like);
            for (uint64_t r = 0; r < world; r++) {
                assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
                assert_true(all_ranks[r].hash == hash);
                assert_share(&s, r, world, true);
            }
        }
        test_folder_remove(s.folder);
    }
}

/* ---- Torn ------------------------------------------------------------------------------------ */

typedef void harm_fn(const saved *s, const saved *other);

static void is_gone(const saved *s, const saved *other)
{
    assert_int_equal(unlink(s->part[1]), 0);
}

static void is_cut(const saved *s, const saved *other)
{
    assert_int_equal(truncate(s->part[1], (off_t)s->bytes[1] - 100), 0);
}

static void is_damaged(const saved *s, const saved *other)
{
    test_flip_bit(s->part[1], (long)(s->bytes[1] / 2));
}

static void is_anothers(const saved *s, const saved *other)
{
    assert_int_equal(unlink(s->part[1]), 0);
    assert_int_equal(rename(other->part[1], s->part[1]), 0);
}

static const struct {
    harm_fn *harm;
    stk_status status;
    const char *message;
} harms[] = {{is_gone, STK_ENOENT, "part 1 is not there"},
             {is_cut, STK_ETRUNCATED, "is cut off"},
             {is_damaged, STK_ECHECKSUM, "is damaged"},
             {is_anothers, STK_EFORMAT, "it is of another save"}};

static void assert_refused(const saved *s, uint64_t world, const char *strategy, size_t harm)
{
    const one like = {.strategy = strategy,
                      .layers = odd,
                      .folder = "/proc/nonexistent",
                      .ckpt_path = s->path,
                      .change = clips};
    const char *name = strrchr(s->part[1], '/') + 1;

    run_world(all_ranks, world, &like);
    for (uint64_t r = 0; r < world; r++) {
        assert_fails(all_ranks[r].status, harms[harm].status, &all_ranks[r].b.err,
                     harms[harm].message);
        assert_fails(all_ranks[r].status, harms[harm].status, &all_ranks[r].b.err, name);
    }
}

static void all_name_what_is_torn(void **state)
{
    saved s, other;

    for (size_t i = 0; i < STK_COUNT(harms); i++) {
        const char *strategy = sharing[i % STK_COUNT(sharing)];
        save_one(&s, 3, strategy);
        if (harms[i].harm == is_anothers)
            save_one(&other, 3, strategy);
        harms[i].harm(&s, &other);
        assert_refused(&s, 3, strategy, i);
        assert_refused(&s, 4, "zero_2", i);
        assert_refused(&s, 1, "ddp", i);
        test_folder_remove(s.folder);
        if (harms[i].harm == is_anothers)
            test_folder_remove(other.folder);
    }
}

/* ---- Not the same to all --------------------------------------------------------------------- */

/* To one of two ranks the path is another one, below a folder. */
static void assert_differs(const saved *s, uint64_t rank, const char *folder, const char *strategy,
                           stk_status status, const char *message)
{
    const one like = {.strategy = strategy,
                      .layers = odd,
                      .folder = "/proc/nonexistent",
                      .ckpt_path = s->url,
                      .change = counts_and_clips};

    begin_counting();
    snprintf(seen.elsewhere, sizeof seen.elsewhere, "%s", folder);
    seen.away = rank;
    run_world(all_ranks, 2, &like);
    for (int r = 0; r < 2; r++)
        assert_fails(all_ranks[r].status, status, &all_ranks[r].b.err, message);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[4 << 20];
    FILE *f = fopen(from, "rb");

    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(n > 0 && n < sizeof bytes);
    f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* A checkpoint of two parts, in the place of another. */
static void copy_all(const saved *from, saved *to)
{
    *to = *from;
    test_folder(to->folder);
    snprintf(to->path, sizeof to->path, "%s%s", to->folder, strstr(from->path, "/checkpoints"));
    snprintf(to->part[1], sizeof to->part[1], "%s%s", to->folder,
             strstr(from->part[1], "/checkpoints"));
    for (const char *at = strchr(to->part[1] + strlen(to->folder) + 1, '/'); at;
         at = strchr(at + 1, '/')) {
        char folder[600];
        snprintf(folder, sizeof folder, "%.*s", (int)(at - to->part[1]), to->part[1]);
        assert_int_equal(mkdir(folder, 0777), 0);
    }
    copy_file(from->path, to->path);
    copy_file(from->part[1], to->part[1]);
}

static void they_see_the_same(void **state)
{
    saved s, other, copy;

    save_one(&s, 2, "zero_1");
    save_one(&other, 2, "zero_1");
    assert_differs(&s, 1, other.folder, "zero_1", STK_EMISMATCH, "do not see the same checkpoint");
    /* Who reads all of a part answers for it, too. */
    copy_all(&s, &copy);
    is_damaged(&copy, NULL);
    assert_differs(&s, 0, copy.folder, "ddp", STK_ECHECKSUM, "is damaged");
    /* What is not there for one rank alone is none that is left out of a search. */
    mark(&s);
    is_gone(&copy, NULL);
    assert_differs(&s, 1, copy.folder, "zero_1", STK_EIO, "rank 0 sees more of a checkpoint");
    test_folder_remove(copy.folder);
    test_folder_remove(s.folder);
    test_folder_remove(other.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_part),          cmocka_unit_test(ranges_of_parts),
        cmocka_unit_test(the_search_is_shared),  cmocka_unit_test(validation_takes_weights),
        cmocka_unit_test(all_name_what_is_torn), cmocka_unit_test(they_see_the_same),
    };

    return cmocka_run_group_tests_name("train/shard_resume", tests, NULL, NULL);
}
