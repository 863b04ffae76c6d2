/* SPDX-License-Identifier: Apache-2.0 */
/* --devices N: as many ranks of this command on this machine, by `stoker launch`. */
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many devices are asked for; 0: it is no number, and the trainer looks at it. */
static uint64_t asked(const struct cli *cli)
{
    const char *text = stk_config_get(cli->config, "trainer.devices", 0);
    const size_t digits = text ? strspn(text, "0123456789") : 0;

    return digits && digits < 6 && !text[digits] ? strtoull(text, NULL, 10) : 0;
}

/* Become the launcher of this very command. Only what cannot be returns. */
static int become_launcher(const struct cli *cli, uint64_t n)
{
    static char self[4096];
    size_t count = 0;
    char number[24];

    while (cli->all[count])
        count++;
    const char **argv = calloc(count + 8, sizeof *argv);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!argv || length < 0) {
        cli_error("trainer.devices: this program does not find itself: %s", strerror(errno));
        free(argv);
        return CLI_FAILED;
    }
    snprintf(number, sizeof number, "%" PRIu64, n);
    const char *const front[] = {"stoker", "launch", "--ranks", number, "--"};
    memcpy(argv, front, sizeof front);
    argv[5] = self;
    memcpy(argv + 6, cli->all + 1, (count - 1) * sizeof *argv);
    fflush(NULL);
    execv(self, (char **)argv);
    cli_error("trainer.devices: 'stoker launch' could not be started: %s", strerror(errno));
    free(argv);
    return CLI_FAILED;
}

int train_devices(struct cli *cli)
{
    const uint64_t n = asked(cli);
    const stk_ranks *r = &cli->ranks;
    stk_error err;

    if (n < 2)
        return CLI_GO_ON;
    if (r->launcher == STK_LAUNCHER_NONE)
        return become_launcher(cli, n);
    if (r->local_known && r->local_world_size != n) {
        cli_error("trainer.devices: %" PRIu64 ", and %s has started %" PRIu64
                  " processes on this machine: leave the option out, or start as many",
                  n, stk_launcher_name(r->launcher), r->local_world_size);
        return CLI_USAGE;
    }
    /* Each of them is one. */
    const stk_status status = stk_config_set(cli->config, "trainer.devices", "1", false, &err);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}
