/* `lineprofiler config`: what a build in C or C++ needs to know, for those that do not ask pkg-config or CMake. */
#include <lineprofiler.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/places.h"

static const char help[] =
    "  --cflags             what the compiler needs\n"
    "  --libs               what the linker needs; the program finds the library where it is now\n"
    "  --includedir         the folder of lineprofiler.h, lineprofiler.hpp and lineprofiler_python.h\n"
    "  --libdir             the folder of liblineprofiler.so\n"
    "  --pkgconfigdir       the folder of lineprofiler.pc, for PKG_CONFIG_PATH\n"
    "  --cmakedir           the folder of lineprofiler-config.cmake, for -Dlineprofiler_DIR=\n"
    "  --version            the version of the library\n"
    "  -h, --help           this text\n"
    "\n"
    "Without an option, all of it. --cflags and --libs share a line, in which characters that a shell would\n"
    "take for its own stand behind a backslash, as pkg-config has them. Extension modules of Python link\n"
    "nothing and need --cflags alone.\n"
    "\n"
    "Examples:\n"
    "  cc program.c $(lineprofiler config --cflags --libs)\n"
    "  cmake -B build -Dlineprofiler_DIR=\"$(lineprofiler config --cmakedir)\"\n"
    "\n"
    "Exit status: 0 done; 2 wrong usage.\n";

enum {
    CFLAGS = 1 << 0,
    LIBS = 1 << 1,
    INCLUDE_DIR = 1 << 2,
    LIB_DIR = 1 << 3,
    PKGCONFIG_DIR = 1 << 4,
    CMAKE_DIR = 1 << 5,
    VERSION = 1 << 6,
    ALL = (1 << 7) - 1,
    OPTION = 1 << 8 /* Added to each of these, so that none is a letter. */
};

static const struct option longs[] = {
    {"cflags", no_argument, NULL, OPTION | CFLAGS},
    {"libs", no_argument, NULL, OPTION | LIBS},
    {"includedir", no_argument, NULL, OPTION | INCLUDE_DIR},
    {"libdir", no_argument, NULL, OPTION | LIB_DIR},
    {"pkgconfigdir", no_argument, NULL, OPTION | PKGCONFIG_DIR},
    {"cmakedir", no_argument, NULL, OPTION | CMAKE_DIR},
    {"version", no_argument, NULL, OPTION | VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct choices {
    unsigned wanted; /* Of CFLAGS and the others. */
    bool help;
};

/* 0, or -1 after a line on err. */
static int choose(void *context, const struct lp_cli_arguments *arguments, int option)
{
    struct choices *choices = context;
    if (option == 'h') {
        choices->help = true;
        return 0;
    }
    if (option & OPTION) {
        choices->wanted |= (unsigned)option & ALL;
        return 0;
    }
    lp_cli_wrong(arguments->cli, arguments->command, "'%s' is no option; see lineprofiler config --help",
                 arguments->value);
    return -1;
}

/* As a word that a shell reads back; "$(...)" alone splits it all the same. */
static void put_flag(FILE *out, const char *option, const char *path)
{
    fputs(option, out);
    for (; *path != '\0'; path++) {
        if (strchr(" \t\n\"'\\$`&;|<>()*?[]#~!{}", *path) != NULL)
            fputc('\\', out);
        fputc(*path, out);
    }
}

static void put_cflags(FILE *out, const struct lp_cli_places *places)
{
    if (!places->include_is_default)
        put_flag(out, "-I", places->include_dir);
}

static void put_libs(FILE *out, const struct lp_cli_places *places)
{
    if (!places->lib_is_default) {
        put_flag(out, "-L", places->lib_dir);
        put_flag(out, " -Wl,-rpath,", places->lib_dir);
        fputc(' ', out);
    }
    fputs("-llineprofiler", out);
}

static void put_all(FILE *out, const struct lp_cli_places *places)
{
    fputs("cflags        ", out);
    put_cflags(out, places);
    fputs("\nlibs          ", out);
    put_libs(out, places);
    fprintf(out,
            "\nincludedir    %s\nlibdir        %s\npkgconfigdir  %s/pkgconfig\ncmakedir      %s/cmake/lineprofiler\n",
            places->include_dir, places->lib_dir, places->lib_dir, places->lib_dir);
    fprintf(out, "version       %s\n", lp_version());
}

static void put_wanted(FILE *out, const struct lp_cli_places *places, unsigned wanted)
{
    if (wanted & CFLAGS)
        put_cflags(out, places);
    if ((wanted & CFLAGS) && (wanted & LIBS) && !places->include_is_default)
        fputc(' ', out);
    if (wanted & LIBS)
        put_libs(out, places);
    if (wanted & (CFLAGS | LIBS))
        fputc('\n', out);
    if (wanted & INCLUDE_DIR)
        fprintf(out, "%s\n", places->include_dir);
    if (wanted & LIB_DIR)
        fprintf(out, "%s\n", places->lib_dir);
    if (wanted & PKGCONFIG_DIR)
        fprintf(out, "%s/pkgconfig\n", places->lib_dir);
    if (wanted & CMAKE_DIR)
        fprintf(out, "%s/cmake/lineprofiler\n", places->lib_dir);
    if (wanted & VERSION)
        fprintf(out, "%s\n", lp_version());
}

static int config(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    struct lp_cli_arguments arguments;
    struct choices choices = {0};
    struct lp_cli_places places;
    lp_cli_arguments_begin(&arguments, cli, command, "h", longs, argc, argv);
    if (lp_cli_arguments_read(&arguments, choose, &choices, &choices.help) != 0)
        return LP_CLI_WRONG;
    if (choices.help)
        return lp_cli_help(cli, command);
    if (!lp_cli_places_find(&places))
        return cli->run_by_python != NULL
                   ? cli->run_by_python(cli, command, argc, argv)
                   : lp_cli_wrong(cli, command, "cannot tell where the package lies: its extension has no path");
    if (choices.wanted == 0)
        put_all(cli->out, &places);
    else
        put_wanted(cli->out, &places, choices.wanted);
    return lp_cli_flush(cli, command, 0);
}

const struct lp_cli_command lp_cli_config = {
    .name = "config",
    .operands = "",
    .summary = "What builds in C and C++ need: flags, folders",
    .help = help,
    .run = config,
};
