#include "process/provenance.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.h"

/* A repository's folders: where the work lies, what git keeps of this working tree, and of all. */
struct repository {
    char top[PATH_MAX], own[PATH_MAX], common[PATH_MAX];
};

/* The file's first line; false if there is none, or it does not fit. */
static bool read_line(const char *folder, const char *file, char *line, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return false;
    ssize_t n = lp_small_file_read(path, line, size);
    if (n <= 0)
        return false;
    size_t len = strcspn(line, "\r\n");
    bool whole = line[len] != '\0' || (size_t)n < size - 1;
    line[len] = '\0';
    return whole && len > 0;
}

/* path, if it is relative below base. */
static bool resolve(char result[PATH_MAX], const char *base, const char *path)
{
    int n = *path == '/' ? snprintf(result, PATH_MAX, "%s", path) : snprintf(result, PATH_MAX, "%s/%s", base, path);
    return n < PATH_MAX;
}

/* Whether folder is the top of a working tree: it has a ".git", a folder or a file that names one. */
static bool is_top(struct repository *repository, const char *folder)
{
    static const char key[] = "gitdir: ";
    char line[PATH_MAX + sizeof key];
    struct stat st;
    if (!resolve(repository->own, folder, ".git") || stat(repository->own, &st) != 0)
        return false;
    if (S_ISREG(st.st_mode) &&
        (!read_line(folder, ".git", line, sizeof line) || strncmp(line, key, sizeof key - 1) != 0 ||
         !resolve(repository->own, folder, line + sizeof key - 1)))
        return false;
    snprintf(repository->top, sizeof repository->top, "%s", folder);
    if (!read_line(repository->own, "commondir", line, sizeof line) ||
        !resolve(repository->common, repository->own, line))
        snprintf(repository->common, sizeof repository->common, "%s", repository->own);
    return read_line(repository->own, "HEAD", line, sizeof line);
}

/* Upwards, as git does: not beyond a mount point. */
static bool find_repository(struct repository *repository, const char *start)
{
    char folder[PATH_MAX];
    struct stat first, st;
    if (*start != '/' || snprintf(folder, sizeof folder, "%s", start) >= (int)sizeof folder ||
        stat(folder, &first) != 0)
        return false;
    while (stat(folder, &st) == 0 && st.st_dev == first.st_dev) {
        if (is_top(repository, folder))
            return true;
        char *slash = strrchr(folder, '/');
        if (!slash || folder[1] == '\0')
            return false;
        slash[slash == folder] = '\0';
    }
    return false;
}

/* A text that does not fit is none. */
static void keep(char *to, size_t size, const char *text)
{
    size_t len = strlen(text);
    len = len < size ? len : 0;
    memcpy(to, text, len);
    to[len] = '\0';
}

/* False if it is no commit. */
static bool take_commit(char commit[LP_COMMIT_BYTES], const char *text)
{
    size_t len = strspn(text, "0123456789abcdef");
    if ((len != 40 && len != 64) || text[len] != '\0')
        return false;
    keep(commit, LP_COMMIT_BYTES, text);
    return true;
}

/* Those that no file of their own holds: lines "commit name". */
static bool find_packed(char commit[LP_COMMIT_BYTES], const struct repository *repository, const char *name)
{
    char path[PATH_MAX], *line = NULL;
    size_t room = 0, len;
    bool found = false;
    if (snprintf(path, sizeof path, "%s/packed-refs", repository->common) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        len = strcspn(line, " ");
        if (line[len] != ' ' || strcmp(line + len + 1, name) != 0)
            continue;
        line[len] = '\0';
        found = take_commit(commit, line);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

static void read_reference(struct lp_provenance *provenance, const struct repository *repository, const char *name)
{
    char line[256];
    static const char heads[] = "refs/heads/";
    if (strncmp(name, "refs/", 5) != 0 || strstr(name, ".."))
        return;
    if (strncmp(name, heads, sizeof heads - 1) == 0)
        keep(provenance->branch, sizeof provenance->branch, name + sizeof heads - 1);
    if ((!read_line(repository->own, name, line, sizeof line) &&
         !read_line(repository->common, name, line, sizeof line)) ||
        !take_commit(provenance->commit, line))
        find_packed(provenance->commit, repository, name);
}

static void read_head(struct lp_provenance *provenance, const struct repository *repository)
{
    char head[512];
    static const char key[] = "ref: ";
    if (!read_line(repository->own, "HEAD", head, sizeof head))
        return;
    if (strncmp(head, key, sizeof key - 1) == 0)
        read_reference(provenance, repository, head + sizeof key - 1);
    else
        take_commit(provenance->commit, head);
}

/* One line that git says; false if it says anything else. */
static bool ask_line(char *line, size_t size, const struct repository *repository, const char *const *question,
                     const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns)
{
    struct lp_git_output output;
    if (!lp_git_run(&output, repository->top, question, environment, until_ns))
        return false;
    size_t len = strcspn(output.begin, "\n");
    if (len == 0 || len >= size || output.bytes != len + 1)
        return false;
    memcpy(line, output.begin, len);
    line[len] = '\0';
    return true;
}

/* A repository whose references are in a database names an impossible branch to those who read files. */
static bool forget_impossible_branch(struct lp_provenance *provenance)
{
    if (strcmp(provenance->branch, ".invalid") != 0)
        return false;
    provenance->branch[0] = '\0';
    return true;
}

static void ask_head(struct lp_provenance *provenance, const struct repository *repository,
                     const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns)
{
    static const char *const commit[] = {"rev-parse", "--verify", "--quiet", "HEAD", NULL};
    static const char *const branch[] = {"symbolic-ref", "--short", "--quiet", "HEAD", NULL};
    char line[sizeof provenance->branch];
    if (!forget_impossible_branch(provenance))
        return;
    if (ask_line(line, sizeof line, repository, branch, environment, until_ns))
        keep(provenance->branch, sizeof provenance->branch, line);
    if (ask_line(line, sizeof line, repository, commit, environment, until_ns))
        take_commit(provenance->commit, line);
}

static void ask_difference(struct lp_provenance *provenance, const struct repository *repository,
                           const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns)
{
    static const char *const difference[] = {"diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", NULL};
    struct lp_git_output output;
    if (!provenance->commit[0] || !lp_git_run(&output, repository->top, difference, environment, until_ns))
        return;
    provenance->dirty = output.bytes > 0 ? LP_DIRTY_YES : LP_DIRTY_NO;
    if (output.bytes > 0)
        lp_sha256_hex(&output.hash, provenance->difference);
}

void lp_provenance_read(struct lp_provenance *provenance, const char *const *folders,
                        const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns)
{
    struct repository repository;
    memset(provenance, 0, sizeof *provenance);
    for (; *folders && !provenance->found; folders++)
        provenance->found = find_repository(&repository, *folders);
    if (!provenance->found)
        return;
    read_head(provenance, &repository);
    if (!environment) {
        forget_impossible_branch(provenance);
        return;
    }
    ask_head(provenance, &repository, environment, until_ns);
    ask_difference(provenance, &repository, environment, until_ns);
}
