#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lineprofiler.h>

static void test_version_is_a_text(void **state)
{
    (void)state;
    assert_non_null(lp_version());
    assert_true(lp_version()[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_is_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
