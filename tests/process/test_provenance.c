/* The state of the source, from real repositories, and how little a program notices of git being asked. */
#include "support/support.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "process/provenance.h"

#define EVER UINT64_MAX

static _Atomic uint64_t until_ns;
static struct lp_git_environment environment;

/* Runs a line of shell in the folder and gives what it printed, without the newline; to be freed. */
static char *shell(const char *folder, const char *line)
{
    char *command, *text = calloc(1, 4096);
    assert_true(asprintf(&command,
                         "cd '%s' && export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a "
                         "GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; %s",
                         folder, line) > 0);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    size_t n = fread(text, 1, 4095, out);
    int status = pclose(out);
    if (status != 0)
        print_error("%s: status %d\n", line, status);
    assert_int_equal(status, 0);
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    free(command);
    return text;
}

static void do_in(const char *folder, const char *line)
{
    free(shell(folder, line));
}

static void assert_says(const char *folder, const char *line, const char *expected)
{
    char *text = shell(folder, line);
    assert_string_equal(text, expected);
    free(text);
}

static char *make_repository(void)
{
    char *folder = folder_make();
    do_in(folder, "git init -q -b main . && mkdir deep && echo one > deep/file && git add . && git commit -qm first");
    return folder;
}

static struct lp_provenance provenance_of(const char *folder)
{
    struct lp_provenance provenance;
    lp_provenance_read(&provenance, (const char *const[]){folder, NULL}, &environment, &until_ns);
    return provenance;
}

static int set_up(void **state)
{
    (void)state;
    environment = (struct lp_git_environment){.path = getenv("PATH"), .home = "/nonexistent"};
    atomic_store(&until_ns, EVER);
    sigset_t all;
    sigfillset(&all);
    return sigprocmask(SIG_BLOCK, &all, NULL);
}

static void skip_where_git_is_not_run(void)
{
    if (!LP_TEST_TSAN)
        return;
    print_message("ThreadSanitizer does not survive how git is run\n");
    skip();
}

static void test_a_clean_and_a_changed_tree(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *below;
    assert_true(asprintf(&below, "%s/deep", folder) > 0);
    struct lp_provenance provenance = provenance_of(below);
    assert_true(provenance.found);
    assert_says(folder, "git rev-parse HEAD", provenance.commit);
    assert_string_equal(provenance.branch, "main");
    assert_int_equal(provenance.dirty, LP_DIRTY_NO);
    assert_string_equal(provenance.difference, "");
    do_in(folder, "echo two >> deep/file");
    provenance = provenance_of(below);
    assert_int_equal(provenance.dirty, LP_DIRTY_YES);
    assert_says(folder, "git diff HEAD | sha256sum | cut -c1-64", provenance.difference);
    do_in(folder, "git add .");
    assert_int_equal(provenance_of(folder).dirty, LP_DIRTY_YES);
    do_in(folder, "git reset -q --hard && echo new > untracked");
    assert_int_equal(provenance_of(folder).dirty, LP_DIRTY_NO);
    free(below);
    folder_remove(folder);
}

/* More than a pipe holds. */
static void test_a_large_difference(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository();
    do_in(folder, "seq 1 100000 > deep/file");
    struct lp_provenance provenance = provenance_of(folder);
    assert_int_equal(provenance.dirty, LP_DIRTY_YES);
    assert_says(folder, "git diff HEAD | sha256sum | cut -c1-64", provenance.difference);
    folder_remove(folder);
}

static void test_where_head_may_point(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *tree;
    assert_true(asprintf(&tree, "%s/tree", folder) > 0);
    do_in(folder, "git checkout -q -b feature/deep/one && git pack-refs --all");
    struct lp_provenance provenance = provenance_of(folder);
    assert_says(folder, "git rev-parse HEAD", provenance.commit);
    assert_string_equal(provenance.branch, "feature/deep/one");
    do_in(folder, "git checkout -q --detach");
    provenance = provenance_of(folder);
    assert_says(folder, "git rev-parse HEAD", provenance.commit);
    assert_string_equal(provenance.branch, "");
    do_in(folder, "git worktree add -q tree -b other && cd tree && echo x > y && git add y && git commit -qm second");
    provenance = provenance_of(tree);
    assert_says(tree, "git rev-parse HEAD", provenance.commit);
    assert_string_equal(provenance.branch, "other");
    assert_int_equal(provenance.dirty, LP_DIRTY_NO);
    free(tree);
    folder_remove(folder);
}

