#include "session/dataset.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/jsonr.h"
#include "base/util.h"
#include "base/vec.h"
#include "conf/yaml.h"
#include "base/sha256.h"

#define MAX_LIST_BYTES (64u << 20)
#define MAX_REPORTED 3 /* maximum number of missing files and bad lines that are reported individually */

static void add_item(struct dataset *d, struct dataset_item item) { vec_push(d, item); }

static void add_image(struct dataset *d, const char *name, const char *path) {
    add_item(d, (struct dataset_item){ .name = xstrdup(name), .path = xstrdup(path), .max_new_tokens = -1 });
}

void dataset_free(struct dataset *d) {
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].name);
        free(d->v[i].path);
        free(d->v[i].prompt);
        free(d->v[i].prompt_ids);
    }
    free(d->v);
    free(d->order.v);
    free(d->source);
    *d = (struct dataset){ 0 };
}

/* ---- Built-in pages */

static bool is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

static void open_samples(struct dataset *d, struct strlist *errors) {
    d->source = xstrdup("the built-in sample pages");
    for (size_t i = 0; i < embed_files_n; i++) {
        const char *path = embed_files[i].path;
        if (strncmp(path, "samples/", 8) != 0 || !is_image_name(path)) continue;
        add_item(d, (struct dataset_item){
                        .name = xstrdup(path + 8), .max_new_tokens = -1, .embedded = &embed_files[i] });
    }
    if (!d->n) strlist_add(errors, "dataset.root=samples: this build of inferprof has no sample pages");
}

#define SAMPLE_PROMPTS "samples/prompts.jsonl"

static void read_prompts(struct dataset *d, const struct settings *s, char *text, const char *path,
                         struct strlist *errors);

void dataset_use_sample_prompts(struct dataset *d, const struct settings *s, struct strlist *errors) {
    const struct embed_file *f = embed_find(SAMPLE_PROMPTS);
    dataset_free(d);
    if (!f) {
        strlist_add(errors, "dataset=samples: this build of inferprof has no sample prompts");
        return;
    }
    char *text = xstrndup((const char *)f->data, embed_bytes(f));
    read_prompts(d, s, text, SAMPLE_PROMPTS, errors);
    d->source = xstrdup("the built-in sample prompts");
    free(text);
}

int dataset_extract(struct dataset *d, const char *run_dir, struct err *err) {
    for (size_t i = 0; i < d->n; i++) {
        struct dataset_item *it = &d->v[i];
        if (!it->embedded || !it->used || it->path) continue;
        char *path = xasprintf("%s/inputs/%s", run_dir, it->name),
             *dir = xstrndup(path, strlen(path) - strlen(file_basename(path)));
        int rc = file_mkdirs(dir, err);
        if (rc == 0) rc = file_write_atomic(path, it->embedded->data, embed_bytes(it->embedded), err);
        free(dir);
        it->path = path;
        if (rc < 0) return -1;
    }
    return 0;
}

/* ---- Folder */

/* Returns ROOT/PATTERN, with the glob characters of the folder's name escaped. */
static char *glob_under(const char *root, const char *pattern) {
    struct strbuf s = STRBUF_INIT;
    for (const char *p = root; *p; p++) {
        if (strchr("*?[]\\", *p)) strbuf_addch(&s, '\\');
        strbuf_addch(&s, *p);
    }
    strbuf_addf(&s, "/%s", pattern);
    return strbuf_detach(&s);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct dataset_item *)a)->name, ((const struct dataset_item *)b)->name);
}

static void sort_unique(struct dataset *d) {
    if (d->n) qsort(d->v, d->n, sizeof d->v[0], by_name);
    size_t kept = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (kept && strcmp(d->v[kept - 1].name, d->v[i].name) == 0) {
            free(d->v[i].name);
            free(d->v[i].path);
        } else {
            d->v[kept++] = d->v[i];
        }
    }
    d->n = kept;
}

static void open_patterns(struct dataset *d, const struct settings *s, struct strlist *errors) {
    const struct conf_node *list = s->dataset.fallback_patterns;
    size_t root = strlen(s->dataset.root);
    struct strbuf tried = STRBUF_INIT;
    for (size_t i = 0; list && i < list->n; i++) {
        char *pattern = glob_under(s->dataset.root, list->v[i]->text);
        glob_t found = { 0 };
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                if (!file_is_dir(found.gl_pathv[k]))
                    add_image(d, found.gl_pathv[k] + root + strspn(found.gl_pathv[k] + root, "/"),
                              found.gl_pathv[k]);
        globfree(&found);
        free(pattern);
        strbuf_addf(&tried, "%s%s", i ? " " : "", list->v[i]->text);
    }
    sort_unique(d);
    d->source = xasprintf("images in %s", s->dataset.root);
    if (!d->n)
        strlist_add(errors, "dataset.root=%s: no file matches %s (dataset.fallback_patterns)",
                    s->dataset.root, tried.len ? tried.buf : "[]");
    strbuf_free(&tried);
}

