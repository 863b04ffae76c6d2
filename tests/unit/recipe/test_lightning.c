/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in Lightning's form mean what the same ones in this library's words do. */
#include "support/text.h"
#include "unit/recipe/recipes.h"

/* What was read and found good, as one text. */
static void read_file(stk_context *ctx, const char *name, const char *form, char text[TEST_LINES])
{
    char path[512];
    made m = {.ctx = ctx};

    snprintf(path, sizeof path, TESTS_DIR "/golden/lightning/%s%s.yaml", name, form);
    assert_ok(stk_config_create(ctx, &m.config, &m.err), &m.err);
    assert_ok(stk_config_load(m.config, path, &m.err), &m.err);
    assert_ok(made_create(&m, NULL), &m.err);
    *text = 0;
    assert_ok(stk_config_write(m.config, test_keep_line, text, &m.err), &m.err);
    made_release(&m);
}

static void test_forms(void **state)
{
    static const char *const names[] = {
        "early_stopping", "full_paths",     "checkpoints",   "csv_logger", "two_loggers",
        "sgd_step",       "adamw_cosine",   "plateau",       "watched",    "names_alone",
        "adam_betas",     "multi_step",     "accumulation",  "profiled",   "batch_size",
        "saved",          "saved_none",     "unseeded",      "scalars",    "profilers",
        "dumped",         "dumped_plateau", "short_schedule"};
    static char theirs[TEST_LINES], ours[TEST_LINES];

    for (size_t i = 0; i < STK_COUNT(names); i++) {
        read_file(*state, names[i], ".lightning", theirs);
        read_file(*state, names[i], "", ours);
        if (strcmp(theirs, ours) != 0)
            fail_msg("%s: %s\n%s", names[i], theirs, ours);
        assert_null(strstr(ours, "class_path"));
    }
}

static void assert_refused(stk_context *ctx, const char *text, const char *words)
{
    made m;

    made_load(&m, ctx, DIGITS);
    stk_status status = stk_config_load_text(m.config, "more.yaml", text, strlen(text), &m.err);
    if (status == STK_OK)
        status = made_create(&m, NULL);
    if (!strstr(m.err.text, words))
        fail_msg("%s: %s", text, m.err.text);
    assert_true(status == STK_EINVAL || status == STK_EFORMAT);
    made_release(&m);
}

