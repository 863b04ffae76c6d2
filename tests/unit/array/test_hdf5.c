/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5 and NetCDF-4 files of scripts/make_hdf5_golden.py: what is in them, names, attributes, what is
 * refused by name; damage of every byte and cut-off ends; the file of indexes. That values read equal
 * is golden/array/packs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden/array/pack.h"

#define FILES "mem://pack/files/"

static stk_context *context;
static stk_store *store;

static int set_up(void **state)
{
    context = test_context();
    pack_load(context, "hdf5", &store);
    return 0;
}

static int tear_down(void **state)
{
    stk_store_close(&store);
    stk_context_destroy(&context);
    return 0;
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

/* The whole of a file of the pack. */
static uint8_t *load(const char *key, uint64_t *size)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    uint8_t *data = malloc(info.size);
    assert_non_null(data);
    assert_ok(stk_store_read(store, key, 0, info.size, data, &err), &err);
    *size = info.size;
    return data;
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
        assert_int_equal(count, 2 + 301);
        stk_group_close(&g);
    }
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
    assert_fails(stk_group_open(context, FILES "netcdf.h5/t2m", &g, &err), STK_EMISMATCH, &err, "no group");
    assert_fails(stk_array_open(context, FILES "netcdf.h5", NULL, &a, &err), STK_EMISMATCH, &err,
                 "name one");
    assert_fails(stk_array_open(context, FILES "netcdf.h5/forecast", NULL, &a, &err),
                 STK_EMISMATCH, &err, "name one");
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
        "\"\"], \"one\": 7, \"nothing\": null}";
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

/* A dimension without a variable has no values. */
static void test_bare_dimension(void **state)
{
    uint64_t size = 0;
    uint8_t *data = load("files/netcdf.h5", &size);
    static const char name[] = "_nc4_non_coord_bare";
    stk_array *a = NULL;
    stk_error err;

    for (uint64_t i = 0; i + sizeof name < size; i++)
        if (memcmp(data + i, name, sizeof name - 1) == 0)
            data[i] = 'X';
    assert_ok(stk_store_put(store, "other.nc", data, size, NULL, &err), &err);
    free(data);
    /* The name is in a checked block, so that the change is seen as damage. */
    stk_status status = stk_array_open(context, "mem://pack/other.nc/bare", NULL, &a, &err);
    assert_true(status == STK_ECHECKSUM || status == STK_EFORMAT);
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
    uint8_t *data = load(key, &size);
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
        uint8_t *data = load(keys[k], &size);
        stk_array *a = NULL;
        stk_error err;
        assert_ok(stk_store_put(store, "cut.h5", data, size - 1, NULL, &err), &err);
        assert_fails(stk_array_open(context, "mem://pack/cut.h5/masks", NULL, &a, &err),
                     STK_ETRUNCATED, &err, "cut off");
        free(data);
    }
}

/* ---- The file of indexes ---- */

#define MANY (FILES "indexes_latest.h5/many")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),          cmocka_unit_test(test_circle),
        cmocka_unit_test(test_group_array),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_lengths),        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_bare_dimension),
        cmocka_unit_test(test_damage),         cmocka_unit_test(test_cut_off),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
