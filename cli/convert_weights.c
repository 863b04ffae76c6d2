/* SPDX-License-Identifier: Apache-2.0 */
/* stoker convert of a training's files: weights for other programs, a checkpoint as one file. */
#include <inttypes.h>
#include <string.h>

#include <stoker/checkpoint.h>

#include "cli.h"
#include "convert.h"

int convert_weights(struct cli *cli, stk_context *context)
{
    const stk_option_table *table = stk_option_table_find("weights");
    stk_weights_options options;
    stk_convert_options shared;
    size_t written = 0;
    stk_error err;

    int code = convert_refuse_options(cli, table, true, "weights");
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_option_table_find("convert"), 0, &shared);
    if (code == CLI_GO_ON)
        code = cli_apply(cli, table, 0, &options);
    if (code != CLI_GO_ON)
        return code;
    options.overwrite = shared.overwrite;
    options.canceled = cli_is_interrupted;
    stk_status status = stk_weights_convert(context, cli_home(cli->args[0]), cli_home(cli->args[1]),
                                            &options, &written, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    if (cli->format == CLI_JSON) {
        fputs("{\"target\": ", cli->out);
        cli_json_string(cli->out, cli->args[1]);
        fprintf(cli->out, ", \"tensors\": %zu}\n", written);
    } else if (cli->format == CLI_CSV) {
        fprintf(cli->out, "tensors\n%zu\n", written);
    } else if (!cli->quiet || cli->out_path) {
        fprintf(cli->out, "%s: %zu tensor%s\n", cli->args[1], written, written == 1 ? "" : "s");
    }
    return CLI_GOOD;
}

/* `ckpt FROM TO`. */
int convert_checkpoint(struct cli *cli, stk_context *context)
{
    stk_store_call call = {.struct_size = sizeof call, .canceled = cli_is_interrupted};
    const char *to = cli->args[2];
    stk_convert_options shared;
    stk_error err;

    int code = convert_refuse_options(cli, NULL, true, "checkpoints");
    if (code == CLI_GO_ON)
        code = cli_apply(cli, stk_option_table_find("convert"), 0, &shared);
    if (code != CLI_GO_ON)
        return code;
    call.no_replace = !shared.overwrite;
    const stk_status status =
        stk_checkpoint_consolidate(context, cli_home(cli->args[1]), cli_home(to), &call, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    if (cli->format == CLI_JSON) {
        fputs("{\"target\": ", cli->out);
        cli_json_string(cli->out, to);
        fputs("}\n", cli->out);
    } else if (cli->format == CLI_CSV) {
        fputs("target\n", cli->out);
        cli_csv_string(cli->out, to);
        fputc('\n', cli->out);
    } else if (!cli->quiet || cli->out_path) {
        fprintf(cli->out, "%s: one file\n", to);
    }
    return CLI_GOOD;
}
