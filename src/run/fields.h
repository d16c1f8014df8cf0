/*
 * fields: typed access to a parsed JSON object, with faults that name the key.
 *
 * Every function returns 0, or -1 with a fault. A key that is asked for must be there, unless the name says "optional".
 */
#ifndef LP_RUN_FIELDS_H
#define LP_RUN_FIELDS_H

#include <jansson.h>

#include "run/fault.h"
#include "run/text.h"

/* What a value is, for a message: "a string", "null". */
const char *lp_run_json_kind(const json_t *value);

int lp_run_field(const json_t *object, const char *key, json_t **value, struct lp_run_fault *fault);
int lp_run_field_object(const json_t *object, const char *key, json_t **value, struct lp_run_fault *fault);
int lp_run_field_array(const json_t *object, const char *key, json_t **value, struct lp_run_fault *fault);
int lp_run_field_string(const json_t *object, const char *key, struct lp_span *value, struct lp_run_fault *fault);
int lp_run_field_string_or_null(const json_t *object, const char *key, struct lp_span *value,
                                struct lp_run_fault *fault);
int lp_run_field_count(const json_t *object, const char *key, uint64_t min, uint64_t *value,
                       struct lp_run_fault *fault);
/* -1 for null. */
int lp_run_field_count_or_null(const json_t *object, const char *key, int64_t min, int64_t *value,
                               struct lp_run_fault *fault);
/* -1 for null; else above 0. */
int lp_run_field_seconds_or_null(const json_t *object, const char *key, double *value, struct lp_run_fault *fault);
int lp_run_field_bool(const json_t *object, const char *key, bool *value, struct lp_run_fault *fault);
/* *second: whether it was the second word rather than the first. */
int lp_run_field_either(const json_t *object, const char *key, const char *first, const char *second, bool *is_second,
                        struct lp_run_fault *fault);

/* The same for a value in hand; the key is named by the caller. */
int lp_run_value_count(const json_t *value, uint64_t *count, struct lp_run_fault *fault);
int lp_run_value_signed(const json_t *value, int64_t *number, struct lp_run_fault *fault);

#endif
