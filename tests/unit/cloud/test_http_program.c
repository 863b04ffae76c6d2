/* SPDX-License-Identifier: Apache-2.0 */
/* The web server of the tests as a program. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

/* What a shell command prints, without its last line end. */
static int output(const char *command, char *text, size_t size)
{
    FILE *f = popen(command, "r");

    assert_non_null(f);
    const size_t n = fread(text, 1, size - 1, f);
    text[n] = 0;
    if (n && text[n - 1] == '\n')
        text[n - 1] = 0;
    return WEXITSTATUS(pclose(f));
}

static const char *with_server(const char *arguments)
{
    static char command[2048];

    snprintf(command, sizeof command, "exec 2>&1; sh '%s/cloud/with_server.sh' %s", TESTS_DIR,
             arguments);
    return command;
}

static void it_serves_while_a_command_runs(void **state)
{
    char text[4096];
    char *pid;

    assert_int_equal(output(with_server("--s3 --threads 2 --fault path=/x,status=503 -- "
                                        "'kill -0 $SERVER && echo $URL; echo $SERVER; exit 7'"),
                            text, sizeof text),
                     7);
    assert_int_equal(strncmp(text, "http://127.0.0.1:", 17), 0);
    pid = strchr(text, '\n');
    assert_non_null(pid);
    assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), 0), -1);
}

static void it_says_what_it_does_not_understand(void **state)
{
    char text[4096];

    assert_int_equal(output(with_server("--colour red -- 'echo $URL'"), text, sizeof text), 2);
    assert_non_null(strstr(text, "usage: cloud_server"));
    assert_int_equal(output(with_server("--fault colour=red -- 'echo $URL'"), text, sizeof text),
                     2);
    assert_non_null(strstr(text, "no such fault: colour=red"));
    assert_int_equal(output(with_server("--root /none/such -- 'echo $URL'"), text, sizeof text), 1);
    assert_non_null(strstr(text, "cannot start"));
}

static bool takes_connections(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool taken = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

    close(fd);
    return taken;
}

static void it_ends_with_what_started_it(void **state)
{
    char text[256];
    int port, tries = 0;

    assert_non_null(getenv("CLOUD_SERVER")); /* as CTest sets it */
    /* The shell has ended when the address is there; what it left has its output elsewhere. */
    assert_int_equal(output("f=$(mktemp); \"$CLOUD_SERVER\" >$f & "
                            "until [ -s $f ]; do :; done; cat $f; rm $f",
                            text, sizeof text),
                     0);
    port = (int)strtol(strrchr(text, ':') + 1, NULL, 10);
    assert_true(port > 0);
    while (takes_connections(port)) {
        assert_true(tries++ < 6000);
        usleep(10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_serves_while_a_command_runs),
        cmocka_unit_test(it_says_what_it_does_not_understand),
        cmocka_unit_test(it_ends_with_what_started_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
