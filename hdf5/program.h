/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker-hdf5: libhdf5 in a process of its own. It is started by the library, speaks the frames of
 * array/libhdf5/wire.h with it, opens no file, and holds itself to limits of memory and time, since
 * libhdf5 is not trusted with files of strangers.
 */
#ifndef STOKER_HDF5_PROGRAM_H
#define STOKER_HDF5_PROGRAM_H

#include <hdf5.h>
#include <hdf5_hl.h>
#include <stddef.h>
#include <stoker/base.h>

#include "array/libhdf5/wire.h"

#define MOST_DEPTH 32 /* groups within groups */

/* ---- Conversation (frames.c) ---- */

/* The next frame from the library; its payload lives until the next call. The process ends where
 * the library is gone or sends what is no frame. */
uint32_t frame_take(stk__wire_in *in);
void frame_send(uint32_t kind, const void *payload, size_t length);
/* From now on the process ends when it has not been asked anything for a while: arrays that are
 * open and not read hold none. */
void frame_end_idle(void);
/* An empty payload that is put together, one at a time, and sent by frame_put(). */
stk__wire_out *frame_begin(void);
void frame_put(uint32_t kind, stk__wire_out *out);
/* Values in frames of DATA. */
void frame_send_data(const void *data, size_t length);
/* The answer to WANT: `length` bytes, or false: they cannot be had. What frame_take() gave stays.
 */
bool frame_take_bytes(void *to, size_t length);
/* `length` bytes of DATA frames into `to`; NULL: they are dropped. */
void frame_take_data(void *to, size_t length);
/* End the process: what the library sent is no sense. */
_Noreturn void frame_nonsense(void);

/* ---- Failures (failure.c) ---- */

/* Fill what FAIL will tell and give false. The first one stays. */
bool fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same after a call of libhdf5 failed, with what it says. */
bool fail_hdf5(const char *what, const char *path);
bool no_memory(void);
void failure_clear(void);
void failure_send(void);

/* ---- The file (driver.c) ---- */

/* A list of access properties by which the file is what the library reads (`size` bytes) or, with
 * `writes`, the descriptor STK__WIRE_FILE. */
hid_t driver_access(uint64_t size, bool writes);

/* ---- Types (types.c) ---- */

/* What an element is to the library, and how it is asked of libhdf5. */
typedef struct element {
    uint32_t type;     /* stk_dtype, or STK__WIRE_TEXT ... */
    uint64_t itemsize; /* of the library; 0: texts whose lengths vary */
    hid_t memory;      /* that libhdf5 converts to; to be closed */
    bool varies;       /* texts of any length */
    bool utf8;
} element;

/* Of a type of the file; false: it is none that is read, and the failure says which. */
bool element_of(hid_t type, const char *path, element *out);
/* A number by its stk_dtype, as the machine has it; a new type, -1: there is none. */
hid_t number_type(uint32_t dtype);
/* A text of `size` bytes, H5T_VARIABLE included, of UTF-8. */
hid_t text_type(size_t size);

/* ---- Reading (read.c, describe.c, values.c) ---- */

/* The file that is read, or -1. */
extern hid_t file_read;

bool read_file(stk__wire_in *in);
bool read_list(stk__wire_in *in);
bool read_describe(stk__wire_in *in);
bool read_box(stk__wire_in *in);
/* Open what lies at a path, without following links to other files. -1: the failure says why. */
hid_t open_object(const char *path);
/* Whether all of its values lie in the file; else a failure by name. */
bool is_inside(hid_t dataset, const char *path);
/* Send all attributes. */
bool attributes_send(hid_t object);
/* The longest text of a dataset whose texts vary: in bytes, or with `utf8` in characters. */
bool texts_width(hid_t dataset, const char *path, bool utf8, uint64_t *width);

/* ---- Writing (write.c) ---- */

bool write_file(stk__wire_in *in);
bool write_group(stk__wire_in *in);
bool write_dimension(stk__wire_in *in);
bool write_variable(stk__wire_in *in);
bool write_attribute(stk__wire_in *in);
bool write_defined(stk__wire_in *in);
bool write_box(stk__wire_in *in);
bool write_chunk(stk__wire_in *in);
bool write_finish(stk__wire_in *in);
/* Put an attribute of what PUT_ATTRIBUTE says. (attributes.c) */
bool attribute_put(hid_t object, stk__wire_in *in);
/* Write an attribute, `values` NULL: without values. `type` and `space`, -1: they could not be
 * made, are closed. (attributes.c) */
bool attribute_write(hid_t object, const char *name, hid_t type, hid_t space, const void *values);

#endif
