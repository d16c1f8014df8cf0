#include "run/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/wtf8.h"

int lp_text_copy(struct lp_text *text, struct lp_span from)
{
    *text = (struct lp_text){NULL, 0};
    if (!from.bytes)
        return 0;
    char *bytes = malloc(from.len + 1);
    if (!bytes)
        return -1;
    if (from.len)
        memcpy(bytes, from.bytes, from.len);
    bytes[from.len] = '\0';
    *text = (struct lp_text){bytes, from.len};
    return 0;
}

void lp_text_release(struct lp_text *text)
{
    free(text->bytes);
    *text = (struct lp_text){NULL, 0};
}

int lp_text_compare(struct lp_span a, struct lp_span b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.bytes, b.bytes, common) : 0;
    if (order)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

bool lp_text_equal(struct lp_span a, struct lp_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

/* The value of a lower-case hexadecimal digit, -1 for any other character: writers use no other. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* The code point after "\u", if four digits name a surrogate; else -1. */
static int surrogate_digits(const char *digits)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(digits[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value >= 0xd800 && value <= 0xdfff ? value : -1;
}

static size_t put_surrogate(char *to, int code)
{
    to[0] = (char)(0xe0 | (code >> 12));
    to[1] = (char)(0x80 | ((code >> 6) & 0x3f));
    to[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* Decodes the escape at from into to; *used and *made are lengths there and here. -1 if it is none. */
static int decode_escape(char *to, struct lp_span from, size_t *used, size_t *made)
{
    if (from.len >= 2 && from.bytes[1] == '\\') {
        *to = '\\';
        *used = 2;
        *made = 1;
        return 0;
    }
    if (from.len >= 4 && memcmp(from.bytes, "\\x00", 4) == 0) {
        *to = '\0';
        *used = 4;
        *made = 1;
        return 0;
    }
    if (from.len < 6 || from.bytes[1] != 'u')
        return -1;
    int code = surrogate_digits(from.bytes + 2);
    if (code < 0)
        return -1;
    *used = 6;
    *made = put_surrogate(to, code);
    return 0;
}

ptrdiff_t lp_text_decode(char *to, struct lp_span from)
{
    size_t made = 0;
    while (from.len) {
        const char *escape = memchr(from.bytes, '\\', from.len);
        size_t plain = escape ? (size_t)(escape - from.bytes) : from.len;
        memcpy(to + made, from.bytes, plain);
        made += plain;
        from.bytes += plain;
        from.len -= plain;
        if (!from.len)
            break;
        size_t used, new;
        if (decode_escape(to + made, from, &used, &new) < 0)
            return -1;
        made += new;
        from.bytes += used;
        from.len -= used;
    }
    return (ptrdiff_t)made;
}

size_t lp_text_sequence(struct lp_span from)
{
    return from.len ? lp_wtf8_sequence(from.bytes, from.len) : 0;
}

static size_t put_escaped_surrogate(char *to, unsigned code)
{
    static const char digits[] = "0123456789abcdef";
    to[0] = '\\';
    to[1] = 'u';
    for (int i = 0; i < 4; i++)
        to[2 + i] = digits[(code >> (12 - 4 * i)) & 15];
    return 6;
}

static bool is_surrogate(const char *sequence, size_t len)
{
    return len == 3 && (unsigned char)sequence[0] == 0xed && (unsigned char)sequence[1] >= 0xa0;
}

static unsigned surrogate_code(const char *sequence)
{
    return 0xd000u | (((unsigned char)sequence[1] & 0x3fu) << 6) | ((unsigned char)sequence[2] & 0x3fu);
}

static size_t put(char *to, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = bytes[i];
    return len;
}

/* Encodes the sequence of that length at from (0: a byte that is no UTF-8). Returns what it became. */
static size_t encode_one(char *to, const char *from, size_t len)
{
    if (len == 0)
        return put_escaped_surrogate(to, 0xdc00u | (unsigned char)*from);
    if (is_surrogate(from, len))
        return put_escaped_surrogate(to, surrogate_code(from));
    if (*from == '\0')
        return put(to, "\\x00", 4);
    return *from == '\\' ? put(to, "\\\\", 2) : put(to, from, len);
}

size_t lp_text_encode(char *to, struct lp_span from)
{
    size_t made = 0;
    while (from.len) {
        size_t len = lp_text_sequence(from);
        made += encode_one(to + made, from.bytes, len);
        size_t used = len ? len : 1;
        from.bytes += used;
        from.len -= used;
    }
    return made;
}
