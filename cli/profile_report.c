/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile found -> files, a table, a paragraph. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/store.h>

#include "profile.h"

/* ---- Files ----------------------------------------------------------------------------------- */

static void put_summary(const stk_profile *profile, const struct profile_found *found, FILE *out)
{
    const stk_profile_summary *s = &found->summary;

    (void)profile;
    fprintf(out,
            "# Where the time of a training batch goes, in seconds.\n"
            "batches: %" PRIu64 "\nwarmup_batches: %" PRIu64 "\nbatch_size: %" PRIu64
            "\nsamples_per_s: %.3f\n",
            s->batches, s->warmup, found->batch_size, s->samples_per_s);
    for (int i = 0; i < STK_PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out,
                "%s:\n  mean: %.9f\n  min: %.9f\n  p50: %.9f\n  p95: %.9f\n  p99: %.9f\n"
                "  max: %.9f\n  sum: %.9f\n  share: %.6f\n",
                stk_profile_part_name((stk_profile_part)i), p->mean, p->min, p->p50, p->p95, p->p99,
                p->max, p->sum, s->share[i]);
    }
}

static void put_batches(const stk_profile *profile, const struct profile_found *found, FILE *out)
{
    stk_profile_batch b;

    fputs("epoch,batch,samples,warmup,data_s,forward_s,backward_s,other_s,total_s\n", out);
    for (uint64_t i = 0; stk_profile_get_batch(profile, i, &b); i++) {
        fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d", b.epoch, b.batch_idx, b.samples,
                i < found->summary.warmup);
        for (int part = 0; part < STK_PROFILE_PARTS; part++)
            fprintf(out, ",%.9f", stk_profile_part_seconds(&b, (stk_profile_part)part));
        fputc('\n', out);
    }
}

static void put_pass(const stk_profile_pass *pass, FILE *out)
{
    const double ns = pass->ns ? (double)pass->ns : 1;

    fprintf(out, ",%" PRIu64 ",%.9f,%.3f,%.3f", pass->calls, (double)pass->ns * 1e-9,
            (double)pass->flops / ns, (double)pass->bytes / ns);
}

static void put_layers(const stk_profile *profile, const struct profile_found *found, FILE *out)
{
    stk_profile_layer layer = {.struct_size = sizeof layer};

    (void)found;
    fputs("name,type,forward_calls,forward_s,forward_gflop_per_s,forward_gb_per_s,backward_calls,"
          "backward_s,backward_gflop_per_s,backward_gb_per_s,forward_left_out,backward_left_out,"
          "forward_median_s,backward_median_s,share,forward_bound,forward_of_peak,backward_bound,"
          "backward_of_peak\n",
          out);
    for (size_t i = 0; stk_profile_get_layer(profile, i, &layer); i++) {
        cli_csv_string(out, layer.name);
        fputc(',', out);
        cli_csv_string(out, layer.kind);
        put_pass(&layer.forward, out);
        put_pass(&layer.backward, out);
        fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%.9f,%.9f,%.6f,%s,%.4f,%s,%.4f\n",
                layer.forward_left_out, layer.backward_left_out,
                (double)layer.forward_median_ns * 1e-9, (double)layer.backward_median_ns * 1e-9,
                layer.share, stk_profile_bound_name(layer.forward_roof.bound),
                layer.forward_roof.of_peak, stk_profile_bound_name(layer.backward_roof.bound),
                layer.backward_roof.of_peak);
    }
}

typedef void put_fn(const stk_profile *profile, const struct profile_found *found, FILE *out);

