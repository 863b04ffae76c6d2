/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile found -> files, a table, a paragraph. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profile.h"

const char *profile_part_name(enum profile_part part)
{
    static const char *const names[] = {"data", "forward", "backward", "other", "total"};

    return names[part];
}

/* ---- The summary ----------------------------------------------------------------------------- */

static double seconds_of(const stk_profile_batch *b, enum profile_part part)
{
    const uint64_t ns = part == PROFILE_DATA       ? b->data
                        : part == PROFILE_FORWARD  ? b->forward
                        : part == PROFILE_BACKWARD ? b->backward
                        : part == PROFILE_OTHER    ? b->other
                                                   : b->data + b->forward + b->backward + b->other;

    return (double)ns * 1e-9;
}

int profile_summarize(struct cli *cli, const stk_profile *profile, struct profile_summary *out)
{
    stk_profile_batch batch;
    uint64_t n = 0;

    while (stk_profile_get_batch(profile, n, &batch))
        n++;
    if (n <= out->warmup) {
        cli_error("only %" PRIu64 " batches were trained, and the first %" PRIu64
                  " are left out: raise --steps or lower --warmup-steps",
                  n, out->warmup);
        return CLI_FAILED;
    }
    out->batches = n - out->warmup;
    double *values = malloc(out->batches * sizeof *values);
    if (!values) {
        cli_error("no memory for the times of %" PRIu64 " batches", n);
        return CLI_FAILED;
    }
    for (int part = 0; part < PROFILE_PARTS; part++) {
        out->samples = 0;
        for (uint64_t i = 0; i < out->batches; i++) {
            stk_profile_get_batch(profile, out->warmup + i, &batch);
            values[i] = seconds_of(&batch, (enum profile_part)part);
            out->samples += batch.samples;
        }
        stk_spread_of(values, out->batches, &out->parts[part]);
    }
    free(values);
    return CLI_GO_ON;
}

static double share_of(const struct profile_summary *s, enum profile_part part)
{
    const double whole = s->parts[PROFILE_TOTAL].sum;

    return whole > 0 ? s->parts[part].sum / whole : 0;
}

static double rate_of(const struct profile_summary *s)
{
    const double whole = s->parts[PROFILE_TOTAL].sum;

    return whole > 0 ? (double)s->samples / whole : 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void put_summary(const stk_profile *profile, const struct profile_summary *s, FILE *out)
{
    (void)profile;
    fprintf(out,
            "# Where the time of a training batch goes, in seconds.\n"
            "batches: %" PRIu64 "\nwarmup_batches: %" PRIu64 "\nbatch_size: %" PRIu64
            "\nsamples_per_s: %.3f\n",
            s->batches, s->warmup, s->batch_size, rate_of(s));
    for (int i = 0; i < PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out,
                "%s:\n  mean: %.9f\n  min: %.9f\n  p50: %.9f\n  p95: %.9f\n  p99: %.9f\n"
                "  max: %.9f\n  sum: %.9f\n  share: %.6f\n",
                profile_part_name((enum profile_part)i), p->mean, p->min, p->p50, p->p95, p->p99,
                p->max, p->sum, share_of(s, (enum profile_part)i));
    }
}

static void put_batches(const stk_profile *profile, const struct profile_summary *s, FILE *out)
{
    stk_profile_batch b;

    fputs("epoch,batch,samples,warmup,data_s,forward_s,backward_s,other_s,total_s\n", out);
    for (uint64_t i = 0; stk_profile_get_batch(profile, i, &b); i++) {
        fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d", b.epoch, b.batch_idx, b.samples,
                i < s->warmup);
        for (int part = 0; part < PROFILE_PARTS; part++)
            fprintf(out, ",%.9f", seconds_of(&b, (enum profile_part)part));
        fputc('\n', out);
    }
}

static void put_pass(const stk_profile_pass *pass, FILE *out)
{
    const double ns = pass->ns ? (double)pass->ns : 1;

    fprintf(out, ",%" PRIu64 ",%.9f,%.3f,%.3f", pass->calls, (double)pass->ns * 1e-9,
            (double)pass->flops / ns, (double)pass->bytes / ns);
}

static void put_layers(const stk_profile *profile, const struct profile_summary *s, FILE *out)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};

    (void)s;
    fputs("name,type,forward_calls,forward_s,forward_gflop_per_s,forward_gb_per_s,backward_calls,"
          "backward_s,backward_gflop_per_s,backward_gb_per_s\n",
          out);
    for (size_t i = 0; stk_profile_get_layer(profile, i, &layer); i++) {
        cli_csv_string(out, layer.name);
        fputc(',', out);
        cli_csv_string(out, layer.kind);
        put_pass(&layer.forward, out);
        put_pass(&layer.backward, out);
        fputc('\n', out);
    }
}

