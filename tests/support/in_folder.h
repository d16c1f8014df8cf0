/*
 * Tests that each have a new empty folder, `folder`, for as long as they run: in_folder(test) in the list of main().
 */
#ifndef LP_TESTS_IN_FOLDER_H
#define LP_TESTS_IN_FOLDER_H

#include "support/support.h"

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

#endif
