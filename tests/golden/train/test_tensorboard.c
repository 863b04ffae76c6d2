/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: bytes by their definition, and read back by the tensorboard package where the
 * tests' Python has it (scripts/check_tensorboard.py). */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "support/support.h"
#include "train/loggers/event_file.h"
#include "train/loggers/log_queue.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"

#define SCRIPT TESTS_DIR "/../scripts/check_tensorboard.py"

/* One event, byte by byte [event.proto, summary.proto]. */
static void test_event(void **state)
{
    static const uint8_t wanted[] = {
        0x09, 0,    0,   0,   0,    0,   0,   0xf8, 0x3f, /* wall_time 1.5 */
        0x10, 0xac, 2,                                    /* step 300 */
        0x2a, 14,                                         /* summary */
        0x0a, 12,                                         /* value */
        0x0a, 5,    'l', 'o', '?',  's', 's',             /* tag */
        0x15, 0,    0,   0,   0xc0,                       /* simple_value -2 */
    };
    stk_context *ctx = test_context();
    stk__bytes m = {.ctx = ctx};

    assert_true(stk__event_begin(&m, 1.5, 300));
    size_t summary = stk__proto_begin(&m, STK__EVENT_SUMMARY);
    assert_true(stk__event_scalar(&m, "lo\xffss", -2) && stk__proto_end(&m, summary));
    assert_int_equal(m.length, sizeof wanted);
    assert_memory_equal(m.data, wanted, sizeof wanted);
    stk__bytes_release(&m);
    stk_context_destroy(&ctx);
}

static stk_logger *open_board(stk_context *ctx, const char *root, const char *version)
{
    stk__logger_options options;
    stk_logger *logger = NULL;
    stk_error err;

    stk_options_init(stk__logger_tensorboard.options, &options, sizeof options);
    assert_ok(stk_options_set(stk__logger_tensorboard.options, &options, "version", version, &err),
              &err);
    assert_ok(stk__logger_tensorboard.open(ctx, &options, root, &logger, &err), &err);
    return logger;
}

/* All files of a folder begin with a record of 24 bytes and the version, and every record has its
 * checksums. */
static void test_files(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], log_dir[400], path[800];
    static uint8_t bytes[1 << 16];
    int files = 0;
    stk_error err;

    test_folder(folder);
    stk_logger *a = open_board(ctx, folder, "7"), *b = open_board(ctx, folder, "7");
    snprintf(log_dir, sizeof log_dir, "%s/lightning_logs/version_7", folder);
    assert_string_equal(a->log_dir, log_dir);
    for (int i = 0; i < 100; i++) {
        const stk_metric m[] = {{"loss", i}, {"acc", 1 - i}};
        assert_ok(a->ops->log_metrics(a, m, 2, i, 1.7e9 + i, &err), &err);
    }
    assert_ok(a->ops->flush(a, &err), &err);
    DIR *dir = opendir(log_dir);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        assert_int_equal(strncmp(e->d_name, "events.out.tfevents.1", 21), 0);
        snprintf(path, sizeof path, "%s/%s", log_dir, e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t length = fread(bytes, 1, sizeof bytes, f), at = 0, records = 0;
        fclose(f);
        for (; at < length; records++) {
            uint64_t n;
            uint32_t crc[2], wanted;
            memcpy(&n, bytes + at, 8);
            memcpy(&crc[0], bytes + at + 8, 4);
            memcpy(&crc[1], bytes + at + 12 + n, 4);
            wanted = stk__crc32c(0, bytes + at, 8);
            assert_int_equal(crc[0], (wanted >> 15 | wanted << 17) + 0xa282ead8u);
            wanted = stk__crc32c(0, bytes + at + 12, n);
            assert_int_equal(crc[1], (wanted >> 15 | wanted << 17) + 0xa282ead8u);
            if (at == 0)
                assert_memory_equal(bytes + 12 + 9,
                                    "\x1a\x0d"
                                    "brain.Event:2",
                                    15);
            at += 16 + n;
        }
        assert_int_equal(at, length);
        assert_true(records == 1 || records == 101);
        files++;
    }
    closedir(dir);
    assert_int_equal(files, 2);
    a->ops->close(a);
    b->ops->close(b);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void expect(FILE *f, const char *wanted)
{
    char line[1024];

    assert_non_null(fgets(line, sizeof line, f));
    line[strcspn(line, "\n")] = 0;
    assert_string_equal(line, wanted);
}

static void test_read_back(void **state)
{
    static const stk_hparam params[] = {
        {"lr", "0.001"}, {"name", "a|b"}, {"wrong", "x\xff"}, {"nan", "nan"}};
    stk_context *ctx = test_context();
    stk__log_queue *queue = NULL;
    char folder[256], command[1024], line[64];
    stk_error err;

    const char *python = test_python("tensorboard");
    if (!python) {
        stk_context_destroy(&ctx);
        skip();
    }
    test_folder(folder);
    /* Through the queue, as the trainer does, with no flush before the end. */
    stk_logger *const loggers[] = {open_board(ctx, folder, "0")};
    assert_ok(stk__log_queue_create(ctx, loggers, 1, &queue, &err), &err);
    assert_ok(stk__log_queue_hyperparams(queue, params, STK_COUNT(params), &err), &err);
    for (int i = 0; i < 300; i++) {
        const stk_metric m[] = {{"train/loss", 1.0 / (i + 1)}, {"val_acc", i % 2 ? NAN : i}};
        assert_ok(stk__log_queue_metrics(queue, m, 2, i * 1000, &err), &err);
    }
    stk__log_queue_destroy(&queue);
    snprintf(command, sizeof command, "'%s' '%s' '%s/lightning_logs/version_0' 2>/dev/null", python,
             SCRIPT, folder);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    expect(f, "records 303");
    expect(f, "text hparams/text_summary: '| name | value |\\n| --- | --- |\\n| lr | 0.001 |\\n"
              "| name | a\\\\|b |\\n| wrong | x? |\\n| nan | nan |\\n'");
    for (int i = 0; i < 300; i++) {
        snprintf(line, sizeof line, "train/loss %d %.9g", i * 1000, (double)(float)(1.0 / (i + 1)));
        expect(f, line);
    }
    for (int i = 0; i < 300; i++) {
        if (i % 2)
            snprintf(line, sizeof line, "val_acc %d nan", i * 1000);
        else
            snprintf(line, sizeof line, "val_acc %d %d", i * 1000, i);
        expect(f, line);
    }
    expect(f, "hparam lr=0.001");
    expect(f, "hparam name='a|b'");
    expect(f, "hparam nan='nan'");
    expect(f, "hparam wrong='x?'");
    assert_null(fgets(line, sizeof line, f));
    assert_int_equal(pclose(f), 0);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
