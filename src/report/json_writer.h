/*
 * report/json_writer: one JSON document, written as it is said.
 *
 * Keeps only the commas and the layout right; nothing is built in memory, so a run of ten thousand
 * workers costs no more than one. Every string goes through the text escape of docs/format.md (a
 * backslash doubled, NUL as \x00, a lone surrogate or a byte that is no UTF-8 as \udcff) and then
 * through JSON's own, so that any name gives a valid document and can be had back. A number that
 * does not exist (NaN, infinity) is null; reals are written with as many digits as bring the same
 * double back.
 *
 * A key is NULL for an element of an array.
 *
 * Must not know: what the document says.
 */
#ifndef LP_REPORT_JSON_WRITER_H
#define LP_REPORT_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/sink.h"

#define LP_REPORT_JSON_DEPTH 16

/* How the members of an object or array are laid out. */
enum lp_report_json_layout { LP_JSON_INLINE, LP_JSON_LINES };

struct lp_report_json {
    struct lp_report_sink *sink;    /* Borrowed. */
    struct lp_report_buffer escape; /* Owned; room for one string. */
    unsigned depth;
    struct {
        char close;
        bool lines, any;
    } open[LP_REPORT_JSON_DEPTH];
};

void lp_report_json_init(struct lp_report_json *json, struct lp_report_sink *sink);
void lp_report_json_release(struct lp_report_json *json);

void lp_report_json_object(struct lp_report_json *json, const char *key,
                           enum lp_report_json_layout layout);
void lp_report_json_array(struct lp_report_json *json, const char *key,
                          enum lp_report_json_layout layout);
/* Closes what was opened last; after the outermost a newline follows. */
void lp_report_json_close(struct lp_report_json *json);

void lp_report_json_null(struct lp_report_json *json, const char *key);
void lp_report_json_bool(struct lp_report_json *json, const char *key, bool value);
void lp_report_json_count(struct lp_report_json *json, const char *key, uint64_t value);
void lp_report_json_signed(struct lp_report_json *json, const char *key, int64_t value);
void lp_report_json_real(struct lp_report_json *json, const char *key, double value);
/* NULL bytes give null. */
void lp_report_json_text(struct lp_report_json *json, const char *key, const char *bytes,
                         size_t len);
void lp_report_json_string(struct lp_report_json *json, const char *key, const char *text);
/* As lp_report_json_text, but the key is such a text too. */
void lp_report_json_named_count(struct lp_report_json *json, const char *name, size_t name_len,
                                uint64_t value);

#endif
