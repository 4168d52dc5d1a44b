/* The models use tensors only through the operator interface: with a backend whose tensors the host cannot
 * read (guarded.h), they run and compute the same bits as on the plain CPU backend. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/internal.h"
#include "engine/decoder/decoder.h"
#include "engine/ocr/encoder.h"
#include "unit/engine-models/fixture.h"
#include "unit/engine-models/guarded.h"
#include "unit/test.h"

/* Runs the request on both backends; both must choose the same tokens. */
static void check_same_tokens(const struct fixture *f, const char *dtype, const struct engine_request *r) {
    struct err err;
    struct engine_result plain, guarded;
    struct engine *a = fixture_engine(f, dtype), *b = fixture_engine_on(f, dtype, &guarded_backend);
    if (engine_infer(a, r, &plain, &err) < 0) fail_msg("%s", err.msg);
    if (engine_infer(b, r, &guarded, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(plain.ids.n, r->max_new_tokens);
    CHECK_INT(guarded.ids.n, plain.ids.n);
    CHECK_MEM(guarded.ids.v, plain.ids.v, plain.ids.n * sizeof *plain.ids.v);
    CHECK(guarded_calls(b->ops) > 10 * plain.ids.n);
    engine_result_free(&plain);
    engine_result_free(&guarded);
    engine_close(a);
    engine_close(b);
}

/* Logits of a prompt of 8 tokens and one more. */
static void last_logits(struct engine *e, float *logits) {
    struct decoder *d = e->decoder;
    const uint32_t ids[] = { 5, 9, 200, 31, 7, 7, 42, 11, 3 };
    struct tensor *x = fixture_upload(d->ops, NULL, COUNTOF(ids) * (size_t)d->hidden);
    struct tensor *last = fixture_upload(d->ops, NULL, (size_t)d->vocab);
    decoder_embed(d, ids, COUNTOF(ids), view_of(x));
    decoder_forward(d, view_of(x), 8, 0, NULL);
    decoder_forward(d, view_at(view_of(x), 8 * (size_t)d->hidden), 1, 8, last);
    ops_download(d->ops, logits, view_of(last), (size_t)d->vocab);
    ops_free(d->ops, x);
    ops_free(d->ops, last);
}

static void check_same_logits(const struct fixture *f, const char *dtype) {
    struct engine *a = fixture_engine(f, dtype), *b = fixture_engine_on(f, dtype, &guarded_backend);
    size_t vocab = (size_t)a->decoder->vocab;
    float *plain = xcalloc(vocab, sizeof *plain), *guarded = xcalloc(vocab, sizeof *guarded);
    last_logits(a, plain);
    last_logits(b, guarded);
    CHECK_MEM(guarded, plain, vocab * sizeof *plain);
    free(plain);
    free(guarded);
    engine_close(a);
    engine_close(b);
}

static void check_decoder(const char *name) {
    struct fixture f;
    const uint32_t ids[] = { 5, 9, 200, 31, 7, 7, 42, 11 };
    struct engine_request r = { .ids = ids, .nids = COUNTOF(ids), .max_new_tokens = 12, .ignore_eos = true };
    fixture_open(&f, name);
    check_same_logits(&f, "f32");
    check_same_logits(&f, "bf16");
    check_same_tokens(&f, "bf16", &r);
    fixture_close(&f);
}

TEST(decoders_run_on_memory_that_the_host_cannot_read) {
    check_decoder("llama");
    check_decoder("mistral");
    check_decoder("qwen2");
    check_decoder("qwen3");
}
TEST(routers_and_experts_run_on_memory_that_the_host_cannot_read) {
    check_decoder("mixtral");
    check_decoder("qwen3_moe");
}
TEST(latent_attention_runs_on_memory_that_the_host_cannot_read) {
    check_decoder("deepseek_v2");
    check_decoder("deepseek_v2_groups");
}
TEST(gates_caps_sinks_and_sigmoid_routing_run_on_memory_that_the_host_cannot_read) {
    check_decoder("gemma3");
    check_decoder("gemma2");
    check_decoder("gpt_oss");
    check_decoder("qwen2_moe");
    check_decoder("deepseek_v3");
}

static const char *plain_name(void *context) {
    (void)context;
    return "a plain device";
}

/* A backend without the optional features refuses the families that need them, and no others. */
TEST(a_backend_refuses_families_for_which_it_lacks_operators) {
    static const struct {
        const char *fixture, *reason; /* NULL: supported */
    } rows[] = { { "llama", NULL },
                 { "phi3", NULL },
                 { "qwen2_moe", NULL },
                 { "dynamic", NULL },
                 { "gemma", "gates other than silu, scaled embeddings" },
                 { "gemma2", "capped scores" },
                 { "gpt_oss", "attention sinks, biases of experts" },
                 { "deepseek_v3", "sigmoid routing" } };
    struct ops_backend plain = { .name = plain_name };
    struct ops o = { .backend = &plain };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct fixture f;
        struct err err = { "" };
        fixture_open(&f, rows[i].fixture);
        struct llm_model *m = llm_model_load(f.dir, &(struct llm_load){ 0 }, &err);
        CHECK(m != NULL);
        CHECK_INT(decoder_check(&m->text, &o, &err), rows[i].reason ? -1 : 0);
        if (rows[i].reason && (!strstr(err.msg, rows[i].reason) || !strstr(err.msg, "use device=cpu")))
            fail_msg("'%s' lacks '%s'", err.msg, rows[i].reason);
        llm_model_free(m);
        fixture_close(&f);
    }
}

/* The memory of the machine does not count. */
TEST(the_cache_must_fit_into_the_memory_of_the_device) {
    struct fixture f;
    struct err err;
    fixture_open(&f, "llama");
    struct engine *e = fixture_engine_on(&f, "f32", &guarded_backend);
    size_t usual = guarded_memory_bytes;
    guarded_memory_bytes = 2000;
    CHECK_INT(decoder_reserve(e->decoder, 2, 3, &err), -1);
    CHECK(strstr(err.msg, "2 sequences of 3 tokens") && strstr(err.msg, "but cpu has 0.0 GB of memory"));
    guarded_memory_bytes = usual;
    CHECK_INT(decoder_reserve(e->decoder, 2, 3, &err), 0);
    engine_close(e);
    fixture_close(&f);
}

/* SAM's output, CLIP's output and the projected rows of a view of random pixels, one after the other. */
static float *view_outputs(const struct fixture *f, const struct engine_backend *backend, size_t *n) {
    struct engine *e = fixture_engine_on(f, "f32", backend);
    struct ops *o = e->ops;
    struct dsocr *v = e->vision->state;
    struct vision_times times = { 0 };
    int side = (int)fixture_int(f, "side"), along = sam_tokens(v->sam, side);
    size_t tokens = (size_t)(along * along), sam_floats = tokens * (size_t)v->sam->out_width,
           clip_floats = tokens * (size_t)v->clip->width, row_floats = tokens * (size_t)v->hidden;
    float *pixels = fixture_rows(f, "pixels", 3 * (size_t)side * (size_t)side);
    *n = sam_floats + clip_floats + row_floats;
    struct tensor *all = fixture_upload(o, NULL, *n);
    struct view sam = view_of(all), clip = view_at(sam, sam_floats), rows = view_at(clip, clip_floats);
    sam_forward(v->sam, o, &(struct sam_part){ { .planes = pixels }, 1, side, sam }, 1);
    clip_forward(v->clip, o, &(struct clip_part){ 1, along }, 1, sam, clip, 1);
    dsocr_encode_views(v, o, &(struct dsocr_part){ { .planes = pixels }, 1, side }, 1, rows, &times);
    float *out = xcalloc(*n, sizeof *out);
    ops_download(o, out, view_of(all), *n);
    ops_free(o, all);
    free(pixels);
    engine_close(e);
    return out;
}

static void check_view(const char *name) {
    struct fixture f;
    size_t n, guarded_n;
    fixture_open(&f, name);
    float *plain = view_outputs(&f, NULL, &n), *guarded = view_outputs(&f, &guarded_backend, &guarded_n);
    CHECK_INT(guarded_n, n);
    CHECK_MEM(guarded, plain, n * sizeof *plain);
    free(plain);
    free(guarded);
    fixture_close(&f);
}

TEST(sam_clip_and_projector_run_on_memory_that_the_host_cannot_read) {
    check_view("dsocr_window");
    check_view("dsocr_global");
    check_view("dsocr_resampled");
    check_view("dsocr_neck");
}

TEST(a_page_is_read_on_memory_that_the_host_cannot_read) {
    struct fixture f;
    const char *page = "tests/data/engine/dsocr_page.png";
    struct engine_request r = { .prompt = "<image>",
                                .prompt_len = 7,
                                .images = &page,
                                .nimages = 1,
                                .max_new_tokens = 16,
                                .ignore_eos = true };
    fixture_open(&f, "dsocr_whole");
    check_same_tokens(&f, "f32", &r);
    fixture_close(&f);
}

/* The check of the check. */
TEST(the_host_crashes_when_it_reads_guarded_memory) {
    struct fixture f;
    fixture_open(&f, "llama");
    struct engine *e = fixture_engine_on(&f, "f32", &guarded_backend);
    const volatile float *memory = guarded_memory(e->ops);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(memory[0] > 1e30f);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    engine_close(e);
    fixture_close(&f);
}
