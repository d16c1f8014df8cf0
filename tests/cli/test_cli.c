#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lineprofiler.h>

#include "cli/cli.h"

/* A closed worker with one phase; what docs/format.md asks for and no more. */
static const char worker_file[] =
    "{\"format\": \"lineprofiler-worker\", \"version\": 1, \"worker\": \"w_r1_7_0a1b2c3d\", \"run_id\": \"r1\",\n"
    " \"role\": \"main\", \"pid\": 7, \"parent_pid\": 1, \"host\": \"h\", \"rank\": null, \"world_size\": null,\n"
    " \"launcher\": null, \"job\": null, \"boot_id\": \"b\", \"pid_namespace\": 1, \"process_start_ticks\": 5,\n"
    " \"library\": \"0\", \"runtime\": null, \"command\": [], \"run_id_origin\": \"generated\",\n"
    " \"settings\": {\"measure_cpu\": true, \"thread_names\": false, \"snapshot_interval_s\": 30,\n"
    "  \"sample_interval_s\": null},\n"
    " \"started\": {\"realtime_ns\": 1780000000000000000, \"monotonic_ns\": 1000, \"boottime_ns\": 1000},\n"
    " \"written\": {\"realtime_ns\": 1780000004000000000, \"monotonic_ns\": 4000001000, \"boottime_ns\": 4000001000},\n"
    " \"state\": \"closed\", \"flush\": 1, \"clock\": {\"wall\": \"tsc\", \"cpu\": \"token\"}, \"image\": \"shared\",\n"
    " \"threads\": [{\"name\": \"MainThread\", \"tid\": 7, \"alive\": true, \"nodes\": [{},\n"
    "  {\"parent\": 0, \"name\": \"step\", \"calls\": 1, \"wall_ns\": 1000000, \"cpu_ns\": 250000,\n"
    "   \"hist\": \"143:1\"}]}]}\n";

static char folder[] = "/tmp/lineprofiler-test-cli-XXXXXX";
static char run_dir[64], report_path[64];
static char *out_text, *err_text; /* Of the last command. */

static int make_run(void **state)
{
    (void)state;
    char path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    snprintf(report_path, sizeof report_path, "%s/report", folder);
    static const char *const folders[] = {"", "/workers", "/workers/h"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", run_dir, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/workers/h/w_r1_7_0a1b2c3d.json", run_dir);
    FILE *file = fopen(path, "w");
    fputs(worker_file, file);
    fclose(file);
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

static int remove_run(void **state)
{
    (void)state;
    char command[96];
    free(out_text);
    free(err_text);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* Runs the words, which end with NULL; out may be a stream of the caller's, which is closed. */
static int run_to(FILE *out, const char *const *words)
{
    char *argv[16] = {(char *)(uintptr_t) "lineprofiler"};
    size_t out_size, err_size;
    int argc = 1;
    for (; *words != NULL; words++)
        argv[argc++] = (char *)(uintptr_t)*words;
    free(out_text);
    free(err_text);
    out_text = NULL;
    struct lp_cli cli = {.out = out != NULL ? out : open_memstream(&out_text, &out_size),
                         .err = open_memstream(&err_text, &err_size)};
    int status = lp_cli_run(&cli, argc, argv);
    fclose(cli.out);
    fclose(cli.err);
    return status;
}

#define run(...) run_to(NULL, (const char *const[]){__VA_ARGS__, NULL})

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, text);
}

static void assert_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    if (end == NULL || end[1] != '\0' || end == text)
        fail_msg("'%s' is not one line", text);
}