static void test_refused(void **state)
{
    static const char *const texts[][2] = {
        {"callbacks: [{class_path: EarlyStoping}]\n", "did you mean 'early_stopping'?"},
        {"callbacks: [{class_path: lightning.pytorch.callbacks.EarlyStopping,\n"
         "             init_args: {montor: val_loss}}]\n",
         "did you mean 'monitor'?"},
        {"optimizer: {class_path: torch.optim.AdamV, init_args: {lr: 0.1}}\n",
         "did you mean 'adam"},
        {"optimizer: {class_path: torch.optim.Adam, init_args: {rate: 0.1}}\n",
         "unknown option 'rate'"},
        {"trainer: {profiler: {class_path: SimpelProfiler}}\n",
         "it takes simple | advanced | pytorch | trace | none"},
        {"trainer: {profiler: {class_path: SimpleProfiler, init_args: {extnded: false}}}\n",
         "trainer.profiler: unknown option 'extnded'; did you mean 'extended'?"},
        {"trainer: {profiler: simpel}\n",
         "trainer.profiler: there is no profiler 'simpel'; it takes simple | advanced | pytorch | "
         "trace | none; did you mean 'simple'?"},
        {"trainer: {profiler: true}\n", "trainer.profiler: 'true' says not which one"},
        {"trainer: {profiler: advanced(3)}\n", "'3' has no name"},
        {"trainer: {profiler: 'simple(max_events=5)'}\n",
         "trainer.profiler.max_events: it has no effect without the profiler trace"},
        {"trainer: {profiler: [simple, trce]}\n", "did you mean 'trace'?"},
        {"trainer: {profiler: 'simple(filename=a), advanced(filename=b)'}\n",
         "trainer.profiler: advanced: filename is 'b' here and 'a' before; profilers share it: "
         "give "
         "it once"},
        {"callbacks: [{init_args: {monitor: x}}]\n", "has no class_path"},
        {"callbacks: [{class_path: X, args: {monitor: x}}]\n", "a map in a list is"},
        {"callbacks: [{class_path: X, class_path: Y}]\n", "a map in a list is"},
        {"callbacks: [{class_path: [X]}]\n", "class_path is a name"},
        {"callbacks: [{class_path: X, init_args: [a]}]\n", "init_args is a map"},
        {"callbacks: [{class_path: X, init_args: {a: [1]}}]\n", "is a plain value"},
        {"callbacks: [{class_path: X, init_args: {a: {b: 1}}}]\n", "is a plain value"},
        {"callbacks: [{class_path: X, init_args: {[a]: 1}}]\n", "a key is a plain word"},
        {"callbacks: [{class_path: X, init_args: {a: '\"''('}}]\n", "both kinds of quotes"},
        {"callbacks: [{class_path: X, init_args: {a: &b 1}}, *b]\n", "an alias"},
        {"callbacks: [{class_path: X, init_args: {'monitor=val_loss, patience': 7}}]\n",
         "more.yaml:1:41: monitor=val_loss, patience: an option's name is of letters"},
        {"callbacks: [{class_path: X, init_args: {'a)': 7}}]\n", "an option's name is"},
        {"callbacks: [{class_path: X, init_args: {'': 7}}]\n", "an option's name is"},
        {"callbacks: [{class_path: X, init_args: {a: 1, b: 2, a: 3}}]\n",
         "more.yaml:1:53: a: the key is there twice, first in line 1"},
        {"callbacks: [{class_path: X, init_args: {}, init_args: {a: 1}}]\n", "a map in a list is"},
        {"callbacks: [!!python/object {class_path: EarlyStopping}]\n",
         "more.yaml:1:13: callbacks: a tag"},
        {"trainer: {logger: !foo {class_path: CSVLogger}}\n", "trainer.logger: a tag"},
        {"callbacks: [{class_path: EarlyStopping, init_args: !bar {monitor: x}}]\n",
         "callbacks: a tag"},
        {"callbacks: [{class_path: EarlyStopping, init_args: !bar }]\n", "init_args is a map"},
        {"callbacks: [{class_path: EarlyStopping, init_args: {monitor: !bar }}]\n", "a tag"},
        {"callbacks: [{class_path: GradientAccumulationScheduler,\n"
         "             init_args: {scheduling: !bar {0: 2}}}]\n",
         "a tag"},
        {"callbacks: [early_stopping(monitor=val_loss)]\ntrainer: {callbacks: [lr_monitor]}\n",
         "more.yaml:2:11: callbacks: the key is there twice, first in line 1"},
        {"trainer: {callbacks: [lr_monitor]}\ncallbacks: [lr_monitor]\n", "twice, first in line 1"},
        {"loggers: [csv]\ntrainer: {logger: {class_path: TensorBoardLogger}}\n",
         "loggers: the key is there twice"},
        {"loggers: [csv]\ntrainer: {logger: [{class_path: TensorBoardLogger}]}\n",
         "loggers: the key is there twice"},
        {"trainer: {callbacks: lightning.pytorch.callbacks.EarlyStoping}\n",
         "did you mean 'early_stopping'?"},
        {"trainer: {profiler: lightning.pytorch.profilers.SimpelProfiler}\n",
         "did you mean 'simple'?"},
        /* What is one word stays one: nothing comes in behind it. */
        {"callbacks: [{class_path: 'EarlyStopping(monitor=a)'}]\n", "a class alone"},
        {"callbacks: [{class_path: 'LearningRateMonitor, Timer', init_args: {duration: 1}}]\n",
         "a class alone"},
        {"callbacks: [{class_path: ' LearningRateMonitor'}]\n", "a class alone"},
        {"optimizer: {class_path: 'Adam(lr=1)'}\n", "a class alone"},
        {"callbacks: [{class_path: GradientAccumulationScheduler,\n"
         "             init_args: {scheduling: {'0:8, 4': 4}}}]\n",
         "an epoch has a number of batches"},
        {"callbacks: [{class_path: GradientAccumulationScheduler,\n"
         "             init_args: {scheduling: {18446744073709551616: 4}}}]\n",
         "it takes rising epochs"},
        /* Lists that are something else here. */
        {"optimizer: {betas: [0.9]}\n", "optimizer.betas: it takes a list of two numbers"},
        {"optimizer: {betas: [0.9, 0.99, 0.999]}\n", "a list of two numbers"},
        {"optimizer: {betas: 0.9}\n", "a list of two numbers"},
        {"optimizer: {betas: [0.9, x]}\n", "optimizer.beta2: 'x' is not allowed"},
        {"optimizer: {betas: [0.9, 1.5]}\n", "optimizer.beta2: '1.5' is out of range"},
        {"optimizer: {beta1: 0.8, betas: [0.9, 0.99]}\n", "are given already"},
        {"optimizer: {betas: [0.9, 0.99], beta1: 0.8}\n", "the key is there twice"},
        {"lr_scheduler: {name: multi_step, milestones: [30, 60.5]}\n",
         "milestones: '60.5' is no whole number of steps"},
        {"lr_scheduler: {name: multi_step, milestones: [x]}\n", "'x' is no whole number"},
        {"lr_scheduler: {name: multi_step, milestones: ['3, 6', '9']}\n", "a list of 2 values"},
        {"callbacks: [{class_path: GradientAccumulationScheduler,\n"
         "             init_args: {scheduling: {a: 2}}}]\n",
         "accumulation_schedule.scheduling: it takes rising epochs"},
        {"callbacks: [{class_path: GradientAccumulationScheduler,\n"
         "             init_args: {scheduling: {0: [2]}}}]\n",
         "an epoch has a number of batches"},
        {"callbacks: [{class_path: GradientAccumulationScheduler,\n"
         "             init_args: {scheduling: {'\"': 2}}}]\n",
         "an epoch has a number of batches"},
        /* Classes that are not known: the nearest name, by the class's own name too. */
        {"trainer: {callbacks: [{class_path: LearningRateMonitr}]}\n",
         "there is no callback 'learning_rate_monitr'; did you mean 'lr_monitor'?"},
        {"trainer: {logger: {class_path: lightning.pytorch.loggers.CVSLogger}}\n",
         "there is no logger 'cvslogger'; did you mean 'csv'?"},
        {"trainer: {logger: [{class_path: TensorBordLogger}]}\n", "did you mean 'tensorboard'?"},
        {"lr_scheduler: {class_path: torch.optim.lr_scheduler.CosineAnealingLR}\n",
         "did you mean 'cosine'?"},
        {"optimizer: {class_path: torch.optim.SGDD}\n", "did you mean 'sgd'?"},
        {"trainer: {callbacks: [{class_path: ''}]}\n", "trainer.callbacks: class_path is empty"},
        {"optimizer: {class_path: torch.}\n", "torch.: class_path is empty"},
        {"trainer: {callbacks: [{class_path: my.pkg.EarlyStopping}]}\n",
         "my.pkg.EarlyStopping: a class of another package than lightning"},
        {"trainer: {callbacks: [{class_path: lightnings.EarlyStopping}]}\n", "another package"},
        {"trainer: {callbacks: [{class_path: lightning.pytorch.callbacks.\n"
         "                       StochasticWeightAveraging, init_args: {swa_lrs: 0.1}}]}\n",
         "another package"}, /* a plain text over two lines has a blank in it */
        {"callbacks: 'StochasticWeightAveraging(swa_lrs=0.1)'\n", "WeightAveraging keeps the mean"},
        {"callbacks: [{class_path: StochasticWeightAveraging, init_args: {swa_lrs: 0.1}}]\n",
         "WeightAveraging keeps the mean of the weights"},
        {"callbacks: [lightning.pytorch.callbacks.EarlyStoping]\n",
         "did you mean 'early_stopping'?"},
        {"trainer: {callbacks: true}\n", "there is no callback 'true'"},
        {"seed_everything: true\n",
         "trainer.seed_everything: a seed is a number here; Lightning's true draws one"},
        {"seed_everything: True\n", "Lightning's true draws one"},
        {"trainer: {seed_everything: yes}\n", "Lightning's true draws one"},
        {"seed_everything: 1\ntrainer: {seed_everything: 2}\n", "the key is there twice"},
        {"trainer: {plugins: ''}\n", "unknown option 'plugins'"},
        {"model: {class_path: my.Net, init_args: {width: 3}}\n", "a list of layers: model.layers"},
        {"data: {class_path: my.MNIST}\n", "but a dataset: data.dataset"},
        {"trainer: {strategy: {class_path: DDPStrategy}}\n",
         "trainer.strategy: no class is known here"},
        {"trainer: {strategy: {init_args: {a: 1}}}\n", "trainer.strategy: no class is known here"},
    };

    for (size_t i = 0; i < STK_COUNT(texts); i++)
        assert_refused(*state, texts[i][0], texts[i][1]);
}

