/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every format of many samples in a file, and every way for a file to go wrong: missing, cut, one
 * byte another, in the place of another one; before the dataset is opened for the first time,
 * between two openings, and in the middle of an epoch; local and on a web server. Each is an error
 * that names the file, or bad samples that do, or reads what is there now as a dataset of its own.
 */
#include "shards.h"

#include <unistd.h>

#include "support/clock.h"
#include "support/http_server.h"

#define GOLDEN     TESTS_DIR "/golden/"
#define FILE_BYTES 65536
#define AGE        3600 /* seconds since the files were written */

enum { MISSING, CUT, CHANGED, SWAPPED, FAULTS };

static const char *const faults[] = {"missing", "cut", "changed", "swapped"};

/*
 * What becomes of each fault, in the order of these four: before, between, within an epoch, within
 * an epoch with on_error=skip. A capital: opening fails; a small one: the epoch does; '.': all
 * samples come, those that are there; '-': the others come, and the struck are bad.
 *
 *     N STK_ENOENT  T STK_ETRUNCATED  F STK_EFORMAT  K STK_ECHECKSUM  C STK_ECHANGED
 */
typedef struct form {
    const char *name, *spec; /* the second: behind FOLDER/ or URL/, in the place of %s */
    const char *struck, *other;
    const char *local[FAULTS], *served[FAULTS];
    const char *names; /* what errors name; NULL: the file that is struck */
} form;

static const form forms[] = {
    {"webdataset",
     "webdataset:%s/wds/shard-{000000..000003}.tar",
     "wds/shard-000003.tar",
     "wds/shard-000002.tar",
     {"NNn-", "TTc-", "..c-", "..c-"},
     {"NNn-", "TTc-", "..c-", "..c-"},
     NULL},
    {"tfrecord",
     "tfrecord:%s/tfr/shard-{000000..000003}.tfrecord",
     "tfr/shard-000003.tfrecord",
     "tfr/shard-000002.tfrecord",
     {"NNn-", "TTc-", "kkc-", "..c-"},
     {"NNn-", "TTc-", "kkc-", "..c-"},
     NULL},
    {"mds",
     "mds:%s/mds?index=auto",
     "mds/shard.00002.mds",
     "mds/shard.00001.mds",
     {"NNn-", "TTc-", "..c-", "TTc-"},
     {"NNn-", "TTc-", "..c-", "TTc-"},
     NULL},
    {"mds, hashed",
     "mds:%s/hashed?hashes=check",
     "hashed/shard.00002.mds",
     "hashed/shard.00001.mds",
     {"NNn-", "TTc-", "KKc-", "TTc-"},
     {"NNn-", "TTc-", "KKc-", "TTc-"},
     NULL},
    {"litdata",
     "litdata:%s/litdata?index=auto",
     "litdata/chunk-0-2.bin",
     "litdata/chunk-0-1.bin",
     {"NNn-", "FFc-", "FFc-", "FFc-"},
     {"NNn-", "FFc-", "FFc-", "FFc-"},
     NULL},
    {"tokens",
     "tokens:%s/tokens/x.bin?length=16",
     "tokens/x.bin",
     "tokens/y.bin",
     {"NNn-", "FFc-", "..c-", "..c-"},
     {"NNn-", "FFc-", "..c-", "..c-"},
     NULL},
    {"megatron",
     "tokens:%s/tokens/grouped.idx?length=4",
     "tokens/grouped.bin",
     "tokens/y.bin",
     {"NNn-", "TTc-", "..c-", "FFc-"},
     {"NNn-", "TTc-", "..c-", "FFc-"},
     "grouped."},
    {"npz",
     "npz:%s/rows/stored.npz",
     "rows/stored.npz",
     "rows/deflated.npz",
     {"NNn-", "FFc-", "..c-", "..c-"},
     {"NNn-", "FFc-", "..c-", "..c-"},
     ".npy"},
    {"hdf5",
     "hdf5:%s/rows/table.h5",
     "rows/table.h5",
     "rows/named.h5",
     {"NNn-", "TTc-", "ffc-", "..c-"},
     {"NNn-", "TTc-", "ffc-", "..c-"},
     NULL},
    {"parquet",
     "parquet:%s/parquet/shard-{000000..000003}.parquet",
     "parquet/shard-000003.parquet",
     "parquet/shard-000002.parquet",
     {"NNn-", "FFc-", "kkc-", "..c-"},
     {"NNn-", "FFc-", "kkc-", "..c-"},
     NULL},
    {"csv",
     "csv:%s/csv/{0..3}.csv",
     "csv/3.csv",
     "csv/2.csv",
     {"NNn-", "FFc-", "FFc-", "..c-"},
     {"NNn-", "FFc-", "FFc-", "..c-"},
     NULL},
};

