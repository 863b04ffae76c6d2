/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose memory the host cannot touch: the tensors that the module shows lie in pages
 * without access, and only the copies of the device's table reach what is behind them. */
#include <sys/mman.h>
#include <unistd.h>

#include "unit/train/tiny.h"

enum { ROOM = 1 << 16 };

/* The same bytes twice: as the module works on them, and as it shows them. */
static char *inside, *shown;
static uint64_t copies;

static void *reach(const void *at)
{
    const char *c = at;

    return c >= shown && c < shown + ROOM ? inside + (c - shown) : (void *)at;
}

static stk_status copy(stk_stream *stream, void *to, const void *from, uint64_t bytes,
                       stk_copy_kind kind, stk_error *err)
{
    copies++;
    memcpy(reach(to), reach(from), bytes);
    return STK_OK;
}

static stk_status fill(stk_stream *stream, void *to, uint8_t byte, uint64_t bytes, stk_error *err)
{
    memset(reach(to), byte, bytes);
    return STK_OK;
}

typedef struct showing {
    stk_state_visit *visit;
    void *user;
} showing;

static stk_status show_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    const showing *s = user;
    stk_state_tensor far = *tensor;

    far.data = shown + ((char *)tensor->data - inside);
    return s->visit(s->user, kind, &far, err);
}

static stk_status far_state(stk_module *module, uint32_t kinds, stk_state_visit *visit, void *user,
                            stk_error *err)
{
    showing s = {visit, user};

    return tiny_state(module, kinds, show_one, &s, err);
}

static stk_status far_predict(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                              stk_tensor *prediction, stk_error *err)
{
    STK_TRY(tiny_predict_step(module, trainer, at, prediction, err));
    prediction->data = shown + ((char *)prediction->data - inside);
    return STK_OK;
}

static stk_device_ops far_ops;

static void go_far(bench *b, stk_trainer *t, void *user)
{
    far_ops = *t->device->ops;
    far_ops.copy = copy;
    far_ops.fill = fill;
    t->device->ops = &far_ops;
    t->host_memory = false;
}

static void add(bench *b, stk_trainer *t, const char *name)
{
    const stk_driver_head *ops;

    assert_ok(stk_driver_find(b->ctx, STK_DRIVER_CALLBACK, name, &ops, &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, (const stk_callback_ops *)ops, NULL, NULL, &b->err),
              &b->err);
}

static void with_ema(bench *b, stk_trainer *t, void *user)
{
    add(b, t, "ema");
    if (user)
        go_far(b, t, user);
}

static tiny *far_tiny(void)
{
    const int fd = memfd_create("device", MFD_CLOEXEC);

    assert_true(fd >= 0 && ftruncate(fd, ROOM) == 0);
    inside = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shown = mmap(NULL, ROOM, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(inside != MAP_FAILED && shown != MAP_FAILED);
    close(fd);
    return (tiny *)inside;
}

static void far_release(void)
{
    munmap(inside, ROOM);
    munmap(shown, ROOM);
}

/* A fit that is interrupted within an accumulation window's epoch and goes on from its file; what
 * it comes to. */
static void fit(tiny *m, bool far, float weights[TINY_SIZE])
{
    stk_trainer *t;
    bench b;

    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.options.gradient_clip_val = 0.5;
    b.options.detect_anomaly = true;
    b.options.nan_policy = STK_NAN_REWIND;
    b.options.accumulate_grad_batches = 2;
    b.options.max_epochs = 2;
    b.prepare = with_ema;
    b.user = far ? &b : NULL;
    for (int again = 0; again < 2; again++) {
        tiny_init(m);
        m->ops.optimizer_zero_grad = NULL;
        m->stop_at = again ? 0 : 13;
        m->nan_at = again ? 0 : 5;
        if (far)
            m->ops.state = far_state;
        assert_int_equal(bench_fit(&b, m, again ? "last" : NULL, &t),
                         again ? STK_OK : STK_ECANCELED);
        stk_trainer_destroy(&t);
    }
    memcpy(weights, m->weight, sizeof m->weight);
    bench_close(&b);
}

static void the_same_as_the_host(void **state)
{
    float here[TINY_SIZE], there[TINY_SIZE];
    tiny host;

    fit(&host, false, here);
    copies = 0;
    fit(far_tiny(), true, there);
    assert_true(copies > 0);
    assert_memory_equal(here, there, sizeof here);
    far_release();
}

static uint64_t hash_of(const char *folder)
{
    char command[400], text[200] = "";
    uint64_t hash = 5381;

    snprintf(command, sizeof command, "cat '%s'/predictions/*.npy | cksum", folder);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(text, sizeof text, out));
    pclose(out);
    for (const char *c = text; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    return hash;
}

static uint64_t predict(tiny *m, bool far)
{
    const stk_driver_head *head;
    char dir[300];
    uint64_t room[64];
    stk_trainer *t;
    bench b;

    bench_open(&b);
    tiny_init(m);
    if (far) {
        m->ops.state = far_state;
        m->ops.predict_step = far_predict;
    }
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_driver_find(b.ctx, STK_DRIVER_CALLBACK, "prediction_writer", &head, &b.err),
              &b.err);
    const stk_callback_ops *ops = (const stk_callback_ops *)head;
    stk_options_init(ops->options, room, sizeof room);
    snprintf(dir, sizeof dir, "%s/predictions", b.folder);
    assert_ok(stk_options_set(ops->options, room, "output_dir", dir, &b.err), &b.err);
    assert_ok(stk_trainer_add_callback(t, ops, room, NULL, &b.err), &b.err);
    if (far)
        go_far(&b, t, NULL);
    assert_ok(stk_trainer_predict(t, &m->base, &b.data, NULL, &b.err), &b.err);
    stk_trainer_destroy(&t);
    const uint64_t hash = hash_of(b.folder);
    bench_close(&b);
    return hash;
}

static void predictions(void **state)
{
    tiny host;
    const uint64_t here = predict(&host, false);

    assert_int_equal(predict(far_tiny(), true), here);
    far_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_the_host),
        cmocka_unit_test(predictions),
    };

    return cmocka_run_group_tests_name("train/device", tests, NULL, NULL);
}
