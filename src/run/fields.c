#include "run/fields.h"

#include <string.h>

const char *lp_run_json_kind(const json_t *value)
{
    if (!value)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "nothing";
}

static int expected(const char *key, const char *what, const json_t *value, struct lp_run_fault *fault)
{
    return lp_run_fault_set(fault, "%s: %s expected, found %s", key, what, lp_run_json_kind(value));
}

int lp_run_field(const json_t *object, const char *key, json_t **value, struct lp_run_fault *fault)
{
    *value = json_object_get(object, key);
    return *value ? 0 : lp_run_fault_set(fault, "%s: missing", key);
}

int lp_run_field_object(const json_t *object, const char *key, json_t **value, struct lp_run_fault *fault)
{
    if (lp_run_field(object, key, value, fault) < 0)
        return -1;
    return json_is_object(*value) ? 0 : expected(key, "an object", *value, fault);
}

int lp_run_field_array(const json_t *object, const char *key, json_t **value, struct lp_run_fault *fault)
{
    if (lp_run_field(object, key, value, fault) < 0)
        return -1;
    return json_is_array(*value) ? 0 : expected(key, "an array", *value, fault);
}

int lp_run_field_string_or_null(const json_t *object, const char *key, struct lp_span *value,
                                struct lp_run_fault *fault)
{
    json_t *found;
    if (lp_run_field(object, key, &found, fault) < 0)
        return -1;
    *value = (struct lp_span){NULL, 0};
    if (json_is_null(found))
        return 0;
    if (!json_is_string(found))
        return expected(key, "a string or null", found, fault);
    *value = (struct lp_span){json_string_value(found), json_string_length(found)};
    return 0;
}

int lp_run_field_string(const json_t *object, const char *key, struct lp_span *value, struct lp_run_fault *fault)
{
    if (lp_run_field_string_or_null(object, key, value, fault) < 0)
        return -1;
    return value->bytes ? 0 : lp_run_fault_set(fault, "%s: a string expected, found null", key);
}

int lp_run_value_signed(const json_t *value, int64_t *number, struct lp_run_fault *fault)
{
    if (!json_is_integer(value))
        return lp_run_fault_set(fault, "an integer expected, found %s", lp_run_json_kind(value));
    *number = json_integer_value(value);
    return 0;
}

int lp_run_value_count(const json_t *value, uint64_t *count, struct lp_run_fault *fault)
{
    int64_t number = 0;
    if (lp_run_value_signed(value, &number, fault) < 0)
        return -1;
    if (number < 0)
        return lp_run_fault_set(fault, "negative");
    *count = (uint64_t)number;
    return 0;
}

int lp_run_field_count(const json_t *object, const char *key, uint64_t min, uint64_t *value, struct lp_run_fault *fault)
{
    json_t *found;
    if (lp_run_field(object, key, &found, fault) < 0)
        return -1;
    if (lp_run_value_count(found, value, fault) < 0)
        return lp_run_fault_within(fault, "%s: ", key);
    return *value >= min ? 0 : lp_run_fault_set(fault, "%s: less than %llu", key, (unsigned long long)min);
}

int lp_run_field_count_or_null(const json_t *object, const char *key, int64_t min, int64_t *value,
                               struct lp_run_fault *fault)
{
    uint64_t count = 0;
    *value = -1;
    if (json_is_null(json_object_get(object, key)))
        return 0;
    if (lp_run_field_count(object, key, (uint64_t)min, &count, fault) < 0)
        return -1;
    *value = (int64_t)count;
    return 0;
}

int lp_run_field_seconds_or_null(const json_t *object, const char *key, double *value, struct lp_run_fault *fault)
{
    json_t *found;
    if (lp_run_field(object, key, &found, fault) < 0)
        return -1;
    *value = -1;
    if (json_is_null(found))
        return 0;
    if (!json_is_number(found))
        return expected(key, "a number or null", found, fault);
    *value = json_number_value(found);
    return *value > 0 ? 0 : lp_run_fault_set(fault, "%s: not above 0", key);
}

int lp_run_field_bool(const json_t *object, const char *key, bool *value, struct lp_run_fault *fault)
{
    json_t *found;
    if (lp_run_field(object, key, &found, fault) < 0)
        return -1;
    *value = json_is_true(found);
    return json_is_boolean(found) ? 0 : expected(key, "a boolean", found, fault);
}

static bool is_word(struct lp_span value, const char *word)
{
    return lp_text_equal(value, (struct lp_span){word, strlen(word)});
}

int lp_run_field_either(const json_t *object, const char *key, const char *first, const char *second, bool *is_second,
                        struct lp_run_fault *fault)
{
    struct lp_span value;
    if (lp_run_field_string(object, key, &value, fault) < 0)
        return -1;
    *is_second = is_word(value, second);
    if (*is_second || is_word(value, first))
        return 0;
    return lp_run_fault_set(fault, "%s: neither %s nor %s", key, first, second);
}
