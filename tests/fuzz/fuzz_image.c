/*
 * An image of anybody: taken as a foreign file, bounded, turned into a document, and the document read; and what is
 * open in it. The header's fixed part is put right first, or almost every input would end there.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/document.h"
#include "worker/document.h"
#include "worker/stacks.h"

/* A hostile image may show a long name very often; a reader's memory is its own affair. */
#define LARGEST_DOCUMENT (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put_bounded(void *context, const char *bytes, size_t len)
{
    struct lp_buffer *text = context;
    return text->len + len > LARGEST_DOCUMENT ? -1 : lp_buffer_put(text, bytes, len);
}

static void put_header_right(int fd)
{
    struct lp_header header;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return;
    memcpy(header.magic, LP_IMAGE_MAGIC, sizeof header.magic);
    header.version = LP_IMAGE_VERSION;
    header.layout = LP_IMAGE_LAYOUT;
    header.boot_id[sizeof header.boot_id - 1] = '\0';
    if (pwrite(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return;
}

static void show(const struct lp_view *view, enum lp_document_owner owner)
{
    static struct lp_emit emit;
    const struct lp_stamp now = {.realtime_ns = 3, .monotonic_ns = 2, .boottime_ns = 2};
    struct lp_run_document document = {0};
    struct lp_run_fault fault = {0};
    struct lp_buffer text = {0};
    lp_emit_init(&emit, put_bounded, &text);
    lp_document_emit(&emit, view, &now, NULL, owner);
    if (lp_emit_end(&emit) == 0 && lp_run_document_parse(&document, text.bytes, text.len, &fault) != 0 &&
        fault.text[0] == '\0')
        abort(); /* refused without a reason */
    lp_run_document_release(&document);
    free(text.bytes);
}

static void show_stacks(int fd)
{
    struct lp_stacks stacks;
    if (lp_stacks_read(&stacks, fd) == 0)
        lp_stacks_release(&stacks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct lp_view view;
    if (fd < 0)
        fd = memfd_create("image", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    put_header_right(fd);
    if (lp_view_foreign(&view, fd) != 0)
        return 0;
    show(&view, LP_OWNER_GONE);
    show(&view, LP_OWNER_ALIVE);
    lp_view_release(&view);
    show_stacks(fd);
    return 0;
}