static int make_folder(const char *folder)
{
    char path[PROFILE_PATH];

    snprintf(path, sizeof path, "%s", folder);
    for (char *c = path + 1;; c++) {
        if (*c && *c != '/')
            continue;
        const char was = *c;
        *c = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            cli_error("cannot make the folder '%s': %s; choose another --output-dir", path,
                      strerror(errno));
            return CLI_FAILED;
        }
        if (!was)
            return CLI_GO_ON;
        *c = was;
    }
}

typedef void put_fn(const stk_profile *profile, const struct profile_summary *summary, FILE *out);

/* A file gets its name when all of it is written. */
static int write_one(const char *folder, const char *name, put_fn *put, const stk_profile *profile,
                     const struct profile_summary *summary)
{
    char path[PROFILE_PATH + 64], partial[PROFILE_PATH + 80];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(partial, sizeof partial, "%s.part", path);
    FILE *out = fopen(partial, "w");
    if (out)
        put(profile, summary, out);
    bool good = out && !ferror(out);
    if (out && fclose(out) != 0)
        good = false;
    if (good && rename(partial, path) == 0)
        return CLI_GO_ON;
    cli_error("cannot write '%s': %s; choose another --output-dir", path, strerror(errno));
    if (out)
        cli_remove_partial(partial);
    return CLI_FAILED;
}

int profile_write_files(struct cli *cli, const stk_profile *profile,
                        const struct profile_summary *summary, const char *folder)
{
    (void)cli;
    int code = make_folder(folder);
    if (code == CLI_GO_ON)
        code = write_one(folder, "timing_summary.yaml", put_summary, profile, summary);
    if (code == CLI_GO_ON)
        code = write_one(folder, "timing_results.csv", put_batches, profile, summary);
    if (code == CLI_GO_ON)
        code = write_one(folder, "layers.csv", put_layers, profile, summary);
    return code;
}

/* ---- The diagnosis --------------------------------------------------------------------------- */

/* The layer that takes most of forward and backward; its share of all layers. */
static bool find_layer(const stk_profile *profile, stk_profile_layer *most, double *share)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    uint64_t sum = 0, best = 0;

    for (size_t i = 0; stk_profile_get_layer(profile, i, &layer); i++) {
        const uint64_t ns = layer.forward.ns + layer.backward.ns;
        sum += ns;
        if (ns > best) {
            best = ns;
            *most = layer;
        }
    }
    *share = sum ? (double)best / (double)sum : 0;
    return best > 0;
}

