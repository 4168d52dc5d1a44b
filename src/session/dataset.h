/* The inputs of a run: pages from a folder, built-in pages, or prompts from a file.
 *     struct dataset d;
 *     dataset_open(&d, &settings, &errors);                 -- adds missing inputs to errors
 *     dataset_order(&d, &settings, repeats);                  -- d.order[i]: the input of repeat i
 *     dataset_extract(&d, run_dir, &err);                     -- writes built-in pages to files
 *     dataset_hash(&d, &err);                                 -- size and SHA-256 of the used inputs
 *     dataset_free(&d); */
#ifndef SESSION_DATASET_H
#define SESSION_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strlist.h"
#include "base/strbuf.h"
#include "conf/settings.h"

struct embed_file;

struct dataset_item {
    char *name;                        /* path relative to the root, or the prompt's id */
    char *path;                        /* image file; NULL: text prompt, or built-in page not yet extracted */
    char *prompt;                      /* NULL: the prompt of the run */
    char *prompt_ids;                  /* JSON list of token ids instead of a text; NULL: none */
    int64_t max_new_tokens;            /* -1: the limit of the run */
    const struct embed_file *embedded; /* NULL: not built in */
    bool used;                         /* part of the order */
    uint64_t bytes;                    /* set by dataset_hash, like sha256 */
    char sha256[65];
};

struct dataset {
    struct dataset_item *v;
    size_t n, cap;
    struct {
        size_t *v;
        size_t n, cap;
    } order;
    char *source; /* for display: "images in /data" */
};

void dataset_open(struct dataset *d, const struct settings *s, struct strlist *errors);
/* Replaces the built-in pages by the built-in prompts, for a model that reads text only. */
void dataset_use_sample_prompts(struct dataset *d, const struct settings *s, struct strlist *errors);
void dataset_free(struct dataset *d);
void dataset_order(struct dataset *d, const struct settings *s, size_t repeats);
int dataset_extract(struct dataset *d, const char *run_dir, struct err *err);
int dataset_hash(struct dataset *d, struct err *err);
void dataset_yaml(const struct dataset *d, struct strbuf *out); /* content of inputs.yaml */

#endif
