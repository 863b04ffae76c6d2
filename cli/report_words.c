/* SPDX-License-Identifier: Apache-2.0 */
/* What the words of the page mean: at each column, card and figure, and in a list at its end. */
#include <string.h>

#include "report.h"

struct word {
    const char *word, *meaning;
};

/* By where a reader meets them. */
static const struct word words[] = {
    /* The timeline. */
    {"setup", "before the first step: data is opened, workers are started"},
    {"get-batch", "a worker makes a sample, or a batch, ready"},
    {"train", "a step of the training: forward, backward, optimizer"},
    {"epoch", "one pass over the training data"},
    {"read", "bytes were asked of storage, until they came"},
    {"validation", "the model is looked at with data that it does not learn from"},
    {"sanity check",
     "two batches of validation before the training, so that it does not fail there"},
    {"checkpoint", "the state of the training is saved"},
    {"optimizer step", "the weights are changed, where several batches make one step"},
    /* Waits and steps. */
    {"Mean wait", "from the end of a step to the start of the next, on average: the time in which "
                  "the model stands still for want of a batch"},
    {"Wait p95", "19 of 20 waits are shorter than this"},
    {"Longest wait", "but for that of the first batch of all"},
    {"Step", "how long a step takes, on average, without its wait"},
    {"Step ran", "share of the epochs' time in which a step was at work: 100 % is the most"},
    {"Samples/s", "samples that the steps took in a second, over the epochs"},
    {"Steps/s", "steps in a second, over the epochs"},
    {"Whole run", "from its start to its end, setup included"},
    {"Setup", "before the first epoch"},
    /* Settings. */
    {"setting", "what was set otherwise than in the other runs"},
    {"runs", "how often it was run; the one in the middle is shown"},
    {"mean wait", "of a step for its batch; in a comparison its ratio to the first setting's"},
    {"step and wait", "seconds from one step to the next; in a comparison the ratio"},
    {"samples/s", "samples that the steps took in a second"},
    {"step ran", "share of the epochs' time in which a step was at work"},
    {"whole run", "from its start to its end, setup included; in a comparison the ratio"},
    {"limit", "what most of the lost time was for; the verdict says it in words"},
    {"from",
     "what the interval is made from: repeated runs, or blocks of steps within one run each"},
    {"real?", "yes: the interval of 95 % leaves 1 out, so that chance is an unlikely reason"},
    /* Trainings, and one measure after the other. */
    {"measure", "what is added to the one above it"},
    {"total s", "seconds of the whole training"},
    {"samples /s", "samples a second in the steady state, the first step left out"},
    {"of all runs", "the least and the most over the repeated runs: their spread"},
    {"an epoch s", "seconds of an epoch, on average"},
    {"speed-up x", "how many times as fast as the baseline, run for run of the same round"},
    {"of all pairs", "the least and the greatest speed-up of those pairs: its spread"},
    {"factor x", "how many times as fast as the measure above it"},
    {"share of the speed-up",
     "its part of the whole, of logarithms: two factors of 2 are half of a "
     "factor of 4 each, and all shares add up to 100 %"},
    {"loss", "what training makes small: of the last epoch's batches, on average"},
    {"accuracy %", "share of the answers that are right, of test data, or of validation data"},
    {"peak MiB", "most memory that the process held at a time"},
    {"limit then", "what most of the lost time was for with it"},
    /* Metrics. */
    {"run", "one training or measurement, from its start to its end"},
    {"metric", "a number that the training logs; train_ is of training, val_ of validation"},
    {"values", "how often it was logged"},
    {"last", "its last value"},
    {"least", "its least value, and the step of it"},
    {"most", "its greatest value, and the step of it"},
    {"at step", "steps of the optimizer until then, as the loggers count"},
    {"no numbers", "values that are no finite number (NaN, infinite): gaps in the lines"},
    {"learning rate", "how far a step of the optimizer moves the weights"},
    /* Ranks. */
    {"rank", "one of the processes that train together, each with its part of every batch"},
    {"wait mean", "of a step for its batch"},
    {"step mean", "how long a step takes, without its wait"},
    {"collectives in a step", "that gradients and other numbers of all ranks were put together"},
    {"waited in them", "of that, the time in which nothing else was done: for other ranks, too"},
    {"own time", "wait and step without what is waited in collectives: until the rank is ready for "
                 "the others"},
    {"behind the median", "own time beyond that of the rank in the middle"},
    {"ready last", "share of the steps for which all others waited for this rank"},
    {"cost of a step", "where it was ready last, how long after the rank in the middle; over all "
                       "steps"},
    {"clock offset", "by how much its clock is ahead of the first rank's, as the ends of steps "
                     "tell, which all ranks reach together"},
    {"clock within", "95 % of its steps then end as near to the first rank's"},
    /* Many ranks. */
    {"scale", "so many processes that train together, each with an accelerator"},
    {"machines", "that they are on, as per_machine says"},
    {"efficiency",
     "samples a second against those of as many ranks that know nothing of each other"},
    {"slower ranks", "that a rank waits for others, which are later with a step"},
    {"all-reduce", "gradients of all ranks are put together, in a step"},
    {"not hidden", "of that, what the step waits for it"},
    {"between failures", "of all ranks together, on average"},
    {"checkpoint every", "so much training between two checkpoints loses least"},
    {"lost", "share of the time that goes to checkpoints, restarts and work that is done again"},
    {"lost simulated", "the same of failures drawn at random"},
    {"useful /s", "samples a second that are not lost"},
    /* Epochs. */
    {"duration", "from its first batch to the next epoch's, checkpoint included"},
    {"steps", "batches that were trained on"},
    {"waits", "sum of the waits for batches"},
    {"of steps", "sum of the steps"},
    {"first wait", "for the first batch of the epoch"},
    {"mean loss", "of the epoch's batches"},
    {"epochs", "how many passes over the training data there were"},
};

