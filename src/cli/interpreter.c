#include "cli/interpreter.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not "-m lineprofiler": a folder of that name may lie where the command was typed. */
static const char program[] = "import sys\n"
                              "if not sys.flags.safe_path: del sys.path[0]\n"
                              "try: from lineprofiler.__main__ import main\n"
                              "except ImportError as error:\n"
                              "    print(f'lineprofiler {sys.argv[1]}: {sys.executable}: {error}', file=sys.stderr)\n"
                              "    sys.exit(2)\n"
                              "main(sys.argv[1:], replaces=False)\n";

/* The interpreter that the command was installed beside; false: there is none. */
static bool find_beside(char path[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (len <= 0)
        return false;
    path[len] = '\0';
    char *base = strrchr(path, '/');
    if (base == NULL || base + sizeof "/python3" > path + PATH_MAX)
        return false;
    memcpy(base, "/python3", sizeof "/python3");
    return access(path, X_OK) == 0;
}

int lp_cli_run_by_python(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    static char python3[] = "python3", dash_c[] = "-c";
    char beside[PATH_MAX];
    char **words = calloc((size_t)argc + 4, sizeof *words);
    if (words == NULL)
        return lp_cli_wrong(cli, command, "out of memory");
    words[0] = find_beside(beside) ? beside : python3;
    words[1] = dash_c;
    words[2] = (char *)(uintptr_t)program;
    memcpy(words + 3, argv, (size_t)argc * sizeof *words);
    signal(SIGPIPE, SIG_DFL);
    execvp(words[0], words);
    int error = errno;
    free(words);
    signal(SIGPIPE, SIG_IGN);
    return lp_cli_wrong(cli, command, "cannot start python3: %s; start it as: python -m lineprofiler %s",
                        strerror(error), command->name);
}
