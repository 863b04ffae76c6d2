/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of HDF5 and npz on a web server: every row once, with its values. */
#include "support/http_server.h"
#include "unit/dataset/rows.h"

typedef struct fixture {
    stk_context *context;
    http_server *server;
    char folder[256];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->context = test_context();
    test_folder(f->folder);
    f->server = http_server_start(&(http_server_options){.root = f->folder, .seed = 1});
    assert_non_null(f->server);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    http_server_stop(&f->server);
    stk_context_destroy(&f->context);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

static void put_served(fixture *f, const char *name)
{
    static char data[65536];
    char path[512];

    snprintf(path, sizeof path, GOLDEN "%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    snprintf(path, sizeof path, "/%s", name);
    assert_true(http_server_put(f->server, path, data, size));
}

static void test_served(void **state)
{
    static const struct {
        const char *file, *spec;
    } cases[] = {{"table.h5", "hdf5:%s/table.h5"},
                 {"table.h5", "%s/table.h5"},
                 {"stored.npz", "npz:%s/stored.npz"},
                 {"deflated.npz", "npz:%s/deflated.npz"},
                 {"stored.npz", "%s/stored.npz"}};
    fixture *f = *state;
    char spec[300];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        put_served(f, cases[i].file);
        snprintf(spec, sizeof spec, cases[i].spec, http_server_url(f->server));
        stk_dataset *d = open_windows(f->context, spec);
        stk_loader_options o = window_options();
        o.shuffle = STK_SHUFFLE_FULL;
        check_epoch(d, &o);
        stk_dataset_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_served, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