/* The call that takes most of what is neither data nor model. */
static bool find_call(const stk_profile *profile, stk_profile_action *most)
{
    static const char *const kinds[] = {"[Callback]", "[LightningModule]",
                                        "[Strategy]SingleDeviceStrategy.optimizer",
                                        "save_checkpoint"};
    stk_profile_action action;

    *most = (stk_profile_action){0};
    for (size_t i = 0; stk_profile_get_action(profile, i, &action); i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (strncmp(action.name, kinds[k], strlen(kinds[k])) == 0 &&
                action.own_ns > most->own_ns)
                *most = action;
    return most->own_ns > 0;
}

static size_t advise(const stk_profile *profile, const struct profile_summary *s, char *text,
                     size_t size)
{
    const double data = share_of(s, PROFILE_DATA), other = share_of(s, PROFILE_OTHER);
    const char *config = s->config ? s->config : "CONFIG.yaml";
    stk_profile_action call;
    int n;

    if (data >= STK_JUDGE_WAIT && s->num_workers == 0)
        n = snprintf(
            text, size,
            " Preparing the data limits: num_workers is 0, so that samples are prepared "
            "between the steps. With --num-workers 1 they are prepared beside them, for up "
            "to %.2f times the rate; 'stoker bench --step train:%s' measures it.",
            1 / (1 - data), config);
    else if (data >= STK_JUDGE_WAIT)
        n = snprintf(
            text, size,
            " Waiting for data limits: without it the rate would be %.2f times as high. "
            "'stoker bench --step train:%s' says whether reading or preparing is slow, and "
            "which settings help.",
            1 / (1 - data), config);
    else if (other > share_of(s, PROFILE_FORWARD) + share_of(s, PROFILE_BACKWARD) &&
             find_call(profile, &call))
        n = snprintf(
            text, size,
            " The model is not the limit: most of the rest is %s, %.1f us a call. A larger "
            "batch_size makes that rarer.",
            call.name, (double)call.own_ns * 1e-3 / (double)(call.calls ? call.calls : 1));
    else
        n = snprintf(
            text, size,
            " The model limits: there is next to nothing to gain from the loader. A larger "
            "batch_size, more compute threads (--compute-threads) or --precision bf16-mixed "
            "may make the step faster.");
    return n > 0 ? (size_t)n : 0;
}

void profile_diagnose(const stk_profile *profile, const struct profile_summary *s, char *text,
                      size_t size)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    double share;

    int n = snprintf(text, size,
                     "A batch takes %.1f us (median of %" PRIu64
                     "; %.0f samples/s). Of the time: waiting for data %.1f %%, forward %.1f %%, "
                     "backward %.1f %%, the optimizer and all else %.1f %%.",
                     s->parts[PROFILE_TOTAL].p50 * 1e6, s->batches, rate_of(s),
                     100 * share_of(s, PROFILE_DATA), 100 * share_of(s, PROFILE_FORWARD),
                     100 * share_of(s, PROFILE_BACKWARD), 100 * share_of(s, PROFILE_OTHER));
    size_t used = n > 0 ? (size_t)n : 0;
    if (used < size)
        used += advise(profile, s, text + used, size - used);
    if (used >= size || !find_layer(profile, &layer, &share))
        return;
    const uint64_t ns = layer.forward.ns + layer.backward.ns;
    const uint64_t flops = layer.forward.flops + layer.backward.flops;
    const uint64_t bytes = layer.forward.bytes + layer.backward.bytes;
    n = snprintf(text + used, size - used,
                 " Of all layers '%s' (%s) takes most: %.0f %% of their time, %.1f GFLOP/s, %.1f "
                 "GB/s.",
                 layer.name, layer.kind, 100 * share, (double)flops / (double)ns,
                 (double)bytes / (double)ns);
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_json(const struct profile_summary *s, const char *diagnosis, FILE *out)
{
    fprintf(out,
            "{\n  \"batches\": %" PRIu64 ",\n  \"warmup_batches\": %" PRIu64
            ",\n  \"batch_size\": %" PRIu64 ",\n  \"samples_per_s\": ",
            s->batches, s->warmup, s->batch_size);
    cli_json_number(out, rate_of(s));
    for (int i = 0; i < PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out, ",\n  \"%s\": {\"mean\": ", profile_part_name((enum profile_part)i));
        cli_json_number(out, p->mean);
        fputs(", \"p50\": ", out);
        cli_json_number(out, p->p50);
        fputs(", \"p95\": ", out);
        cli_json_number(out, p->p95);
        fputs(", \"share\": ", out);
        cli_json_number(out, share_of(s, (enum profile_part)i));
        fputs("}", out);
    }
    fputs(",\n  \"diagnosis\": ", out);
    cli_json_string(out, diagnosis);
    fputs("\n}\n", out);
}

/* Lines of at most 100 columns. */
static void print_wrapped(const char *text, FILE *out)
{
    while (*text) {
        size_t length = strlen(text), cut = length;
        if (length > 100) {
            cut = 100;
            while (cut && text[cut] != ' ')
                cut--;
            cut = cut ? cut : 100;
        }
        fprintf(out, "%.*s\n", (int)cut, text);
        text += cut;
        text += *text == ' ';
    }
}

static void print_table(const struct profile_summary *s, const char *diagnosis, FILE *out)
{
    fprintf(out, "%-10s %12s %12s %12s %12s %8s\n", "part", "mean us", "median us", "p95 us",
            "max us", "share");
    for (int i = 0; i < PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out, "%-10s %12.1f %12.1f %12.1f %12.1f %6.1f %%\n",
                profile_part_name((enum profile_part)i), p->mean * 1e6, p->p50 * 1e6, p->p95 * 1e6,
                p->max * 1e6, 100 * share_of(s, (enum profile_part)i));
    }
    fputc('\n', out);
    print_wrapped(diagnosis, out);
}

void profile_print(struct cli *cli, const stk_profile *profile,
                   const struct profile_summary *summary)
{
    char diagnosis[2048];

    profile_diagnose(profile, summary, diagnosis, sizeof diagnosis);
    if (cli->format == CLI_JSON)
        print_json(summary, diagnosis, cli->out);
    else if (cli->format == CLI_CSV)
        put_batches(profile, summary, cli->out);
    else
        print_table(summary, diagnosis, cli->out);
}
