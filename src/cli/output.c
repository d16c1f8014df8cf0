#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_TRIED 100

/* --- opening --- */

/* A new file beside path, with the modes that path has or would get. Returns its descriptor or -1 with errno. */
static int make_temporary(struct lp_cli_output *output, const struct stat *old)
{
    for (unsigned i = 0; i < NAMES_TRIED; i++) {
        if (asprintf(&output->temporary, "%s.%ld-%u.tmp", output->path, (long)getpid(), i) < 0) {
            output->temporary = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 && old != NULL)
            (void)fchmod(fd, old->st_mode & 0777); /* Another owner's file: ours keeps the usual modes. */
        if (fd >= 0 || errno != EEXIST)
            return fd;
        free(output->temporary);
        output->temporary = NULL;
    }
    errno = EEXIST;
    return -1;
}

static int open_path(struct lp_cli_output *output)
{
    struct stat status;
    if (stat(output->path, &status) != 0)
        return make_temporary(output, NULL);
    if (!S_ISREG(status.st_mode))
        return open(output->path, O_WRONLY | O_CLOEXEC);
    return make_temporary(output, &status);
}

static void release(struct lp_cli_output *output)
{
    free(output->path);
    free(output->temporary);
    output->path = output->temporary = NULL;
    output->file = NULL;
}

static int cannot_write(const struct lp_cli_output *output, int error)
{
    return lp_cli_wrong(output->cli, output->command, "cannot write %s: %s", output->path, strerror(error));
}

int lp_cli_output_open(struct lp_cli_output *output, const struct lp_cli *cli, const struct lp_cli_command *command,
                       const char *path)
{
    *output = (struct lp_cli_output){.cli = cli, .command = command, .file = cli->out};
    if (path == NULL || strcmp(path, "-") == 0)
        return 0;
    output->path = realpath(path, NULL); /* A link's target is replaced, not the link. */
    if (output->path == NULL)
        output->path = strdup(path);
    int fd = output->path == NULL ? -1 : open_path(output);
    output->file = fd < 0 ? NULL : fdopen(fd, "w");
    if (output->file != NULL)
        return 0;
    int error = errno;
    lp_cli_wrong(cli, command, "cannot write %s: %s", path, strerror(error));
    if (fd >= 0) {
        close(fd);
        if (output->temporary != NULL)
            unlink(output->temporary);
    }
    release(output);
    return -1;
}

/* --- closing --- */

static int close_path(struct lp_cli_output *output, int error)
{
    if (fflush(output->file) != 0 && error == 0)
        error = -errno;
    if (fclose(output->file) != 0 && error == 0)
        error = -errno;
    if (output->temporary == NULL)
        return error;
    if (error == 0 && rename(output->temporary, output->path) != 0)
        error = -errno;
    if (error != 0)
        unlink(output->temporary);
    return error;
}

int lp_cli_output_close(struct lp_cli_output *output, int error)
{
    if (output->path == NULL)
        return lp_cli_flush(output->cli, output->command, error);
    error = close_path(output, error);
    int status = error == 0 || error == -EPIPE ? LP_CLI_DONE : cannot_write(output, -error);
    release(output);
    return status;
}

void lp_cli_output_drop(struct lp_cli_output *output)
{
    if (output->path == NULL)
        return;
    fclose(output->file);
    if (output->temporary != NULL)
        unlink(output->temporary);
    release(output);
}

bool lp_cli_output_is_terminal(const struct lp_cli_output *output, size_t *columns)
{
    struct winsize size = {0};
    int fd = fileno(output->file);
    *columns = 0;
    if (fd < 0 || !isatty(fd))
        return false;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0)
        *columns = size.ws_col;
    return true;
}
