/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How libhdf5 gets at the file: what is read is asked of the library, so that every store serves
 * and this process needs to open nothing; what is written is the descriptor that it was given.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "program.h"

/* Small reads, which are those of metadata, are served of pages that were read. */
#define PAGE  65536u
#define PAGES 32

typedef struct page {
    uint64_t number; /* UINT64_MAX: nothing */
    uint64_t used;
    unsigned char bytes[PAGE];
} page;

typedef struct file {
    H5FD_t base;
    haddr_t allocated, end;
} file;

static uint64_t size_read;
static bool writing; /* the one file is written */
static page *pages;
static uint64_t clock_used;

/* ---- Reading what the library reads ---- */

static bool want(uint64_t offset, void *to, size_t length)
{
    uint64_t asked[2];

    for (unsigned char *at = to; length;) {
        const size_t n = length < STK__WIRE_PIECE ? length : STK__WIRE_PIECE;
        asked[0] = offset;
        asked[1] = n;
        frame_send(STK__WIRE_WANT, asked, sizeof asked);
        if (!frame_take_bytes(at, n))
            return fail(STK_EIO, "bytes %llu to %llu of the file could not be read",
                        (unsigned long long)offset, (unsigned long long)(offset + n));
        at += n;
        offset += n;
        length -= n;
    }
    return true;
}

static const page *page_at(uint64_t number)
{
    page *oldest = pages;

    for (size_t i = 0; i < PAGES; i++) {
        if (pages[i].number == number) {
            pages[i].used = ++clock_used;
            return &pages[i];
        }
        if (pages[i].used < oldest->used)
            oldest = &pages[i];
    }
    const uint64_t begin = number * PAGE, left = size_read - begin;
    oldest->number = UINT64_MAX;
    if (!want(begin, oldest->bytes, left < PAGE ? (size_t)left : PAGE))
        return NULL;
    oldest->number = number;
    oldest->used = ++clock_used;
    return oldest;
}

static bool read_pages(uint64_t offset, unsigned char *to, size_t length)
{
    while (length) {
        const size_t within = offset % PAGE;
        const size_t n = length < PAGE - within ? length : PAGE - within;
        const page *p = page_at(offset / PAGE);
        if (!p)
            return false;
        memcpy(to, p->bytes + within, n);
        to += n;
        offset += n;
        length -= n;
    }
    return true;
}

/* ---- The descriptor that is written ---- */

static bool transfer(haddr_t address, void *data, size_t length, bool writes)
{
    for (char *at = data; length;) {
        const ssize_t n = writes ? pwrite(STK__WIRE_FILE, at, length, (off_t)address)
                                 : pread(STK__WIRE_FILE, at, length, (off_t)address);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(errno == ENOSPC || errno == EDQUOT ? STK_ENOSPC : STK_EIO,
                        "the file that is written: %s", strerror(errno));
        if (n == 0 && !writes) {
            memset(at, 0, length); /* beyond its end, within what was allocated */
            return true;
        }
        at += n;
        address += (haddr_t)n;
        length -= (size_t)n;
    }
    return true;
}

/* ---- The table of libhdf5 ---- */

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t access, haddr_t most)
{
    file *f = calloc(1, sizeof *f);

    (void)name, (void)flags, (void)access, (void)most;
    if (!f)
        return NULL;
    f->end = writing ? 0 : size_read;
    return &f->base;
}

static herr_t driver_close(H5FD_t *base)
{
    free(base);
    return 0;
}

static int driver_compare(const H5FD_t *a, const H5FD_t *b)
{
    return a < b ? -1 : a > b;
}

static herr_t driver_query(const H5FD_t *base, unsigned long *flags)
{
    (void)base;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t driver_get_allocated(const H5FD_t *base, H5FD_mem_t type)
{
    (void)type;
    return ((const file *)base)->allocated;
}

static herr_t driver_set_allocated(H5FD_t *base, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    ((file *)base)->allocated = end;
    return 0;
}

static haddr_t driver_get_end(const H5FD_t *base, H5FD_mem_t type)
{
    (void)type;
    return ((const file *)base)->end;
}

static herr_t driver_read(H5FD_t *base, H5FD_mem_t type, hid_t transfers, haddr_t address,
                          size_t length, void *to)
{
    bool done;

    (void)base, (void)type, (void)transfers;
    if (writing)
        return transfer(address, to, length, false) ? 0 : -1;
    if (address > size_read || length > size_read - address) {
        (void)fail(STK_ETRUNCATED, "the file has %llu bytes, and bytes %llu to %llu are asked for",
                   (unsigned long long)size_read, (unsigned long long)address,
                   (unsigned long long)address + length);
        return -1;
    }
    done = length < PAGE ? read_pages(address, to, length) : want(address, to, length);
    return done ? 0 : -1;
}

static herr_t driver_write(H5FD_t *base, H5FD_mem_t type, hid_t transfers, haddr_t address,
                           size_t length, const void *from)
{
    file *f = (file *)base;

    (void)type, (void)transfers;
    if (!writing || !transfer(address, (void *)from, length, true))
        return -1;
    if (f->end < address + length)
        f->end = address + length;
    return 0;
}

static herr_t driver_truncate(H5FD_t *base, hid_t transfers, hbool_t closing)
{
    file *f = (file *)base;

    (void)transfers, (void)closing;
    if (!writing || f->end == f->allocated)
        return 0;
    if (ftruncate(STK__WIRE_FILE, (off_t)f->allocated) < 0) {
        (void)fail(STK_EIO, "the file that is written: %s", strerror(errno));
        return -1;
    }
    f->end = f->allocated;
    return 0;
}

static const H5FD_class_t table = {
    .name = "stoker",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .open = driver_open,
    .close = driver_close,
    .cmp = driver_compare,
    .query = driver_query,
    .get_eoa = driver_get_allocated,
    .set_eoa = driver_set_allocated,
    .get_eof = driver_get_end,
    .read = driver_read,
    .write = driver_write,
    .truncate = driver_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

hid_t driver_access(uint64_t size, bool writes)
{
    size_read = size;
    writing = writes;
    if (!writes && !pages && !(pages = calloc(PAGES, sizeof *pages))) {
        (void)no_memory();
        return -1;
    }
    for (size_t i = 0; !writes && i < PAGES; i++)
        pages[i].number = UINT64_MAX;
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), driver = H5FDregister(&table);
    if (access >= 0 && driver >= 0 && H5Pset_driver(access, driver, NULL) >= 0 &&
        H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0)
        return access;
    (void)fail_hdf5("register the access to", "the file");
    return -1;
}
