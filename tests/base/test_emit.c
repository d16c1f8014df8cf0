/* What is emitted is JSON that any parser takes, and every text comes back from it. */
#include "support/support.h"

#include "base/emit.h"

static void setup(struct lp_emit *emit, struct lp_buffer *buffer)
{
    *buffer = (struct lp_buffer){0};
    lp_emit_init(emit, lp_buffer_put, buffer);
}

static void assert_emitted(struct lp_emit *emit, struct lp_buffer *buffer, const char *expected)
{
    assert_int_equal(lp_emit_end(emit), 0);
    assert_string_equal(buffer->bytes, expected);
    free(buffer->bytes);
}

static void assert_text_as(const char *text, size_t len, const char *expected)
{
    struct lp_buffer buffer;
    struct lp_emit emit;
    setup(&emit, &buffer);
    lp_emit_text(&emit, text, len);
    assert_emitted(&emit, &buffer, expected);
}

static void test_each_escape(void **state)
{
    (void)state;
    assert_text_as("plain", 5, "\"plain\"");
    assert_text_as("", 0, "\"\"");
    assert_text_as("\\", 1, "\"\\\\\\\\\"");
    assert_text_as("\0", 1, "\"\\\\x00\"");
    assert_text_as("\"", 1, "\"\\\"\"");
    assert_text_as("/", 1, "\"/\"");
    assert_text_as("\n\t\x01\x1f", 4, "\"\\u000a\\u0009\\u0001\\u001f\"");
    assert_text_as("\x7f", 1, "\"\\u007f\"");
    assert_text_as("\xc3\xa8", 2, "\"\xc3\xa8\"");
    assert_text_as("\xe8\xae\xad", 3, "\"\xe8\xae\xad\"");
    assert_text_as("\xf4\x8f\xbf\xbf", 4, "\"\xf4\x8f\xbf\xbf\"");
    assert_text_as("\xed\xb3\xbf", 3, "\"\\\\udcff\"");
    assert_text_as("\xed\xa0\x80", 3, "\"\\\\ud800\"");
    assert_text_as("\xed\x9f\xbf", 3, "\"\xed\x9f\xbf\""); /* U+D7FF is a character */
    assert_text_as("\xed\xa0\xbd\xed\xb8\x80", 6, "\"\\\\ud83d\\\\ude00\"");
}

static void test_malformed_bytes_become_the_replacement_character(void **state)
{
    static const char *const malformed[] = {
        "\x80",         "\xc0",         "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80", "\xf5\x80\x80", "\xff",     "\xe8\xae",     "\xf0\x9f\x98"};
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        struct lp_buffer buffer;
        struct lp_emit emit;
        setup(&emit, &buffer);
        lp_emit_string(&emit, malformed[i]);
        assert_int_equal(lp_emit_end(&emit), 0);
        json_t *root = json_of(buffer.bytes, buffer.len);
        const char *value = json_string_value(root);
        assert_int_equal(strlen(value), 3 * strlen(malformed[i]));
        for (size_t j = 0; j < strlen(value); j += 3)
            assert_memory_equal(value + j, "\xef\xbf\xbd", 3);
        json_decref(root);
        free(buffer.bytes);
    }
}

