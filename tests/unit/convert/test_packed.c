/* SPDX-License-Identifier: Apache-2.0 */
/* Packed pictures: what they are, how they go on, and that a loader gives what the same transforms
 * make of the source. */
#include "packed.h"

#include <sys/wait.h>

#define KILLED 42

typedef struct folders {
    char from[256], to[256], spec[300], target[300], packed[320];
} folders;

static void make_folders(folders *f)
{
    test_folder(f->from);
    test_folder(f->to);
    tree_make(f->from);
    snprintf(f->spec, sizeof f->spec, "images:%s?index=none", f->from);
    snprintf(f->target, sizeof f->target, "%s/x.zarr", f->to);
    snprintf(f->packed, sizeof f->packed, "images:%s", f->target);
}

static void remove_folders(folders *f)
{
    test_folder_remove(f->from);
    test_folder_remove(f->to);
}

/* ---- Round trips ----------------------------------------------------------------------------- */

/* Whatever the loader is told: the packed pictures are those of the source, in the same order. */
static void same_loads(stk_context *ctx, const folders *f, const char *packing, const char *then)
{
    char all[128];

    snprintf(all, sizeof all, "%s%s%s", packing, *then ? ", " : "", then);
    packed_load a = packed_loading(f->spec, all), b = packed_loading(f->packed, then);
    for (int i = 0; i < 8; i++) {
        b.options.num_workers = i % 3;
        a.options.batch_size = b.options.batch_size = (uint64_t)(1 + i * i % 7);
        a.options.shuffle = b.options.shuffle = i & 1 ? STK_SHUFFLE_FULL : STK_SHUFFLE_NONE;
        a.options.seed = b.options.seed = (uint64_t)i;
        b.options.cache = i & 2 ? STK_CACHE_DECODED : STK_CACHE_NONE;
        assert_int_equal(packed_same(ctx, &a, &b), 2 * TREE_FILES);
    }
    /* In blocks the packed ones are their own order, which no worker changes. */
    a = b;
    a.options.shuffle = b.options.shuffle = STK_SHUFFLE_BLOCK;
    a.options.num_workers = 0;
    b.options.num_workers = 2;
    assert_int_equal(packed_same(ctx, &a, &b), 2 * TREE_FILES);
}

