/* An image of anybody: taken as a foreign file, bounded, and turned into a document. The header's fixed part is put right
   first, or almost every input would end there. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int swallow(void *context, const char *bytes, size_t len)
{
    *(size_t *)context += len + (len ? (unsigned char)bytes[0] : 0);
    return 0;
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
    static struct lp_emit emit;
    size_t total = 0;
    const struct lp_stamp now = {.realtime_ns = 3, .monotonic_ns = 2, .boottime_ns = 2};
    lp_emit_init(&emit, swallow, &total);
    lp_document_emit(&emit, &view, &now, LP_OWNER_GONE);
    lp_emit_end(&emit);
    lp_view_release(&view);
    return 0;
}
