/* SPDX-License-Identifier: Apache-2.0 */
/* Letting others look on at a command: its sheet for 'stoker top', its page with --dashboard. */
#include <inttypes.h>

#include "cli.h"

struct live_options {
    uint32_t struct_size;
    const char *dashboard;
};

const stk_option_table *cli_live_table(void)
{
    static const stk_option rows[] = {
        {"dashboard", STK_OPTION_STRING, offsetof(struct live_options, dashboard), NULL, 0, 0, NULL,
         "[ADDR:]PORT",
         "Show the run on a page at this port while it goes on, of this machine alone, or of an "
         "address, where it asks for a token; 0: a free port. /metrics is for Prometheus."},
    };
    static const stk_option_table table = {.name = "",
                                           .doc = "Looking on",
                                           .struct_size = sizeof(struct live_options),
                                           .options = rows,
                                           .count = sizeof rows / sizeof *rows};

    return &table;
}

int cli_live_bind(struct cli *cli)
{
    struct live_options options;
    stk_error err;
    char text[300];

    int code = cli_apply(cli, cli_live_table(), 0, &options);
    if (code != CLI_GO_ON || !options.dashboard)
        return code;
    cli->address.struct_size = sizeof cli->address;
    const stk_status status = stk_live_bind(options.dashboard, &cli->address, &err);
    if (status != STK_OK) {
        cli->address.struct_size = 0;
        cli_error("dashboard: %s", err.text);
        return cli_is_usage(status, &err) ? CLI_USAGE : CLI_FAILED;
    }
    snprintf(text, sizeof text, "live page: %s", cli->address.url);
    cli_console_answer(cli, text);
    return CLI_GO_ON;
}

int cli_live(struct cli *cli, const char *what, uint64_t rank, uint64_t ranks)
{
    char label[160];
    stk_error err;

    cli_live_end(cli);
    const bool page = rank == 0 && cli->address.struct_size;
    if (ranks > 1) {
        snprintf(label, sizeof label, "rank %" PRIu64 " of %" PRIu64 ", %.120s", rank, ranks,
                 what ? what : "");
        what = label;
    }
    stk_status status = stk_live_open(cli->context, cli->usage->name, what, &cli->live, &err);
    if (status == STK_OK && page)
        status = stk_live_serve(cli->live, &cli->address, &cli->server, &err);
    /* Without a page nobody has asked for it. */
    return status == STK_OK || !page ? CLI_GO_ON : cli_fail(cli, status, &err);
}

void cli_live_end(struct cli *cli)
{
    stk_live_stop(&cli->server);
    stk_live_close(&cli->live);
}
