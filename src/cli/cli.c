#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <lineprofiler.h>

#include "cli/command.h"
#include "report/label.h"
#include "run/nearest.h"

static const struct lp_cli_command *const commands[] = {
    &lp_cli_report, &lp_cli_compare,     &lp_cli_top,    &lp_cli_where,
    &lp_cli_export, &lp_cli_run_command, &lp_cli_config, NULL,
};
#define COMMANDS_MAX 16 /* That a slip is compared with. */

/* What the user typed comes back in such lines: it must neither end them early nor move the cursor.
 */
static void write_shown(FILE *to, const char *text)
{
    struct lp_report_sink sink;
    lp_report_sink_init(&sink, lp_report_put_file, to);
    lp_report_label(&sink, text, strlen(text), SIZE_MAX);
}

int lp_cli_wrong(const struct lp_cli *cli, const struct lp_cli_command *command, const char *format, ...)
{
    va_list args;
    char *message = NULL;
    va_start(args, format);
    if (vasprintf(&message, format, args) < 0)
        message = NULL;
    va_end(args);
    fprintf(cli->err, "lineprofiler%s%s: ", command != NULL ? " " : "", command != NULL ? command->name : "");
    write_shown(cli->err, message != NULL ? message : "out of memory");
    fputc('\n', cli->err);
    fflush(cli->err);
    free(message);
    return LP_CLI_WRONG;
}

int lp_cli_flush(const struct lp_cli *cli, const struct lp_cli_command *command, int error)
{
    if (fflush(cli->out) != 0 && error == 0)
        error = -errno;
    if (error != 0)
        clearerr(cli->out);
    if (error == 0 || error == -EPIPE)
        return LP_CLI_DONE;
    return lp_cli_wrong(cli, command, "cannot write to standard output: %s", strerror(-error));
}

int lp_cli_help(const struct lp_cli *cli, const struct lp_cli_command *command)
{
    errno = 0;
    int written = fprintf(cli->out, "usage: lineprofiler %s [option...]%s%s\n\n%s.\n\n%s", command->name,
                          command->operands[0] != '\0' ? " " : "", command->operands, command->summary, command->help);
    return lp_cli_flush(cli, command, written < 0 ? (errno != 0 ? -errno : -EIO) : 0);
}

static void list_commands(FILE *to)
{
    fputs("usage: lineprofiler COMMAND [option...]\n\n", to);
    for (size_t i = 0; commands[i] != NULL; i++)
        fprintf(to, "  %-8s %-11s %s\n", commands[i]->name, commands[i]->operands, commands[i]->summary);
    fputs("\n  --version             the version\n"
          "  -h, --help            this list; after a command, what that command can do\n"
          "\nExample: lineprofiler report profile/\n",
          to);
}

static const struct lp_cli_command *find(const char *name)
{
    for (size_t i = 0; commands[i] != NULL; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown(const struct lp_cli *cli, const char *word)
{
    const char *names[COMMANDS_MAX] = {NULL};
    struct stat status;
    if (word[0] == '-')
        return lp_cli_wrong(cli, NULL, "unknown option '%s'; see lineprofiler --help", word);
    if (stat(word, &status) == 0 && S_ISDIR(status.st_mode))
        return lp_cli_wrong(cli, NULL, "'%s' is a directory, not a command; did you mean lineprofiler report %s?", word,
                            word);
    for (size_t i = 0; i < COMMANDS_MAX - 1 && commands[i] != NULL; i++)
        names[i] = commands[i]->name;
    const char *nearest = lp_run_nearest(word, names);
    if (nearest != NULL)
        return lp_cli_wrong(cli, NULL, "unknown command '%s'; did you mean '%s'?", word, nearest);
    return lp_cli_wrong(cli, NULL, "unknown command '%s'; see lineprofiler --help", word);
}

int lp_cli_run(const struct lp_cli *cli, int argc, char **argv)
{
    if (argc < 2)
        return lp_cli_wrong(cli, NULL, "name a command, as in: lineprofiler report profile/ (see lineprofiler --help)");
    if (strcmp(argv[1], "--version") == 0) {
        fprintf(cli->out, "lineprofiler %s\n", lp_version());
        return lp_cli_flush(cli, NULL, 0);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        list_commands(cli->out);
        return lp_cli_flush(cli, NULL, 0);
    }
    const struct lp_cli_command *command = find(argv[1]);
    if (command == NULL)
        return unknown(cli, argv[1]);
    return command->run(cli, command, argc - 1, argv + 1);
}

int lp_cli_main(int argc, char **argv)
{
    struct lp_cli cli = {.out = stdout, .err = stderr};
    return lp_cli_run(&cli, argc, argv);
}