/* What PyTorch and Lightning have and is none of it here. */
static void test_foreign(void **state)
{
    static const char *const texts[][2] = {
        {"optimizer: {class_path: Adam, init_args: {amsgrad: true}}\n",
         "optimizer.amsgrad: 'true' is not supported: the variant AMSGrad is not known here"},
        {"optimizer: {class_path: SGD, init_args: {maximize: true}}\n",
         "optimizer.maximize: 'true' is not supported: a training makes its loss small"},
        {"optimizer: {amsgrd: null}\n", "unknown option 'amsgrd'"},
        {"lr_scheduler: {class_path: ReduceLROnPlateau, init_args: {threshold_mode: abs}}\n",
         "lr_scheduler.threshold_mode: 'abs' is not supported: a threshold is a relative one"},
        {"lr_scheduler: {class_path: StepLR, init_args: {last_epoch: 3}}\n",
         "a run goes on from its checkpoint: ckpt_path"},
        {"lr_scheduler: {name: reduce_on_plateau, monitor: a}\nmodule: {monitor: b}\n",
         "module.monitor: the key is there twice, first in line 1"},
        {"module: {monitor: b}\nlr_scheduler: {name: reduce_on_plateau, monitor: a}\n",
         "module.monitor: the key is there twice, first in line 1"},
        {"callbacks: [{class_path: TQDMProgressBar, init_args: {process_position: 1}}]\n",
         "progress_bar.process_position: '1' is not supported: there is one bar at a time"},
        {"trainer: {max_time: {hour: 1}}\n", "trainer.max_time: 'hour:1' is no time"},
        {"trainer: {max_time: {hours: [1]}}\n", "trainer.max_time: a unit of time has a number"},
        {"trainer: {deterministic: warning}\n", "it takes false | true | warn"},
        {"trainer: {sync_batchnorm: true, strategy: single_device}\n",
         "sync_batchnorm: it has no effect with one process"},
        {"trainer: {max_epoch: null}\n", "did you mean 'max_epochs'?"},
        {"ckpt_pth: null\n", "unknown key 'ckpt_pth'; did you mean 'ckpt_path'?"},
    };

    for (size_t i = 0; i < STK_COUNT(texts); i++)
        assert_refused(*state, texts[i][0], texts[i][1]);
}

