/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of torch.save() and of checkpoints, written as safetensors, against torch's own files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/weights/weights.h"
#include "store/store.h"
#include "support/faults.h"
#include "support/over_mem.h"
#include "support/support.h"
#include "support/text.h"

#define GOLDEN TESTS_DIR "/golden/pth/"

static stk_context *ctx;
static stk_error err;
static char folder[256];
static const stk_weights_options again = {.struct_size = sizeof again, .overwrite = true};

static int setup(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int teardown(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const stk_state_tensor *find(const stk__weights *w, const char *name)
{
    for (size_t i = 0; i < w->num_tensors; i++)
        if (strcmp(w->tensors[i].name, name) == 0)
            return &w->tensors[i];
    fail_msg("there is no '%s'", name);
    return NULL;
}

static void assert_same(const char *a_path, const char *b_path)
{
    stk__weights a, b;

    assert_ok(stk__weights_load(ctx, a_path, NULL, &a, &err), &err);
    assert_ok(stk__weights_load(ctx, b_path, NULL, &b, &err), &err);
    assert_int_equal(a.num_tensors, b.num_tensors);
    for (size_t i = 0; i < a.num_tensors; i++) {
        const stk_state_tensor *x = &a.tensors[i], *y = find(&b, x->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->shape, y->shape, sizeof x->shape);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    stk__weights_release(&a);
    stk__weights_release(&b);
}

/* What Python's save_file() writes has the same tensors and says "pt". */
static void test_of_torch(void **state)
{
    static const char *const names[] = {"types", "protocol3", "strided", "model", "checkpoint"};
    char from[512], wanted[512];
    stk__weights w;
    size_t written;

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const char *to = in_folder("torch.safetensors");
        snprintf(from, sizeof from, GOLDEN "%s.pth", names[i]);
        snprintf(wanted, sizeof wanted, GOLDEN "%s.safetensors", names[i]);
        assert_ok(stk_weights_convert(ctx, from, to, &again, &written, &err), &err);
        assert_same(to, wanted);
        assert_ok(stk__weights_load(ctx, to, NULL, &w, &err), &err);
        assert_int_equal(w.num_tensors, written);
        assert_string_equal(stk__safetensors_find_text(&w.file.parsed, "format"), "pt");
        stk__weights_release(&w);
    }
}

/* A checkpoint with two weights, a moment of an optimizer and texts. */
static void save_checkpoint(const char *path)
{
    static const float values[] = {1, 2, 3, 4, 5, 6};
    static const int64_t steps = 7;
    const stk_state_tensor tensors[] = {
        {"0.weight", STK_FLOAT32, 2, {2, 3}, (void *)values, sizeof values},
        {"stoker.optimizer.0.weight.exp_avg", STK_FLOAT32, 2, {2, 3}, (void *)values, 24},
        {"1.num_batches_tracked", STK_INT64, 0, {0}, (void *)&steps, sizeof steps}};
    const stk__checkpoint_text texts[] = {{"epoch", "1"}, {"stoker.loops", "epoch 1\n"}};
    stk__checkpoint_writer *writer;

    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    assert_ok(stk__checkpoint_save(writer, path, tensors, 3, texts, 2, NULL, 0, NULL, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    stk__checkpoint_writer_destroy(&writer);
}

static void test_of_checkpoint(void **state)
{
    const char *from = in_folder("last.ckpt"), *to = in_folder("plain.safetensors");
    stk__safetensors_file file;
    size_t written = 0;

    save_checkpoint(from);
    assert_ok(stk_weights_convert(ctx, from, to, NULL, &written, &err), &err);
    assert_int_equal(written, 2);
    assert_same(from, to);
    assert_ok(stk__safetensors_file_open(ctx, to, &file, &err), &err);
    assert_int_equal(file.parsed.num_tensors, 2);
    assert_int_equal(file.parsed.num_texts, 1);
    assert_int_equal(stk__safetensors_find(&file.parsed, "1.num_batches_tracked")->rank, 0);
    stk__safetensors_file_close(&file);
    /* Onto itself, and another form of its name. */
    assert_ok(stk_weights_convert(ctx, to, to, &again, &written, &err), &err);
    assert_same(from, to);
}

/* One byte of it is changed: it is no checkpoint any more. */
static void test_damaged(void **state)
{
    const char *from = in_folder("bad.ckpt"), *to = in_folder("bad.safetensors");

    save_checkpoint(from);
    FILE *f = fopen(from, "r+b");
    assert_true(f && fseek(f, -1, SEEK_END) == 0 && fputc(0x55, f) == 0x55 && fclose(f) == 0);
    assert_fails(stk_weights_convert(ctx, from, to, NULL, NULL, &err), STK_ECHECKSUM, &err,
                 "is damaged");
    assert_null(fopen(to, "rb"));
    /* For a model to begin with, neither. */
    stk__weights w;
    assert_fails(stk__weights_load(ctx, from, NULL, &w, &err), STK_ECHECKSUM, &err, "is damaged");
}

/* ---- A store that counts what is read ---- */

static stk_store_ops counting;
static uint64_t bytes_read;

static stk_status counting_open_mem(stk_context *context, const char *url, const void *options,
                                    stk_store **out, stk_error *e)
{
    return test_open_over_mem(&counting, context, url, out, e);
}

static stk_status counting_submit(stk_store *store, stk_read *read)
{
    bytes_read += read->length;
    return stk__store_mem.submit(store, read);
}

/* It is read once: what was verified is what is written. */
static void test_read_once(void **state)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk_store *store;
    char key[64];

    counting = stk__store_mem;
    counting.name = "counting";
    counting.open = counting_open_mem;
    counting.submit = counting_submit;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &counting, &err), &err);
    save_checkpoint("mem://runs/last.ckpt");
    assert_ok(stk_store_open(ctx, "mem://runs/last.ckpt", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_stat(store, key, NULL, &info, &err), &err);
    stk_store_close(&store);
    bytes_read = 0;
    assert_ok(stk_weights_convert(ctx, "counting://runs/last.ckpt", in_folder("once.safetensors"),
                                  NULL, NULL, &err),
              &err);
    /* And what it begins with, to see which format it has and how long its header is. */
    assert_int_equal(bytes_read, info.size + 4 + 8);
}

static void test_refused(void **state)
{
    const char *from = GOLDEN "model.pth", *to = in_folder("kept.safetensors");
    char found[8] = "";

    test_write(folder, "kept.safetensors", "kept", 4);
    assert_fails(stk_weights_convert(ctx, from, to, NULL, NULL, &err), STK_EEXIST, &err,
                 "exists already: choose another name, or set overwrite (--overwrite)");
    FILE *f = fopen(to, "rb");
    assert_true(f && fread(found, 1, sizeof found, f) == 4);
    fclose(f);
    assert_string_equal(found, "kept");
    assert_fails(stk_weights_convert(ctx, from, in_folder("a.pth"), NULL, NULL, &err), STK_EINVAL,
                 &err, "NAME.safetensors");
    assert_fails(stk_weights_convert(ctx, from, ".safetensors", NULL, NULL, &err), STK_EINVAL, &err,
                 "NAME.safetensors");
    assert_fails(stk_weights_convert(ctx, GOLDEN "empty.pth", in_folder("none.safetensors"), NULL,
                                     NULL, &err),
                 STK_EMISMATCH, &err, "has no weights");
    assert_fails(stk_weights_convert(ctx, GOLDEN "bad/code.pth", in_folder("none.safetensors"),
                                     NULL, NULL, &err),
                 STK_EKIND, &err, "posix.system");
}

/* Where nothing is written there is no folder; what is there is seen before the source is. */
static void test_no_trace(void **state)
{
    const char *to = in_folder("new/sub/kept.onnx");

    const stk_weights_options other = {
        .struct_size = sizeof other, .layers = "flatten, linear(2)", .input_shape = "3x4x4"};
    assert_fails(stk_weights_convert(ctx, GOLDEN "model.pth", to, &other, NULL, &err),
                 STK_EMISMATCH, &err, "another model");
    assert_int_equal(access(in_folder("new"), F_OK), -1);
    test_write(folder, "seen.safetensors", "kept", 4);
    assert_fails(
        stk_weights_convert(ctx, "none.pth", in_folder("seen.safetensors"), NULL, NULL, &err),
        STK_EEXIST, &err, "exists already");
}

/* A target of a store may have options. */
static void test_to_store(void **state)
{
    char to[600], plain[512];
    size_t written;

    snprintf(plain, sizeof plain, "%s", in_folder("slow.safetensors"));
    snprintf(to, sizeof to, "slow+%s?latency=0", plain);
    assert_ok(stk_weights_convert(ctx, GOLDEN "model.pth", to, NULL, &written, &err), &err);
    assert_same(plain, GOLDEN "model.safetensors");
    assert_fails(stk_weights_convert(ctx, GOLDEN "model.pth", to, NULL, NULL, &err), STK_EEXIST,
                 &err, "exists already");
}

static bool another(void *user)
{
    test_write(folder, "raced.safetensors", "kept", 4);
    return false;
}

/* What another process has made meanwhile is not replaced. */
static void test_raced(void **state)
{
    const stk_weights_options options = {.struct_size = sizeof options, .canceled = another};
    size_t length;

    assert_fails(stk_weights_convert(ctx, GOLDEN "model.pth", in_folder("raced.safetensors"),
                                     &options, NULL, &err),
                 STK_EEXIST, &err, "exists already");
    free(test_load(in_folder("raced.safetensors"), &length));
    assert_int_equal(length, 4);
}

static bool count_down(void *user)
{
    int *left = user;

    return (*left)-- == 0;
}

/* Whenever it is stopped, there is nothing of it. */
static void test_stopped(void **state)
{
    const char *to = in_folder("stopped.safetensors");
    int left, n = 0;
    stk_weights_options options = {
        .struct_size = sizeof options, .canceled = count_down, .user = &left};
    stk_status status;

    do {
        left = n;
        status = stk_weights_convert(ctx, GOLDEN "model.pth", to, &options, NULL, &err);
        if (status == STK_OK)
            break;
        assert_int_equal(status, STK_ECANCELED);
        assert_non_null(strstr(err.text, "was stopped"));
        assert_int_equal(access(to, F_OK), -1);
    } while (++n);
    /* Reads and writes. */
    assert_true(n > 20);
}

/* The n-th allocation fails: said so, nothing is held, and there is no file. */
static void test_no_memory(void **state)
{
    const char *to = in_folder("poor.safetensors");
    faults f = {.left = FAULTS_NONE};
    stk_context_options o;
    stk_context *poor;

    stk_context_options_init(&o);
    o.allocator = (stk_allocator){.alloc = faulty_alloc, .free = faulty_free, .user = &f};
    assert_int_equal(stk_context_create(&o, &poor, &err), STK_OK);
    for (int64_t n = 0;; n++) {
        const int64_t held = f.held;
        f.left = n;
        const stk_status status =
            stk_weights_convert(poor, GOLDEN "strided.pth", to, NULL, NULL, &err);
        f.left = FAULTS_NONE;
        if (status == STK_OK) {
            assert_true(n > 10);
            break;
        }
        assert_int_equal(status, STK_ENOMEM);
        assert_int_equal(f.held, held);
        assert_null(fopen(to, "rb"));
    }
    stk_context_destroy(&poor);
    assert_int_equal(f.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_torch),  cmocka_unit_test(test_of_checkpoint),
        cmocka_unit_test(test_damaged),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_read_once),
        cmocka_unit_test(test_no_trace),  cmocka_unit_test(test_to_store),
        cmocka_unit_test(test_stopped),   cmocka_unit_test(test_raced),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
