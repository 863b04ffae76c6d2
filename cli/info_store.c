/* SPDX-License-Identifier: Apache-2.0 */
/* stoker info --store: what a store gives, and what follows from it. */
#include <inttypes.h>

#include <stoker/bench.h>

#include "info.h"

const stk_option_table *info_store_table(void)
{
    static const stk_option rows[] = {
        {"store", STK_OPTION_BOOL, offsetof(struct info_store_options, store), "false", 0, 0, NULL,
         NULL,
         "Measure the store at a URL or path instead: latency, reads a second, bandwidth, in order "
         "and at random."},
    };
    static const stk_option_table table = {.name = "",
                                           .doc = "A store",
                                           .struct_size = sizeof(struct info_store_options),
                                           .options = rows,
                                           .count = 1};

    return &table;
}

/* How many reads at once, why, and what the store has to be told for it. */
static void say_depth(const stk_storage_figures *f, const stk_storage_answer *answer,
                      struct lines *lines)
{
    char text[300];

    if (f->num_steps) {
        const stk_storage_step *last = &f->steps[f->num_steps - 1];
        double best = 0;
        for (uint32_t i = 0; i < f->num_steps; i++)
            best = f->steps[i].bytes_per_s > best ? f->steps[i].bytes_per_s : best;
        snprintf(text, sizeof text, "%.3g ms (p95 %.3g ms) of a read alone", 1e3 * f->latency,
                 1e3 * f->latency_p95);
        lines_add(lines, "first byte", text);
        snprintf(text, sizeof text, "%.1f MB/s, from %" PRIu32 " reads at once on%s", best / 1e6,
                 answer->filled, answer->grows ? ", and growing" : "");
        lines_add(lines, "bandwidth", text);
        snprintf(text, sizeof text,
                 "%" PRIu32 ": %" PRIu32 " at once fill the bandwidth, small reads gain up to "
                 "%.1f times%s",
                 answer->io_depth, answer->filled,
                 f->one_per_s > 0 ? f->many_per_s / f->one_per_s : 0,
                 answer->grows && answer->io_depth > last->depth ? "; more may give more"
                                                                 : "; more only wait");
    } else {
        snprintf(text, sizeof text, "%" PRIu32 "%s", answer->io_depth,
                 answer->io_depth > f->many ? " or more: the rate still grew with the reads at once"
                                            : ": more reads at once give no more");
    }
    lines_add(lines, "io_depth", text);
    if (!answer->connections)
        return;
    snprintf(text, sizeof text, "%" PRIu32 ": %s (?connections=%" PRIu32 " in the URL)",
             answer->connections,
             f->network.throttled ? "the server throttles (429, 503) what is more"
                                  : "those there are would be too few for io_depth",
             answer->connections);
    lines_add(lines, "connections", text);
}

/* What kind of store gives that, and what to do about it. */
static void conclude(const stk_storage_figures *f, struct lines *lines)
{
    stk_storage_answer answer = {.struct_size = sizeof answer};
    char text[200];

    stk_storage_judge(f, &answer);
    snprintf(text, sizeof text,
             "like %s: %.3g ms a small read, %.1f times as many with %" PRIu32 " at once",
             stk_storage_name(answer.storage), 1e3 * f->latency,
             f->one_per_s > 0 ? f->many_per_s / f->one_per_s : 0, f->many);
    lines_add(lines, "answers", text);
    say_depth(f, &answer, lines);
    snprintf(text, sizeof text, "%.1f times as fast as at random%s",
             f->random_bytes > 0 ? f->in_order_bytes / f->random_bytes : 0,
             answer.in_order ? ": shuffle: block, chunks and shards read whole"
                             : "; any order will do");
    lines_add(lines, "in order", text);
    const double small_bytes = f->many_per_s * (double)f->small;
    snprintf(text, sizeof text, "%.1f times the bytes a second of small reads%s",
             small_bytes > 0 ? f->in_order_bytes / small_bytes : 0,
             answer.pack ? ": many small files want packing" : "; small files cost little");
    lines_add(lines, "large reads", text);
}

/* Lines of what a store says. */
static bool add_said(stk_context *context, const char *url, struct lines *lines)
{
    struct lines said = {0};
    stk_store *store = NULL;
    char key[4096];

    const bool says = stk_store_open(context, url, &store, key, sizeof key, NULL) == STK_OK &&
                      stk_store_describe(store, key, lines_add, &said, NULL) == STK_OK;
    for (size_t i = 0; says && i < said.count; i++)
        lines_add(lines, said.line[i].name, said.line[i].value);
    stk_store_close(&store);
    lines_free(&said);
    return says;
}

bool info_contained(stk_context *context, const char *url, struct lines *lines)
{
    const stk_store_ops *store;
    char within[4096];
    int length = (int)strlen(url);

    while (length > 1 && url[length - 1] == '/')
        length--;
    if (add_said(context, url, lines))
        return true;
    /* The URL of an object that holds files, by a store that reads it. */
    for (size_t i = 0; (store = (const stk_store_ops *)stk_driver_at(context, STK_DRIVER_STORE, i));
         i++) {
        if (store->struct_size < sizeof *store || !store->describe || strchr(url, '?'))
            continue;
        if (snprintf(within, sizeof within, "%s:%.*s!/", store->name, length, url) <
                (int)sizeof within &&
            add_said(context, within, lines))
            return true;
    }
    return false;
}

static void add_test(void *user, const stk_storage_test *test)
{
    char text[200];

    snprintf(text, sizeof text, "%.0f reads/s, %.1f MB/s, %.3g ms each (p95 %.3g ms)%s",
             test->reads_per_s, test->bytes_per_s / 1e6, 1e3 * test->latency,
             1e3 * test->latency_p95, test->failures ? ", some failed" : "");
    lines_add(user, test->name, text);
}

int info_store(struct cli *cli, stk_context *context, const char *url, struct lines *lines)
{
    struct lines tests = {0};
    const stk_storage_measure_options options = {.struct_size = sizeof options,
                                                 .test = add_test,
                                                 .stop = cli_is_interrupted,
                                                 .user = &tests};
    stk_storage_figures figures = {.struct_size = sizeof figures};
    char text[100];
    stk_error err;

    const stk_status status = stk_storage_measure(context, url, &options, &figures, &err);
    if (status != STK_OK && !cli_interrupted()) {
        lines_free(&tests);
        return cli_fail(cli, status, &err);
    }
    lines_add(lines, "store", url);
    if (status == STK_OK) {
        snprintf(text, sizeof text, "%" PRIu64 " files read, %.1f MB in all", figures.objects,
                 (double)figures.bytes / 1e6);
        lines_add(lines, "objects", text);
    }
    for (size_t i = 0; i < tests.count; i++)
        lines_add(lines, tests.line[i].name, tests.line[i].value);
    lines_free(&tests);
    if (status == STK_OK)
        conclude(&figures, lines);
    if (!figures.num_steps)
        lines_add(
            lines, "note",
            "files in the page cache cost no disk: drop it first, or take files that were not "
            "read yet");
    return cli_interrupted() ? cli_interrupted() : CLI_GOOD;
}
