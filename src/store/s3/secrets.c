/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/secrets.h"

#include <sys/mman.h>

void *stk__secrets_alloc(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    if (madvise(memory, size, MADV_DONTDUMP) != 0 || madvise(memory, size, MADV_WIPEONFORK) != 0) {
        munmap(memory, size);
        return NULL;
    }
    return memory;
}

void stk__secrets_free(void *memory, size_t size)
{
    if (!memory)
        return;
    explicit_bzero(memory, size);
    munmap(memory, size);
}

bool stk__secret_set(stk__secret *secret, const char *text, size_t length)
{
    explicit_bzero(secret, sizeof *secret);
    if (!text)
        return true;
    if (length >= sizeof secret->text || memchr(text, 0, length))
        return false;
    memcpy(secret->text, text, length);
    return true;
}

bool stk__secret_has(const stk__secret *secret)
{
    return secret->text[0] != 0;
}
