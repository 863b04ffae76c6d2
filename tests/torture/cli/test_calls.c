/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command with a system call on files that fails: interrupted and cut short, which it has to go
 * on from as if nothing were; and by an error of the disk and a full one, which it has to report.
 */
#include "torture/cli/command.h"

static const struct {
    const char *how;
    bool must; /* succeed */
} ways[] = {{"eintr", true}, {"short", true}, {"eio", false}, {"enospc", false}};

static void torture(const char *make, const char *run, const char *same)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        command_torture(&(command){.make = make, .run = run, .same = same}, ways[i].how,
                        ways[i].must);
}

static void train(void **state)
{
    torture(COMMAND_TRAIN, "train m.yaml -q", NULL);
}

static void convert(void **state)
{
    torture(COMMAND_DIGITS, "convert mnist:d to -q", "cd to; cat * | sha256sum");
}

static void convert_pictures(void **state)
{
    torture(COMMAND_PICTURES, "convert p to --max-side 16 -q", "cd to; cat */* | sha256sum");
}

static void cat(void **state)
{
    torture(COMMAND_ARRAY, "cat a.zarr --dump npy -o a.npy -q", "sha256sum < a.npy");
}

static void bench(void **state)
{
    torture(COMMAND_DIGITS,
            "bench --dataset mnist:d --num-workers 0,1 --batch-size 4 --num-batches 4 "
            "--num-epochs 1 --train-step-time 0 --io-engine threads --log b.log -q",
            NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train), cmocka_unit_test(convert), cmocka_unit_test(convert_pictures),
        cmocka_unit_test(cat),   cmocka_unit_test(bench),
    };

    if (!command_ready("STOKER_TEST_FAIL_CALLS"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
