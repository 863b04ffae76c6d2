/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5 and NetCDF-4 files of scripts/make_hdf5_golden.py: what is in them, names, attributes, what
 * is refused by name; damage of every byte and cut-off ends; the file of indexes. That values read
 * equal is golden/array/packs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array/hdf5/heap.h"
#include "unit/array/packed.h"

#define FILES "mem://pack/files/"

static int set_up(void **state)
{
    open_pack("hdf5");
    return open_pack("hdf5_chunks");
}

static stk_array *open_array(const char *url)
{
    stk_array *a = NULL;
    stk_error err;

    stk_error_init(&err);
    if (stk_array_open(context, url, NULL, &a, &err) != STK_OK)
        fail_msg("%s: %s", url, err.text);
    return a;
}

/* ---- What is in a file ---- */

static void check_nodes(const char *url, const char *wanted)
{
    char found[4096] = "";
    stk_group *g = NULL;
    const stk_node *node;
    stk_error err;

    assert_ok(stk_group_open(context, url, &g, &err), &err);
    for (size_t i = 0, at = 0; (node = stk_group_node(g, i)) && at < 3000; i++)
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%s%s", i ? " " : "", node->path,
                               node->is_array ? "" : "/");
    assert_string_equal(found, wanted);
    stk_group_close(&g);
}

static void test_nodes(void **state)
{
    check_nodes(FILES "netcdf.h5", "bare bare_not forecast/ forecast/q lat lon short t2m time xy");
    check_nodes(FILES "netcdf.h5/forecast", "q");
    check_nodes(FILES "huge_attribute.h5", "x");
    check_nodes(FILES "shared.h5", "x y");
}

/* Links that lead back end where they lead to, and each group is told once. */
static void test_circle(void **state)
{
    static const char *const files[] = {FILES "groups_old.h5", FILES "groups_new.h5"};

    for (size_t f = 0; f < 2; f++) {
        stk_group *g = NULL;
        size_t count = 0, groups = 0;
        stk_error err;
        assert_ok(stk_group_open(context, files[f], &g, &err), &err);
        for (const stk_node *node; (node = stk_group_node(g, count)); count++)
            groups += !node->is_array;
        assert_int_equal(groups, 2);
        assert_int_equal(count, 2 + 201);
        stk_group_close(&g);
    }
}

static stk_status count_link(stk__hdf5 *f, const stk__hdf5_link *link, void *user)
{
    (void)f, (void)link;
    ++*(uint64_t *)user;
    return STK_OK;
}

/* Links in the order of their hashes lie all over their heap, each block of which is read once. */
static void test_dense_links(void **state)
{
    stk__hdf5_object o;
    stk__hdf5_way way;
    stk__hdf5 f;
    stk_error err;
    uint64_t count = 0;

    assert_ok(stk__hdf5_open(&f, store, "files/groups_new.h5", &err), &err);
    assert_ok(stk__hdf5_find(&f, "a/b", &way), &err);
    assert_ok(stk__hdf5_object_begin(&f, way.address, &o), &err);
    const uint64_t work = f.work, memory = f.memory;
    assert_ok(stk__hdf5_links(&f, &o, count_link, &count), &err);
    assert_int_equal(count, 203);
    assert_true(work - f.work < 3 * count);
    assert_true(f.memory == memory);
    stk__hdf5_object_end(&f, &o);
    stk__hdf5_close(&f);
}

static void test_group_array(void **state)
{
    stk_group *g = NULL;
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_group_open(context, FILES "netcdf.h5/forecast", &g, &err), &err);
    assert_true(stk_group_is_consolidated(g));
    assert_ok(stk_group_array(g, "q", NULL, &a, &err), &err);
    assert_int_equal(stk_array_get_info(a)->shape[0], 13);
    stk_array_close(&a);
    assert_fails(stk_group_array(g, "t2m", NULL, &a, &err), STK_ENOENT, &err, "t2m");
    stk_group_close(&g);
    assert_fails(stk_group_open(context, FILES "netcdf.h5/t2m", &g, &err), STK_EMISMATCH, &err,
                 "no group");
    assert_fails(stk_array_open(context, FILES "netcdf.h5", NULL, &a, &err), STK_EMISMATCH, &err,
                 "name one");
    assert_fails(stk_array_open(context, FILES "netcdf.h5/forecast", NULL, &a, &err), STK_EMISMATCH,
                 &err, "name one");
}