static void test_one_size(void **state)
{
    stk_context *ctx = test_context();
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    packed_run_init(&run);
    run.own.size = "20x24";
    run.options.num_workers = 2;
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    assert_int_equal(run.report.total, TREE_FILES);
    assert_int_equal(run.report.verified, TREE_FILES);
    assert_int_equal(run.report.skipped, 0);
    same_loads(ctx, &f, "resize(24), center_crop(20x24)", "");
    same_loads(ctx, &f, "resize(24), center_crop(20x24)", "center_crop(16), normalize(imagenet)");
    /* Without checksums it is the same. */
    run.own.checksum = false;
    run.options.overwrite = true;
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    same_loads(ctx, &f, "resize(24), center_crop(20x24)", "");
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

static void test_short_side(void **state)
{
    stk_context *ctx = test_context();
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    packed_run_init(&run);
    run.own.short_side = 20;
    run.options.num_workers = 2;
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    assert_int_equal(run.report.total, TREE_FILES);
    same_loads(ctx, &f, "resize(20)", "center_crop(16x18)");
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

/* One class alone, whose labels are all 0, and a header that begins late in its file. */
static void test_one_class(void **state)
{
    static uint8_t file[1 << 17] = {0xff, 0xd8};
    stk_context *ctx = test_context();
    size_t used = 2;
    packed_run run;
    stk_error err;
    folders f;

    test_folder(f.from);
    test_folder(f.to);
    snprintf(f.spec, sizeof f.spec, "images:%s?index=none", f.from);
    snprintf(f.target, sizeof f.target, "%s/x.zarr", f.to);
    snprintf(f.packed, sizeof f.packed, "images:%s", f.target);
    tree_add(f.from, "base_420.jpg", "cat/base.jpg");
    bytes base = tree_load(f.from, "cat/base.jpg");
    for (int i = 0; i < 2; i++, used += 40002)
        memcpy(file + used, "\xff\xef\x9c\x40", 4); /* APP15 of 40000 bytes */
    memcpy(file + used, base.data + 2, base.size - 2);
    test_write(f.from, "cat/late.jpg", file, used + base.size - 2);
    free(base.data);
    packed_run_init(&run);
    run.own.short_side = 20;
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    const packed_load a = packed_loading(f.spec, "resize(20), center_crop(18)"),
                      b = packed_loading(f.packed, "center_crop(18)");
    assert_int_equal(packed_same(ctx, &a, &b), 4);
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

/* Pictures of one size need no options; small ones share chunks, of which the last is short. In
 * small shards they make several groups. */
static void test_classic(void **state)
{
    stk_context *ctx = test_context();
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    for (int i = 0; i < 2; i++) {
        packed_run_init(&run);
        run.own.shard_size = i ? 4096 : 40000;
        assert_ok(packed_convert(ctx, &run, "digits:?size=2999", f.target, &err), &err);
        const packed_load a = packed_loading("digits:?size=2999", "");
        packed_load b = packed_loading(f.packed, "");
        assert_int_equal(packed_same(ctx, &a, &b), 5998);
        /* Without a prefix it is known by what it says of itself. */
        b.spec = f.target;
        assert_int_equal(packed_same(ctx, &a, &b), 5998);
        test_folder_remove(f.to);
        test_folder(f.to);
        snprintf(f.target, sizeof f.target, "%s/x.zarr", f.to);
        snprintf(f.packed, sizeof f.packed, "images:%s", f.target);
    }
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

/* From where a loader stopped, another goes on. */
static void test_goes_on(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = NULL;
    stk_loader *loader[2] = {NULL, NULL};
    stk_batch *batch[2] = {NULL, NULL};
    stk_loader_state at;
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    packed_run_init(&run);
    run.own.size = "16";
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    packed_load load = packed_loading(f.packed, "horizontal_flip");
    load.options.shuffle = STK_SHUFFLE_BLOCK;
    assert_ok(stk_dataset_open(ctx, f.packed, &dataset, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_ok(stk_loader_create(dataset, &load.options, &loader[i], &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_ok(stk_loader_next(loader[0], -1, &batch[0], &err), &err);
        stk_batch_get_state(batch[0], &at);
        stk_batch_release(&batch[0]);
    }
    assert_ok(stk_loader_restore(loader[1], &at, &err), &err);
    for (int i = 0; i < 2; i++) {
        stk_tensor image[2] = {{.struct_size = sizeof *image}, {.struct_size = sizeof *image}};
        for (int k = 0; k < 2; k++) {
            assert_ok(stk_loader_next(loader[k], -1, &batch[k], &err), &err);
            assert_int_equal(stk_batch_find(batch[k], "image", &image[k]), STK_OK);
        }
        assert_int_equal(stk_batch_count(batch[0]), stk_batch_count(batch[1]));
        assert_memory_equal(image[0].data, image[1].data, stk_batch_count(batch[0]) * 16 * 16 * 3);
        stk_batch_release(&batch[0]);
        stk_batch_release(&batch[1]);
    }
    stk_loader_destroy(&loader[0]);
    stk_loader_destroy(&loader[1]);
    stk_dataset_close(&dataset);
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void exit_at(void *user, const char *what, uint64_t done, uint64_t total)
{
    if (total >= TREE_FILES && done >= *(uint64_t *)user && done < total)
        _exit(KILLED);
}

/* Convert in a child that ends, without any clean-up, when so many pictures are done. */
static void kill_after(uint64_t pictures, packed_run *run, const folders *f)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;
    int status;

    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stk_context_options_init(&options);
        options.progress = exit_at;
        options.progress_user = &pictures;
        if (stk_context_create(&options, &ctx, &err) != STK_OK)
            _exit(1);
        _exit(packed_convert(ctx, run, f->spec, f->target, &err) == STK_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KILLED);
}

/* Two that are broken: one has no header, of the other the pixels end early. */
static void break_some(const folders *f)
{
    bytes whole = tree_load(f->from, "cat/base.jpg");

    test_write(f->from, "cat/nothing.jpg", "nothing", 7);
    test_write(f->from, "dog/half.jpg", whole.data, whole.size / 2);
    free(whole.data);
}

/* Killed and run again, by other threads: byte for byte what an undisturbed run writes, and the
 * same pictures are left out. */
static void kill_and_resume(bool ragged)
{
    stk_context *ctx = test_context();
    char whole[320];
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    snprintf(whole, sizeof whole, "%s/whole.zarr", f.to);
    packed_run_init(&run);
    run.own.size = ragged ? NULL : "80";
    run.own.short_side = ragged ? 80 : 0;
    run.options.checkpoint = 1;
    run.options.num_workers = 0;
    run.options.on_error = 1;
    run.options.max_errors = "2";
    break_some(&f);
    assert_ok(packed_convert(ctx, &run, f.spec, whole, &err), &err);
    for (uint64_t n = 1; n < TREE_FILES - 2; n++) {
        run.options.num_workers = (int64_t)(n % 3);
        kill_after(n, &run, &f);
        run.options.num_workers = (int64_t)((n + 1) % 3);
        assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
        tree_equal(whole, f.target);
        /* Once more: nothing is left to do. */
        memset(&run.report, 0, sizeof run.report);
        run.report.struct_size = sizeof run.report;
        assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
        assert_int_equal(run.report.resumed, TREE_FILES + 2);
        test_folder_remove(f.target);
    }
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

static void test_kill_and_resume(void **state)
{
    kill_and_resume(false);
}

static void test_kill_and_resume_ragged(void **state)
{
    kill_and_resume(true);
}

/* ---- Broken sources -------------------------------------------------------------------------- */

static void broken_sources(bool ragged)
{
    stk_context *ctx = test_context();
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    packed_run_init(&run);
    run.own.size = ragged ? NULL : "24";
    run.own.short_side = ragged ? 24 : 0;
    break_some(&f);
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EFORMAT, &err,
                 "cat/nothing.jpg");
    assert_int_equal(err.sample, 3);
    run.options.on_error = 1;
    run.options.max_errors = "1";
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EBADSAMPLES, &err,
                 "max_errors allows 1");
    run.options.max_errors = "2";
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    assert_int_equal(run.report.total, TREE_FILES + 2);
    assert_int_equal(run.report.skipped, 2);
    /* What was left out is no sample, and the others are where they were. */
    assert_int_equal(
        unlink((snprintf(f.packed, sizeof f.packed, "%s/cat/nothing.jpg", f.from), f.packed)), 0);
    assert_int_equal(
        unlink((snprintf(f.packed, sizeof f.packed, "%s/dog/half.jpg", f.from), f.packed)), 0);
    snprintf(f.packed, sizeof f.packed, "images:%s", f.target);
    const packed_load a = packed_loading(f.spec, "resize(24), center_crop(24)"),
                      b = packed_loading(f.packed, ragged ? "center_crop(24)" : "");
    assert_int_equal(packed_same(ctx, &a, &b), 2 * TREE_FILES);
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

static void test_broken(void **state)
{
    broken_sources(false);
}

static void test_broken_ragged(void **state)
{
    broken_sources(true);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    static const char *const sizes[] = {"",        "x24",     "24x",   "0x24",
                                        "24x24x3", "24 x 24", "16385", "-1"};
    stk_context *ctx = test_context();
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    packed_run_init(&run);
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EINVAL, &err,
                 "differ in size: set packed.size");
    for (size_t i = 1; i < STK_COUNT(sizes); i++) {
        run.own.size = sizes[i];
        assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EINVAL, &err,
                     "is no size; write HEIGHTxWIDTH");
    }
    run.own.size = "24";
    run.own.short_side = 24;
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EINVAL, &err,
                 "leave one of them out");
    run.own.short_side = 0;
    run.options.max_errors = "3";
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EINVAL, &err, "on_error");
    run.options.max_errors = NULL;
    run.options.memory_budget = 4096;
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EBUDGET, &err,
                 "set a smaller packed.shard_size");
    run.options.memory_budget = 0;
    run.own.size = NULL;
    run.own.short_side = 24;
    assert_fails(packed_convert(ctx, &run, "digits:?size=10", f.target, &err), STK_ENOTSUP, &err,
                 "three channels");
    assert_fails(packed_convert(ctx, &run, "synthetic:?size=10&shape=8", f.target, &err),
                 STK_ENOTSUP, &err, "has no field");
    /* Another size is another conversion. */
    run.own.short_side = 0;
    run.own.size = "24";
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    run.own.size = "20";
    assert_fails(packed_convert(ctx, &run, f.spec, f.target, &err), STK_EMISMATCH, &err,
                 "overwrite");
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

static void test_dry_run(void **state)
{
    stk_context *ctx = test_context();
    packed_run run;
    stk_error err;
    folders f;

    make_folders(&f);
    packed_run_init(&run);
    run.own.size = "24";
    run.options.dry_run = true;
    assert_ok(packed_convert(ctx, &run, f.spec, f.target, &err), &err);
    assert_true(run.report.planned);
    assert_int_equal(run.report.total, TREE_FILES);
    assert_int_equal(run.report.bytes_after, TREE_FILES * 24 * 24 * 3);
    assert_true(run.report.bytes_before > 0 && run.report.seconds > 0);
    assert_non_null(strstr(run.report.text, "decoding costs now"));
    assert_int_not_equal(access(f.target, F_OK), 0);
    remove_folders(&f);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_size),
        cmocka_unit_test(test_short_side),
        cmocka_unit_test(test_classic),
        cmocka_unit_test(test_one_class),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_kill_and_resume),
        cmocka_unit_test(test_kill_and_resume_ragged),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_broken_ragged),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_dry_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
