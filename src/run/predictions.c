#include "run/predictions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/intern.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/ocr/output.h"
#include "engine/image/image.h"
#include "session/run_dir.h"

#define THUMB_WIDTH 240
#define THUMB_MAX_HEIGHT 2400
#define THUMB_QUALITY 80
#define MAX_STEM 100u    /* bytes; file systems allow 255 */
#define SHOWN_TEXT 4000u /* bytes in the gallery */

static const char *input_prompt(const struct profiled_session *session, const struct dataset_item *it) {
    return it->prompt ? it->prompt : session->plan->s.prompt;
}

static void repeat_json(const struct profiled_session *session, const char *phase, size_t number,
                        const struct session_repeat *rep, struct strbuf *out) {
    const struct dataset_item *it = &session->plan->dataset.v[rep->item];
    const struct engine_answer *a = &rep->answer;
    struct jsonw j;
    jsonw_start(&j, out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "phase", phase);
    jsonw_ku64(&j, "repeat", number);
    jsonw_kstr(&j, "input", it->name);
    jsonw_kstr(&j, "path", it->path);
    jsonw_kstr(&j, "prompt", input_prompt(session, it));
    jsonw_kstr(&j, "error", rep->error);
    jsonw_kstr(&j, "text", rep->done ? a->text : NULL);
    jsonw_kstr(&j, "stop", rep->done ? a->stop : NULL);
    jsonw_knum(&j, "prompt_tokens", rep->done ? a->prompt_tokens : NAN);
    jsonw_knum(&j, "new_tokens", rep->done ? a->new_tokens : NAN);
    jsonw_knum(&j, "prefill_ms", rep->done ? a->prefill_ms : NAN);
    jsonw_knum(&j, "decode_ms", rep->done ? a->decode_ms : NAN);
    jsonw_kobject(&j, "stages");
    for (size_t i = 0; i < a->stages.n; i++) jsonw_knum(&j, a->stages.v[i].name, a->stages.v[i].ms);
    jsonw_end(&j);
    jsonw_karray(&j, "ids");
    for (size_t i = 0; i < a->ids.n; i++) jsonw_i64(&j, a->ids.v[i]);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
    strbuf_addch(out, '\n');
}

static int write_jsonl(const struct profiled_session *session, struct err *err) {
    const struct session_result *res = session->result;
    struct strbuf out = STRBUF_INIT;
    if (res->representative.done || res->representative.error)
        repeat_json(session, "representative", 0, &res->representative, &out);
    for (size_t i = 0; i < res->nrepeats; i++)
        if (res->repeats[i].done || res->repeats[i].error)
            repeat_json(session, "timing", i + 1, &res->repeats[i], &out);
    int rc = run_dir_write(session->run_dir, "predictions.jsonl", out.buf, out.len, err);
    strbuf_free(&out);
    return rc;
}

/* ---- file names for results */

/* A stem is the file name of an input without folder and extension, or with its folders if two inputs have
 * the same file name. Equal stems (page.png, page.jpg) are numbered. NULL: the input is not used. */
struct stems {
    char **v;
    size_t n;
};

/* The stem is safe for file names and Markdown links. It has at most MAX_STEM bytes, cut at a character
 * boundary. */
static char *make_stem(const char *name) {
    char *stem = xstrdup(name), *dot = strrchr(stem, '.');
    if (dot && dot != stem) *dot = '\0';
    for (char *p = stem; *p; p++)
        if (strchr("/\\ ()[]<>\"'|", *p) || (unsigned char)*p < 0x20 || *p == 0x7f) *p = '_';
    if (stem[0] == '.') stem[0] = '_';
    if (strlen(stem) > MAX_STEM) stem[utf8_cut(stem, MAX_STEM)] = '\0';
    return stem;
}

/* How often each text occurs. */
struct tally {
    struct intern *texts;
    struct {
        size_t *v;
        size_t n, cap;
    } counts; /* [id of the text] */
};

static size_t *tally_count(struct tally *t, const char *text) {
    uint32_t id = intern_str(t->texts, text);
    while (t->counts.n <= id) vec_push(&t->counts, (size_t)0);
    return &t->counts.v[id];
}

static void tally_free(struct tally *t) {
    intern_close(t->texts);
    free(t->counts.v);
}

/* Ignores case, because some file systems do. */
static size_t *tally_stem(struct tally *t, const char *stem) {
    char *lower = xstrdup(stem);
    for (char *p = lower; *p; p++) *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    size_t *count = tally_count(t, lower);
    free(lower);
    return count;
}

static char *number_stem(struct tally *taken, char *stem) {
    size_t number = ++*tally_stem(taken, stem);
    while (number > 1) {
        char *numbered = xasprintf("%s-%zu", stem, number);
        if (++*tally_stem(taken, numbered) == 1) {
            free(stem);
            return numbered;
        }
        free(numbered); /* another input has this name */
        number = ++*tally_stem(taken, stem);
    }
    return stem;
}

static void stems_make(struct stems *s, const struct dataset *d) {
    struct tally names = { .texts = intern_open() }, taken = { .texts = intern_open() };
    *s = (struct stems){ xcalloc(d->n + 1, sizeof *s->v), d->n };
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].used) ++*tally_count(&names, file_basename(d->v[i].name));
    for (size_t i = 0; i < d->n; i++) {
        if (!d->v[i].used) continue;
        const char *name = file_basename(d->v[i].name);
        s->v[i] = number_stem(&taken, make_stem(*tally_count(&names, name) > 1 ? d->v[i].name : name));
    }
    tally_free(&names);
    tally_free(&taken);
}

static void stems_free(struct stems *s) {
    for (size_t i = 0; i < s->n; i++) free(s->v[i]);
    free(s->v);
}

/* ---- pictures: a failure only omits the picture */

