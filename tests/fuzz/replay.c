/*
 * Feeds a fuzz target every file of the folders named on the command line, so
 * that past findings and seeds are tested by any compiler.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, room = 0;
    for (;;) {
        if (size == room) {
            room = room ? 2 * room : 4096;
            uint8_t *larger = realloc(data, room);
            if (larger == NULL)
                break;
            data = larger;
        }
        size_t got = fread(data + size, 1, room - size, file);
        if (got == 0)
            break;
        size += got;
    }
    fclose(file);

    /* An exact copy, so that a sanitizer sees a read past its end. */
    uint8_t *exact = malloc(size ? size : 1);
    if (exact == NULL) {
        free(data);
        return 1;
    }
    for (size_t i = 0; i < size; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    free(data);
    return 0;
}

static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        return 1;
    }
    int failed = 0, count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= replay_file(path);
        count++;
    }
    closedir(dir);
    printf("%s: %d inputs\n", folder, count);
    return failed || count == 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay_folder(argv[i]);
    return failed;
}