/* Each name of a profiler makes one, and not that of the file; its report comes with the end of the
 * fit. */
static void test_profilers(void **state)
{
    static const struct {
        const char *name, *said; /* NULL: nothing of a profile */
    } cases[] = {{"simple", "FIT Profiler Report\n"},
                 {"SimpleProfiler(extended=false)", "Mean duration (s)"},
                 {"advanced", "Profile stats for: "},
                 {"AdvancedProfiler", "Profile stats for: "},
                 {"pytorch", ".pt.trace.json"},
                 {"PyTorchProfiler(filename=seen)", "/fit-seen-0."},
                 {"simple, trace(max_events=100)", ".pt.trace.json"},
                 {"simple(filename=one), trace(filename=one)", "/fit-one-0."},
                 {"none", NULL},
                 {"null", NULL},
                 {"", NULL},
                 {"PassThroughProfiler", NULL}};
    static const char file[] = "trainer: {profiler: 'simple(filename=of_file)'}\n";
    static char said[TEST_LINES];
    const stk_console console = {
        .struct_size = sizeof console, .line = test_keep_line, .user = said};
    const stk_recipe_options options = {
        .struct_size = sizeof options, .tasks = STK_RECIPE_FIT, .console = &console};
    char folder[256];
    made m;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        test_folder(folder);
        made_load(&m, *state, DIGITS);
        assert_ok(stk_config_load_text(m.config, "more.yaml", file, strlen(file), &m.err), &m.err);
        made_set(&m, "trainer.profiler", cases[i].name);
        made_set(&m, "trainer.default_root_dir", folder);
        *said = 0;
        assert_ok(made_create(&m, &options), &m.err);
        assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err),
                  &m.err);
        assert_int_equal(strstr(said, "A batch takes ") != NULL, cases[i].said != NULL);
        if (cases[i].said && !strstr(said, cases[i].said))
            fail_msg("%s: %s", cases[i].name, said);
        assert_null(strstr(said, "of_file"));
        made_release(&m);
        test_folder_remove(folder);
    }
}

