/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a store that says what it likes: of objects larger than any memory, whose heads alone
 * are there, and names of parts that nobody has put. */
#include <inttypes.h>

#include "checkpoint/parts.h"
#include "uploads.h"

#define BYTES 4096 /* of the tensor, that the first has */

static stk_store_ops claiming;

/* Parts are longer than they are, by what their heads say of their data. */
static stk_status claiming_stat(stk_store *store, const char *key, const stk_store_call *call,
                                stk_object_info *out, stk_error *err)
{
    uint64_t bytes = 0;
    char head[512];

    STK_TRY(stk__store_mem.stat(store, key, call, out, err));
    if (!strstr(key, "-of-"))
        return STK_OK;
    assert_true(out->size < sizeof head);
    assert_ok(stk_store_read(store, key, 0, out->size, head, err), err);
    head[out->size] = 0;
    const char *offsets = out->size > 8 ? strstr(head + 8, "[0,") : NULL;
    if (offsets && sscanf(offsets, "[0,%" SCNu64 "]", &bytes) == 1)
        out->size += bytes;
    return STK_OK;
}

static stk_status claiming_open(stk_context *ctx, const char *url, const void *options,
                                stk_store **out, stk_error *err)
{
    return test_open_over_mem(&claiming, ctx, url, out, err);
}

/* The first of a save, with BYTES bytes of a tensor of two sides; the rest is said to lie in two
 * more parts. */
static void put_first(world *w, const stk__checkpoint_part *part, const char *url,
                      const int64_t sides[2])
{
    static uint8_t values[BYTES], file[2 * BYTES];
    const stk_state_tensor tensors[] = {
        {STK__CHECKPOINT_RANGE "w", STK_UINT8, 1, {BYTES}, values, BYTES},
        {STK__CHECKPOINT_SHAPE "w", STK_INT64, 1, {2}, (void *)sides, 2 * sizeof *sides}};
    char text[STK__CHECKPOINT_PART_TEXT], path[300];
    stk_error err;

    stk__part_text(part, text);
    snprintf(path, sizeof path, "%s/first.ckpt", w->dir);
    const stk__checkpoint_text own = {STK__CHECKPOINT_PART, text};
    assert_ok(stk__checkpoint_save(w->writer, path, tensors, 2, &own, 1, NULL, 0, NULL, &err),
              &err);
    assert_ok(stk__checkpoint_flush(w->writer, &err), &err);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    const size_t n = fread(file, 1, sizeof file, in);
    fclose(in);
    put_bytes(w, url, file, n);
}

static void put_part(world *w, stk__checkpoint_part part, uint32_t number, const char *url,
                     uint64_t bytes)
{
    char text[STK__CHECKPOINT_PART_TEXT], file[400];

    part.number = number;
    stk__part_text(&part, text);
    const int n =
        snprintf(file + 8, sizeof file - 8,
                 "{\"__metadata__\":{\"" STK__CHECKPOINT_PART "\":\"%s\"},\"" STK__CHECKPOINT_RANGE
                 "w\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[0,%" PRIu64 "]}}",
                 text, bytes, bytes);
    for (int i = 0; i < 8; i++)
        file[i] = (char)((uint64_t)n >> 8 * i);
    char *path = stk__part_path(w->ctx, url, &part, number);
    assert_non_null(path);
    put_bytes(w, path, file, 8 + (size_t)n);
    stk__free(w->ctx, path);
}

/* Up to the last that 64 bits can count. */
static void more_than_any_memory(void **state)
{
    static const int64_t sides[][2] = {
        {INT64_MAX, 2}, {INT64_MAX / 31, 62}, {INT64_MAX - 31, 2}, {INT64_MAX / 2, 4}};
    stk__checkpoint_part part = {.count = 3};
    world *w = *state;
    char url[64];
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(sides); i++) {
        const uint64_t rest = (uint64_t)sides[i][0] * (uint64_t)sides[i][1] - BYTES;
        stk__checkpoint *c = NULL;
        snprintf(url, sizeof url, "claiming://%zu/a.ckpt", i);
        stk__checkpoint_part_draw(&part);
        put_first(w, &part, url, sides[i]);
        put_part(w, part, 1, url, INT64_MAX);
        put_part(w, part, 2, url, rest - INT64_MAX);
        assert_fails(stk__checkpoint_open(w->ctx, url, &c, &err), STK_EBUDGET, &err,
                     "bytes of tensors with its parts");
        assert_null(c);
    }
}

/* Whatever count a name says, and however many saves there are names of, each name is removed once,
 * and each checkpoint beside them is looked at once. */
