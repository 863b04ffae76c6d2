/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile found -> a table, a paragraph. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "table.h"

#define SHOWN_LAYERS 12

static void print_json(const stk_profile_summary *s, FILE *out)
{
    fprintf(out,
            "{\n  \"batches\": %" PRIu64 ",\n  \"warmup_batches\": %" PRIu64
            ",\n  \"batch_size\": %" PRIu64 ",\n  \"samples_per_s\": ",
            s->batches, s->warmup, s->batch_size);
    cli_json_number(out, s->samples_per_s);
    for (int i = 0; i < STK_PROFILE_PARTS; i++) {
        const stk_spread *p = &s->parts[i];
        fprintf(out, ",\n  \"%s\": {\"mean\": ", stk_profile_part_name((stk_profile_part)i));
        cli_json_number(out, p->mean);
        cli_json_member_number(out, "p50", p->p50);
        cli_json_member_number(out, "p95", p->p95);
        cli_json_member_number(out, "share", s->share[i]);
        fputs("}", out);
    }
    fputs(",\n  \"peaks\": {\"flops_per_s\": ", out);
    cli_json_number(out, s->peak_flops_per_s);
    cli_json_member_number(out, "bytes_per_s", s->peak_bytes_per_s);
    fprintf(out, ", \"threads\": %" PRIu32 "}", s->peak_threads);
    fputs(",\n  \"diagnosis\": ", out);
    cli_json_string(out, s->text);
    fputs("\n}\n", out);
}

static void print_mean(const stk_profile_pass *pass, FILE *out)
{
    if (pass->calls)
        fprintf(out, " %12.1f", (double)pass->ns * 1e-3 / (double)pass->calls);
    else
        fprintf(out, " %12s", "-");
}

static stk_status print_layers(const stk_profile *profile, const stk_profile_summary *s, FILE *out,
                               stk_error *err)
{
    stk_profile_layer row = {.struct_size = sizeof row}, *layer = &row;
    size_t order[SHOWN_LAYERS], n;

    const stk_status status = stk_profile_sort_layers(profile, order, SHOWN_LAYERS, &n, err);
    if (n)
        fprintf(out, "%-22s %-14s %8s %12s %12s %8s %9s %7s %8s %8s\n", "layer", "type", "calls",
                "forward us", "backward us", "share", "GFLOP/s", "GB/s", "bound", "of peak");
    for (size_t i = 0; i < n; i++) {
        stk_profile_get_layer(profile, order[i], layer);
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
    return status;
}

static stk_status print_table(const stk_profile *profile, const stk_profile_summary *s, FILE *out,
                              stk_error *err)
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
    const stk_status status = print_layers(profile, s, out, err);
    cli_paragraph(out, cli_terminal_width(out), 0, s->text);
    return status;
}

static int print_batches(const stk_profile *profile, const stk_profile_summary *s, FILE *out)
{
    const int length = stk_profile_format(profile, s, STK_PROFILE_TIMING_RESULTS, NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);

    if (!text) {
        cli_error("no memory for the output");
        return CLI_FAILED;
    }
    stk_profile_format(profile, s, STK_PROFILE_TIMING_RESULTS, text, (size_t)length + 1);
    fputs(text, out);
    free(text);
    return CLI_GO_ON;
}

int profile_print(struct cli *cli, const stk_profile *profile, const stk_profile_summary *s)
{
    stk_status status = STK_OK;
    stk_error err;

    if (cli->format == CLI_CSV)
        return print_batches(profile, s, cli->out);
    if (cli->format == CLI_JSON)
        print_json(s, cli->out);
    else
        status = print_table(profile, s, cli->out, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}