/* K15: one line that names the thing and the remedy. */
static void test_wrong_usage(void **state)
{
    (void)state;
    const struct {
        const char *words[6];
        const char *line;
    } rows[] = {
        {{NULL}, "lineprofiler: name a command, as in: lineprofiler report profile/ (see lineprofiler --help)\n"},
        {{"reprot", run_dir}, "lineprofiler: unknown command 'reprot'; did you mean 'report'?\n"},
        {{"x", NULL}, "lineprofiler: unknown command 'x'; see lineprofiler --help\n"},
        {{"-x", NULL}, "lineprofiler: unknown option '-x'; see lineprofiler --help\n"},
        {{"a\nb\x1b[2J", NULL}, "lineprofiler: unknown command 'a\ufffdb\ufffd[2J'; see lineprofiler --help\n"},
        {{"report", NULL}, "lineprofiler report: name the run directory, as in: lineprofiler report profile/\n"},
        {{"report", "--jsn", run_dir}, "lineprofiler report: unknown option '--jsn'; see lineprofiler report --help\n"},
        {{"report", run_dir, "-q"}, "lineprofiler report: unknown option '-q'; see lineprofiler report --help\n"},
        {{"report", run_dir, "--json=yes"},
         "lineprofiler report: option '--json=yes' takes no value; see lineprofiler report --help\n"},
        {{"report", run_dir, "-o"}, "lineprofiler report: option '-o' needs a value; see lineprofiler report --help\n"},
        {{"report", run_dir, "--output"},
         "lineprofiler report: option '--output' needs a value; see lineprofiler report --help\n"},
        {{"report", "--format", "xml", run_dir}, "lineprofiler report: no format 'xml'; there are text and json\n"},
        {{"report", "--color=blue", run_dir},
         "lineprofiler report: no color 'blue'; there are auto, always and never\n"},
        {{"report", "a", "b"}, "lineprofiler report: one directory at a time: 'a' and 'b' were named\n"},
        {{"report", "-o", "/nowhere/report", run_dir},
         "lineprofiler report: cannot write /nowhere/report: No such file or directory\n"},
        {{"report", "-o", "", run_dir},
         "lineprofiler report: -o names no file: give its path, or - for standard output\n"},
        {{"export", "--samples", "csv", "--output=", run_dir},
         "lineprofiler export: -o names no file: give its path, or - for standard output\n"},
        {{"compare", "-o", "", run_dir, run_dir},
         "lineprofiler compare: -o names no file: give its path, or - for standard output\n"},
        {{"report", "-o", "/", run_dir}, "lineprofiler report: cannot write /: Is a directory\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(run_to(NULL, rows[i].words), LP_CLI_WRONG);
        assert_string_equal(err_text, rows[i].line);
        assert_string_equal(out_text, "");
    }
}

static void test_a_directory_that_is_taken_for_a_command(void **state)
{
    (void)state;
    assert_int_equal(run(folder), LP_CLI_WRONG);
    assert_one_line(err_text);
    assert_contains(err_text, "did you mean lineprofiler report ");
}

static void test_no_run_to_report(void **state)
{
    (void)state;
    char missing[96];
    snprintf(missing, sizeof missing, "%s/missing", folder);
    assert_int_equal(run("report", missing), LP_CLI_WRONG);
    assert_one_line(err_text);
    assert_contains(err_text, missing);
    assert_int_equal(run("report", folder, "--json"), LP_CLI_WRONG);
    assert_one_line(err_text);
    assert_contains(err_text, folder);
    assert_string_equal(out_text, "");
}

static void test_help(void **state)
{
    (void)state;
    assert_int_equal(run("--help"), LP_CLI_DONE);
    assert_contains(out_text, "report");
    assert_int_equal(run("report", "--help"), LP_CLI_DONE);
    assert_contains(out_text, "usage: lineprofiler report [option...] DIR\n");
    assert_contains(out_text, "--no-samples");
    assert_int_equal(run("report", "a", "b", "-h"), LP_CLI_WRONG); /* The first mistake counts. */
    assert_int_equal(run("--version"), LP_CLI_DONE);
    assert_contains(out_text, lp_version());
}

static int handed_over;

static int take(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    (void)cli;
    (void)command;
    assert_int_equal(argc, 3);
    assert_string_equal(argv[0], "run");
    assert_string_equal(argv[2], "--help"); /* The program's. */
    handed_over++;
    return 7;
}

/* Within Python nothing is handed over: there `run` is run by who calls. */
static void test_the_command_of_python_N6(void **state)
{
    (void)state;
    assert_int_equal(run("run", "--help"), LP_CLI_DONE);
    assert_contains(out_text, "usage: lineprofiler run [option...] SCRIPT...\n");
    assert_int_equal(run("run", "script.py"), LP_CLI_WRONG);
    assert_one_line(err_text);
    assert_contains(err_text, "python -m lineprofiler run");
    const struct lp_cli cli = {.out = stdout, .err = stderr, .run_by_python = take};
    char name[] = "lineprofiler", command[] = "run", script[] = "script.py", help[] = "--help";
    char *argv[] = {name, command, script, help, NULL};
    assert_int_equal(lp_cli_run(&cli, 4, argv), 7);
    assert_int_equal(handed_over, 1);
}

static void test_what_builds_need(void **state)
{
    (void)state;
    assert_int_equal(run("config", "--help"), LP_CLI_DONE);
    assert_contains(out_text, "usage: lineprofiler config [option...]\n");
    assert_int_equal(run("config"), LP_CLI_DONE);
    assert_contains(out_text, "\nincludedir    /");
    assert_contains(out_text, "\nversion       ");
    assert_int_equal(run("config", "--libs", "--version"), LP_CLI_DONE);
    assert_contains(out_text, "-llineprofiler\n");
    assert_contains(out_text, lp_version());
    assert_int_equal(run("config", "--libraries"), LP_CLI_WRONG);
    assert_one_line(err_text);
    assert_contains(err_text, "unknown option '--libraries'");
    assert_int_equal(run("config", run_dir), LP_CLI_WRONG);
    assert_one_line(err_text);
}

static void test_a_report(void **state)
{
    (void)state;
    assert_int_equal(run("report", run_dir), LP_CLI_DONE);
    assert_string_equal(err_text, "");
    assert_contains(out_text, "Runtime 4.0s   Processes 1   Roles main x1\n");
    assert_contains(out_text, "\nstep                               1.0ms     75%");
    char *text = strdup(out_text);
    assert_int_equal(run("report", "--format", "text", "--no-samples", "--", run_dir), LP_CLI_DONE);
    assert_string_equal(out_text, text);
    free(text);
    assert_int_equal(run("report", "--json", run_dir), LP_CLI_DONE);
    assert_contains(out_text, "\"wait_ns\":750000,");
    assert_int_equal(run("report", run_dir, "--color=always"), LP_CLI_DONE);
    assert_contains(out_text, "\033[1mMAIN\033[0m");
}

/* Operands may stand before options, whatever POSIX thinks. */
static void test_the_order_of_arguments(void **state)
{
    (void)state;
    setenv("POSIXLY_CORRECT", "1", 1);
    assert_int_equal(run("report", run_dir, "--json"), LP_CLI_DONE);
    unsetenv("POSIXLY_CORRECT");
    assert_int_equal(out_text[0], '{');
    assert_int_equal(run("report", "--", "--json", "-x"), LP_CLI_WRONG); /* Two operands. */
    assert_contains(err_text, "'--json' and '-x' were named");
}

static void test_getopt_is_left_as_it_was(void **state)
{
    (void)state;
    optind = 5;
    opterr = 1;
    optopt = 'z';
    run("report", run_dir, "--json");
    run("report", "-q");
    assert_int_equal(optind, 5);
    assert_int_equal(opterr, 1);
    assert_int_equal(optopt, 'z');
}

/* --- where the report goes --- */

static char *contents(const char *path)
{
    char *text = calloc(1, 1 << 16);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, (1 << 16) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static size_t count_files(void)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static void test_a_report_in_a_file(void **state)
{
    (void)state;
    struct stat status;
    size_t before = count_files();
    umask(027);
    assert_int_equal(run("report", run_dir, "-o", report_path), LP_CLI_DONE);
    assert_string_equal(out_text, "");
    assert_int_equal(count_files(), before + 1);
    assert_int_equal(stat(report_path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    char *text = contents(report_path);
    assert_contains(text, "MAIN");
    free(text);
    chmod(report_path, 0604); /* A second report takes the place and the modes of the first. */
    assert_int_equal(run("report", run_dir, "--json", "--output", report_path), LP_CLI_DONE);
    assert_int_equal(stat(report_path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0604);
    text = contents(report_path);
    assert_int_equal(text[0], '{');
    free(text);
    assert_int_equal(count_files(), before + 1);
    unlink(report_path);
}

static void test_a_link_stays_a_link(void **state)
{
    (void)state;
    char link[96];
    struct stat status;
    snprintf(link, sizeof link, "%s/link", folder);
    fclose(fopen(report_path, "w"));
    assert_int_equal(symlink("report", link), 0);
    assert_int_equal(run("report", run_dir, "-o", link), LP_CLI_DONE);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(report_path, &status), 0);
    assert_true(status.st_size > 0);
    unlink(link);
    unlink(report_path);
}

static void test_a_dash_is_standard_output(void **state)
{
    (void)state;
    assert_int_equal(run("report", run_dir, "-o", "-"), LP_CLI_DONE);
    assert_contains(out_text, "MAIN");
}

static void test_a_full_disk(void **state)
{
    (void)state;
    assert_int_equal(run("report", run_dir, "-o", "/dev/full"), LP_CLI_WRONG);
    assert_string_equal(err_text, "lineprofiler report: cannot write /dev/full: No space left on device\n");
    static const char *const lines[][4] = {{"report", run_dir}, {"--help"}, {"report", "--help"}, {"--version"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(run_to(fopen("/dev/full", "w"), lines[i]), LP_CLI_WRONG);
        assert_one_line(err_text);
        assert_contains(err_text, "cannot write to standard output: No space left on device");
    }
}

/* `| head`: whoever read has enough, and nobody complains. */
static void test_a_reader_that_went_away(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(run_to(fdopen(ends[1], "w"), (const char *const[]){"report", run_dir, NULL}), LP_CLI_DONE);
    assert_string_equal(err_text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_usage),
        cmocka_unit_test(test_a_directory_that_is_taken_for_a_command),
        cmocka_unit_test(test_no_run_to_report),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_the_command_of_python_N6),
        cmocka_unit_test(test_what_builds_need),
        cmocka_unit_test(test_a_report),
        cmocka_unit_test(test_the_order_of_arguments),
        cmocka_unit_test(test_getopt_is_left_as_it_was),
        cmocka_unit_test(test_a_report_in_a_file),
        cmocka_unit_test(test_a_link_stays_a_link),
        cmocka_unit_test(test_a_dash_is_standard_output),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_a_reader_that_went_away),
    };
    return cmocka_run_group_tests(tests, make_run, remove_run);
}
