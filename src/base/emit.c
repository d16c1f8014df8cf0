#include "base/emit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wtf8.h"

void lp_emit_init(struct lp_emit *emit, int (*put)(void *, const char *, size_t), void *context)
{
    emit->put = put;
    emit->context = context;
    emit->error = 0;
    emit->comma = false;
    emit->used = 0;
}

static void drain(struct lp_emit *emit)
{
    if (!emit->error && emit->used && emit->put(emit->context, emit->buffer, emit->used) != 0)
        emit->error = errno ? errno : EIO;
    emit->used = 0;
}

int lp_emit_end(struct lp_emit *emit)
{
    drain(emit);
    if (!emit->error)
        return 0;
    errno = emit->error;
    return -1;
}

void lp_emit_raw(struct lp_emit *emit, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t room = sizeof emit->buffer - emit->used;
        size_t step = len < room ? len : room;
        memcpy(emit->buffer + emit->used, bytes, step);
        emit->used += step;
        bytes += step;
        len -= step;
        if (emit->used == sizeof emit->buffer)
            drain(emit);
    }
}

static void put_char(struct lp_emit *emit, char c)
{
    lp_emit_raw(emit, &c, 1);
}

static void separate(struct lp_emit *emit)
{
    if (emit->comma)
        put_char(emit, ',');
    emit->comma = true;
}

void lp_emit_open(struct lp_emit *emit, char bracket)
{
    separate(emit);
    put_char(emit, bracket);
    emit->comma = false;
}

void lp_emit_close(struct lp_emit *emit, char bracket)
{
    put_char(emit, bracket);
    emit->comma = true;
}

void lp_emit_newline(struct lp_emit *emit)
{
    if (emit->comma)
        put_char(emit, ',');
    emit->comma = false;
    put_char(emit, '\n');
}

void lp_emit_key(struct lp_emit *emit, const char *key)
{
    separate(emit);
    put_char(emit, '"');
    lp_emit_raw(emit, key, strlen(key));
    lp_emit_raw(emit, "\":", 2);
    emit->comma = false;
}

void lp_emit_digits(struct lp_emit *emit, uint64_t value)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    lp_emit_raw(emit, digits + n, sizeof digits - n);
}

void lp_emit_u64(struct lp_emit *emit, uint64_t value)
{
    separate(emit);
    lp_emit_digits(emit, value);
}

void lp_emit_i64(struct lp_emit *emit, int64_t value)
{
    separate(emit);
    if (value < 0)
        put_char(emit, '-');
    lp_emit_digits(emit, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void lp_emit_bool(struct lp_emit *emit, bool value)
{
    separate(emit);
    lp_emit_raw(emit, value ? "true" : "false", value ? 4 : 5);
}

void lp_emit_null(struct lp_emit *emit)
{
    separate(emit);
    lp_emit_raw(emit, "null", 4);
}

void lp_emit_seconds(struct lp_emit *emit, uint64_t ns)
{
    separate(emit);
    lp_emit_digits(emit, ns / 1000000000u);
    char decimals[10] = ".";
    uint64_t rest = ns % 1000000000u;
    size_t len = 0;
    for (int i = 9; i >= 1; i--) {
        decimals[i] = (char)('0' + rest % 10);
        rest /= 10;
        if (len == 0 && decimals[i] != '0')
            len = (size_t)i + 1;
    }
    lp_emit_raw(emit, decimals, len ? len : 2); /* at least ".0" */
}

static void put_hex(struct lp_emit *emit, unsigned value, int digits)
{
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        put_char(emit, "0123456789abcdef"[(value >> shift) & 15]);
}

/* One character; returns how many bytes it took. */
static size_t put_character(struct lp_emit *emit, const unsigned char *p, size_t left)
{
    size_t len = lp_wtf8_sequence((const char *)p, left);
    if (len == 0) {
        lp_emit_raw(emit, "\xef\xbf\xbd", 3);
        return 1;
    }
    if (len == 3 && p[0] == 0xed && p[1] >= 0xa0) { /* lone surrogate */
        lp_emit_raw(emit, "\\\\u", 3);
        put_hex(emit, 0xd000u | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu), 4);
    } else if (len > 1) {
        lp_emit_raw(emit, (const char *)p, len);
    } else if (p[0] == '\\') {
        lp_emit_raw(emit, "\\\\\\\\", 4);
    } else if (p[0] == '\0') {
        lp_emit_raw(emit, "\\\\x00", 5);
    } else if (p[0] == '"') {
        lp_emit_raw(emit, "\\\"", 2);
    } else if (p[0] < 0x20 || p[0] == 0x7f) {
        lp_emit_raw(emit, "\\u", 2);
        put_hex(emit, p[0], 4);
    } else {
        put_char(emit, (char)p[0]);
    }
    return len;
}

static void put_text(struct lp_emit *emit, const char *text, size_t len)
{
    put_char(emit, '"');
    for (size_t i = 0; i < len;)
        i += put_character(emit, (const unsigned char *)text + i, len - i);
    put_char(emit, '"');
}

void lp_emit_text(struct lp_emit *emit, const char *text, size_t len)
{
    separate(emit);
    put_text(emit, text, len);
}

void lp_emit_string(struct lp_emit *emit, const char *text)
{
    lp_emit_text(emit, text, strlen(text));
}

void lp_emit_text_key(struct lp_emit *emit, const char *text, size_t len)
{
    separate(emit);
    put_text(emit, text, len);
    put_char(emit, ':');
    emit->comma = false;
}

void lp_emit_string_begin(struct lp_emit *emit)
{
    separate(emit);
    put_char(emit, '"');
}

void lp_emit_string_end(struct lp_emit *emit)
{
    put_char(emit, '"');
}

void lp_emit_string_or_null(struct lp_emit *emit, const char *key, const char *text)
{
    lp_emit_key(emit, key);
    if (text && *text)
        lp_emit_string(emit, text);
    else
        lp_emit_null(emit);
}

void lp_emit_u64_or_null(struct lp_emit *emit, const char *key, uint64_t value)
{
    lp_emit_key(emit, key);
    if (value)
        lp_emit_u64(emit, value);
    else
        lp_emit_null(emit);
}

int lp_buffer_put(void *context, const char *bytes, size_t len)
{
    struct lp_buffer *buffer = context;
    if (buffer->room - buffer->len <= len) {
        size_t room = 2 * (buffer->len + len + 1);
        char *wider = realloc(buffer->bytes, room);
        if (!wider)
            return -1;
        buffer->bytes = wider;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    buffer->bytes[buffer->len] = '\0';
    return 0;
}
