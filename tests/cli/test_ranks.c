/* SPDX-License-Identifier: Apache-2.0 */
/* `mpirun -n N stoker train` on each MPI that is installed: N ranks come to what one process comes
 * to with N times the batch, both MPIs and every run to the same bits; what goes wrong on one rank
 * ends all. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/safetensors/safetensors.h"
#include "support/same_checkpoint.h"

enum { MOST = 4 };

static const char config[] =
    "data: {dataset: 'digits:?size=700', val_split: 100}\n"
    "loader: {shuffle: true, transforms: 'random_crop(28, padding=2), normalize(mnist)'}\n"
    "model: {layers: [flatten, linear(24), relu, linear(10)]}\n"
    "trainer: {max_epochs: 2, seed_everything: 7, accumulate_grad_batches: 2, gradient_clip_val: "
    "1,\n"
    "          limit_test_batches: 1, val_batch_size: 40, log_every_n_steps: 1}\n";

enum { BATCH = 48 /* of all ranks */ };

static const struct {
    const char *name, *mpirun, *options;
} mpis[] = {{"openmpi", "mpirun.openmpi", "--allow-run-as-root --oversubscribe"},
            {"mpich", "mpirun.mpich", ""}};

static char folder[256];
static const char *binary;

static int set_up(void **state)
{
    test_folder(folder);
    test_write(folder, "config.yaml", config, sizeof config - 1);
    return 0;
}

static int tear_down(void **state)
{
    test_folder_remove(folder);
    return 0;
}

static bool has(size_t mpi)
{
    char command[64];

    snprintf(command, sizeof command, "command -v %s >/dev/null", mpis[mpi].mpirun);
    if (system(command) == 0)
        return true;
    test_skipped();
    print_message("skipped: no %s\n", mpis[mpi].mpirun);
    return false;
}

/* "stoker train" with logs and checkpoints below `root`, in `ranks` processes (0: without mpirun).
 * What it says goes to root.txt; its exit code. */
static int train(size_t mpi, int ranks, const char *root, const char *more)
{
    char command[1024], before[128] = "";

    if (ranks)
        snprintf(before, sizeof before, "%s %s -n %d", mpis[mpi].mpirun, mpis[mpi].options, ranks);
    snprintf(command, sizeof command,
             "cd '%s' && OMP_NUM_THREADS=1 timeout 100 %s '%s' train config.yaml --num-workers 0 "
             "--default-root-dir %s --batch-size %d %s >%s.txt 2>&1",
             folder, before, binary, root, BATCH / (ranks ? ranks : 1), more, root);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *said(const char *root)
{
    static char text[65536];
    char path[400];

    snprintf(path, sizeof path, "%s/%s.txt", folder, root);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void trained(size_t mpi, int ranks, const char *root, const char *more)
{
    if (train(mpi, ranks, root, more) != 0)
        fail_msg("%d ranks: %s", ranks, said(root));
}

/* Its one checkpoint. */
static void checkpoint_of(const char *root, char path[512])
{
    char pattern[512];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/%s/lightning_logs/version_*/checkpoints/*.safetensors",
             folder, root);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, 512, "%s", found.gl_pathv[0]);
    globfree(&found);
}

/* Sums in another order: a few units in the last place of the largest, over all steps. */
static void assert_close_tensors(const stk_state_tensor *x, const stk_state_tensor *y)
{
    const float *a = x->data, *b = y->data;

    assert_string_equal(x->name, y->name);
    assert_int_equal(x->bytes, y->bytes);
    for (uint64_t i = 0; x->dtype == STK_FLOAT32 && i < x->bytes / sizeof *a; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-5f * (1 + fabsf(a[i]))))
            fail_msg("%s[%d]: %.9g and %.9g", x->name, (int)i, (double)a[i], (double)b[i]);
}

static void assert_close_weights(const char *root, const char *other)
{
    stk_context *ctx = test_context();
    char path[2][512];
    stk__safetensors_file files[2];
    uint8_t *data[2], *moved[2];
    stk_error err;

    checkpoint_of(root, path[0]);
    checkpoint_of(other, path[1]);
    for (int i = 0; i < 2; i++) {
        assert_ok(stk__safetensors_file_open(ctx, path[i], &files[i], &err), &err);
        assert_ok(stk__safetensors_file_load(&files[i], path[i], &data[i], &moved[i], &err), &err);
    }
    assert_int_equal(files[0].parsed.num_tensors, files[1].parsed.num_tensors);
    for (size_t i = 0; i < files[0].parsed.num_tensors; i++)
        assert_close_tensors(&files[0].parsed.tensors[i], &files[1].parsed.tensors[i]);
    for (int i = 0; i < 2; i++) {
        stk__free(ctx, data[i]);
        stk__free(ctx, moved[i]);
        stk__safetensors_file_close(&files[i]);
    }
    stk_context_destroy(&ctx);
}

static void assert_same_weights(const char *root, const char *other)
{
    char a[512], b[512];

    checkpoint_of(root, a);
    checkpoint_of(other, b);
    assert_same_checkpoints(a, b);
}

/* Whether its log has a step that did not wait for all of its collectives. */
static bool hides(const char *root)
{
    char path[400], line[1024];
    bool any = false;

    snprintf(path, sizeof path, "%s/%s.jsonl", folder, root);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *all = strstr(line, "\"comm\": "), *wait = strstr(line, "\"comm_wait\": ");
        any |= all && wait && strtod(all + 8, NULL) > strtod(wait + 13, NULL);
    }
    fclose(f);
    return any;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static void ranks_are_one(void **state)
{
    char root[16];
    bool any = false;

    trained(0, 0, "alone", "");
    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        for (int n = 1; n <= MOST; n++) {
            snprintf(root, sizeof root, "%s%d", mpis[m].name, n);
            trained(m, n, root, "--strategy ddp --log run.jsonl");
            assert_close_weights("alone", root);
            assert_non_null(strstr(said(root), "Checkpoint tested: "));
            /* One rank speaks. */
            assert_null(strstr(strstr(said(root), "Checkpoint tested: ") + 1, "Checkpoint tested"));
        }
        any = true;
    }
    if (!any)
        skip();
}

static void runs_have_the_same_bits(void **state)
{
    char root[16];

    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        snprintf(root, sizeof root, "%s3again", mpis[m].name);
        trained(m, 3, root, "");
        assert_same_weights(m ? "mpich3" : "openmpi3", root);
        if (m && has(0))
            assert_same_weights("openmpi3", root);
    }
}