static char folder[256];
static http_server *server;
static bool differs; /* a cell is another one than is wanted */

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct content {
    unsigned char bytes[FILE_BYTES];
    size_t size;
} content;

static void load(const char *in, const char *name, content *out)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", in, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there", path);
    out->size = fread(out->bytes, 1, sizeof out->bytes, f);
    fclose(f);
    assert_true(out->size > 0 && out->size < sizeof out->bytes);
}

/* Written so many seconds ago. */
static void save(const char *name, const content *c, int age)
{
    const struct timespec then = {.tv_sec = time(NULL) - age};
    char path[600];

    test_write(folder, name, c->bytes, c->size);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){then, then}, 0), 0);
}

static void copy(const char *from, const char *name)
{
    static content c;

    load(GOLDEN, from, &c);
    save(name, &c, AGE);
}

static void convert(stk_context *ctx, const char *target)
{
    stk_conversion *conversion = NULL;
    char to[600];
    stk_error err;

    snprintf(to, sizeof to, target, folder);
    assert_ok(stk_conversion_create(ctx, "digits:?size=64", to, &conversion, &err), &err);
    assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
    stk_conversion_destroy(&conversion);
}

static void make_tokens(const char *name, int step)
{
    static content c;

    c.size = 2048;
    for (size_t i = 0; i < c.size; i++)
        c.bytes[i] = (unsigned char)(i % 2 ? 0 : i / 2 * (size_t)step % 251);
    save(name, &c, AGE);
}

static void make_csv(void)
{
    static content c;
    char name[32];

    for (int file = 0; file < 4; file++) {
        c.size = (size_t)snprintf((char *)c.bytes, FILE_BYTES, "a,b\n");
        for (int row = 0; row < 16; row++)
            c.size +=
                (size_t)snprintf((char *)c.bytes + c.size, 100, "%d,%d\n", 10 + row, 20 + file);
        snprintf(name, sizeof name, "csv/%d.csv", file);
        save(name, &c, AGE);
    }
}

/* The same shards of MDS, whose index has hashes. */
static void make_hashed(void)
{
    static const char *const sums[] = {"5b4ab5abd6002d045d940522583264cc",
                                       "5bc3aee841fe13b3a877c2e2fb0caa64",
                                       "a30441140770cdd797270ed9c85691cf"};
    static content c, index;
    char name[64];

    load(GOLDEN, "tabled/mds/index.json", &index);
    index.bytes[index.size] = 0;
    const char *at = (char *)index.bytes;
    for (int i = 0; i < 3; i++) {
        const char *hashes = strstr(at, "\"hashes\": {}");
        assert_non_null(hashes);
        hashes += strlen("\"hashes\": {");
        c.size += (size_t)snprintf((char *)c.bytes + c.size, FILE_BYTES - c.size,
                                   "%.*s\"md5\": \"%s\"", (int)(hashes - at), at, sums[i]);
        at = hashes;
    }
    c.size += (size_t)snprintf((char *)c.bytes + c.size, FILE_BYTES - c.size, "%s", at);
    save("hashed/index.json", &c, AGE);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "tabled/mds/shard.%05d.mds", i);
        load(GOLDEN, name, &c);
        snprintf(name, sizeof name, "hashed/shard.%05d.mds", i);
        save(name, &c, AGE);
    }
}

