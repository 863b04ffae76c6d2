/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.csv of a run that goes on. The input is the file. What must hold whatever is in it: the
 * logger goes on with it or says why not; after a line with a name that may be new the file ends in
 * a whole line with that value; nothing is left behind.
 */
#include "fuzz_support.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/loggers/log_queue.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char base[64], folder[96], path[128], params[128];

static void clean(void)
{
    unlink(path);
    unlink(params);
    rmdir(folder);
    rmdir(base);
}

static void set_up(const uint8_t *data, size_t size)
{
    if (!*base) {
        snprintf(base, sizeof base, "/tmp/stoker-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(base));
        snprintf(folder, sizeof folder, "%s/version_0", base);
        snprintf(path, sizeof path, "%s/metrics.csv", folder);
        snprintf(params, sizeof params, "%s/hparams.yaml", folder);
        FUZZ_CHECK(mkdir(folder, 0777) == 0);
        atexit(clean);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

/* The last bytes of the file are a line that holds the value. */
static void check(void)
{
    char end[256] = "";
    FILE *f = fopen(path, "r");

    FUZZ_CHECK(f && fseek(f, 0, SEEK_END) == 0);
    long size = ftell(f), back = size < 200 ? size : 200;
    FUZZ_CHECK(size > 0 && fseek(f, size - back, SEEK_SET) == 0);
    FUZZ_CHECK(fread(end, 1, (size_t)back, f) == (size_t)back);
    FUZZ_CHECK(end[back - 1] == '\n');
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const stk_metric metric = {.name = "fuzzed", .value = 0.5};
    stk__logger_options options;
    stk_logger *logger = NULL;
    stk_error err;

    set_up(data, size);
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);
    stk_options_init(stk__logger_csv.options, &options, sizeof options);
    options.name = "";
    options.version = 0;
    stk_error_init(&err);
    stk_status status = stk__logger_csv.open(ctx, &options, base, &logger, &err);
    if (status == STK_OK) {
        FUZZ_CHECK(stk__logger_csv.log_metrics(logger, &metric, 1, 7, 0, &err) == STK_OK);
        stk__logger_csv.close(logger);
        check();
    } else {
        FUZZ_CHECK(err.text[0] && status != STK_EINTERNAL);
    }
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