/* Its checkpoint, in so many parts, as one file. */
static void becomes_one_file(const char *root, int parts)
{
    char command[2048], path[512], whole[300];

    checkpoint_of(root, path);
    snprintf(whole, sizeof whole, "%s/whole.safetensors", folder);
    snprintf(command, sizeof command,
             "'%s' info '%s' | grep -q '^parts: *%d$' && '%s' convert ckpt '%s' '%s' --overwrite "
             "--quiet && ! '%s' info '%s' | grep '^parts:'",
             binary, path, parts, binary, path, whole, binary, whole);
    assert_int_equal(system(command), 0);
    assert_same_checkpoints(whole, path);
}

/* Ranks that share the training out come to the checkpoint of those that do not. */
static void sharing_has_the_same_bits(void **state)
{
    static const struct {
        int ranks;
        const char *strategy;
    } runs[] = {{1, "fsdp"}, {2, "zero_1"}, {3, "zero_2"}, {3, "zero_3"}, {4, "fsdp"}};
    char root[32], like[16], more[48];

    for (size_t i = 0; i < STK_COUNT(mpis) * STK_COUNT(runs); i++) {
        const size_t m = i % STK_COUNT(mpis), k = i / STK_COUNT(mpis);
        if (!has(m))
            continue;
        snprintf(root, sizeof root, "%s%d%s", mpis[m].name, runs[k].ranks, runs[k].strategy);
        snprintf(like, sizeof like, "%s%d", mpis[m].name, runs[k].ranks);
        snprintf(more, sizeof more, "--strategy %s", runs[k].strategy);
        trained(m, runs[k].ranks, root, more);
        assert_same_weights(like, root);
        if (runs[k].ranks > 1)
            becomes_one_file(root, runs[k].ranks);
    }
}

/* With means of parts, and what begins to learn in the second epoch. */
static void what_learns_later_has_the_same_bits(void **state)
{
    static const char *const strategies[] = {"ddp", "zero_1", "fsdp"};
    char root[STK_COUNT(strategies)][24], more[256];

    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        for (size_t i = 0; i < STK_COUNT(strategies); i++) {
            snprintf(root[i], sizeof root[i], "%slater%s", mpis[m].name, strategies[i]);
            snprintf(more, sizeof more,
                     "--strategy %s --layers 'flatten, first=linear(24), relu, linear(10)' "
                     "--callbacks 'ema(0.9), backbone_finetuning(pattern=\"first.*\", "
                     "unfreeze_backbone_at_epoch=1)'",
                     strategies[i]);
            trained(m, 3, root[i], more);
            if (i)
                assert_same_weights(root[0], root[i]);
        }
        becomes_one_file(root[2], 3);
    }
}

/* Two buckets, of which the first is added up while the pass goes on: as if it waited for the
 * pass's end, which detect_anomaly has it do. */
static void early_sums_have_the_same_bits(void **state)
{
    const char *wide = "--layers 'flatten, linear(300), relu, linear(900), relu, linear(10)'";
    const char *little = "--max-epochs 1 --limit-train-batches 8 --limit-val-batches 1 "
                         "--accumulate-grad-batches 1";
    char root[2][24], more[256];

    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        for (int late = 0; late < 2; late++) {
            snprintf(root[late], sizeof root[late], "%s%s", mpis[m].name, late ? "late" : "early");
            snprintf(more, sizeof more, "%s %s --detect-anomaly %s --log %s.jsonl", wide, little,
                     late ? "true" : "false", root[late]);
            trained(m, 2, root[late], more);
            assert_false(late && hides(root[late]));
        }
        assert_same_weights(root[0], root[1]);
    }
}