static size_t put_code(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

static uint32_t random_code(uint64_t *seed)
{
    uint64_t bits = random_next(seed);
    uint32_t any = (uint32_t)(bits >> 32);
    switch (bits % 8) {
    case 0:
        return any % 0x20; /* control, NUL */
    case 1:
        return (uint32_t) "\\\"/xud0"[any % 7];
    case 2:
        return 0xd800 + any % 0x800; /* surrogate */
    case 3:
        return any % 0x800;
    case 4:
        return 0x10000 + any % 0x100000;
    case 5:
        return any % 0x10000;
    default:
        return any % 0x80;
    }
}

/* NM01 */
static void test_any_text_comes_back_from_a_json_parser(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char text[4 * 64];
        size_t len = 0, codes = random_next(&seed) % 64;
        for (size_t i = 0; i < codes; i++)
            len += put_code(text + len, random_code(&seed));

        struct lp_buffer buffer;
        struct lp_emit emit;
        setup(&emit, &buffer);
        lp_emit_open(&emit, '{');
        lp_emit_text_key(&emit, text, len);
        lp_emit_text(&emit, text, len);
        lp_emit_close(&emit, '}');
        assert_int_equal(lp_emit_end(&emit), 0);

        json_t *root = json_of(buffer.bytes, buffer.len);
        const char *key = json_object_iter_key(json_object_iter(root));
        const json_t *value = json_object_iter_value(json_object_iter(root));
        size_t back_len;
        char *back = text_decode(key, strlen(key), &back_len);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, text, len);
        free(back);
        back = text_decode(json_string_value(value), json_string_length(value), &back_len);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, text, len);
        free(back);
        json_decref(root);
        free(buffer.bytes);
    }
}

static void test_random_bytes_give_valid_json(void **state)
{
    uint64_t seed = 2;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char bytes[64];
        size_t len = random_next(&seed) % sizeof bytes;
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)random_next(&seed);
        struct lp_buffer buffer;
        struct lp_emit emit;
        setup(&emit, &buffer);
        lp_emit_text(&emit, bytes, len);
        assert_int_equal(lp_emit_end(&emit), 0);
        json_decref(json_of(buffer.bytes, buffer.len));
        free(buffer.bytes);
    }
}

static void test_numbers_at_their_limits(void **state)
{
    struct lp_buffer buffer;
    struct lp_emit emit;
    (void)state;
    setup(&emit, &buffer);
    lp_emit_open(&emit, '[');
    lp_emit_u64(&emit, 0);
    lp_emit_u64(&emit, 9);
    lp_emit_u64(&emit, 10);
    lp_emit_u64(&emit, UINT64_MAX);
    lp_emit_i64(&emit, 0);
    lp_emit_i64(&emit, -1);
    lp_emit_i64(&emit, INT64_MAX);
    lp_emit_i64(&emit, INT64_MIN);
    lp_emit_bool(&emit, true);
    lp_emit_bool(&emit, false);
    lp_emit_null(&emit);
    lp_emit_close(&emit, ']');
    assert_emitted(&emit, &buffer,
                   "[0,9,10,18446744073709551615,0,-1,9223372036854775807,-9223372036854775808,true,false,null]");
}

static void test_seconds(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {1, "0.000000001"},
        {10, "0.00000001"},
        {999999999, "0.999999999"},
        {1000000000, "1.0"},
        {1500000000, "1.5"},
        {1000000001, "1.000000001"},
        {30000000000, "30.0"},
        {100020003, "0.100020003"},
        {UINT64_MAX, "18446744073.709551615"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_buffer buffer;
        struct lp_emit emit;
        setup(&emit, &buffer);
        lp_emit_seconds(&emit, cases[i].ns);
        assert_emitted(&emit, &buffer, cases[i].text);
    }
}

static void test_commas_stand_between_elements_and_nowhere_else(void **state)
{
    struct lp_buffer buffer;
    struct lp_emit emit;
    (void)state;
    setup(&emit, &buffer);
    lp_emit_open(&emit, '{');
    lp_emit_key(&emit, "empty");
    lp_emit_open(&emit, '[');
    lp_emit_close(&emit, ']');
    lp_emit_newline(&emit);
    lp_emit_key(&emit, "pairs");
    lp_emit_string_begin(&emit);
    lp_emit_digits(&emit, 16);
    lp_emit_raw(&emit, ":", 1);
    lp_emit_digits(&emit, 2);
    lp_emit_string_end(&emit);
    lp_emit_key(&emit, "list");
    lp_emit_open(&emit, '[');
    lp_emit_newline(&emit);
    lp_emit_open(&emit, '{');
    lp_emit_close(&emit, '}');
    lp_emit_newline(&emit);
    lp_emit_string(&emit, "x");
    lp_emit_close(&emit, ']');
    lp_emit_close(&emit, '}');
    assert_emitted(&emit, &buffer, "{\"empty\":[],\n\"pairs\":\"16:2\",\"list\":[\n{},\n\"x\"]}");
}