static int write_one(struct cli *cli, stk_context *context, const char *folder, const char *name,
                     put_fn *put, const stk_profile *profile, const struct profile_found *found)
{
    char path[PROFILE_PATH + 64], *data = NULL;
    size_t size = 0;
    stk_error err;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = open_memstream(&data, &size);
    if (out)
        put(profile, found, out);
    if (!out || fclose(out) != 0) {
        cli_error("no memory to write '%s'", path);
        free(data);
        return CLI_FAILED;
    }
    const stk_status status = stk_put_bytes(context, path, data, size, NULL, &err);
    free(data);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

int profile_write_files(struct cli *cli, stk_context *context, const stk_profile *profile,
                        const struct profile_found *found, const char *folder)
{
    static const struct {
        const char *name;
        put_fn *put;
    } files[] = {{"timing_summary.yaml", put_summary},
                 {"timing_results.csv", put_batches},
                 {"layers.csv", put_layers}};
    int code = CLI_GO_ON;

    for (size_t i = 0; code == CLI_GO_ON && i < sizeof files / sizeof *files; i++)
        code = write_one(cli, context, folder, files[i].name, files[i].put, profile, found);
    return code;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_json(const struct profile_found *found, FILE *out)
{
    const stk_profile_summary *s = &found->summary;

    fprintf(out,
            "{\n  \"batches\": %" PRIu64 ",\n  \"warmup_batches\": %" PRIu64
            ",\n  \"batch_size\": %" PRIu64 ",\n  \"samples_per_s\": ",
            s->batches, s->warmup, found->batch_size);
    cli_json_number(out, s->samples_per_s);
    for (int i = 0; i < STK_PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out, ",\n  \"%s\": {\"mean\": ", stk_profile_part_name((stk_profile_part)i));
        cli_json_number(out, p->mean);
        fputs(", \"p50\": ", out);
        cli_json_number(out, p->p50);
        fputs(", \"p95\": ", out);
        cli_json_number(out, p->p95);
        fputs(", \"share\": ", out);
        cli_json_number(out, s->share[i]);
        fputs("}", out);
    }
    fputs(",\n  \"peaks\": {\"flops_per_s\": ", out);
    cli_json_number(out, s->peak_flops_per_s);
    fputs(", \"bytes_per_s\": ", out);
    cli_json_number(out, s->peak_bytes_per_s);
    fprintf(out, ", \"threads\": %" PRIu32 "}", s->peak_threads);
    fputs(",\n  \"diagnosis\": ", out);
    cli_json_string(out, s->text);
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

/* The layers that take most, the first of them first. */
static size_t sort_layers(const stk_profile *profile, stk_profile_layer most[PROFILE_LAYERS])
{
    stk_profile_layer layer = {.struct_size = sizeof layer};
    size_t n = 0, k;

    for (size_t i = 0; stk_profile_get_layer(profile, i, &layer); i++) {
        if (layer.forward.calls + layer.backward.calls == 0)
            continue;
        for (k = n; k && most[k - 1].share < layer.share; k--)
            if (k < PROFILE_LAYERS)
                most[k] = most[k - 1];
        if (k < PROFILE_LAYERS)
            most[k] = layer;
        n += n < PROFILE_LAYERS;
    }
    return n;
}

static void print_mean(const stk_profile_pass *pass, FILE *out)
{
    if (pass->calls)
        fprintf(out, " %12.1f", (double)pass->ns * 1e-3 / (double)pass->calls);
    else
        fprintf(out, " %12s", "-");
}

static void print_layers(const stk_profile *profile, const stk_profile_summary *s, FILE *out)
{
    stk_profile_layer layers[PROFILE_LAYERS];
    const size_t n = sort_layers(profile, layers);

    if (n)
        fprintf(out, "%-22s %-14s %8s %12s %12s %8s %9s %7s %8s %8s\n", "layer", "type", "calls",
                "forward us", "backward us", "share", "GFLOP/s", "GB/s", "bound", "of peak");
    for (size_t i = 0; i < n; i++) {
        const stk_profile_layer *layer = &layers[i];
        fprintf(out, "%-22s %-14s %8" PRIu64, layer->name, layer->kind,
                layer->forward.calls + layer->backward.calls);
        print_mean(&layer->forward, out);
        print_mean(&layer->backward, out);
        fprintf(out, " %6.1f %%", 100 * layer->share);
        if (layer->roof.flops_per_s > 0)
            fprintf(out, " %9.2f", layer->roof.flops_per_s * 1e-9);
        else
            fprintf(out, " %9s", "-");
        fprintf(out, " %7.2f %8s", layer->roof.bytes_per_s * 1e-9,
                stk_profile_bound_name(layer->roof.bound));
        if (layer->roof.bound)
            fprintf(out, " %6.1f %%\n", 100 * layer->roof.of_peak);
        else
            fprintf(out, " %8s\n", "-");
    }
    if (n && s->peak_flops_per_s > 0)
        fprintf(out, "peaks at compute_threads %" PRIu32 ": %.1f GFLOP/s, %.1f GB/s\n",
                s->peak_threads, s->peak_flops_per_s * 1e-9, s->peak_bytes_per_s * 1e-9);
    if (n)
        fputc('\n', out);
}

static void print_table(const stk_profile *profile, const stk_profile_summary *s, FILE *out)
{
    fprintf(out, "%-10s %12s %12s %12s %12s %8s\n", "part", "mean us", "median us", "p95 us",
            "max us", "share");
    for (int i = 0; i < STK_PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out, "%-10s %12.1f %12.1f %12.1f %12.1f %6.1f %%\n",
                stk_profile_part_name((stk_profile_part)i), p->mean * 1e6, p->p50 * 1e6,
                p->p95 * 1e6, p->max * 1e6, 100 * s->share[i]);
    }
    fputc('\n', out);
    print_layers(profile, s, out);
    print_wrapped(s->text, out);
}

void profile_print(struct cli *cli, const stk_profile *profile, const struct profile_found *found)
{
    if (cli->format == CLI_JSON)
        print_json(found, cli->out);
    else if (cli->format == CLI_CSV)
        put_batches(profile, found, cli->out);
    else
        print_table(profile, &found->summary, cli->out);
}