/* The ledger of each rank is kept. */
static void every_rank_logs(void **state)
{
    char path[400];

    for (int r = 1; r < MOST && (has(0) || has(1)); r++) {
        snprintf(path, sizeof path, "%s/run.rank%d.jsonl", folder, r);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        fclose(f);
    }
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static void failures_end_all(void **state)
{
    char root[24];

    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        snprintf(root, sizeof root, "%sfails", mpis[m].name);
        assert_int_not_equal(train(m, 2, root, "--fault-rank 1 --fault-fail-at 40"), 0);
        assert_non_null(strstr(said(root), "rank 1 of 2: call 40 fails"));
        assert_non_null(strstr(said(root), "has failed: it says why"));
        snprintf(root, sizeof root, "%slate", mpis[m].name);
        assert_int_not_equal(train(m, 3, root,
                                   "--fault-rank 1 --fault-late-at 40 --fault-late-by 30 "
                                   "--collective-timeout 1"),
                             0);
        assert_non_null(strstr(said(root), "has waited 1 s in call 40"));
        assert_non_null(strstr(said(root), "for rank 1 ("));
    }
}

/* What is on a processor has no use for NCCL, whoever asks for it. */
static void nccl_is_refused(void **state)
{
    char root[64];

    for (size_t m = 0; m < STK_COUNT(mpis); m++) {
        if (!has(m))
            continue;
        snprintf(root, sizeof root, "%snccl", mpis[m].name);
        assert_int_not_equal(train(m, 2, root, "--transport nccl"), 0);
        assert_non_null(strstr(said(root), "What works: mpirun -n 2 stoker train config.yaml"));
        snprintf(root, sizeof root, "%salways", mpis[m].name);
        assert_int_not_equal(train(m, 2, root, "--nccl always"), 0);
        assert_non_null(strstr(said(root), "that of 'cpu' is the host's, which "));
    }
}

static void refused(void **state)
{
    assert_int_equal(train(0, 0, "refused", "--strategy ddp"), 2);
    assert_non_null(strstr(said("refused"), "mpirun -n 2 stoker train config.yaml"));
    setenv("WORLD_SIZE", "3", 1);
    setenv("RANK", "0", 1);
    assert_int_equal(train(0, 0, "torchrun", ""), 2);
    assert_int_equal(train(0, 0, "torchnccl", "--transport nccl"), 2);
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
    assert_non_null(strstr(said("torchrun"), "3 ranks of torchrun have nothing that carries"));
    assert_non_null(strstr(said("torchrun"), "mpirun -n 3 stoker train config.yaml"));
    assert_non_null(strstr(said("torchnccl"), "nccl carries gradients between GPUs"));
    assert_non_null(strstr(said("torchnccl"), "mpirun -n 3 stoker train config.yaml"));
    assert_null(strstr(said("torchnccl"), "--transport"));
    assert_int_equal(train(0, 0, "nccl", "--strategy ddp --collectives.transport=nccl"), 2);
    assert_non_null(strstr(said("nccl"), "mpirun -n 2 stoker train config.yaml"));
    assert_null(strstr(said("nccl"), "transport=nccl"));
    assert_int_equal(train(0, 0, "idle", "--collective-timeout 5"), 2);
    assert_non_null(strstr(said("idle"), "collectives.collective_timeout: it has no effect"));
}

/* Each rank can be looked at, and says which it is. No other run has such a size. */
static void every_rank_has_a_sheet(void **state)
{
    const int size = 1000 + (int)getpid() % 100000;
    char command[1600];

    (void)state;
    if (!has(0))
        return;
    snprintf(command, sizeof command,
             "cd '%s' || exit 1\n"
             "OMP_NUM_THREADS=1 timeout 100 %s %s -n 2 '%s' train config.yaml --num-workers 0 "
             "--default-root-dir sheets --batch-size 8 --dataset 'digits:?size=%d' --max-epochs "
             "1000000 >sheets.txt 2>&1 &\n"
             "listed() { '%s' top --once 2>/dev/null | grep -q \"  train .*rank $1 of 2, "
             "digits:?size=%d\"; }\n"
             "for i in $(seq 300); do listed 0 && listed 1 && found=yes && break; sleep 0.1; done\n"
             "kill $!; wait $!; [ \"$found\" = yes ]",
             folder, mpis[0].mpirun, mpis[0].options, binary, size, binary, size);
    if (system(command) != 0)
        fail_msg("two ranks are not listed: %s", said("sheets"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_one),
        cmocka_unit_test(runs_have_the_same_bits),
        cmocka_unit_test(sharing_has_the_same_bits),
        cmocka_unit_test(what_learns_later_has_the_same_bits),
        cmocka_unit_test(early_sums_have_the_same_bits),
        cmocka_unit_test(every_rank_logs),
        cmocka_unit_test(every_rank_has_a_sheet),
        cmocka_unit_test(failures_end_all),
        cmocka_unit_test(nccl_is_refused),
        cmocka_unit_test(refused),
    };

    binary = test_binary();
    if (!binary)
        return 77;
    /* What an MPI leaves behind is its own. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    return cmocka_run_group_tests_name("cli/ranks", tests, set_up, tear_down);
}
