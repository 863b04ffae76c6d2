/* SPDX-License-Identifier: Apache-2.0 */
/* stoker chunks: windows of a chunked array -> what they cost, and which chunks cost least. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chunks.h"

static const struct cli_usage usage = {
    .name = "chunks",
    .synopsis = "[ARRAY] --window AxB [options]",
    .about =
        "Say how many chunks and bytes a training sample touches that is a window cut out of a "
        "chunked array\n"
        "(Zarr, HDF5, NetCDF), and recommend a chunk shape.\n\n"
        "The table has a row for each chunk shape: the least, the most and the expected number of "
        "chunks a window\n"
        "touches, wherever it begins, and the bytes to fetch, as chunks are fetched whole. The "
        "recommendation is\n"
        "the shape that loses least against the best one wherever in its ranges the store is; "
        "its figures are\n"
        "a model's: requests x latency / io_depth + bytes / bandwidth + decoding + copying.\n\n"
        "Of an ARRAY ('data.zarr/t2m', 'array:URL') shape, data type, codec ratio and present "
        "chunks "
        "are its own; with\n"
        "--measure the candidates are tried on a sample of its data.\n",
    .examples = "  stoker chunks --window 64x64 --chunks 8x8,16x16,32x32,64x64,128x128\n"
                "  stoker chunks --window 4x64x64 --dtype float32 --extent 8760x721x1440 "
                "--store s3 --ratio 2.5\n"
                "  stoker chunks --window 64x64 --access block --shuffle-buffer 32 --extent "
                "4096x4096 --html chunks.html\n"
                "  stoker chunks data.zarr/t2m --window 4x64x64 --measure\n",
    .tables = (const struct cli_options[]){{.own = chunks_option_table}, {0}},
    .max_args = 1,
};

/* ---- An array that exists -------------------------------------------------------------------- */

/* Open the array of a URL. CLI_GO_ON, or the exit code after the error was printed. */
static int open_array(struct cli *cli, const char *url, stk_array **array)
{
    stk_context *context = NULL;
    stk_error err;

    int code = cli_context(cli, 0, &context);
    if (code != CLI_GO_ON)
        return code;
    const stk_status status =
        stk_array_open(context, cli_array_url(cli_home(url)), NULL, array, &err);
    return status == STK_OK ? CLI_GO_ON : cli_array_fail(cli, context, url, status, &err);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int work_out(struct cli *cli, const struct chunks_task *task, struct chunks_result *result)
{
    stk_status status = STK_OK;
    stk_error err;

    result->answer.struct_size = sizeof result->answer;
    for (size_t i = 0; i < task->num_shapes && status == STK_OK; i++)
        status = stk_chunks_count(&task->question, task->shapes[i], &result->counts[i], &err);
    if (task->advise && status == STK_OK)
        status = stk_chunks_advise(&task->question, &result->answer, &err);
    for (size_t i = 0; i < task->num_shapes && task->advise && status == STK_OK; i++) {
        status = stk_chunks_predict(&task->question, task->shapes[i], &result->costs[i], &err);
        if (status == STK_OK)
            result->costs[i].regret = stk_chunks_regret(&result->answer, &result->costs[i]);
    }
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

int cli_chunks(struct cli *cli)
{
    struct chunks_result *result = NULL;
    struct chunks_task *task = NULL;
    stk_array *array = NULL;

    int code = cli_parse(cli, &usage);
    if (code != CLI_GO_ON)
        return code;
    code = CLI_FAILED;
    task = calloc(1, sizeof *task);
    result = calloc(1, sizeof *result);
    if (!task || !result) {
        cli_error("no memory for the figures");
        goto out;
    }
    stk_chunks_question_init(&task->question);
    code = cli->num_args ? open_array(cli, cli->args[0], &array) : CLI_GO_ON;
    if (code == CLI_GO_ON)
        code = chunks_read(cli, array, task);
    if (code == CLI_GO_ON)
        code = work_out(cli, task, result);
    if (code == CLI_GO_ON && task->measure)
        code = chunks_measure(cli, array, task, result);
    if (code != CLI_GO_ON)
        goto out;
    code = task->html ? chunks_write_page(cli, task, result) : CLI_GOOD;
    if (code == CLI_GOOD)
        chunks_print(cli, task, result);
out:
    stk_array_close(&array);
    free(result);
    free(task);
    return code;
}
