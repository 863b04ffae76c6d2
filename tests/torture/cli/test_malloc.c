/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command with a malloc that fails at the n-th call, libraries and child processes included,
 * once and for ever. It may succeed, with the same result, or report an error; it may not die by a
 * signal or hang. One crash is not the command's: where oneDNN was refused memory and uses it all
 * the same.
 */
#include "torture/cli/command.h"

static void torture(const char *make, const char *run, const char *same)
{
    command_torture(&(command){.make = make, .run = run, .same = same}, "malloc", false);
}

static void info(void **state)
{
    torture("true", "info digits:", "cat out");
}

static void bench(void **state)
{
    torture("true",
            "bench --dataset digits: --num-workers 0,1 --batch-size 16 --num-batches 4 "
            "--num-epochs 1 --train-step-time 0 --transforms 'normalize(mnist)'",
            NULL);
}

static void bench_by_yaml(void **state)
{
    torture("printf 'dataset: \"digits:\"\\nloader: {num_workers: [0, 1], batch_size: 8}\\nbench: "
            "{num_epochs: 1, num_batches: 2, train_step_time: 0}\\n' > b.yaml",
            "bench --config b.yaml", NULL);
}

static void report(void **state)
{
    torture("cp '" TESTS_DIR "/golden/report/workers.log' a.log; cp '" TESTS_DIR
            "/golden/report/ledger.log' b.log",
            "report a.log b.log --html page.html", NULL);
}

/* Where oneDNN is refused memory it throws, and the command says so. */
static void train(void **state)
{
    torture(COMMAND_TRAIN, "train m.yaml -q", NULL);
}

static void train_convolutions(void **state)
{
    torture(COMMAND_CONVOLUTION, "train m.yaml -q", NULL);
}

static void cat(void **state)
{
    torture(COMMAND_ARRAY, "cat a.zarr", "cat out");
}

static void images(void **state)
{
    torture(COMMAND_PICTURES, "info images:p", NULL);
}

static void convert(void **state)
{
    torture(COMMAND_DIGITS, "convert mnist:d to -q", "cd to; cat * | sha256sum");
}

static void convert_pictures(void **state)
{
    torture(COMMAND_PICTURES, "convert p to --max-side 16 -q", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info),          cmocka_unit_test(bench),
        cmocka_unit_test(bench_by_yaml), cmocka_unit_test(report),
        cmocka_unit_test(train),         cmocka_unit_test(train_convolutions),
        cmocka_unit_test(cat),           cmocka_unit_test(images),
        cmocka_unit_test(convert),       cmocka_unit_test(convert_pictures),
    };

    if (!command_ready("STOKER_TEST_FAIL_MALLOC"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
