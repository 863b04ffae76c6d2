/* SPDX-License-Identifier: Apache-2.0 */
/* stoker info --machine: what figures of this machine are of. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/collectives.h>

#include "info.h"

const stk_option_table *info_machine_table(void)
{
    static const stk_option rows[] = {
        {"machine", STK_OPTION_BOOL, offsetof(struct info_machine_options, machine), "false", 0, 0,
         NULL, NULL,
         "Describe the machine, and of its disks that of a path (the working directory): "
         "processor, what of cores and memory may be used, network, accelerators, versions. "
         "With --store the path's store is measured, too."},
    };
    static const stk_option_table table = {.name = "",
                                           .doc = "The machine",
                                           .struct_size = sizeof(struct info_machine_options),
                                           .options = rows,
                                           .count = 1};

    return &table;
}

/* What would carry gradients between GPUs. */
static bool nccl_version(char *text, size_t size)
{
    stk_error err;

    return stk_nccl_version(NULL, text, size, &err) == STK_OK;
}

/* What the drivers of devices find. This may wake up an accelerator. */
static void add_devices(const stk_context *context, struct lines *lines)
{
    const stk_driver_head *driver;
    char text[160];

    for (size_t i = 0; (driver = stk_driver_at(context, STK_DRIVER_DEVICE, i)); i++) {
        const stk_device_ops *ops = (const stk_device_ops *)driver;
        const uint32_t n = ops->count();
        snprintf(text, sizeof text, "%s: %" PRIu32 " device%s", ops->name, n, n == 1 ? "" : "s");
        lines_add(lines, "computes on", text);
    }
    lines_add(lines, "NCCL", nccl_version(text, sizeof text) ? text : "none (libnccl.so.2)");
}

/* The members of the machine, then those of its drivers and of the store. */
static void print_json(const stk_context *context, const char *members, const struct lines *store,
                       FILE *out)
{
    const stk_driver_head *driver;
    char version[32];

    fprintf(out, "{%s, \"devices\": [", members);
    for (size_t i = 0; (driver = stk_driver_at(context, STK_DRIVER_DEVICE, i)); i++) {
        const stk_device_ops *ops = (const stk_device_ops *)driver;
        fputs(i ? ", {\"name\": " : "{\"name\": ", out);
        cli_json_string(out, ops->name);
        fprintf(out, ", \"count\": %" PRIu32 "}", ops->count());
    }
    fputs("], \"nccl\": ", out);
    if (nccl_version(version, sizeof version))
        cli_json_string(out, version);
    else
        fputs("null", out);
    fputs(", \"store\": ", out);
    if (store) {
        fputs("{", out);
        info_lines_json(store, out);
        fputs("\n}", out);
    } else {
        fputs("null", out);
    }
    fputs("}\n", out);
}

#define MEMBERS 16384 /* bytes of the machine as JSON */

int info_machine(struct cli *cli, stk_context *context, const char *path, bool measure)
{
    /* A store that is measured says itself what it lacks. */
    if (path && !measure && access(path, F_OK) != 0) {
        if (errno == ENOENT)
            cli_error("'%s' does not exist; check the path", path);
        else
            cli_error("'%s': %s", path, strerror(errno));
        return CLI_FAILED;
    }
    stk_machine machine = {.struct_size = sizeof machine};
    struct lines lines = {0}, store = {0};
    const bool json = cli->format == CLI_JSON;
    char *members = malloc(MEMBERS);
    int code = CLI_GOOD;

    if (!members) {
        cli_error("no memory for the description of the machine");
        return CLI_FAILED;
    }
    stk_machine_get(context, path, &machine);
    if (measure)
        code = info_store(cli, context, path, json ? &store : &lines);
    if (code == CLI_GOOD && json) {
        stk_machine_format(&machine, members, MEMBERS);
        print_json(context, members, measure ? &store : NULL, cli->out);
    } else if (code == CLI_GOOD) {
        struct lines all = {0};
        stk_machine_describe(&machine, lines_add, &all);
        add_devices(context, &all);
        for (size_t i = 0; i < lines.count; i++)
            lines_add(&all, lines.line[i].name, lines.line[i].value);
        if (all.failed) {
            cli_error("no memory for the description of the machine");
            code = CLI_FAILED;
        } else {
            lines_print(&all, cli->format, cli->out);
        }
        lines_free(&all);
    }
    lines_free(&lines);
    lines_free(&store);
    free(members);
    return code;
}