static void names_of_anybody(void **state)
{
    static const char folder[] = "noted://h/version_0", *const whole = "noted://h/version_0/a.ckpt";
    const stk__newest_where goes_on = {.runs = "noted://h", .goes_on = true};
    static const unsigned saves[] = {1, 200};
    unsigned reads[STK_COUNT(saves)];
    char url[300], found[300];
    world *w = *state;
    stk_error err;

    w->age = 1000;
    save(w, whole, 1, NULL);
    upload(w);
    for (size_t i = 0; i < STK_COUNT(saves); i++) {
        unsigned removed = 0;
        for (unsigned k = 0; k < saves[i]; k++) {
            snprintf(url, sizeof url,
                     "%s/" STK__CHECKPOINT_PARTS "/%032x-%05u-of-1048576.safetensors", folder, k,
                     1 + k % 2);
            put_bytes(w, url, "x", 1);
            strcat(url, STK__UPLOAD_MARK);
            put_bytes(w, url, "x", 1);
        }
        w->log[0] = 0;
        w->reads = 0;
        assert_ok(stk__checkpoint_newest(w->ctx, &goes_on, found, sizeof found, &err), &err);
        assert_string_equal(found, whole);
        for (const char *at_line = w->log; (at_line = strstr(at_line, "remove ")); at_line++)
            removed++;
        if (i == 0)
            assert_int_equal(removed, 2); /* an object and its mark */
        assert_false(is_there(w, url));
        reads[i] = w->reads;
    }
    assert_int_equal(reads[1], reads[0]);
    assert_int_equal(w->warnings, 0);
}

static void put_name(world *w, const stk__checkpoint_part *part, uint32_t number)
{
    char *url = stk__part_path(w->ctx, "claiming://d/a.ckpt", part, number);

    assert_non_null(url);
    put_bytes(w, url, "x", 1);
    stk__free(w->ctx, url);
}

static bool has_name(world *w, const stk__checkpoint_part *part, uint32_t number)
{
    char *url = stk__part_path(w->ctx, "claiming://d/a.ckpt", part, number);

    assert_non_null(url);
    const bool there = is_there(w, url);
    stk__free(w->ctx, url);
    return there;
}

/* Of one save: what others put meanwhile stays, however names are listed. */
static void parts_of_one_save(void **state)
{
    const stk__checkpoint_part parts[] = {
        {{2, 7}, 0, 3}, {{2, 8}, 0, 3}, {{1, 9}, 0, 3}, {{3, 0}, 0, 3}};
    world *w = *state;
    stk_error err;

    stk__put_place place = {.context = w->ctx};
    for (uint32_t k = 1; k < 3; k++)
        for (size_t i = 0; i < STK_COUNT(parts); i++)
            put_name(w, &parts[i], k);
    assert_ok(stk__parts_objects_drop(&place, "claiming://d/a.ckpt", &parts[1], &err), &err);
    for (uint32_t k = 1; k < 3; k++)
        for (size_t i = 0; i < STK_COUNT(parts); i++)
            assert_int_equal(has_name(w, &parts[i], k), i != 1);
    /* One whose first is there, as what is listed in between is not. */
    put_first(w, &parts[0], "claiming://d/a.ckpt", (const int64_t[]){INT64_MAX, 2});
    assert_ok(stk__parts_objects_sweep(&place, "claiming://d/a.ckpt", &err), &err);
    for (uint32_t k = 1; k < 3; k++)
        for (size_t i = 0; i < STK_COUNT(parts); i++)
            assert_int_equal(has_name(w, &parts[i], k), i == 0);
    stk__put_place_close(&place);
}

typedef struct passing {
    stk_list_fn *each;
    void *user;
    const char *number;
} passing;

static stk_status pass_number(void *user, const char *key, const stk_object_info *info)
{
    const passing *p = user;

    return strstr(key, p->number) || !strstr(key, "-of-") ? p->each(p->user, key, info) : STK_OK;
}

/* Names of parts in the order of their numbers, those of all saves mixed. */
static stk_status claiming_list(stk_store *store, const char *prefix, const stk_store_call *call,
                                stk_list_fn *each, void *user, stk_error *err)
{
    static const char *const numbers[] = {"-00002-of-", "-00001-of-"};

    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        passing p = {each, user, numbers[i]};
        STK_TRY(stk__store_mem.list(store, prefix, call, pass_number, &p, err));
    }
    return STK_OK;
}

static int begin(void **state)
{
    stk_error err;

    assert_int_equal(set_up(state), 0);
    claiming = stk__store_mem;
    claiming.name = "claiming";
    claiming.open = claiming_open;
    claiming.stat = claiming_stat;
    claiming.list = claiming_list;
    claiming.copy = NULL;
    assert_ok(stk_driver_add(at->ctx, STK_DRIVER_STORE, &claiming, &err), &err);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_than_any_memory, begin, tear_down),
        cmocka_unit_test_setup_teardown(names_of_anybody, begin, tear_down),
        cmocka_unit_test_setup_teardown(parts_of_one_save, begin, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