/* Reads one path per line, absolute or relative to the root; blank lines and # comments are skipped. */
static void open_filelist(struct dataset *d, const struct settings *s, struct strlist *errors) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    size_t missing = 0, line_no = 0;
    if (file_read(s->dataset.subset_filelist, MAX_LIST_BYTES, &text, &err) < 0) {
        strlist_add(errors, "dataset.subset_filelist: %s (looked in dataset.root=%s first)", err.msg,
                    s->dataset.root);
        strbuf_free(&text);
        return;
    }
    char *rest = text.buf, *line;
    while ((line = strsep(&rest, "\n"))) {
        line_no++;
        line += strspn(line, " \t");
        for (size_t n = strlen(line); n && strchr(" \t\r", line[n - 1]);) line[--n] = '\0';
        if (!*line || *line == '#') continue;
        char *path = line[0] == '/' ? xstrdup(line) : file_join(s->dataset.root, line);
        if (access(path, R_OK) == 0)
            add_image(d, line, path);
        else if (missing++ < MAX_REPORTED)
            strlist_add(errors, "%s:%zu: %s: %s", s->dataset.subset_filelist, line_no, path, strerror(errno));
        free(path);
    }
    if (missing > MAX_REPORTED)
        strlist_add(errors, "%s: %zu more files are missing under %s", s->dataset.subset_filelist,
                    missing - MAX_REPORTED, s->dataset.root);
    if (!d->n && !missing) strlist_add(errors, "%s: lists no files", s->dataset.subset_filelist);
    d->source = xasprintf("pages in %s listed in %s", s->dataset.root, s->dataset.subset_filelist);
    strbuf_free(&text);
}

/* ---- Prompts */

/* Returns true for a non-empty list of token ids: whole numbers from 0 to 2^31 - 2. */
static bool is_ids(const json_t *ids) {
    bool good = json_array_size(ids) > 0;
    for (size_t i = 0; good && i < json_array_size(ids); i++) {
        const json_t *v = json_array_get(ids, i);
        good = json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < INT32_MAX;
    }
    return good;
}

static int read_prompt(struct dataset *d, const struct settings *s, const json_t *o, size_t line_no,
                       struct err *err) {
    const json_t *prompt = json_object_get(o, "prompt"), *id = json_object_get(o, "id"),
                 *image = json_object_get(o, "image"), *most = json_object_get(o, "max_new_tokens");
    const json_t *ids = json_object_get(o, "prompt_ids");
    if (!json_is_string(prompt) && !is_ids(ids))
        return err_set(err, "expected an object with \"prompt\": \"...\", or \"prompt_ids\": [1, 2, ...]");
    if (most && (!json_is_integer(most) || json_integer_value(most) < 1))
        return err_set(err, "max_new_tokens must be a whole number of at least 1");
    struct dataset_item it = { .prompt = json_is_string(prompt) ? xstrdup(json_string_value(prompt)) : NULL,
                               .prompt_ids = ids ? json_dumps(ids, JSON_COMPACT) : NULL,
                               .max_new_tokens = most ? json_integer_value(most) : -1 };
    it.name = json_is_string(id)    ? xstrdup(json_string_value(id))
              : json_is_integer(id) ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(id))
                                    : xasprintf("prompt-%zu", line_no);
    if (json_is_string(image)) {
        const char *p = json_string_value(image);
        it.path = p[0] == '/' || !s->dataset.root ? xstrdup(p) : file_join(s->dataset.root, p);
    }
    int rc = it.path && access(it.path, R_OK) < 0 ? err_set(err, "%s: %s", it.path, strerror(errno)) : 0;
    add_item(d, it);
    return rc;
}

static void read_prompts(struct dataset *d, const struct settings *s, char *text, const char *path,
                         struct strlist *errors) {
    char *rest = text, *line;
    size_t line_no = 0, bad = 0;
    struct err err;
    while ((line = strsep(&rest, "\n"))) {
        line_no++;
        if (!line[strspn(line, " \t\r")]) continue;
        json_t *o = jsonr_load_text(line, strlen(line), "prompt", &err);
        int rc = o ? read_prompt(d, s, o, line_no, &err) : -1;
        json_decref(o);
        if (rc < 0 && bad++ < MAX_REPORTED) strlist_add(errors, "%s:%zu: %s", path, line_no, err.msg);
    }
    if (!d->n && !bad) strlist_add(errors, "%s: contains no prompt", path);
}

static void open_prompts(struct dataset *d, const struct settings *s, struct strlist *errors) {
    const char *path = s->dataset.prompts;
    if (!path) {
        strlist_add(errors,
                    "dataset.prompts is not set: expected a file with one {\"prompt\": \"...\"} per line");
        return;
    }
    struct strbuf text = STRBUF_INIT;
    struct err err;
    if (file_read(path, MAX_LIST_BYTES, &text, &err) < 0) {
        strlist_add(errors, "dataset.prompts: %s", err.msg);
        strbuf_free(&text);
        return;
    }
    read_prompts(d, s, text.buf, path, errors);
    d->source = xasprintf("prompts from %s", path);
    strbuf_free(&text);
}

