#include "run/provenance.h"

#include <stdlib.h>
#include <string.h>

#include "run/text.h"

#define TEXT_MAX 1024

/* The entry of the reported run. Its key is text, with escapes of its own: the entry says it again. */
static const json_t *entry_of(const json_t *metadata, const struct lp_run *run)
{
    const json_t *runs = json_object_get(metadata, "runs"), *entry;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)runs, key, entry)
    {
        const json_t *run_id = json_object_get(entry, "run_id");
        size_t len = json_string_length(run_id);
        char *decoded = json_is_string(run_id) ? malloc(len + 1) : NULL;
        if (!decoded)
            continue;
        ptrdiff_t n = lp_text_decode(decoded, (struct lp_span){json_string_value(run_id), len});
        bool same = n >= 0 && lp_text_equal((struct lp_span){decoded, (size_t)n}, lp_text_span(&run->run_id));
        free(decoded);
        if (same)
            return entry;
    }
    return NULL;
}

/* Decoded; nothing if it is no text, or longer than such a text can be. */
static int take_text(struct lp_text *text, const json_t *value)
{
    char decoded[TEXT_MAX];
    size_t len = json_string_length(value);
    *text = (struct lp_text){NULL, 0};
    if (!json_is_string(value) || len == 0 || len > sizeof decoded)
        return 0;
    ptrdiff_t n = lp_text_decode(decoded, (struct lp_span){json_string_value(value), len});
    return n < 0 ? 0 : lp_text_copy(text, (struct lp_span){decoded, (size_t)n});
}

static int take_git(struct lp_run_provenance *provenance, const json_t *git)
{
    const json_t *dirty = json_object_get(git, "dirty");
    provenance->dirty_known = json_is_boolean(dirty);
    provenance->dirty = json_is_true(dirty);
    return take_text(&provenance->commit, json_object_get(git, "commit")) < 0 ||
                   take_text(&provenance->branch, json_object_get(git, "branch")) < 0 ||
                   take_text(&provenance->difference_sha256, json_object_get(git, "difference_sha256")) < 0
               ? -1
               : 0;
}

static int take_packages(struct lp_run_provenance *provenance, const json_t *packages)
{
    const json_t *version;
    const char *name;
    size_t n = json_object_size(packages);
    if (n == 0)
        return 0;
    struct lp_run_package *package = calloc(n, sizeof *package);
    provenance->packages = package;
    if (!package)
        return -1;
    json_object_foreach((json_t *)(uintptr_t)packages, name, version)
    {
        provenance->n_packages++;
        if (lp_text_copy(&package->name, (struct lp_span){name, strlen(name)}) < 0 ||
            take_text(&package->version, version) < 0)
            return -1;
        package++;
    }
    return 0;
}

int lp_run_provenance_take(struct lp_run *run, const json_t *metadata)
{
    const json_t *said = json_object_get(entry_of(metadata, run), "provenance");
    if (take_git(&run->provenance, json_object_get(said, "git")) < 0)
        return -1;
    return take_packages(&run->provenance, json_object_get(said, "packages"));
}

void lp_run_provenance_release(struct lp_run_provenance *provenance)
{
    for (size_t i = 0; i < provenance->n_packages; i++) {
        lp_text_release(&provenance->packages[i].name);
        lp_text_release(&provenance->packages[i].version);
    }
    free(provenance->packages);
    lp_text_release(&provenance->commit);
    lp_text_release(&provenance->branch);
    lp_text_release(&provenance->difference_sha256);
    *provenance = (struct lp_run_provenance){0};
}
