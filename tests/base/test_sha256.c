/* SHA-256 against the examples of its standard, and bytes given in pieces. */
#include "support/support.h"

#include "base/sha256.h"

static void assert_hash(const char *text, size_t times, const char *expected)
{
    struct lp_sha256 hash;
    char hex[LP_SHA256_HEX];
    lp_sha256_init(&hash);
    for (size_t i = 0; i < times; i++)
        lp_sha256_add(&hash, text, strlen(text));
    lp_sha256_hex(&hash, hex);
    assert_string_equal(hex, expected);
}

static void test_the_examples_of_the_standard(void **state)
{
    (void)state;
    assert_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_hash("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void test_pieces_of_any_length_are_one_stream(void **state)
{
    (void)state;
    char whole[LP_SHA256_HEX], pieces[LP_SHA256_HEX];
    uint8_t bytes[700];
    struct lp_sha256 hash;
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_next(&seed);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        lp_sha256_init(&hash);
        lp_sha256_add(&hash, bytes, len);
        lp_sha256_hex(&hash, whole);
        lp_sha256_init(&hash);
        for (size_t at = 0, n; at < len; at += n) {
            n = random_next(&seed) % 130;
            n = n < len - at ? n : len - at;
            lp_sha256_add(&hash, bytes + at, n);
        }
        lp_sha256_hex(&hash, pieces);
        assert_string_equal(pieces, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_examples_of_the_standard),
        cmocka_unit_test(test_pieces_of_any_length_are_one_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