/* ---- NetCDF ---- */

static void check_names(const char *url, const char *format, uint32_t rank, const char *first,
                        const char *second)
{
    stk_array *a = open_array(url);
    const stk_array_info *info = stk_array_get_info(a);

    assert_string_equal(info->format, format);
    assert_int_equal(info->rank, rank);
    assert_non_null(info->dimension_names);
    assert_string_equal(info->dimension_names[0], first);
    if (rank > 1)
        assert_string_equal(info->dimension_names[1], second);
    stk_array_close(&a);
}

static void test_names(void **state)
{
    check_names(FILES "netcdf.h5/t2m", "netcdf 4", 3, "time", "lat");
    check_names(FILES "netcdf.h5/time", "netcdf 4", 1, "time", NULL);
    check_names(FILES "netcdf.h5/short", "netcdf 4", 2, "time", "bare");
    check_names(FILES "netcdf.h5/bare", "netcdf 4", 1, "lat", NULL);
    check_names(FILES "netcdf.h5/forecast/q", "netcdf 4", 2, "time", "lat");
    stk_array *a = open_array(FILES "indexes_latest.h5/chunked");
    assert_string_equal(stk_array_get_info(a)->format, "hdf5");
    assert_null(stk_array_get_info(a)->dimension_names);
    stk_array_close(&a);
}

/* The length of an unlimited dimension is the largest of all that have it. */
static void test_lengths(void **state)
{
    static const char *const longer[] = {FILES "netcdf.h5/t2m", FILES "netcdf.h5/short",
                                         FILES "netcdf.h5/time"};

    for (size_t i = 0; i < 3; i++) {
        stk_array *a = open_array(longer[i]);
        assert_int_equal(stk_array_get_info(a)->shape[0], 13);
        stk_array_close(&a);
    }
}

/* ---- Attributes ---- */

static void test_attributes(void **state)
{
    static const char wanted[] =
        "{\"text\": \"d\303\251j\303\240 vu\", \"bytes\": \"fixed\", \"integers\": [1, -2, 3], "
        "\"large\": 9223372036854775813, \"real\": 0.5, \"nan\": NaN, \"texts\": [\"x\", \"yy\", "
        "\"\"], \"one\": 7, \"nothing\": []}";
    static const char *const files[] = {FILES "groups_old.h5", FILES "groups_new.h5"};
    stk_group *g = NULL;
    stk_error err;

    for (size_t f = 0; f < 2; f++) {
        char number[16];
        double value;
        assert_ok(stk_group_open(context, files[f], &g, &err), &err);
        if (f == 0) /* the order of a header's messages; of dense ones it is that of their hashes */
            assert_string_equal(stk_group_attributes(g), wanted);
        assert_int_equal(strlen(stk_group_attributes(g)), strlen(wanted));
        stk_group_close(&g);
        stk_array *a = open_array(f ? FILES "groups_new.h5/a/b/one" : FILES "groups_old.h5/soft");
        for (int i = 0; i < 30; i++) {
            snprintf(number, sizeof number, "dense%02d", i);
            assert_true(stk_array_number(a, number, &value));
            assert_true(value == i);
        }
        stk_array_close(&a);
    }
    stk_array *a = open_array(FILES "netcdf.h5/t2m");
    assert_string_equal(stk_array_get_info(a)->attributes,
                        "{\"scale_factor\": 0.5, \"add_offset\": 10.0, \"units\": \"K\"}");
    stk_array_close(&a);
    a = open_array(FILES "shared.h5/y");
    assert_string_equal(stk_array_text(a, "units"), "a text that is shared");
    assert_string_equal(stk_array_text(a, "dense11"), "another text that is shared");
    stk_array_close(&a);
}

/* ---- Refused by name ---- */