/* Figures, by the names that JSON and CSV have, too. Seconds unless the name says otherwise. */
static const struct word figures[] = {
    {"total", "the whole run, setup included"},
    {"setup", "before the first epoch"},
    {"epochs", "how many there were"},
    {"epochs_total", "all epochs together"},
    {"steps", "how many there were"},
    {"step_mean", "a step without its wait"},
    {"wait_mean_notebook", "mean wait as the published notebook computes it"},
    {"wait_mean", "mean wait of a step for its batch"},
    {"wait_p50", "half of the waits are shorter"},
    {"wait_p95", "19 of 20 waits are shorter"},
    {"wait_p99", "99 of 100 waits are shorter"},
    {"wait_max", "the longest wait but the first"},
    {"wait_deviation", "standard deviation of the waits"},
    {"waits_notebook", "waits that the notebook sees"},
    {"waits", "number of waits"},
    {"first_wait", "for the first batch of the run"},
    {"epoch_turn", "mean wait for the first batch of a later epoch"},
    {"wait_share", "wait / (wait + step)"},
    {"busy_share", "share of the epochs in which a step ran"},
    {"seconds_per_step", "from one step to the next"},
    {"steps_per_s", "over the epochs"},
    {"samples_per_s", "over the epochs"},
    {"get_batch_mean", "mean time that a worker takes for a sample or batch"},
    {"get_batch_p95", "19 of 20 are shorter"},
    {"get_batches", "samples or batches that workers made ready"},
    {"get_batch_starts", "of those that were begun"},
    {"get_batch_starts_expected", "that the published program begins"},
    {"get_batches_thinned", "left out of the log, which keeps 10,000 a second"},
    {"get_batches_per_step", "about the batch size where one is a sample"},
    {"get_batch_busy", "of workers, all together"},
    {"reads", "number of reads of storage"},
    {"read_bytes", "bytes that they gave"},
    {"read_seconds", "that they took, all together"},
    {"read_failures", "reads that failed"},
    {"bad_samples", "samples that could not be made"},
    {"training_seconds", "the whole training"},
    {"training_loss", "mean loss of the last epoch"},
    {"accuracy", "share of right answers"},
    {"evaluated_loss", "loss of test or validation data at the end"},
    {"predicted_samples_per_s", "what the simulator expected before the run began"},
    {"predicted_low", "the least that it expected"},
    {"predicted_high", "the most that it expected"},
    {"predicted_wait_p95", "19 of 20 waits would be shorter"},
    {"peak_bytes", "most memory that the process held at a time"},
    {"dropped_bytes_of_log", "of the log, that are no part of an event"},
};

/* What the time of a run goes to; each has one colour on every chart, by its place here. */
static const char *const parts[] = {
    "step",     "data wait",      "storage latency", "storage transfer", "worker",
    "decode",   "decode entropy", "transform",       "read slot",        "retry",
    "collate",  "memory budget",  "ordering",        "startup",          "epoch turn",
    "transfer", "validation",     "callbacks",       "logging",          "checkpoint",
    "other"};

int report_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i], name) == 0)
            return (int)i;
    return -1;
}

const char *report_part_own(int part)
{
    const char *name = part >= 0 ? parts[part] : "";

    return strcmp(name, "step") == 0         ? "--train"
           : strcmp(name, "data wait") == 0  ? "--bar"
           : strcmp(name, "validation") == 0 ? "--val"
                                             : NULL;
}

void report_parts_json(FILE *out)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "[", parts[i]);
    fputc(']', out);
}

static const char *find(const struct word *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].word, word) == 0)
            return list[i].meaning;
    return NULL;
}

const char *report_word(const char *word)
{
    return find(words, sizeof words / sizeof *words, word);
}

const char *report_figure_word(const char *name)
{
    return find(figures, sizeof figures / sizeof *figures, name);
}

const char *report_option_word(const char *key)
{
    static const char *const tables[] = {"bench",        "loader",    "trainer",      "recipe.data",
                                         "recipe.model", "optimizer", "lr_scheduler", "module",
                                         "recipe",       "context"};
    const char *dot = strrchr(key, '.'), *name = dot ? dot + 1 : key;

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const stk_option_table *table = stk_option_table_find(tables[i]);
        const stk_option *option = table ? stk_options_find(table, name) : NULL;
        if (option && option->doc)
            return option->doc;
    }
    return NULL;
}

void report_put_title(FILE *out, const char *meaning)
{
    if (meaning)
        report_put_text(out, " title=\"", meaning, "\"");
}

void report_words_page(FILE *out)
{
    fputs("<section id=\"words\" aria-labelledby=\"words-title\">\n<h2 id=\"words-title\">What the "
          "words mean</h2>\n<details><summary>All words of this page</summary>\n<dl "
          "class=\"words\">\n",
          out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        fprintf(out, "<div><dt>%s</dt><dd>%s</dd></div>\n", words[i].word, words[i].meaning);
    fputs("</dl></details>\n</section>\n", out);
}
