/* A CA of the test's own and certificates by it, made by cloud/certificates.sh. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_CERTIFICATES_H
#define STK_TESTS_SUPPORT_CERTIFICATES_H

#include <stdlib.h>
#include <sys/wait.h>

#include "support/support.h"

/* ca, server, expired, other and self, each NAME.pem and NAME.key in the folder. False: there is
 * no openssl, and the test is skipped. */
static inline bool test_certificates(const char *folder)
{
    char command[1024];

    snprintf(command, sizeof command, "sh '%s/cloud/certificates.sh' '%s' >'%s/log' 2>&1",
             TESTS_DIR, folder, folder);
    const int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        test_skipped();
        print_message("skipped: no openssl to make certificates\n");
        return false;
    }
    assert_int_equal(status, 0);
    return true;
}

#endif
