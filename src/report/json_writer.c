#include "report/json_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/text.h"

void lp_report_json_init(struct lp_report_json *json, struct lp_report_sink *sink)
{
    *json = (struct lp_report_json){.sink = sink};
    lp_report_buffer_init(&json->escape);
}

void lp_report_json_release(struct lp_report_json *json)
{
    lp_report_buffer_release(&json->escape);
}

static void raw(struct lp_report_json *json, const char *text)
{
    lp_report_puts(json->sink, text);
}

static void new_line(struct lp_report_json *json)
{
    raw(json, "\n");
    for (unsigned i = 0; i < json->depth; i++)
        raw(json, "  ");
}

/* --- strings --- */

/* What JSON wants of a string that is UTF-8 without surrogates. */
static void quote(struct lp_report_json *json, const char *bytes, size_t len)
{
    size_t plain = 0;
    raw(json, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        char escaped[8];
        if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f)
            continue;
        lp_report_write(json->sink, bytes + plain, i - plain);
        plain = i + 1;
        snprintf(escaped, sizeof escaped, byte == '"' || byte == '\\' ? "\\%c" : "\\u%04x", byte);
        raw(json, escaped);
    }
    lp_report_write(json->sink, bytes + plain, len - plain);
    raw(json, "\"");
}

/* The text escape needs room for its result; the buffer keeps that room for the next string. */
static void string(struct lp_report_json *json, const char *bytes, size_t len)
{
    struct lp_report_buffer *escape = &json->escape;
    size_t need = len * LP_TEXT_ENCODED_MAX + 1;
    if (escape->size < need) {
        char *grown = realloc(escape->bytes, need);
        if (grown == NULL) {
            json->sink->error = json->sink->error != 0 ? json->sink->error : -ENOMEM;
            return;
        }
        escape->bytes = grown;
        escape->size = need;
    }
    quote(json, escape->bytes, lp_text_encode(escape->bytes, (struct lp_view){bytes, len}));
}

/* --- structure --- */

static void separate(struct lp_report_json *json)
{
    if (json->depth == 0)
        return;
    bool lines = json->open[json->depth - 1].lines;
    if (json->open[json->depth - 1].any)
        raw(json, lines ? "," : ", ");
    if (lines)
        new_line(json);
    json->open[json->depth - 1].any = true;
}

static void begin(struct lp_report_json *json, const char *key)
{
    separate(json);
    if (key != NULL) {
        string(json, key, strlen(key));
        raw(json, ": ");
    }
}

static void open_level(struct lp_report_json *json, const char *key, const char *brackets,
                       enum lp_report_json_layout layout)
{
    begin(json, key);
    lp_report_write(json->sink, brackets, 1);
    json->open[json->depth].close = brackets[1];
    json->open[json->depth].lines = layout == LP_JSON_LINES;
    json->open[json->depth].any = false;
    json->depth++;
}

void lp_report_json_object(struct lp_report_json *json, const char *key,
                           enum lp_report_json_layout layout)
{
    open_level(json, key, "{}", layout);
}

void lp_report_json_array(struct lp_report_json *json, const char *key,
                          enum lp_report_json_layout layout)
{
    open_level(json, key, "[]", layout);
}

void lp_report_json_close(struct lp_report_json *json)
{
    json->depth--;
    if (json->open[json->depth].lines && json->open[json->depth].any)
        new_line(json);
    lp_report_write(json->sink, &json->open[json->depth].close, 1);
    if (json->depth == 0)
        raw(json, "\n");
}

/* --- values --- */

void lp_report_json_null(struct lp_report_json *json, const char *key)
{
    begin(json, key);
    raw(json, "null");
}

void lp_report_json_bool(struct lp_report_json *json, const char *key, bool value)
{
    begin(json, key);
    raw(json, value ? "true" : "false");
}

static void count(struct lp_report_json *json, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    raw(json, digits);
}

void lp_report_json_count(struct lp_report_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    count(json, value);
}

void lp_report_json_signed(struct lp_report_json *json, const char *key, int64_t value)
{
    char digits[24];
    begin(json, key);
    snprintf(digits, sizeof digits, "%" PRId64, value);
    raw(json, digits);
}

/* The decimal point of the locale may be anything, of several bytes too; JSON's is a point. */
static void set_point(char *digits)
{
    const char *point = localeconv()->decimal_point;
    char *found = strstr(digits, point);
    if (found == NULL || *point == '\0')
        return;
    *found = '.';
    size_t rest = strlen(found + strlen(point)) + 1;
    memmove(found + 1, found + strlen(point), rest);
}

void lp_report_json_real(struct lp_report_json *json, const char *key, double value)
{
    char digits[48];
    if (!isfinite(value)) {
        lp_report_json_null(json, key);
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    set_point(digits);
    begin(json, key);
    raw(json, digits);
}

void lp_report_json_text(struct lp_report_json *json, const char *key, const char *bytes,
                         size_t len)
{
    if (bytes == NULL) {
        lp_report_json_null(json, key);
        return;
    }
    begin(json, key);
    string(json, bytes, len);
}

void lp_report_json_string(struct lp_report_json *json, const char *key, const char *text)
{
    lp_report_json_text(json, key, text, text != NULL ? strlen(text) : 0);
}

void lp_report_json_named_count(struct lp_report_json *json, const char *name, size_t name_len,
                                uint64_t value)
{
    separate(json);
    string(json, name, name_len);
    raw(json, ": ");
    count(json, value);
}
