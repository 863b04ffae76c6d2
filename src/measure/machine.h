/* /proc, /sys -> facts of the machine: what the files of machine*.c share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_MACHINE_H
#define STK_SRC_MEASURE_MACHINE_H

#include <stoker/machine.h>

#include "base/context.h"

#define STK__MACHINE_PATH 4096 /* bytes of a path, as the kernel has it */
#define STK__MACHINE_JSON 8192 /* bytes that stk_machine_format() fits */

/* What the files below `root` tell ("" but in tests). `path` is absolute; `cores` and `limit`, the
 * bytes that may be used, are known already. */
void stk__machine_find(const char *root, const char *path, const stk_cores *cores, uint64_t limit,
                       stk_machine *out);
/* What an absolute path lies on (machine_disk.c). */
void stk__machine_disk(const char *root, const char *path, stk_machine_disk *out);
/* Links to other machines (machine_devices.c), and what computes. */
void stk__machine_networks(const char *root, stk_machine *out);
void stk__machine_accelerators(const char *root, stk_machine *out);

/* The first line of a small file, cleaned; empty where there is none. The path is a format. */
bool stk__machine_line(char *out, size_t size, const char *root, const char *format, ...)
    STK_PRINTF(4, 5);
/* The same as a number; 0 where it is none. */
uint64_t stk__machine_number(const char *root, const char *path);
/* Copy text of the system: blanks at both ends are left out, each control and each byte that is no
 * UTF-8 becomes '?', and what does not fit is cut between characters. */
void stk__machine_clean(char *out, size_t size, const char *text, size_t length);
/* Names in a folder in their order, hidden ones left out: `most` at most. */
typedef char stk__machine_name[64];
size_t stk__machine_names(const char *root, const char *folder, stk__machine_name *out,
                          size_t most);

#endif
