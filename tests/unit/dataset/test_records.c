/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of records: the specs that name them, the index that is kept of them, and their changes.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "shards.h"

static char folder[256];
static stk_context *ctx;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

/* ---- Specs ---- */

/* The first numbers of the shards that a spec names, in their order. */
static void check_spec(const char *spec, const int *numbers, size_t count)
{
    stk_dataset *d = shards_open_good(ctx, folder, spec);

    assert_int_equal(d->size, 2 * count);
    for (size_t i = 0; i < count; i++) {
        shard_check_number(d, 2 * i, numbers[i]);
        shard_check_number(d, 2 * i + 1, numbers[i] + 1);
    }
    stk_dataset_close(&d);
}

#define CHECK(spec, ...)                                                                           \
    check_spec(spec, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void test_specs(void **state)
{
    char list[1200];

    for (int i = 0; i < 12; i++) {
        char name[128];
        snprintf(name, sizeof name, "s/t-%03d.tar", i);
        shard_numbers(folder, name, 10 * i, 10 * i + 2);
    }
    shard_numbers(folder, "s/x.tar", 500, 502);
    shard_numbers(folder, "s/{a}.tar", 600, 602);
    shard_numbers(folder, "u/a b.tar", 700, 702);
    shard_numbers(folder, "u/other", 800, 802);
    test_write(folder, "s/.hidden.tar", "no tar", 6);
    test_write(folder, "u/notes.txt", "no tar", 6);
    CHECK("s/t-{000..003}.tar?index=none", 0, 10, 20, 30);
    CHECK("s/t-{009..011}.tar?index=none", 90, 100, 110);
    CHECK("s/t-{000..011..5}.tar?index=none", 0, 50, 100);
    CHECK("s/t-00{7,3}.tar?index=none", 70, 30);
    CHECK("s/t-0{0,1}{0..1}.tar?index=none", 0, 10, 100, 110);
    CHECK("{s/x,u/a b}.tar?index=none", 500, 700);
    CHECK("s/{a}.tar?index=none", 600);
    CHECK("u?index=none", 700);
    CHECK("u/?index=none", 700);
    CHECK("u/other?index=none", 800);
    CHECK("s/x.tar?index=none", 500);
    snprintf(list, sizeof list, "s/x.tar::%s/u/a b.tar,%s/s/t-001.tar?index=none", folder, folder);
    CHECK(list, 500, 700, 10);
    CHECK("s?index=none", 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 500, 600);
}

static void test_specs_of_urls(void **state)
{
    char spec[700];
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(spec, sizeof spec, "webdataset:file://%s/u/a%%20b.tar?index=none", folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    shard_check_number(d, 0, 700);
    stk_dataset_close(&d);
    snprintf(spec, sizeof spec, "webdataset:slow+file://%s/s/t-{003..004}.tar?latency=1ms", folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    shard_check_number(d, 2, 40);
    shard_check_line(d, "index", "none");
    stk_dataset_close(&d);
    /* Without a prefix, where the names say what they are. */
    snprintf(spec, sizeof spec, "%s/s/t-{003..004}.tar?index=none", folder);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_int_equal(d->size, 4);
    stk_dataset_close(&d);
}

static void test_specs_refused(void **state)
{
    static const struct {
        const char *spec, *part;
        stk_status status;
    } cases[] = {
        {"s/t-{000..012}.tar", "shard 13 of 13, 't-012.tar', is not there", STK_ENOENT},
        {"s/t-{3..1}.tar", "backwards", STK_EINVAL},
        {"s/t-{000..9999999}.tar", "too many", STK_EINVAL},
        {"s/t-{0..1..0}.tar", "neither numbers", STK_EINVAL},
        {"s/t-{abc}.tar", "neither numbers", STK_EINVAL},
        {"s/t-{1..99999999999999999999}.tar", "neither numbers", STK_EINVAL},
        {"s/t-{000..001.tar", "not closed", STK_EINVAL},
        {"s/t-{a,{b,c}}.tar", "within braces", STK_EINVAL},
        {"s/x.tar::", "one of the list is empty", STK_EINVAL},
        {"s/{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}",
         "too many braces", STK_EINVAL},
        {"none/x.tar", "none", STK_ENOENT},
        {"empty", "holds no .tar file; name the folder", STK_ENOENT},
        {"packed", "holds no .tar file; compressed shards", STK_ENOENT},
    };
    stk_dataset *d = NULL;
    stk_error err;

    test_write(folder, "empty/x.txt", "", 0);
    test_write(folder, "packed/x.tar.gz", "", 0);
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        assert_fails(shards_open(ctx, folder, cases[i].spec, &d, &err), cases[i].status, &err,
                     cases[i].part);
    stk_error_init(&err);
    assert_fails(stk_dataset_open(ctx, "webdataset:", &d, &err), STK_EINVAL, &err, "it is empty");
}

/* ---- The index ---- */

static void check_index(const char *spec, const char *use, const char *read, uint64_t size)
{
    stk_dataset *d = shards_open_good(ctx, folder, spec);

    shard_check_line(d, "index", use);
    shard_check_line(d, "index", read);
    assert_int_equal(d->size, size);
    for (uint64_t i = 0; i < size; i++)
        shard_check_number(d, i, (int)i);
    stk_dataset_close(&d);
}

static void index_path(char path[600])
{
    char root[300];
    struct dirent *entry;
    bool found = false;

    snprintf(root, sizeof root, "%s/i", folder);
    DIR *list = opendir(root);
    assert_non_null(list);
    while ((entry = readdir(list)))
        if (strncmp(entry->d_name, ".stoker-index-webdataset-", 25) == 0) {
            assert_false(found);
            snprintf(path, 600, "%s/%s", root, entry->d_name);
            found = true;
        }
    closedir(list);
    assert_true(found);
}

static unsigned char *load_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    unsigned char *data = malloc(1 << 16);
    assert_non_null(data);
    *size = fread(data, 1, 1 << 16, file);
    fclose(file);
    return data;
}

static void save_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Another file with the bytes and the time of this one. */
static void write_again(const char *path)
{
    char other[620];
    struct stat was;
    size_t size;

    assert_int_equal(stat(path, &was), 0);
    unsigned char *data = load_file(path, &size);
    snprintf(other, sizeof other, "%s.new", path);
    save_file(other, data, size);
    free(data);
    const struct timespec times[] = {was.st_atim, was.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, other, times, 0), 0);
    assert_int_equal(rename(other, path), 0);
}

static void test_index(void **state)
{
    char path[600];
    size_t size;

    shard_numbers(folder, "i/a.tar", 0, 3);
    shard_numbers(folder, "i/b.tar", 3, 5);
    shard_numbers(folder, "i/c.tar", 5, 9);
    check_index("i?index=none", "none", "3 of 3", 9);
    check_index("i", "written", "3 of 3", 9);
    check_index("i", "used", "0 of 3", 9);
    check_index("i/", "used", "0 of 3", 9);
    /* Only what is new is read. */
    shard_numbers(folder, "i/d.tar", 9, 11);
    check_index("i", "written", "1 of 4", 11);
    shard_numbers(folder, "i/d.tar", 9, 12);
    check_index("i", "written", "1 of 4", 12);
    check_index("i", "used", "0 of 4", 12);
    /* The same size at another time is another shard, which may hold other names. */
    tar_bytes t = {NULL, 0};
    for (int i = 9; i < 12; i++) {
        char name[128], text[32];
        snprintf(text, sizeof text, "%d", i);
        snprintf(name, sizeof name, "%d.cls", 2000 + i);
        shard_text(&t, name, text);
        snprintf(name, sizeof name, "%d.txt", 2000 + i);
        shard_text(&t, name, text);
    }
    tar_end(&t);
    shard_write_aged(folder, "i/d.tar", &t, 1800);
    check_index("i", "written", "1 of 4", 12);
    /* So is another one of the same size and time. */
    char shard[600];
    snprintf(shard, sizeof shard, "%s/i/d.tar", folder);
    write_again(shard);
    check_index("i", "written", "1 of 4", 12);
    /* One that was written just now may be written once more within the same tick. */
    shard_numbers(folder, "i/d.tar", 9, 12);
    index_path(path);
    assert_int_equal(remove(path), 0);
    struct timespec now[2] = {{.tv_sec = time(NULL) + 1}, {.tv_sec = time(NULL) + 1}};
    assert_int_equal(utimensat(AT_FDCWD, shard, now, 0), 0);
    check_index("i", "written", "4 of 4", 12);
    check_index("i", "written", "1 of 4", 12);
    shard_numbers(folder, "i/d.tar", 9, 12);
    check_index("i", "written", "1 of 4", 12);
    check_index("i", "used", "0 of 4", 12);
    /* Damaged or cut, it is not used. */
    unsigned char *data = load_file(path, &size);
    data[size / 2] ^= 4;
    save_file(path, data, size);
    check_index("i", "written", "4 of 4", 12);
    data[size / 2] ^= 4;
    save_file(path, data, size - 1);
    check_index("i", "written", "4 of 4", 12);
    save_file(path, "", 0);
    check_index("i", "written", "4 of 4", 12);
    check_index("i", "used", "0 of 4", 12);
    free(data);
}

static void test_index_of_its_own(void **state)
{
    char spec[800];

    snprintf(spec, sizeof spec, "i/{a,b}.tar?index=%s/kept/w.index", folder);
    check_index(spec, "written", "2 of 2", 5);
    check_index(spec, "used", "0 of 2", 5);
    snprintf(spec, sizeof spec, "i/{a,b,c}.tar?index=%s/kept/w.index", folder);
    check_index(spec, "written", "1 of 3", 9);
    /* The index of another format, or of no shards, is none. */
    test_write(folder, "kept/w.index", "no index", 8);
    check_index(spec, "written", "3 of 3", 9);
}

/* Through a cache the index of shards of another store lies in the cache's folder. */
static void test_index_in_cache(void **state)
{
    char spec[900];
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(spec, sizeof spec, "webdataset:cache+slow+file://%s/i/{a,b}.tar?dir=%s/cache", folder,
             folder);
    for (int again = 0; again < 2; again++) {
        assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
        assert_int_equal(d->size, 5);
        shard_check_line(d, "index", again ? "used" : "written");
        shard_check_number(d, 4, 4);
        stk_dataset_close(&d);
    }
}

/* ---- Forged ---- */

static void make_table(stk__records_table *t)
{
    static stk__record_part parts[] = {{0, 512, 5}, {1, 1536, 7}, {0, 512, 0}, {1, 512, 1024}};
    static uint32_t starts[] = {0, 2, 3, 4};
    static stk__records_shard shards[] = {
        {.key = 0, .size = 2000, .identity = 9, .records = 1, .parts = 2},
        {.key = 6, .size = 1536, .identity = 8, .records = 2, .parts = 2}};
    static char text[] = "a.tar\0b.tar";

    *t = (stk__records_table){.context = ctx,
                              .text = text,
                              .shards = shards,
                              .num_shards = 2,
                              .kinds = {(char *)"jpg", (char *)"cls"},
                              .num_kinds = 2,
                              .starts = starts,
                              .num_records = 3,
                              .parts = parts,
                              .num_parts = 4};
}

static bool is_sound(const stk__records_table *t)
{
    for (size_t s = 0; s < t->num_shards; s++)
        for (uint64_t r = 0; r < t->shards[s].records; r++) {
            const uint64_t record = t->shards[s].first_record + r;
            if (record >= t->num_records || t->starts[record] >= t->starts[record + 1])
                return false;
            for (uint32_t p = t->starts[record]; p < t->starts[record + 1]; p++)
                if (p >= t->num_parts || t->parts[p].kind >= t->num_kinds ||
                    t->parts[p].offset + t->parts[p].length > t->shards[s].size)
                    return false;
        }
    return t->starts[t->num_records] == t->num_parts;
}

/* Every byte of an index changed by whoever makes its sum right again. */
static void test_forged(void **state)
{
    stk__records_table table, out;
    uint64_t length = 0, refused = 0;
    void *data = NULL;

    make_table(&table);
    assert_int_equal(stk__records_index_make(&table, 7, &data, &length), STK_OK);
    assert_int_equal(stk__records_index_parse(ctx, data, length, 7, &out), STK_OK);
    assert_true(is_sound(&out) && out.num_records == 3 && out.shards[1].first_part == 2);
    assert_string_equal(out.kinds[1], "cls");
    assert_string_equal(out.text + out.shards[1].key, "b.tar");
    stk__records_table_release(&out);
    assert_int_equal(stk__records_index_parse(ctx, data, length, 8, &out), STK_EFORMAT);
    for (uint64_t cut = 0; cut < length; cut++)
        assert_int_not_equal(stk__records_index_parse(ctx, data, cut, 7, &out), STK_OK);
    unsigned char *bytes = data;
    for (uint64_t i = 24; i < length; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            assert_int_not_equal(stk__records_index_parse(ctx, data, length, 7, &out), STK_OK);
            const uint64_t sum = XXH3_64bits(bytes + 24, length - 24);
            uint64_t old = 0;
            memcpy(&old, bytes + 16, 8);
            memcpy(bytes + 16, &sum, 8);
            if (stk__records_index_parse(ctx, data, length, 7, &out) == STK_OK) {
                assert_true(is_sound(&out));
                stk__records_table_release(&out);
            } else {
                assert_null(out.parts);
                refused++;
            }
            memcpy(bytes + 16, &old, 8);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    assert_true(refused > 1000);
    stk__free(ctx, data);
}

/* ---- Changes ---- */

static stk_status locate_first(stk_dataset *d, stk_error *err)
{
    shard_sample *s = calloc(1, sizeof *s);
    const uint64_t index = 0;

    assert_non_null(s);
    s->base = (stk_locator){.struct_size = sizeof(stk_locator),
                            .add = shard_add,
                            .cost = shard_cost,
                            .bytes = shard_bytes};
    s->dataset = d;
    stk_error_init(err);
    const stk_status status = d->ops->locate(d, &index, 1, &s->base, err);
    free(s);
    return status;
}

/* A shard that is written anew is not read with the places of the old one. */
static void test_changed(void **state)
{
    stk_error err;

    shard_numbers(folder, "c/a.tar", 0, 3);
    stk_dataset *d = shards_open_good(ctx, folder, "c");
    shard_numbers(folder, "c/a.tar", 1, 2);
    assert_fails(locate_first(d, &err), STK_ECHANGED, &err, "the shard a.tar has changed");
    assert_fails(locate_first(d, &err), STK_ECHANGED, &err, "the shard a.tar has changed");
    stk_dataset_close(&d);
}

/* The fingerprint is one of the records, however they are cut into shards; other records have
 * another, also of the same sizes. */
static void test_fingerprint(void **state)
{
    shard_numbers(folder, "f/a/1.tar", 0, 3);
    shard_numbers(folder, "f/a/2.tar", 3, 9);
    shard_numbers(folder, "f/b/1.tar", 0, 9);
    shard_numbers(folder, "f/c/1.tar", 1, 10);
    stk_dataset *a = shards_open_good(ctx, folder, "f/a"),
                *b = shards_open_good(ctx, folder, "f/b"),
                *c = shards_open_good(ctx, folder, "f/c");
    assert_int_equal(a->size, c->size);
    assert_int_equal(a->fingerprint, b->fingerprint);
    assert_int_not_equal(a->fingerprint, c->fingerprint);
    assert_int_equal(a->block_size, b->block_size);
    stk_dataset_close(&a);
    stk_dataset_close(&b);
    stk_dataset_close(&c);
}

/* Nor has it the same where records of one length have changed places: in a shard, or with the
 * shards. */
static void test_fingerprint_of_order(void **state)
{
    tar_bytes t = {NULL, 0};

    shard_numbers(folder, "o/a/1.tar", 0, 3);
    shard_numbers(folder, "o/a/2.tar", 3, 6);
    shard_numbers(folder, "o/b/1.tar", 3, 6);
    shard_numbers(folder, "o/b/2.tar", 0, 3);
    for (int i = 0; i < 6; i++) {
        static const int order[] = {0, 1, 2, 4, 3, 5};
        char key[128], text[32];
        snprintf(key, sizeof key, "%06d.txt", order[i]);
        snprintf(text, sizeof text, "%d", i);
        shard_text(&t, key, text);
        snprintf(key, sizeof key, "%06d.cls", order[i]);
        shard_text(&t, key, text);
    }
    tar_end(&t);
    test_write(folder, "o/c/1.tar", t.data, t.size);
    free(t.data);
    stk_dataset *a = shards_open_good(ctx, folder, "o/a"),
                *b = shards_open_good(ctx, folder, "o/b"),
                *c = shards_open_good(ctx, folder, "o/c");
    assert_int_not_equal(a->fingerprint, b->fingerprint);
    assert_int_not_equal(a->fingerprint, c->fingerprint);
    assert_int_not_equal(b->fingerprint, c->fingerprint);
    stk_dataset_close(&a);
    stk_dataset_close(&b);
    stk_dataset_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_specs_of_urls),
        cmocka_unit_test(test_specs_refused),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_index_of_its_own),
        cmocka_unit_test(test_index_in_cache),
        cmocka_unit_test(test_forged),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_fingerprint_of_order),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