/* An empty list of loggers asks for none, as Lightning's: the run has no folder. */
static void test_no_logger(void **state)
{
    static const char *const texts[] = {"loggers: []\n", "trainer: {logger: []}\n",
                                        "loggers: ''\n"};
    made m;

    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        made_load(&m, *state, DIGITS);
        assert_ok(stk_config_load_text(m.config, "more.yaml", texts[i], strlen(texts[i]), &m.err),
                  &m.err);
        if (i != 1)
            made_set(&m, "trainer.logger", "auto");
        assert_ok(made_create(&m, NULL), &m.err);
        assert_string_equal(stk_trainer_get_options(m.parts.trainer)->logger, "false");
        made_release(&m);
    }
}

/* The name of a class is that of what it is here, wherever a list is written as a text. */
static void test_class_in_text(void **state)
{
    made m;

    made_load(&m, *state, DIGITS);
    made_set(&m, "callbacks",
             "EarlyStopping(monitor=val_loss), LearningRateMonitor, "
             "lightning.pytorch.callbacks.Timer(duration=00:01:00:00)");
    made_set(&m, "trainer.logger", "auto");
    made_set(&m, "loggers", "lightning.pytorch.loggers.CSVLogger(name=a)");
    assert_true(stk_recipe_has_item(m.config, "callbacks", "lr_monitor"));
    assert_true(stk_recipe_has_item(m.config, "callbacks", "timer"));
    assert_ok(made_create(&m, NULL), &m.err);
    made_release(&m);
}

/* What comes later says so for one of the two. */
static void test_betas_by_parts(void **state)
{
    static const char *const later[] = {"optimizer: {beta1: 0.8}\n",
                                        "optimizer: {betas: [0.8, 0.7]}\n"};
    static char text[TEST_LINES];

    for (size_t i = 0; i < STK_COUNT(later); i++) {
        made m;
        made_load(&m, *state, DIGITS "optimizer: {betas: [0.95, 0.98]}\n");
        assert_ok(stk_config_load_text(m.config, "more.yaml", later[i], strlen(later[i]), &m.err),
                  &m.err);
        assert_ok(made_create(&m, NULL), &m.err);
        *text = 0;
        assert_ok(stk_config_write(m.config, test_keep_line, text, &m.err), &m.err);
        assert_non_null(strstr(text, "beta1: 0.8\n"));
        assert_non_null(strstr(text, i ? "beta2: 0.7\n" : "beta2: 0.98\n"));
        made_release(&m);
    }
}

/* LinearLR is 5 steps long where nothing else is given, before its name or behind it. */
static void test_length_of_class(void **state)
{
    static const char *const cases[][2] = {
        {"{class_path: torch.optim.lr_scheduler.LinearLR}", "5"},
        {"{class_path: LinearLR, init_args: {total_iters: 7}}", "7"},
        {"{init_args: {total_iters: 7}, class_path: LinearLR}", "7"},
    };
    char text[128];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        made m;
        snprintf(text, sizeof text, "lr_scheduler: %s\n", cases[i][0]);
        made_load(&m, *state, text);
        assert_string_equal(stk_config_get(m.config, "lr_scheduler.total_iters", 0), cases[i][1]);
        made_release(&m);
    }
}

static void assert_loggers(stk_context *ctx, const char *const texts[3], const char *flag,
                           const char *logger, const char *loggers)
{
    made m;

    made_load(&m, ctx, DIGITS);
    for (size_t i = 0; i < 3 && texts[i]; i++)
        assert_ok(stk_config_load_text(m.config, "more.yaml", texts[i], strlen(texts[i]), &m.err),
                  &m.err);
    if (flag)
        made_set(&m, "trainer.logger", flag);
    assert_ok(made_create(&m, NULL), &m.err);
    const char *one = stk_config_get(m.config, "trainer.logger", 0),
               *list = stk_config_get(m.config, "loggers", 0);
    assert_string_equal(one ? one : "", logger);
    assert_string_equal(list ? list : "", loggers);
    made_release(&m);
}

