/* Converts the input of a request (text, ids, images) to the ids of the prompt. */
#include "engine/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/internal.h"

#define FIRST_BYTE_ID 3u /* lower ids are usually special tokens; the Hugging Face engine does the same */

static int load_images(struct prompt *j, struct err *err) {
    const struct engine_request *r = j->r;
    const struct vision *v = j->e->vision;
    const struct vision_settings settings = { r->image_mode, r->max_tiles, r->base_size, r->image_size,
                                              r->crop };
    bool sized = r->image_mode || r->max_tiles || r->base_size || r->image_size || r->crop;
    if (sized && j->e->model->vision.rule != LLM_IMAGE_DEEPSEEK_OCR)
        return err_set(err, "image modes are only supported by deepseek_ocr, not by %s", j->e->model->family);
    j->images = xcalloc(r->nimages, sizeof *j->images);
    for (size_t i = 0; i < r->nimages; i++) {
        struct image im;
        if (image_load(r->images[i], &im, err) < 0) return -1;
        int rc = v->encoder->prepare(v->state, j->e->ops, &settings, &im, &j->images[i], err);
        image_free(&im);
        if (rc < 0) return err_wrap(err, "%s", r->images[i]);
    }
    return 0;
}

/* Sets the rotary positions (time, row, column) of a prompt with images, for models with M-RoPE. All
 * tokens of an image have the same time. The text after an image continues after the image's largest row
 * or column. */
static void place_images(struct prompt *j) {
    struct rope_places *p = &j->places;
    if (j->e->model->text.rope.kind != LLM_ROPE_MROPE || j->starts.n == 0) return;
    p->n = (int)j->ids.n;
    p->v = xcalloc(j->ids.n, sizeof *p->v);
    int next = 0, token = 0;
    for (size_t k = 0; k <= j->starts.n; k++) {
        const struct vision_prepared *image = k < j->starts.n ? &j->images[k] : NULL;
        int end = image ? (int)j->starts.v[k] : p->n;
        for (; token < end; token++, next++) p->v[token][0] = p->v[token][1] = p->v[token][2] = next;
        for (int i = 0; image && i < image->tokens; i++, token++) {
            p->v[token][0] = next;
            p->v[token][1] = next + i / image->grid_width;
            p->v[token][2] = next + i % image->grid_width;
        }
        if (image) next += MAX(image->grid_height, image->grid_width);
    }
    p->shift = next - p->n;
}

static int vision_text(struct prompt *j, struct err *err) {
    const struct engine_request *r = j->r;
    const struct vision *v = j->e->vision;
    const char *given = r->prompt ? r->prompt : r->nimages ? v->encoder->usual_prompt : "Hello";
    struct vision_prompt p = { .text = given,
                               .len = r->prompt ? r->prompt_len : strlen(given),
                               .bos_id = j->e->bos,
                               .images = j->images,
                               .nimages = r->nimages };
    return v->encoder->prompt(v, j->e->tokenizer, &p, &j->ids, &j->starts, err);
}

static int text_prompt(struct prompt *j, struct err *err) {
    const char *given = j->r->prompt ? j->r->prompt : "Hello";
    size_t len = j->r->prompt ? j->r->prompt_len : strlen(given);
    if (tokenizer_encode(j->e->tokenizer, given, len, TOKENIZER_ADD_SPECIAL, &j->ids, err) < 0) return -1;
    if (j->ids.n == 0 && j->e->bos != TOKENIZER_NONE) vec_push(&j->ids, j->e->bos);
    return 0;
}

/* Without a tokenizer, one token per byte is sufficient for synthetic weights, whose answers mean nothing. */
static int byte_prompt(struct prompt *j) {
    const char *given = j->r->prompt ? j->r->prompt : "Hello";
    size_t len = j->r->prompt ? j->r->prompt_len : strlen(given);
    uint32_t vocab = (uint32_t)j->e->decoder->vocab;
    for (size_t i = 0; i < len; i++) vec_push(&j->ids, (FIRST_BYTE_ID + (unsigned char)given[i]) % vocab);
    return 0;
}

static int fill_prompt(struct prompt *j, struct err *err) {
    bool synthetic = strncmp(j->e->source, "synthetic:", strlen("synthetic:")) == 0;
    if (!j->e->tokenizer && !j->e->vision && synthetic) return byte_prompt(j);
    if (!j->e->tokenizer)
        return j->e->no_tokenizer.msg[0]
                   ? err_set(err, "%s", j->e->no_tokenizer.msg)
                   : err_set(err, "%s has no tokenizer.json: give prompt_ids instead of a prompt",
                             j->e->path);
    return j->e->vision ? vision_text(j, err) : text_prompt(j, err);
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

/* With images, the ids contain one image token per image. */
static int take_ids(struct prompt *j, const uint32_t *ids, size_t n, struct err *err) {
    const struct llm_vision *v = &j->e->model->vision;
    uint32_t image_id = v->image_id < 0 ? TOKENIZER_NONE : (uint32_t)v->image_id;
    if (j->r->nimages && image_id == TOKENIZER_NONE)
        return err_set(err,
                       "prompt_ids cannot be combined with inputs for this model: give a prompt instead");
    if (j->r->nimages)
        return vision_expand_ids(ids, n, image_id, image_id, j->images, j->r->nimages, &j->ids, &j->starts,
                                 err);
    for (size_t i = 0; i < n; i++) vec_push(&j->ids, ids[i]);
    return 0;
}

static int fill_ids(struct prompt *j, size_t sequence, struct err *err) {
    const struct engine_request *r = j->r;
    if (r->nimages && r->nbatch)
        return err_set(err, "a batch cannot be combined with inputs: send one request per image");
    if (r->nimages && !j->e->vision)
        return err_set(err, "%s does not support images: leave inputs empty", j->e->path);
    if (r->nimages && load_images(j, err) < 0) return -1;
    if (r->nbatch) return take_ids(j, r->batch[sequence].v, r->batch[sequence].n, err);
    return r->nids ? take_ids(j, r->ids, r->nids, err) : fill_prompt(j, err);
}

int prompt_make(struct prompt *j, struct engine *e, const struct engine_request *r, size_t sequence,
                struct err *err) {
    *j = (struct prompt){ .e = e, .r = r };
    int rc = fill_ids(j, sequence, err);
    if (rc == 0) rc = check_prompt(j, err);
    if (rc == 0) place_images(j);
    return rc < 0 && r->nbatch > 1 ? err_wrap(err, "sequence %zu", sequence) : rc;
}

void prompt_free(struct prompt *j) {
    for (size_t i = 0; j->images && i < j->r->nimages; i++) vision_prepared_free(&j->images[i]);
    free(j->images);
    free(j->places.v);
    free(j->ids.v);
    free(j->starts.v);
}
