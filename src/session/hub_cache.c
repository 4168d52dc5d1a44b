#include "session/hub_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"

bool hub_is_id(const char *text) {
    const char *slash = strchr(text, '/');
    if (!slash || slash == text || !slash[1] || strchr(slash + 1, '/') || !isalnum((unsigned char)text[0]))
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_./", *c)) return false;
    return !file_exists(text);
}

/* Returns HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub,
 * like the hub's own library. */
static char *cache_folder(void) {
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *xdg = getenv("XDG_CACHE_HOME"),
               *user = getenv("HOME");
    if (cache && *cache) return xstrdup(cache);
    if (home && *home) return file_join(home, "hub");
    if (xdg && *xdg) return file_join(xdg, "huggingface/hub");
    return file_join(user ? user : "/", ".cache/huggingface/hub");
}

/* Returns the commit of the branch main, as text of at most 64 characters; NULL: not stored. */
static char *main_commit(const char *model) {
    char *path = file_join(model, "refs/main");
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *commit = NULL;
    if (file_exists(path) && file_read(path, 4096, &text, &ignored) == 0) {
        text.buf[strcspn(text.buf, " \r\n")] = '\0';
        bool is_name = text.buf[0] && text.buf[0] != '.' && !strchr(text.buf, '/');
        if (is_name && strlen(text.buf) <= 64) commit = xstrdup(text.buf);
    }
    strbuf_free(&text);
    free(path);
    return commit;
}

/* Returns any snapshot with a config.json, for caches without the snapshot of the branch main. */
static char *any_snapshot(const char *snapshots) {
    DIR *d = opendir(snapshots);
    const struct dirent *e;
    char *found = NULL;
    while (d && !found && (e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        char *folder = file_join(snapshots, e->d_name), *config = file_join(folder, "config.json");
        if (file_exists(config)) found = xstrdup(folder);
        free(config);
        free(folder);
    }
    if (d) closedir(d);
    return found;
}

char *hub_cache_find(const char *id, struct err *err) {
    char *cache = cache_folder(), *dashed = xstrdup(id);
    char *slash = strchr(dashed, '/');
    *slash = '\0';
    char *model = xasprintf("%s/models--%s--%s", cache, dashed, slash + 1),
         *snapshots = file_join(model, "snapshots"), *commit = main_commit(model),
         *folder = commit ? file_join(snapshots, commit) : NULL;
    char *config = folder ? file_join(folder, "config.json") : NULL;
    char *found = config && file_exists(config) ? xstrdup(folder) : any_snapshot(snapshots);
    if (!found)
        err_set(err, "%s is neither a folder nor in the local cache %s: download it with: hf download %s", id,
                cache, id);
    free(config);
    free(folder);
    free(commit);
    free(snapshots);
    free(model);
    free(dashed);
    free(cache);
    return found;
}
