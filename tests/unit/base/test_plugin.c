/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins: what is taken, and what is refused with nothing added. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "support/support.h"

static const char *path_of(const char *variant, char path[512])
{
    snprintf(path, 512, "%s/plugin_%s.so", PLUGINS_DIR, variant);
    return path;
}

static size_t datasets(const stk_context *ctx)
{
    size_t n = 0;

    while (stk_driver_at(ctx, STK_DRIVER_DATASET, n))
        n++;
    return n;
}

static void takes_all(void **state)
{
    static const char *const variants[] = {"GOOD", "LONGER"};
    char path[512];

    for (int i = 0; i < 2; i++) {
        stk_context *ctx = test_context(), *other = test_context();
        const size_t before = datasets(ctx);
        const stk_driver_head *own;
        stk_error err;

        assert_ok(stk_plugin_load(ctx, path_of(variants[i], path), &err), &err);
        assert_int_equal(datasets(ctx), before + 2);
        assert_ok(stk_driver_find(ctx, STK_DRIVER_DATASET, "OWN", &own, &err), &err);
        assert_string_equal(own->name, "own");
        assert_ptr_equal(stk_driver_at(ctx, STK_DRIVER_DATASET, before), own);
        /* Once more into the same context does nothing; another context has it by itself. */
        assert_ok(stk_plugin_load(ctx, path, &err), &err);
        assert_int_equal(datasets(ctx), before + 2);
        assert_int_equal(datasets(other), before);
        assert_null(stk_plugin_at(other, 0));
        assert_ok(stk_plugin_load(other, path, &err), &err);
        stk_context_destroy(&ctx);
        assert_int_equal(datasets(other), before + 2);
        assert_string_equal(stk_plugin_at(other, 0)->name, "variant");
        assert_null(stk_plugin_at(other, 1));
        stk_context_destroy(&other);
    }
}

static void refuses(void **state)
{
    static const struct {
        const char *variant;
        stk_status status;
        const char *text;
    } rows[] = {{"LATER", STK_EINVAL, "version 2 of the interface"},
                {"SMALL", STK_EINVAL, "struct_size 8"},
                {"COPY", STK_EINVAL, "another copy of libstoker"},
                {"TWICE", STK_EINVAL, "'own' already"},
                {"TAKEN", STK_EINVAL, "'digits' already"},
                {"EMPTY", STK_EINVAL, "brings no driver"},
                {"OTHER", STK_EINVAL, "stk_converter_ops"},
                {"NOTHING", STK_EINVAL, "no symbol stk_plugin_entry"},
                {"MISSING", STK_ENOENT, "No such file"}};
    stk_context *ctx = test_context();
    const size_t before = datasets(ctx);
    char path[512];
    stk_error err;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_fails(stk_plugin_load(ctx, path_of(rows[i].variant, path), &err), rows[i].status,
                     &err, rows[i].text);
        assert_non_null(strstr(err.text, path));
        assert_int_equal(datasets(ctx), before); /* none of it */
    }
    assert_fails(stk_plugin_load(ctx, PLUGINS_DIR, &err), STK_EINVAL, &err, "is no file");
    assert_fails(stk_plugin_load(ctx, TESTS_DIR "/CMakeLists.txt", &err), STK_EINVAL, &err,
                 "cannot be loaded");
    assert_fails(stk_plugin_load(ctx, "", &err), STK_EINVAL, &err, "no file");
    assert_fails(stk_plugin_load(NULL, path, &err), STK_EINVAL, &err, "no context");
    /* What was refused takes nothing from what comes after. */
    assert_ok(stk_plugin_load(ctx, path_of("GOOD", path), &err), &err);
    assert_int_equal(datasets(ctx), before + 2);
    stk_context_destroy(&ctx);
}

/* A list of a configuration: no sweep, loaded with consent alone, refused where nobody takes it. */
static void lists(void **state)
{
    char text[1200], path[512];
    stk_context *ctx = test_context();
    const size_t before = datasets(ctx);
    stk_config *config;
    stk_error err;

    snprintf(text, sizeof text, "plugins: [\"%s\", \"%s\"]\n", path_of("GOOD", path), path);
    assert_ok(stk_config_create(ctx, &config, &err), &err);
    assert_ok(stk_config_load_text(config, "own.yaml", text, strlen(text), &err), &err);
    assert_int_equal(stk_config_combinations(config), 1);
    assert_int_equal(stk__config_rungs(config), 1);
    assert_fails(stk_config_finish(config, &err), STK_EINVAL, &err, "plugins");
    assert_fails(stk_plugin_load_listed(ctx, config, false, &err), STK_EINVAL, &err,
                 "own.yaml:1:11: plugins: ");
    assert_int_equal(datasets(ctx), before);
    assert_ok(stk_plugin_load_listed(ctx, config, true, &err), &err);
    assert_int_equal(datasets(ctx), before + 2);
    assert_ok(stk_config_finish(config, &err), &err);
    stk_config_destroy(&config);
    stk_context_destroy(&ctx);
}

static void finds(void **state)
{
    const stk_driver_head *driver;
    stk_error err;

    assert_ok(stk_driver_find(NULL, STK_DRIVER_CALLBACK, "early-stopping", &driver, &err), &err);
    assert_string_equal(driver->name, "early_stopping");
    assert_fails(stk_driver_find(NULL, STK_DRIVER_LOGGER, "cvs", &driver, &err), STK_EINVAL, &err,
                 "there is no logger 'cvs'; did you mean 'csv'?");
    assert_null(driver);
    assert_fails(stk_driver_find(NULL, STK_DRIVER_ARRAY, "parquet", &driver, &err), STK_EINVAL,
                 &err, "there is no array format 'parquet'; there are zarr, npy, raw");
    for (int kind = 0; kind < STK_DRIVER_KINDS; kind++) {
        for (size_t i = 0; (driver = stk_driver_at(NULL, kind, i)); i++) {
            const stk_driver_head *found;
            assert_true(driver->struct_size >= sizeof *driver);
            assert_ok(stk_driver_find(NULL, kind, driver->name, &found, &err), &err);
            assert_ptr_equal(found, driver);
        }
        assert_non_null(stk_driver_at(NULL, kind, 0));
    }
    assert_null(stk_driver_at(NULL, STK_DRIVER_KINDS, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_all), cmocka_unit_test(refuses),
                                       cmocka_unit_test(lists), cmocka_unit_test(finds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
