#include "report/sink.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void lp_report_write(struct lp_report_sink *sink, const char *bytes, size_t len)
{
    if (sink->error == 0 && len > 0)
        sink->error = sink->write(sink, bytes, len);
}

void lp_report_puts(struct lp_report_sink *sink, const char *text)
{
    lp_report_write(sink, text, strlen(text));
}

static int buffer_write(struct lp_report_sink *sink, const char *bytes, size_t len)
{
    struct lp_report_buffer *buffer = (struct lp_report_buffer *)sink;
    if (len > SIZE_MAX / 2 - buffer->len - 1)
        return -ENOMEM;
    size_t need = buffer->len + len + 1;
    if (need > buffer->size) {
        size_t size = buffer->size < 256 ? 256 : buffer->size;
        while (size < need)
            size *= 2;
        char *grown = realloc(buffer->bytes, size);
        if (grown == NULL)
            return -ENOMEM;
        buffer->bytes = grown;
        buffer->size = size;
    }
    memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    buffer->bytes[buffer->len] = '\0';
    return 0;
}

void lp_report_buffer_init(struct lp_report_buffer *buffer)
{
    *buffer = (struct lp_report_buffer){.sink = {.write = buffer_write}};
}

void lp_report_buffer_release(struct lp_report_buffer *buffer)
{
    free(buffer->bytes);
    buffer->bytes = NULL;
    buffer->len = buffer->size = 0;
}

void lp_report_buffer_reset(struct lp_report_buffer *buffer)
{
    buffer->len = 0;
    buffer->sink.error = 0;
    if (buffer->bytes != NULL)
        buffer->bytes[0] = '\0';
}

static int file_write(struct lp_report_sink *sink, const char *bytes, size_t len)
{
    struct lp_report_file *file = (struct lp_report_file *)sink;
    errno = 0;
    if (fwrite(bytes, 1, len, file->file) == len)
        return 0;
    return errno != 0 ? -errno : -EIO;
}

void lp_report_file_init(struct lp_report_file *file, FILE *stream)
{
    *file = (struct lp_report_file){.sink = {.write = file_write}, .file = stream};
}
