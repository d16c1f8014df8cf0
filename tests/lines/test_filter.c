/* Which files and functions are profiled. */
#include "support/support.h"

#include <limits.h>

#include "lines/filter.h"

struct project {
    char *folder; /* with a folder "project" and one beside it */
    struct lp_lines_filter filter;
};

static char *path_in(const struct project *project, const char *name)
{
    char *path = malloc(PATH_MAX);
    snprintf(path, PATH_MAX, "%s/%s", project->folder, name);
    return path;
}

static void make_file(const struct project *project, const char *name)
{
    char *path = path_in(project, name);
    for (char *slash = path + strlen(project->folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    free(path);
}

static void project_make(struct project *project)
{
    *project = (struct project){.folder = folder_make()};
    make_file(project, "project/main.py");
    make_file(project, "project/package/module.py");
    make_file(project, "project_beside/x.py");
    char *path = path_in(project, "project");
    assert_int_equal(lp_lines_filter_open(&project->filter, path), 0);
    free(path);
}

static void project_remove(struct project *project)
{
    lp_lines_filter_free(&project->filter);
    folder_remove(project->folder);
}

static bool is_in(const struct project *project, const char *name)
{
    char *path = path_in(project, name);
    bool inside = lp_lines_filter_file(&project->filter, path);
    free(path);
    return inside;
}

static void test_files_of_the_project(void **state)
{
    struct project project;
    (void)state;
    project_make(&project);
    assert_true(is_in(&project, "project/main.py"));
    assert_true(is_in(&project, "project/package/module.py"));
    assert_true(is_in(&project, "project/package/../main.py"));
    assert_false(is_in(&project, "project_beside/x.py")); /* LN17 */
    assert_false(is_in(&project, "project"));
    assert_false(lp_lines_filter_file(&project.filter, "/etc/passwd"));
    assert_false(lp_lines_filter_file(&project.filter, ""));
    project_remove(&project);
}

static void test_files_that_have_gone(void **state)
{
    struct project project;
    (void)state;
    project_make(&project);
    assert_true(is_in(&project, "project/deleted.py"));
    assert_true(is_in(&project, "project/deleted/too.py"));
    assert_false(is_in(&project, "project_beside/deleted.py"));
    make_file(&project, "project/archive.zip");
    assert_false(is_in(&project, "project/archive.zip/module.py"));
    assert_false(is_in(&project, "project/archive.zip/package/module.py"));
    project_remove(&project);
}

static void test_installed_packages_are_left_out_LN17(void **state)
{
    struct project project;
    (void)state;
    project_make(&project);
    make_file(&project, "project/.venv/pyvenv.cfg");
    make_file(&project, "project/.venv/bin/tool.py");
    make_file(&project, "project/lib/site-packages/x.py");
    make_file(&project, "project/lib/dist-packages/x/y.py");
    make_file(&project, "project/my-site-packages/x.py");
    assert_false(is_in(&project, "project/.venv/bin/tool.py"));
    assert_false(is_in(&project, "project/lib/site-packages/x.py"));
    assert_false(is_in(&project, "project/lib/dist-packages/x/y.py"));
    assert_true(is_in(&project, "project/my-site-packages/x.py"));
    char *outside = path_in(&project, "project/package");
    assert_int_equal(lp_lines_filter_leave_out(&project.filter, outside), 0);
    free(outside);
    assert_false(is_in(&project, "project/package/module.py"));
    project_remove(&project);
}

/* A project that is itself in a folder that would be left out is meant. */
static void test_a_project_among_installed_packages(void **state)
{
    struct project project;
    (void)state;
    project_make(&project);
    make_file(&project, "site-packages/mine/x.py");
    lp_lines_filter_free(&project.filter);
    char *folder = path_in(&project, "site-packages/mine"), *outside = path_in(&project, "site-packages");
    assert_int_equal(lp_lines_filter_open(&project.filter, folder), 0);
    assert_int_equal(lp_lines_filter_leave_out(&project.filter, outside), 0);
    assert_true(is_in(&project, "site-packages/mine/x.py"));
    free(folder);
    free(outside);
    project_remove(&project);
}

static void test_links_and_relative_names_LN16(void **state)
{
    struct project project;
    char before[PATH_MAX];
    (void)state;
    project_make(&project);
    char *folder = path_in(&project, "project"), *link = path_in(&project, "link");
    assert_int_equal(symlink(folder, link), 0);
    assert_true(is_in(&project, "link/main.py"));
    lp_lines_filter_free(&project.filter);
    assert_int_equal(lp_lines_filter_open(&project.filter, link), 0);
    assert_true(is_in(&project, "project/main.py"));
    assert_non_null(getcwd(before, sizeof before));
    lp_lines_filter_free(&project.filter);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(lp_lines_filter_open(&project.filter, "."), 0);
    assert_int_equal(chdir("/"), 0); /* names stay relative to where we were */
    assert_true(lp_lines_filter_file(&project.filter, "package/module.py"));
    assert_false(lp_lines_filter_file(&project.filter, "../project_beside/x.py"));
    assert_int_equal(chdir(before), 0);
    free(folder);
    free(link);
    project_remove(&project);
}

static void test_code_without_a_file_LN15(void **state)
{
    struct project project;
    (void)state;
    project_make(&project);
    assert_false(lp_lines_filter_file(&project.filter, "<string>"));
    assert_false(lp_lines_filter_file(&project.filter, "<generated f>"));
    assert_true(lp_lines_filter_file(&project.filter, "<ipython-input-3-0123456789ab>"));
    assert_true(lp_lines_filter_file(&project.filter, "/tmp/ipykernel_4711/1234567.py"));
    assert_false(lp_lines_filter_file(&project.filter, "/tmp/kernel_4711/1234567.py"));
    assert_int_equal(lp_lines_globs_add(&project.filter.names, "<stdin>"), 0);
    assert_true(lp_lines_filter_file(&project.filter, "<stdin>"));
    project_remove(&project);
}

static void test_globs(void **state)
{
    struct project project;
    (void)state;
    project_make(&project);
    lp_lines_globs_add(&project.filter.exclude, "package/*");
    assert_true(is_in(&project, "project/main.py"));
    assert_false(is_in(&project, "project/package/module.py"));
    assert_false(is_in(&project, "project/package/deeper/module.py"));
    lp_lines_globs_add(&project.filter.include, "*/module.py");
    lp_lines_globs_add(&project.filter.include, "<gen*");
    assert_false(is_in(&project, "project/main.py"));
    assert_true(is_in(&project, "project/other/module.py"));
    assert_true(lp_lines_filter_file(&project.filter, "<generated f>"));
    assert_true(lp_lines_filter_function(&project.filter, "anything"));
    lp_lines_globs_add(&project.filter.functions, "Search.*");
    assert_true(lp_lines_filter_function(&project.filter, "Search.select"));
    assert_true(lp_lines_filter_function(&project.filter, "Search.run.<locals>.inner"));
    assert_false(lp_lines_filter_function(&project.filter, "search"));
    project_remove(&project);
}

static void test_a_folder_that_is_none(void **state)
{
    struct project project;
    struct lp_lines_filter filter;
    (void)state;
    project_make(&project);
    char *file = path_in(&project, "project/main.py");
    assert_int_equal(lp_lines_filter_open(&filter, "/no/such/folder"), -ENOENT);
    lp_lines_filter_free(&filter);
    assert_int_equal(lp_lines_filter_open(&filter, file), -ENOTDIR);
    lp_lines_filter_free(&filter);
    free(file);
    project_remove(&project);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_the_project),
        cmocka_unit_test(test_files_that_have_gone),
        cmocka_unit_test(test_installed_packages_are_left_out_LN17),
        cmocka_unit_test(test_a_project_among_installed_packages),
        cmocka_unit_test(test_links_and_relative_names_LN16),
        cmocka_unit_test(test_code_without_a_file_LN15),
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_a_folder_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