static void test_refused(void **state)
{
    static const struct {
        const char *path, *word;
        stk_status status;
    } cases[] = {
        {"refused.h5/compound", "a compound type", STK_EKIND},
        {"refused.h5/vlen_text", "texts of variable length", STK_EKIND},
        {"refused.h5/vlen", "lists of variable length", STK_EKIND},
        {"refused.h5/reference", "references", STK_EKIND},
        {"refused.h5/nothing", "no shape", STK_EKIND},
        {"refused.h5/external", "other files", STK_EKIND},
        {"refused.h5/virtual", "virtual", STK_EKIND},
        {"refused.h5/lzf", "filter 32000", STK_EKIND},
        {"refused.h5/none", "none", STK_ENOENT},
        {"groups_new.h5/outside", "external link", STK_EKIND},
        {"groups_old.h5/loop", "circle", STK_EFORMAT},
        {"groups_new.h5/a/b/one/more", "one/more", STK_ENOENT},
        {"kinds_new.h5/committed_type", "a type", STK_EKIND},
        {"indexes_latest.h5/filtered?checksums=maybe", "checksums", STK_EINVAL},
        {"indexes_latest.h5/filtered?chunk_index=maybe", "chunk_index", STK_EINVAL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char url[128];
        stk_array *a = NULL;
        stk_error err;
        snprintf(url, sizeof url, FILES "%s", cases[i].path);
        assert_fails(stk_array_open(context, url, NULL, &a, &err), cases[i].status, &err,
                     cases[i].word);
    }
}

/* A dimension without a variable has no values: the only one of the file has lost the variable of
 * its name. That name is in a checked block of a heap, so that the change alone is damage. */
static void test_bare_dimension(void **state)
{
    enum { BLOCK = 512, SUM = 17 }; /* bytes of the block; where its checksum is */
    static const char name[] = "_nc4_non_coord_bare", url[] = "mem://pack/other.nc/bare";
    uint64_t size = 0, block = 0, at = 0;
    uint8_t *data = test_get(store, "files/netcdf.h5", &size);
    stk_array *a = NULL;
    stk_error err;

    for (; at + BLOCK < size && memcmp(data + at, name, sizeof name - 1) != 0; at++)
        if (memcmp(data + at, "FHDB", 4) == 0)
            block = at;
    data[at] = 'X';
    assert_ok(stk_store_put(store, "other.nc", data, size, NULL, &err), &err);
    assert_fails(stk_array_open(context, url, NULL, &a, &err), STK_EFORMAT, &err, "not sound");
    memset(data + block + SUM, 0, 4);
    const uint32_t sum = stk__hdf5_checksum(data + block, BLOCK);
    memcpy(data + block + SUM, &sum, sizeof sum);
    assert_ok(stk_store_put(store, "other.nc", data, size, NULL, &err), &err);
    assert_fails(stk_array_open(context, url, NULL, &a, &err), STK_ENOENT, &err, "no values");
    free(data);
}

/* ---- Damage ---- */

/* Open and read whatever is there; what comes is success or a failure with a text. */
static void read_all(const char *url)
{
    static char out[1 << 16];
    stk_array *a = NULL;
    stk_group *g = NULL;
    stk_error err;

    stk_error_init(&err);
    stk_status status = stk_array_open(context, url, NULL, &a, &err);
    if (status == STK_OK) {
        const uint64_t bytes = stk_array_get_info(a)->bytes;
        if (bytes <= sizeof out)
            status = stk_array_read(a, NULL, out, bytes, NULL, -1, &err);
        stk_array_close(&a);
    }
    assert_true(status <= 0 && (status == STK_OK || *err.text));
    if (stk_group_open(context, url, &g, NULL) == STK_OK)
        stk_group_close(&g);
}

static void damage(const char *key, const char *dataset, unsigned every)
{
    char url[128];
    uint64_t size = 0;
    uint8_t *data = test_get(store, key, &size);
    stk_error err;

    snprintf(url, sizeof url, "mem://pack/damaged.h5/%s", dataset);
    for (uint64_t i = 0; i < size; i += 1 + test_random(&(uint64_t){i}) % every) {
        const uint8_t was = data[i];
        data[i] ^= i % 3 == 0 ? 0xff : (uint8_t)(1u << i % 8);
        assert_ok(stk_store_put(store, "damaged.h5", data, size, NULL, &err), &err);
        read_all(url);
        data[i] = was;
    }
    for (uint64_t i = 0; i < size; i += 1 + size / 100) {
        assert_ok(stk_store_put(store, "damaged.h5", data, i, NULL, &err), &err);
        read_all(url);
    }
    free(data);
}

static void test_damage(void **state)
{
    damage("files/compact_old.h5", "compact", 2);
    damage("files/masks_old.h5", "masks", 3);
    damage("files/masks_new.h5", "masks", 3);
    damage("files/early.h5", "implicit", 4);
    damage("files/edges.h5", "edges_growing", 5);
    damage("files/shared.h5", "y", 12);
    damage("files/netcdf.h5", "forecast/q", 40);
    damage("files/absent_latest.h5", "sparse", 8);
}

/* A file that is cut off is told so before anything is read of it. */
static void test_cut_off(void **state)
{
    static const char *const keys[] = {"files/masks_old.h5", "files/masks_new.h5"};

    for (size_t k = 0; k < 2; k++) {
        uint64_t size = 0;
        uint8_t *data = test_get(store, keys[k], &size);
        stk_array *a = NULL;
        stk_error err;
        assert_ok(stk_store_put(store, "cut.h5", data, size - 1, NULL, &err), &err);
        assert_fails(stk_array_open(context, "mem://pack/cut.h5/masks", NULL, &a, &err),
                     STK_ETRUNCATED, &err, "cut off");
        free(data);
    }
}

/* ---- The file of indexes ---- */

#define CHUNKS 5000 /* more than are worth a file */

static void put(uint8_t **at, uint64_t value, unsigned bytes)
{
    memcpy(*at, &value, bytes);
    *at += bytes;
}

static uint64_t place_of(uint64_t number, uint8_t first)
{
    return first == 1 ? number : CHUNKS - 1 - number;
}

/* A file of version 0 by hand: a dataset of CHUNKS chunks of one byte, in one B-tree; in the file
 * they lie in order where `first` is 1, else the last is first. */
static uint64_t make_many(uint8_t *file, uint8_t first)
{
    enum { ROOT = 96, TREE = 4096, NODE = 24 + 65 * 24 + 64 * 8, LEAVES = (CHUNKS + 63) / 64 };
    const uint64_t data = TREE + (LEAVES + 2) * NODE * 2, top = TREE + LEAVES * NODE;
    uint8_t *at = file;

    memset(file, 0, data);
    memcpy(at, "\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08", 15);
    at += 16;
    put(&at, 4, 2), put(&at, 16, 2), put(&at, 0, 4);
    put(&at, 0, 8), put(&at, UINT64_MAX, 8), put(&at, data + CHUNKS, 8), put(&at, UINT64_MAX, 8);
    put(&at, 0, 8), put(&at, ROOT, 8), put(&at, 0, 8), put(&at, 0, 8), put(&at, 0, 8);
    at = file + ROOT; /* a group of one link message */
    put(&at, 1, 2), put(&at, 1, 2), put(&at, 1, 4), put(&at, 24, 4), put(&at, 0, 4);
    put(&at, 6, 2), put(&at, 16, 2), put(&at, 0, 4);
    put(&at, 1, 2), put(&at, 1, 1), put(&at, 'x', 1), put(&at, 512, 8);
    at = file + 512; /* the dataset: space, type, layout */
    put(&at, 1, 2), put(&at, 3, 2), put(&at, 1, 4), put(&at, 24 + 24 + 32, 4), put(&at, 0, 4);
    put(&at, 1, 2), put(&at, 16, 2), put(&at, 0, 4);
    put(&at, 0x0101, 2), put(&at, 0, 6), put(&at, CHUNKS, 8);
    put(&at, 3, 2), put(&at, 16, 2), put(&at, 0, 4);
    put(&at, 0x10, 1), put(&at, 0, 3), put(&at, 1, 4), put(&at, 0x80000, 4), put(&at, 0, 4);
    put(&at, 8, 2), put(&at, 24, 2), put(&at, 0, 4);
    put(&at, 3, 1), put(&at, 2, 1), put(&at, 2, 1), put(&at, top, 8), put(&at, 1, 4);
    put(&at, 1, 4);
    for (uint64_t leaf = 0; leaf <= LEAVES;
         leaf += 1) { /* the last is their parent of two levels */
        const bool root = leaf == LEAVES;
        const uint64_t n = root ? 2 : leaf + 1 == LEAVES && CHUNKS % 64 ? CHUNKS % 64 : 64;
        at = file + TREE + leaf * NODE;
        memcpy(at, "TREE\1", 5);
        at += 5;
        put(&at, root ? 2 : 0, 1), put(&at, n, 2);
        put(&at, UINT64_MAX, 8), put(&at, UINT64_MAX, 8);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t number = root ? i * 64 * 40 : leaf * 64 + i;
            put(&at, 1, 4), put(&at, 0, 4), put(&at, number, 8), put(&at, 0, 8);
            put(&at, root ? top + (i + 1) * NODE : data + place_of(number, first), 8);
        }
    }
    for (uint64_t half = 0; half < 2; half++) { /* of 40 leaves each */
        const uint64_t n = half ? LEAVES - 40 : 40;
        at = file + top + (half + 1) * NODE;
        memcpy(at, "TREE\1\1", 6);
        at += 6;
        put(&at, n, 2), put(&at, UINT64_MAX, 8), put(&at, UINT64_MAX, 8);
        for (uint64_t i = 0; i < n; i++) {
            put(&at, 1, 4), put(&at, 0, 4), put(&at, (half * 40 + i) * 64, 8), put(&at, 0, 8);
            put(&at, TREE + (half * 40 + i) * NODE, 8);
        }
    }
    for (uint64_t i = 0; i < CHUNKS; i++)
        file[data + place_of(i, first)] = (uint8_t)(first + i * 7);
    return data + CHUNKS;
}