static void test_no_commit_yet_and_no_repository(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = folder_make(), *other = make_repository();
    struct lp_provenance provenance = provenance_of(folder);
    assert_false(provenance.found);
    assert_string_equal(provenance.commit, "");
    assert_int_equal(provenance.dirty, LP_DIRTY_UNKNOWN);
    do_in(folder, "git init -q -b main .");
    provenance = provenance_of(folder);
    assert_true(provenance.found);
    assert_string_equal(provenance.commit, "");
    assert_string_equal(provenance.branch, "main");
    assert_int_equal(provenance.dirty, LP_DIRTY_UNKNOWN);
    /* The first folder that is in one. */
    lp_provenance_read(&provenance, (const char *const[]){"/", "relative", "/nonexistent", other, NULL}, &environment,
                       &until_ns);
    assert_int_equal(provenance.dirty, LP_DIRTY_NO);
    folder_remove(folder);
    folder_remove(other);
}

static void test_a_damaged_repository(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository();
    do_in(folder, "echo 'ref: ../../../etc/passwd' > .git/HEAD");
    assert_string_equal(provenance_of(folder).commit, "");
    do_in(folder, "echo nonsense > .git/HEAD");
    assert_string_equal(provenance_of(folder).commit, "");
    do_in(folder, "echo 'ref: refs/heads/main' > .git/HEAD && echo zzz > .git/refs/heads/main");
    assert_string_equal(provenance_of(folder).commit, "");
    do_in(folder, "rm -r .git && echo 'gitdir: /nonexistent' > .git");
    assert_false(provenance_of(folder).found);
    do_in(folder, "rm .git && mkdir .git");
    assert_false(provenance_of(folder).found);
    folder_remove(folder);
}

/* git takes a folder without objects for no repository, and would look further up for one. */
static void test_a_broken_repository_inside_another(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *inner;
    assert_true(asprintf(&inner, "%s/inner", folder) > 0);
    do_in(folder, "echo two >> deep/file && mkdir inner && cd inner && git init -q -b main . && echo x > y && "
                  "git add y && git commit -qm inner && git rev-parse HEAD > commit");
    assert_int_equal(provenance_of(inner).dirty, LP_DIRTY_NO);
    do_in(inner, "rm -r .git/objects");
    struct lp_provenance provenance = provenance_of(inner);
    assert_says(inner, "cat commit", provenance.commit);
    assert_int_equal(provenance.dirty, LP_DIRTY_UNKNOWN);
    free(inner);
    folder_remove(folder);
}

static void test_a_partial_clone_fetches_nothing(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *clone, *before;
    static const char missing[] = "git rev-list --objects --all --missing=print | grep -c '^?'";
    assert_true(asprintf(&clone, "%s/clone", folder) > 0);
    do_in(folder, "git config uploadpack.allowFilter true && git config uploadpack.allowAnySHA1InWant true && "
                  "git clone -q --no-checkout --filter=blob:none \"file://$PWD\" clone && cd clone && git reset -q && "
                  "mkdir deep && echo other > deep/file");
    before = shell(clone, missing);
    struct lp_provenance provenance = provenance_of(clone);
    assert_says(clone, "git rev-parse HEAD", provenance.commit);
    assert_int_equal(provenance.dirty, LP_DIRTY_UNKNOWN);
    assert_says(clone, missing, before);
    free(before);
    free(clone);
    folder_remove(folder);
}

static void test_a_folder_that_is_called_git_is_no_git(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *path;
    const char *before = environment.path;
    do_in(folder, "mkdir -p sources/git");
    assert_true(asprintf(&path, "%s/sources:%s", folder, before) > 0);
    environment.path = path;
    struct lp_provenance provenance = provenance_of(folder);
    environment.path = before;
    assert_int_equal(provenance.dirty, LP_DIRTY_NO);
    free(path);
    folder_remove(folder);
}

static void test_without_git_the_commit_is_known_and_dirty_is_not(void **state)
{
    (void)state;
    char *folder = make_repository();
    const char *path = environment.path;
    environment.path = "/nonexistent:.::";
    struct lp_provenance provenance = provenance_of(folder);
    environment.path = path;
    assert_says(folder, "git rev-parse HEAD", provenance.commit);
    assert_int_equal(provenance.dirty, LP_DIRTY_UNKNOWN);
    folder_remove(folder);
}

/* A git that says nothing for ever, whatever it starts, and what it leaves behind. */
static char *make_slow_git(const char *folder)
{
    char *bin;
    assert_true(asprintf(&bin, "%s/bin", folder) > 0);
    do_in(folder, "mkdir bin && printf '#!/bin/sh\\necho $$ > ../pid; echo begun; sleep 1000 & wait\\n' > bin/git && "
                  "chmod +x bin/git");
    return bin;
}

static void *let_it_begin_and_end(void *path)
{
    char *text;
    while (!(text = file_read(path, NULL)) || !*text) { /* it is made, and then written */
        free(text);
        pause_ms(1);
    }
    atomic_store(&until_ns, 0);
    return text;
}