void dataset_open(struct dataset *d, const struct settings *s, struct strlist *errors) {
    bool prompts = strcmp(s->dataset.kind, "prompts") == 0,
         builtin = s->dataset.root && strcmp(s->dataset.root, "samples") == 0;
    *d = (struct dataset){ 0 };
    if (s->dataset.subset_filelist && (prompts || builtin))
        strlist_add(errors, "dataset.subset_filelist=%s: %s", s->dataset.subset_filelist,
                    prompts
                        ? "a list of pages cannot be used with dataset.kind=prompts; remove it"
                        : "the built-in pages cannot be listed; give dataset.root=DIR, or remove the list");
    if (builtin && file_is_dir("samples") && s->dataset.name && strcmp(s->dataset.name, "samples") != 0)
        strlist_add(errors, "dataset.root=samples: samples are the built-in pages; write "
                            "dataset.root=./samples for the folder, or dataset=samples for the pages");
    if (prompts)
        open_prompts(d, s, errors);
    else if (!s->dataset.root)
        strlist_add(errors, "dataset.root is not set: give dataset.root=DIR, or dataset=samples");
    else if (builtin)
        open_samples(d, errors);
    else if (!file_is_dir(s->dataset.root))
        strlist_add(errors, "dataset.root=%s: no such folder", s->dataset.root);
    else if (s->dataset.subset_filelist)
        open_filelist(d, s, errors);
    else
        open_patterns(d, s, errors);
}

/* ---- Order of repeats */

/* Reproducible shuffle: the result depends only on n and seed. */
static void shuffle(size_t *v, size_t n, uint64_t seed) {
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(hash_u64(hash_u64(seed + 0x51ed27) ^ i) % i), t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
}

/* Concatenates the epochs, truncated or repeated to the number of repeats. */
void dataset_order(struct dataset *d, const struct settings *s, size_t repeats) {
    d->order.n = 0;
    if (!d->n) return;
    int64_t wanted = s->dataset.sampling.num_samples_per_epoch;
    size_t take = wanted < 0 || (size_t)wanted > d->n ? d->n : (size_t)wanted;
    size_t *epoch = xcalloc(d->n, sizeof *epoch);
    for (int64_t e = 0; e < s->dataset.sampling.num_epochs && d->order.n < repeats; e++) {
        for (size_t i = 0; i < d->n; i++) epoch[i] = i;
        if (s->dataset.sampling.randomize)
            shuffle(epoch, d->n, hash_u64((uint64_t)s->dataset.sampling.seed) + (uint64_t)e);
        for (size_t i = 0; i < take; i++) vec_push(&d->order, epoch[i]);
    }
    free(epoch);
    for (size_t i = 0, n = d->order.n; d->order.n < repeats; i++) vec_push(&d->order, d->order.v[i % n]);
    d->order.n = repeats;
    for (size_t i = 0; i < repeats; i++) d->v[d->order.v[i]].used = true;
}

int dataset_hash(struct dataset *d, struct err *err) {
    for (size_t i = 0; i < d->n; i++) {
        struct dataset_item *it = &d->v[i];
        if (!it->used) continue;
        if (it->path) {
            if (sha256_file(it->path, it->sha256, &it->bytes, err) < 0) return -1;
        } else if (it->prompt || it->prompt_ids) {
            const char *text = it->prompt ? it->prompt : it->prompt_ids;
            struct sha256 s;
            sha256_start(&s);
            sha256_add(&s, text, strlen(text));
            it->bytes = s.bytes;
            sha256_hex(&s, it->sha256);
        }
    }
    return 0;
}

static void yaml_pair(struct strbuf *out, const char *key, const char *text) {
    if (!text) return;
    strbuf_addf(out, "    %s: ", key);
    conf_yaml_scalar(text, true, out);
    strbuf_addch(out, '\n');
}

void dataset_yaml(const struct dataset *d, struct strbuf *out) {
    strbuf_addstr(
        out, "# The inputs of this run with checksums. `inferprof profile --rerun` compares them.\nsource: ");
    conf_yaml_scalar(d->source ? d->source : "none", true, out);
    strbuf_addstr(out, "\ninputs:\n");
    for (size_t i = 0; i < d->n; i++) {
        const struct dataset_item *it = &d->v[i];
        if (!it->used) continue;
        strbuf_addstr(out, "  - name: ");
        conf_yaml_scalar(it->name, true, out);
        strbuf_addch(out, '\n');
        yaml_pair(out, "path", it->path);
        yaml_pair(out, "prompt", it->prompt);
        yaml_pair(out, "prompt_ids", it->prompt_ids);
        strbuf_addf(out, "    bytes: %" PRIu64 "\n", it->bytes);
        yaml_pair(out, "sha256", it->sha256);
    }
    strbuf_addstr(out, "order: [");
    for (size_t i = 0; i < d->order.n; i++) {
        if (i) strbuf_addstr(out, ", ");
        conf_yaml_scalar(d->v[d->order.v[i]].name, true, out);
    }
    strbuf_addstr(out, "]\n");
}