static void check_many(const char *url, uint8_t first)
{
    static uint8_t out[CHUNKS];
    stk_array *a = open_array(url);
    stk_error err;

    assert_int_equal(stk_array_get_info(a)->num_chunks, CHUNKS);
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    for (uint64_t i = 0; i < CHUNKS; i++)
        assert_int_equal(out[i], (uint8_t)(first + i * 7));
    stk_array_close(&a);
}

/* Make a file older than the time within which it is not believed to stay as it is. */
static void age(const char *path)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static uint64_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void test_index_file(void **state)
{
    static uint8_t file[1 << 20];
    char folder[256], url[320], path[288], index[320];
    const uint64_t length = make_many(file, 1);

    test_folder(folder);
    snprintf(path, sizeof path, "%s/many.h5", folder);
    snprintf(url, sizeof url, "%s/x", path);
    snprintf(index, sizeof index, "%s/.many.h5.stoker-index", folder);
    test_write(folder, "many.h5", file, length);
    check_many(url, 1);
    assert_int_equal(size_of(index), 0); /* it has just been written, and may be again */
    age(path);
    snprintf(url, sizeof url, "%s/x?chunk_index=none", path);
    check_many(url, 1);
    assert_int_equal(size_of(index), 0);
    snprintf(url, sizeof url, "%s/x", path);
    check_many(url, 1);
    assert_int_equal(size_of(index), 40 + 40 + 24 * CHUNKS);
    /* It is what is read from now on: the tree of the file is not looked at. */
    memset(file + 4096, 0, 4096);
    test_write(folder, "many.h5", file, length);
    age(path);
    check_many(url, 1);
    /* A file that has changed is read anew. */
    (void)make_many(file, 9);
    test_write(folder, "many.h5", file, length);
    check_many(url, 9);
    /* What is damaged or cut off is not used. */
    age(path);
    test_write(folder, ".many.h5.stoker-index", file, 500);
    check_many(url, 9);
    assert_int_equal(size_of(index), 40 + 40 + 24 * CHUNKS);
    test_folder_remove(folder);
}

/* What has the file open gets values of the library alone: no other reader of HDF5 is in the
 * process. */
static void test_no_library(void **state)
{
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");

    if (!maps)
        skip();
    while (fgets(line, sizeof line, maps))
        assert_true(!strstr(line, "libhdf5") && !strstr(line, "libnetcdf"));
    fclose(maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),          cmocka_unit_test(test_circle),
        cmocka_unit_test(test_dense_links),    cmocka_unit_test(test_group_array),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_attributes),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bare_dimension), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_cut_off),        cmocka_unit_test(test_index_file),
        cmocka_unit_test(test_no_library),
    };

    return cmocka_run_group_tests(tests, set_up, close_packs);
}