/* A sink that takes so many bytes and then fails. */
struct sink {
    size_t room, taken;
    int calls_after_failure;
    bool failed;
    int error;
};

static int put_into_sink(void *context, const char *bytes, size_t len)
{
    struct sink *sink = context;
    (void)bytes;
    if (sink->failed)
        sink->calls_after_failure++;
    if (sink->taken + len > sink->room) {
        sink->failed = true;
        errno = sink->error;
        return -1;
    }
    sink->taken += len;
    return 0;
}

static void test_a_failed_write_is_kept_and_ends_the_output(void **state)
{
    (void)state;
    for (size_t room = 0; room < 5 * LP_EMIT_BUFFER; room += LP_EMIT_BUFFER / 2) {
        struct sink sink = {.room = room, .error = ENOSPC};
        struct lp_emit emit;
        lp_emit_init(&emit, put_into_sink, &sink);
        for (size_t i = 0; i < 5 * LP_EMIT_BUFFER / 8; i++)
            lp_emit_raw(&emit, "12345678", 8);
        errno = 0;
        assert_int_equal(lp_emit_end(&emit), -1);
        assert_int_equal(errno, ENOSPC);
        assert_int_equal(sink.calls_after_failure, 0);
        assert_int_equal(lp_emit_end(&emit), -1); /* for good */
    }
}

static void test_a_failure_without_a_reason_has_one(void **state)
{
    struct sink sink = {.error = 0};
    struct lp_emit emit;
    (void)state;
    lp_emit_init(&emit, put_into_sink, &sink);
    lp_emit_u64(&emit, 1);
    assert_int_equal(lp_emit_end(&emit), -1);
    assert_int_equal(errno, EIO);
}

static void test_output_of_any_length_arrives_whole(void **state)
{
    (void)state;
    for (size_t len = LP_EMIT_BUFFER - 9; len < LP_EMIT_BUFFER + 9; len++) {
        struct lp_buffer buffer;
        struct lp_emit emit;
        char *text = malloc(len);
        assert_non_null(text);
        memset(text, 'a', len);
        setup(&emit, &buffer);
        lp_emit_open(&emit, '[');
        lp_emit_text(&emit, text, len);
        lp_emit_text(&emit, "\xe8\xae\xad\\", 4);
        lp_emit_close(&emit, ']');
        assert_int_equal(lp_emit_end(&emit), 0);
        assert_int_equal(buffer.len, len + 14);
        assert_int_equal(buffer.bytes[buffer.len], '\0');
        json_t *root = json_of(buffer.bytes, buffer.len);
        assert_int_equal(json_string_length(json_array_get(root, 0)), len);
        json_decref(root);
        free(buffer.bytes);
        free(text);
    }
}

static void test_nothing_emitted_is_no_write(void **state)
{
    struct sink sink = {.error = EIO};
    struct lp_emit emit;
    (void)state;
    lp_emit_init(&emit, put_into_sink, &sink);
    assert_int_equal(lp_emit_end(&emit), 0);
    assert_false(sink.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_escape),
        cmocka_unit_test(test_malformed_bytes_become_the_replacement_character),
        cmocka_unit_test(test_any_text_comes_back_from_a_json_parser),
        cmocka_unit_test(test_random_bytes_give_valid_json),
        cmocka_unit_test(test_numbers_at_their_limits),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_commas_stand_between_elements_and_nowhere_else),
        cmocka_unit_test(test_a_failed_write_is_kept_and_ends_the_output),
        cmocka_unit_test(test_a_failure_without_a_reason_has_one),
        cmocka_unit_test(test_output_of_any_length_arrives_whole),
        cmocka_unit_test(test_nothing_emitted_is_no_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