/* First successful repeat of the input, else the first failed one. NULL: no repeat was run. */
static const struct session_repeat *answer_for(const struct session_result *res, size_t item) {
    const struct session_repeat *best = NULL;
    for (size_t i = 0; i < res->nrepeats; i++) {
        const struct session_repeat *rep = &res->repeats[i];
        if (rep->item == item && (rep->done || (rep->error && !best)) && !(best && best->done)) best = rep;
    }
    return best;
}

static void thumb_size(const struct image *im, int *width, int *height) {
    *width = MIN(THUMB_WIDTH, im->width);
    *height = MAX(1, (int)((int64_t)im->height * *width / im->width));
    if (*height <= THUMB_MAX_HEIGHT) return;
    *height = THUMB_MAX_HEIGHT;
    *width = MAX(1, (int)((int64_t)im->width * *height / im->height));
}

static int write_thumb(const struct profiled_session *session, const struct image *im, const char *stem,
                       struct err *err) {
    struct image small;
    int width, height;
    thumb_size(im, &width, &height);
    if (image_resize(im, width, height, &small, err) < 0) return -1;
    char *path = xasprintf("%s/thumbs/%s.jpg", session->run_dir, stem);
    int rc = image_write_jpeg(path, &small, THUMB_QUALITY, err);
    image_free(&small);
    free(path);
    return rc;
}

static int write_viz(const struct profiled_session *session, const struct image *im,
                     const struct session_repeat *rep, const char *stem, struct err *err) {
    char *dir = xasprintf("%s/viz/%s", session->run_dir, stem);
    struct dsocr_output o;
    dsocr_output_parse(rep->answer.text, strlen(rep->answer.text), im->width, im->height, &o);
    int rc = file_mkdirs(dir, err);
    if (rc == 0) rc = dsocr_output_write(&o, im, dir, err);
    dsocr_output_free(&o);
    free(dir);
    return rc;
}

static void add_fenced(struct strbuf *out, const char *text) {
    size_t n = strlen(text), shown = n > SHOWN_TEXT ? utf8_cut(text, SHOWN_TEXT) : n;
    escape_markdown_block(out, "", text, shown);
    strbuf_addstr(out, shown < n ? "(shortened; full text in predictions.jsonl)\n"
                                   "\n"
                                 : "\n");
}

static void add_counts(struct strbuf *out, const struct session_repeat *rep) {
    const struct engine_answer *a = &rep->answer;
    strbuf_addf(out, "%.0f prompt tokens, %.0f new tokens", a->prompt_tokens, a->new_tokens);
    if (isfinite(a->prefill_ms)) strbuf_addf(out, ", prefill %.1f ms", a->prefill_ms);
    if (isfinite(a->decode_ms)) strbuf_addf(out, ", decode %.1f ms", a->decode_ms);
    strbuf_addf(out, ", ended by %s\n\n", a->stop ? a->stop : "-");
}

static bool warn_unless_written(const char *what, const char *input, int rc, const struct err *err) {
    if (rc < 0) log_warn("no %s for %s: %s", what, input, err->msg);
    return rc == 0;
}

static void gallery_entry(const struct profiled_session *session, size_t item, const char *stem,
                          struct strbuf *out) {
    const struct dataset_item *it = &session->plan->dataset.v[item];
    const struct session_repeat *rep = answer_for(session->result, item);
    if (!rep) return;
    struct image im = { 0 };
    struct err err;
    bool has_image = it->path && image_load(it->path, &im, &err) == 0;
    bool viz = has_image && rep->done && rep->answer.text && session->plan->s.output.viz &&
               session->plan->s.model.ocr;
    bool thumb =
        has_image && warn_unless_written("thumbnail", it->name, write_thumb(session, &im, stem, &err), &err);
    viz = viz && warn_unless_written("boxes", it->name, write_viz(session, &im, rep, stem, &err), &err);
    strbuf_addstr(out, "## ");
    escape_markdown(out, it->name);
    strbuf_addstr(out, "\n\n");
    if (thumb) strbuf_addf(out, "![input](thumbs/%s.jpg)\n\n", stem);
    if (input_prompt(session, it)) {
        strbuf_addstr(out, "Prompt:\n\n");
        add_fenced(out, input_prompt(session, it));
    }
    if (rep->error) {
        strbuf_addstr(out, "Failed: ");
        escape_markdown(out, rep->error);
        strbuf_addstr(out, "\n\n");
    } else {
        add_counts(out, rep);
        add_fenced(out, rep->answer.text ? rep->answer.text : "");
        if (viz)
            strbuf_addf(out, "[Boxes](viz/%s/result_with_boxes.jpg) and [text](viz/%s/result.mmd)\n\n", stem,
                        stem);
    }
    image_free(&im);
}

static void write_gallery(const struct profiled_session *session) {
    const struct dataset *d = &session->plan->dataset;
    struct strbuf out = STRBUF_INIT;
    struct stems stems;
    struct err err;
    char *thumbs = file_join(session->run_dir, "thumbs");
    stems_make(&stems, d);
    int rc = file_mkdirs(thumbs, &err);
    strbuf_addstr(&out, "# Answers of the model\n"
                        "\n");
    for (size_t i = 0; i < d->n && rc == 0; i++)
        if (d->v[i].used) gallery_entry(session, i, stems.v[i], &out);
    if (rc == 0) rc = run_dir_write(session->run_dir, "predictions.md", out.buf, out.len, &err);
    if (rc < 0) log_warn("no gallery of answers: %s", err.msg);
    free(thumbs);
    stems_free(&stems);
    strbuf_free(&out);
}

int predictions_write(const struct profiled_session *session, struct err *err) {
    if (write_jsonl(session, err) < 0) return -1;
    write_gallery(session);
    return 0;
}