/* Classes of trainer.logger and a word for it are one key: the last counts. */
static void test_loggers_set_again(void **state)
{
    static const char classes[] = "trainer: {logger: [{class_path: CSVLogger}]}\n",
                      word[] = "trainer: {logger: 'false'}\n", null[] = "trainer: {logger: }\n";

    assert_loggers(*state, (const char *[3]){classes}, NULL, "", "csv");
    assert_loggers(*state, (const char *[3]){classes}, "false", "false", "");
    assert_loggers(*state, (const char *[3]){classes, word}, NULL, "false", "");
    assert_loggers(*state, (const char *[3]){classes, null}, NULL, "", "");
    assert_loggers(*state, (const char *[3]){word, classes}, NULL, "", "csv");
    assert_loggers(*state, (const char *[3]){classes, word, classes}, "true", "true", "");
}

/* A class may be the value of a name. What its word alone does not mean is refused, as is any other
 * name. */
static void test_class_of_name(void **state)
{
    static const char *const cases[][3] = {
        {"lr_scheduler.name", "CosineAnnealingLR", "cosine"},
        {"lr_scheduler.name", "torch.optim.lr_scheduler.OneCycleLR", "one_cycle"},
        {"optimizer.name", "torch.optim.AdamW", "adamw"},
        {"optimizer.name", "torch.optim.SGD", "sgd"},
        {"trainer.logger", "lightning.pytorch.loggers.CSVLogger", "csv"},
        {"trainer.logger", "TensorBoardLogger", "tensorboard"},
        {"lr_scheduler.name", "LinearLR", NULL},
        {"lr_scheduler.name", "my.CosineAnnealingLR", NULL},
        {"optimizer.name", "RMSprop", NULL},
        {"model.loss", "TensorBoardLogger", NULL},
    };

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        made m;
        made_load(&m, *state, DIGITS);
        made_set(&m, cases[i][0], cases[i][1]);
        const stk_status status = made_create(&m, NULL);
        assert_int_equal(status, cases[i][2] ? STK_OK : STK_EINVAL);
        assert_string_equal(stk_config_get(m.config, cases[i][0], 0),
                            cases[i][2] ? cases[i][2] : cases[i][1]);
        made_release(&m);
    }
}

/* As flags: the same list, in brackets or without; of two the later one counts. */
static void test_lists_as_flags(void **state)
{
    static const struct {
        const char *key, *text, *then, *value, *wanted; /* of `text`, or of what refuses it */
    } cases[] = {
        {"optimizer.betas", "0.9,0.98", "betas", "0.8, 0.7", "  beta1: 0.8\n  beta2: 0.7\n"},
        {"optimizer.betas", "[0.9, 0.98]", "beta1", "0.5", "  beta1: 0.5\n  beta2: 0.98\n"},
        {"optimizer.beta1", "0.5", "betas", "[0.9, 0.98]", "  beta1: 0.9\n  beta2: 0.98\n"},
        {"lr_scheduler.milestones", "[30,60]", "lr", "0.1", "  milestones: \"30, 60\"\n"},
        {"lr_scheduler.milestones", "30, 60", "lr", "0.1", "  milestones: \"30, 60\"\n"},
        {"optimizer.betas", "0.9", NULL, NULL, "optimizer.betas: it takes a list of two numbers"},
        {"optimizer.betas", "0.9,", NULL, NULL, "a value between the commas is empty"},
        {"lr_scheduler.milestones", "30, 60.5", NULL, NULL, "'60.5' is no whole number of steps"},
    };
    static char text[TEST_LINES];
    char key[64];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        made m;
        made_load(&m, *state, DIGITS "lr_scheduler: {name: multi_step, milestones: [1, 2]}\n");
        if (!cases[i].then) {
            assert_fails(stk_config_set(m.config, cases[i].key, cases[i].text, false, &m.err),
                         STK_EINVAL, &m.err, cases[i].wanted);
            made_release(&m);
            continue;
        }
        made_set(&m, cases[i].key, cases[i].text);
        snprintf(key, sizeof key, "optimizer.%s", cases[i].then);
        made_set(&m, key, cases[i].value);
        assert_ok(made_create(&m, NULL), &m.err);
        *text = 0;
        assert_ok(stk_config_write(m.config, test_keep_line, text, &m.err), &m.err);
        if (!strstr(text, cases[i].wanted))
            fail_msg("%s: %s", cases[i].text, text);
        made_release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forms, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_refused, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_foreign, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_profilers, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_betas_by_parts, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_length_of_class, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_loggers_set_again, test_context_open,
                                        test_context_close),
        cmocka_unit_test_setup_teardown(test_lists_as_flags, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_class_of_name, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_no_logger, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_class_in_text, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests_name("recipe/lightning", tests, NULL, NULL);
}
