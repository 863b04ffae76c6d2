/* SPDX-License-Identifier: Apache-2.0 */
/* A command's configuration from a pipe, and into one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* More than the library takes: it says so itself. */
#define MOST (((size_t)4 << 20) + 1)

/* Have standard input begin with what was read of it: the command may begin anew, with another
 * environment (cli_compute_environment()). False with errno. */
static bool put_back(const char *text, size_t length)
{
    if (lseek(STDIN_FILENO, 0, SEEK_SET) == 0)
        return true;
    FILE *kept = tmpfile();
    if (!kept)
        return false;
    const bool good = fwrite(text, 1, length, kept) == length && fflush(kept) == 0 &&
                      dup2(fileno(kept), STDIN_FILENO) >= 0 &&
                      lseek(STDIN_FILENO, 0, SEEK_SET) == 0;
    const int error = errno;
    fclose(kept);
    errno = error;
    return good;
}

stk_status cli_config_load(stk_config *config, const char *path, stk_error *err)
{
    if (strcmp(path, "-") != 0)
        return stk_config_load(config, path, err);
    char *text = malloc(MOST);
    stk_error_init(err);
    if (!text) {
        snprintf(err->text, sizeof err->text, "no memory for the configuration");
        return err->status = STK_ENOMEM;
    }
    const size_t length = fread(text, 1, MOST, stdin);
    const int error = ferror(stdin) || !put_back(text, length) ? errno : 0;
    stk_status status = STK_EIO;
    if (error)
        snprintf(err->text, sizeof err->text, "cannot read the configuration: %s", strerror(error));
    else
        status = stk_config_load_text(config, "standard input", text, length, err);
    free(text);
    return err->status = status;
}

void cli_find_training(struct cli *cli, const char *last)
{
    if (strcmp(last, "-") != 0 && (stk_config_count(cli->config, "data.dataset") ||
                                   stk_config_count(cli->config, "model.layers")))
        cli->training = last;
}

int cli_fail_training(const struct cli *cli)
{
    cli_error("'%.200s' is the configuration of a training; give it as the step that is measured: "
              "stoker %s --step train:%.200s",
              cli->training, cli->usage->name, cli->training);
    return CLI_USAGE;
}

static void print_line(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

int cli_config_print(struct cli *cli)
{
    stk_error err;

    stk_status status = stk_config_write(cli->config, print_line, cli->out, &err);
    return status == STK_OK ? CLI_GOOD : cli_fail(cli, status, &err);
}
