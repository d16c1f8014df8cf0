#include "report/sink.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void lp_report_sink_init(struct lp_report_sink *sink, int (*put)(void *, const char *, size_t), void *context)
{
    *sink = (struct lp_report_sink){.put = put, .context = context};
}

void lp_report_fail(struct lp_report_sink *sink, int error)
{
    if (sink->error == 0)
        sink->error = error;
}

void lp_report_write(struct lp_report_sink *sink, const char *bytes, size_t len)
{
    if (sink->error != 0 || len == 0)
        return;
    errno = 0;
    if (sink->put(sink->context, bytes, len) != 0)
        lp_report_fail(sink, errno != 0 ? -errno : -EIO);
}

void lp_report_puts(struct lp_report_sink *sink, const char *text)
{
    lp_report_write(sink, text, strlen(text));
}

int lp_report_put_file(void *context, const char *bytes, size_t len)
{
    return fwrite(bytes, 1, len, context) == len ? 0 : -1;
}