static void test_a_git_that_hangs_is_ended(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *bin = make_slow_git(folder), *path, *said, *pid_file;
    void *text;
    pthread_t thread;
    assert_true(asprintf(&path, "%s:/usr/bin:/bin", bin) > 0);
    assert_true(asprintf(&pid_file, "%s/pid", folder) > 0);
    /* The stand-in changes no folder: it writes where it is started. */
    do_in(folder, "sed -i \"s,../pid,$PWD/pid,\" bin/git");
    const char *before = environment.path;
    environment.path = path;
    pthread_create(&thread, NULL, let_it_begin_and_end, pid_file);
    struct lp_provenance provenance = provenance_of(folder);
    pthread_join(thread, &text);
    environment.path = before;
    atomic_store(&until_ns, EVER);
    said = text;
    assert_int_equal(provenance.dirty, LP_DIRTY_UNKNOWN);
    assert_int_equal(strlen(provenance.commit), 40);
    pid_t session = (pid_t)atol(said);
    assert_true(session > 1);
    WAIT_UNTIL(kill(-session, 0) != 0 && errno == ESRCH); /* its own child too */
    free(said);
    free(path);
    free(pid_file);
    free(bin);
    folder_remove(folder);
}

/* ---- what the program notices --------------------------------------------------------------------------------------- */

static _Atomic int signals, done;

static void on_child(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void *ask(void *folder)
{
    static struct lp_provenance provenance;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < 5; i++)
        provenance = provenance_of(folder);
    atomic_store(&done, 1);
    return &provenance;
}

static int count_descriptors(void)
{
    return folder_each("/proc/self/fd", NULL, NULL);
}

static void watch_while_asking(void *context)
{
    pthread_t thread;
    void *result;
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, on_child);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int before = count_descriptors();
    CHECK(pthread_create(&thread, NULL, ask, context) == 0);
    while (!atomic_load(&done)) {
        siginfo_t info;
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        CHECK(waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD);
    }
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(((struct lp_provenance *)result)->dirty == LP_DIRTY_NO);
    CHECK_U64((uint64_t)atomic_load(&signals), 0);
    CHECK_U64((uint64_t)count_descriptors(), (uint64_t)before);
    CHECK(waitpid(-1, NULL, (int)__WALL) == -1 && errno == ECHILD); /* and nothing is left */
}

static void test_the_program_sees_no_child(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository();
    atomic_store(&done, 0);
    in_child(watch_while_asking, folder);
    folder_remove(folder);
}

static void ignore_children(void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    struct lp_provenance provenance = provenance_of(context);
    CHECK(provenance.dirty == LP_DIRTY_NO);
    CHECK(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

static void test_a_program_that_ignores_its_children(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository();
    in_child(ignore_children, folder);
    folder_remove(folder);
}

/* A pipe's reader sees its end, though git has not ended yet: nobody else has kept the other end. */
static void *see_the_end(void *context)
{
    int *ends = context;
    char byte, *text;
    do
        pause_ms(1);
    while (!(text = file_read("pid", NULL)) || !*text);
    free(text);
    close(ends[1]);
    bool ended = read(ends[0], &byte, 1) == 0;
    atomic_store(&until_ns, 0);
    return ended ? context : NULL;
}

static void hold_no_descriptor(void *context)
{
    int ends[2];
    pthread_t thread;
    void *result;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(chdir(context) == 0 && pipe(ends) == 0);
    CHECK(pthread_create(&thread, NULL, see_the_end, ends) == 0);
    provenance_of(context);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result != NULL);
}

static void test_no_descriptor_of_the_program_is_kept(void **state)
{
    skip_where_git_is_not_run();
    (void)state;
    char *folder = make_repository(), *bin = make_slow_git(folder), *path;
    assert_true(asprintf(&path, "%s:/usr/bin:/bin", bin) > 0);
    do_in(folder, "sed -i \"s,../pid,$PWD/pid,\" bin/git");
    const char *before = environment.path;
    environment.path = path;
    in_child(hold_no_descriptor, folder);
    environment.path = before;
    free(path);
    free(bin);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clean_and_a_changed_tree),
        cmocka_unit_test(test_a_large_difference),
        cmocka_unit_test(test_where_head_may_point),
        cmocka_unit_test(test_no_commit_yet_and_no_repository),
        cmocka_unit_test(test_a_damaged_repository),
        cmocka_unit_test(test_a_broken_repository_inside_another),
        cmocka_unit_test(test_a_partial_clone_fetches_nothing),
        cmocka_unit_test(test_a_folder_that_is_called_git_is_no_git),
        cmocka_unit_test(test_without_git_the_commit_is_known_and_dirty_is_not),
        cmocka_unit_test(test_a_git_that_hangs_is_ended),
        cmocka_unit_test(test_the_program_sees_no_child),
        cmocka_unit_test(test_a_program_that_ignores_its_children),
        cmocka_unit_test(test_no_descriptor_of_the_program_is_kept),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
