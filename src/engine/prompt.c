/* Converts the input of a request (text, ids, images) to the ids of the prompt. */
#include "engine/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/internal.h"

static void *host_alloc(void *context, size_t bytes) { return ops_host_alloc(context, bytes); }
static void host_free(void *context, void *p) { ops_host_free(context, p); }

static int load_images(struct prompt *j, struct err *err) {
    const struct dsocr_settings *mode = dsocr_mode(j->r->image_mode ? j->r->image_mode : "gundam", err);
    if (!mode) return -1;
    struct dsocr_settings settings = *mode;
    struct ops *o = j->e->ops;
    const struct dsocr_memory memory = { host_alloc, host_free, o,
                                         .bytes = o->backend->upload_bytes != NULL };
    if (dsocr_set_sizes(&settings, j->r->base_size, j->r->image_size, j->r->crop, err) < 0) return -1;
    if (j->r->max_tiles > 0) settings.max_tiles = MAX(settings.min_tiles, j->r->max_tiles);
    j->plans = xcalloc(j->r->nimages, sizeof *j->plans);
    j->views = xcalloc(j->r->nimages, sizeof *j->views);
    for (size_t i = 0; i < j->r->nimages; i++) {
        struct image im;
        if (image_load(j->r->images[i], &im, err) < 0) return -1;
        dsocr_plan_make(&settings, im.width, im.height, &j->plans[i]);
        int rc = dsocr_views_make(&j->plans[i], &im, &memory, &j->views[i], err);
        image_free(&im);
        if (rc < 0) return err_wrap(err, "%s", j->r->images[i]);
        dsocr_drop_blank(&j->plans[i], &j->views[i]);
    }
    return 0;
}

static int ocr_prompt(struct prompt *j, struct err *err) {
    const struct engine_request *r = j->r;
    static const char usual[] = "<image>\n<|grounding|>Convert the document to markdown.", bare[] = "Hello";
    const char *given = r->prompt ? r->prompt : r->nimages ? usual : bare;
    size_t len = r->prompt ? r->prompt_len : strlen(given);
    struct strbuf text = STRBUF_INIT;
    if (r->nimages && !memmem(given, len, "<image>", 7))
        for (size_t i = 0; i < r->nimages; i++) strbuf_addstr(&text, "<image>\n");
    strbuf_add(&text, given, len);
    struct dsocr_prompt p = { .text = text.buf,
                              .len = text.len,
                              .bos_id = j->e->bos,
                              .image_id = j->e->image_token,
                              .plans = j->plans,
                              .nplans = r->nimages };
    int rc = dsocr_prompt_ids(j->e->tokenizer, &p, &j->ids, &j->starts, err);
    strbuf_free(&text);
    return rc;
}

static int text_prompt(struct prompt *j, struct err *err) {
    const char *given = j->r->prompt ? j->r->prompt : "Hello";
    size_t len = j->r->prompt ? j->r->prompt_len : strlen(given);
    if (tokenizer_encode(j->e->tokenizer, given, len, TOKENIZER_ADD_SPECIAL, &j->ids, err) < 0) return -1;
    if (j->ids.n == 0 && j->e->bos != TOKENIZER_NONE) vec_push(&j->ids, j->e->bos);
    return 0;
}

static int fill_prompt(struct prompt *j, struct err *err) {
    const struct engine_request *r = j->r;
    if (!j->e->tokenizer)
        return j->e->no_tokenizer.msg[0]
                   ? err_set(err, "%s", j->e->no_tokenizer.msg)
                   : err_set(err, "%s has no tokenizer.json: give prompt_ids instead of a prompt",
                             j->e->path);
    if (r->nimages && !j->e->vision)
        return err_set(err, "%s does not support images: leave inputs empty", j->e->path);
    if (r->nimages && load_images(j, err) < 0) return -1;
    if (r->nimages && j->e->image_token == TOKENIZER_NONE)
        return err_set(err, "%s: its tokenizer has no <image> token", j->e->path);
    return j->e->vision ? ocr_prompt(j, err) : text_prompt(j, err);
}

static int check_prompt(const struct prompt *j, struct err *err) {
    const struct decoder *d = j->e->decoder;
    if (j->ids.n == 0) return err_set(err, "the prompt is empty");
    if (j->ids.n > (size_t)d->max_context)
        return err_set(err,
                       "the prompt has %zu tokens, but the context has only %d positions: shorten it, choose "
                       "a smaller image mode or load with a larger max_context",
                       j->ids.n, d->max_context);
    for (size_t i = 0; i < j->ids.n; i++)
        if (j->ids.v[i] >= (uint32_t)d->vocab)
            return err_set(err, "token id %u at position %zu: the vocabulary has %d tokens", j->ids.v[i], i,
                           d->vocab);
    return 0;
}

static int take_ids(struct prompt *j, const uint32_t *ids, size_t n, struct err *err) {
    if (j->r->nimages)
        return err_set(err, "prompt_ids cannot be combined with inputs: give a prompt instead");
    for (size_t i = 0; i < n; i++) vec_push(&j->ids, ids[i]);
    return 0;
}

int prompt_make(struct prompt *j, struct engine *e, const struct engine_request *r, size_t sequence,
                struct err *err) {
    *j = (struct prompt){ .e = e, .r = r };
    int rc = r->nbatch ? take_ids(j, r->batch[sequence].v, r->batch[sequence].n, err)
             : r->nids ? take_ids(j, r->ids, r->nids, err)
                       : fill_prompt(j, err);
    if (rc == 0) rc = check_prompt(j, err);
    return rc < 0 && r->nbatch > 1 ? err_wrap(err, "sequence %zu", sequence) : rc;
}

void prompt_free(struct prompt *j) {
    for (size_t i = 0; j->views && i < j->r->nimages; i++) dsocr_views_free(&j->views[i]);
    free(j->views);
    free(j->plans);
    free(j->ids.v);
    free(j->starts.v);
}