static int make(void **state)
{
    static const char *const golden[][2] = {{"tabled/mds", "mds"}, {"tabled/litdata", "litdata"}};
    static const char *const names[][4] = {
        {"index.json", "shard.00000.mds", "shard.00001.mds", "shard.00002.mds"},
        {"index.json", "chunk-0-0.bin", "chunk-0-1.bin", "chunk-0-2.bin"}};
    static const char *const rows[] = {"stored.npz", "deflated.npz", "table.h5", "named.h5"};
    stk_context *ctx = test_context();
    char from[200], to[200];

    test_folder(folder);
    convert(ctx, "webdataset:%s/wds?shard_size=40960");
    convert(ctx, "tfrecord:%s/tfr?shard_size=14000");
    convert(ctx, "parquet:%s/parquet?codec=none&page_size=1KiB&shard_size=12KiB");
    stk_context_destroy(&ctx);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++) {
            snprintf(from, sizeof from, "%s/%s", golden[i][0], names[i][k]);
            snprintf(to, sizeof to, "%s/%s", golden[i][1], names[i][k]);
            copy(from, to);
        }
    for (int i = 0; i < 4; i++) {
        snprintf(from, sizeof from, "rows/%s", rows[i]);
        copy(from, from);
    }
    make_hashed();
    copy("tokens/grouped.bin", "tokens/grouped.bin");
    copy("tokens/grouped.idx", "tokens/grouped.idx");
    make_tokens("tokens/x.bin", 7);
    make_tokens("tokens/y.bin", 3);
    make_csv();
    server = http_server_start(&(http_server_options){.root = folder, .seed = 1});
    assert_non_null(server);
    return 0;
}

static int end(void **state)
{
    http_server_stop(&server);
    test_folder_remove(folder);
    return 0;
}

/* The two files as they were made, and what a fault makes of them. */
typedef struct pair {
    content struck, other;
} pair;

static void strike(const form *f, const pair *p, int fault)
{
    static content c;
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, f->struck);
    c = p->struck;
    switch (fault) {
    case MISSING:
        assert_int_equal(unlink(path), 0);
        break;
    case CUT:
        c.size = c.size / 2 + 3; /* not between two records */
        save(f->struck, &c, 0);
        break;
    case CHANGED:
        c.bytes[c.size / 4 * 3 + (c.size > 4000 ? 300 : 0)] ^= 1; /* in the data of a record */
        save(f->struck, &c, 0);
        break;
    default:
        save(f->struck, &p->other, 0);
        save(f->other, &c, 0);
    }
}

static void restore(const form *f, const pair *p)
{
    save(f->struck, &p->struck, AGE);
    save(f->other, &p->other, AGE);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static char letter(stk_status status)
{
    static const struct {
        stk_status status;
        char letter;
    } letters[] = {{STK_ENOENT, 'N'},
                   {STK_ETRUNCATED, 'T'},
                   {STK_EFORMAT, 'F'},
                   {STK_ECHECKSUM, 'K'},
                   {STK_ECHANGED, 'C'}};

    for (size_t i = 0; i < STK_COUNT(letters); i++)
        if (letters[i].status == status)
            return letters[i].letter;
    return '?';
}

static const char *last_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* A text names the file that was struck, or the other of the two. */
static bool names(const form *f, const char *text)
{
    return strstr(text, last_name(f->struck)) || strstr(text, last_name(f->other)) ||
           (f->names && strstr(text, f->names));
}

static void check_names(const form *f, const stk_error *err)
{
    if (!names(f, err->text))
        fail_msg("%s: '%s' does not name %s", f->name, err->text, f->struck);
}

/* Each line of the list of bad samples says which file it is of. */
static void check_quarantine(const form *f, const char *path)
{
    static content c;

    load(folder, path, &c);
    c.bytes[c.size] = 0;
    if (!names(f, (char *)c.bytes) || strstr((char *)c.bytes, "\"key\": \"\""))
        fail_msg("%s: the quarantine does not name %s:\n%s", f->name, f->struck, (char *)c.bytes);
}

static stk_status open_form(stk_context *ctx, const form *f, bool served, stk_dataset **out,
                            stk_error *err)
{
    char spec[600];

    snprintf(spec, sizeof spec, f->spec, served ? http_server_url(server) : folder);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

/* An epoch of batches of so many, in which the fault strikes behind the first; fault FAULTS: none
 * does. *rows is how many samples came. */
static stk_status epoch(stk_dataset *d, const form *f, const pair *p, int fault, bool skip,
                        uint64_t batch_size, uint64_t *rows, stk_error *err)
{
    char path[300];
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options o;
    stk_status status;

    snprintf(path, sizeof path, "%s/quarantine", folder);
    unlink(path);
    stk_loader_options_init(&o);
    o.batch_size = batch_size;
    o.num_workers = 0;
    o.epochs = 1;
    o.memory_budget = 64 << 20;
    if (skip) {
        o.on_error = STK_ON_ERROR_SKIP;
        o.max_errors = "100%";
        o.quarantine = path;
    }
    *rows = 0;
    assert_ok(stk_loader_create(d, &o, &loader, err), err);
    for (bool first = true; (status = stk_loader_next(loader, 30000, &batch, err)) == STK_OK;
         first = false) {
        *rows += stk_batch_count(batch);
        stk_batch_release(&batch);
        if (first && fault < FAULTS) {
            strike(f, p, fault);
            atomic_fetch_add(&ahead, 1); /* files are not looked at again at once */
        }
    }
    stk_loader_destroy(&loader);
    return status;
}

static char run(stk_dataset *d, const form *f, const pair *p, int fault, bool skip)
{
    uint64_t rows;
    stk_error err;

    const stk_status status = epoch(d, f, p, fault, skip, 2, &rows, &err);
    if (status != STK_EOS) {
        check_names(f, &err);
        return (char)(letter(status) + 'a' - 'A');
    }
    if (rows == d->size)
        return '.';
    assert_true(skip && rows > 0);
    check_quarantine(f, "quarantine");
    return '-';
}

/* One cell: what opening and an epoch come to. */
static char cell(const form *f, const pair *p, int fault, int when, bool served)
{
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;
    char result;

    if (when == 0)
        strike(f, p, fault);
    if (when == 1) {
        assert_ok(open_form(ctx, f, served, &d, &err), &err);
        assert_int_equal(run(d, f, p, FAULTS, false), '.');
        stk_dataset_close(&d);
        strike(f, p, fault);
    }
    const stk_status status = open_form(ctx, f, served, &d, &err);
    if (status != STK_OK)
        check_names(f, &err);
    result = status == STK_OK ? run(d, f, p, when < 2 ? FAULTS : fault, when == 3) : letter(status);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
    restore(f, p);
    return result;
}

static void check_form(const form *f, bool served)
{
    static pair p;

    load(folder, f->struck, &p.struck);
    load(folder, f->other, &p.other);
    for (int fault = 0; fault < FAULTS; fault++) {
        const char *wanted = served ? f->served[fault] : f->local[fault];
        char is[5] = "";
        for (int when = 0; when < 4; when++)
            is[when] = cell(f, &p, fault, when, served);
        if (strcmp(is, wanted) == 0)
            continue;
        differs = true;
        print_error("%s, %s, %s: \"%s\" and not \"%s\"\n", f->name, faults[fault],
                    served ? "served" : "local", is, wanted);
    }
}

static void test_local(void **state)
{
    differs = false;
    for (size_t i = 0; i < STK_COUNT(forms); i++)
        check_form(&forms[i], false);
    assert_false(differs);
}

static void test_served(void **state)
{
    differs = false;
    for (size_t i = 0; i < STK_COUNT(forms); i++)
        check_form(&forms[i], true);
    assert_false(differs);
}

/* Samples of a shard that is another one now are bad, and no others, also of the same batch. */
static void test_others_of_a_batch(void **state)
{
    static pair p;
    stk_error err;

    for (size_t i = 0; i < 2; i++) {
        const form *f = &forms[i];
        stk_context *ctx = test_context();
        stk_dataset *d = NULL;
        uint64_t rows = 0;
        load(folder, f->struck, &p.struck);
        load(folder, f->other, &p.other);
        assert_ok(open_form(ctx, f, false, &d, &err), &err);
        assert_int_equal(d->size, 64);
        assert_int_equal(epoch(d, f, &p, CHANGED, true, 5, &rows, &err), STK_EOS);
        assert_int_equal(rows, 48); /* the last of four shards was struck */
        stk_dataset_close(&d);
        stk_context_destroy(&ctx);
        restore(f, &p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_served),
        cmocka_unit_test(test_others_of_a_batch),
    };

    return cmocka_run_group_tests(tests, make, end);
}
