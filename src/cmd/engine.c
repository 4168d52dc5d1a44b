/* `inferprof engine`: the native engine, used directly or by `profile`. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/progress.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/command.h"
#include "cmd/commands.h"
#include "engine/engine.h"
#include "engine/protocol/protocol.h"

struct engine_opts {
    const char *model, *weights, *dtype, *device, *decode, *prompt, *image_mode, *detail, *trace;
    struct opt_list images;
    uint64_t max_new_tokens, threads, max_context, top_k, seed, ngram, window, max_tiles;
    double temperature, top_p;
    bool ignore_eos, exact;
};

static const struct engine_opts defaults = { .max_new_tokens = 128, .top_p = 1, .ngram = UINT64_MAX };

#define AT(field) offsetof(struct engine_opts, field)
static const struct opt options[] = {
    { 'm', "model", OPT_STR, AT(model), "MODEL", "folder with config.json, or .gguf; default: embedded",
      NULL },
    { 'p', "prompt", OPT_STR, AT(prompt), "TEXT",
      "generate an answer to this prompt; default: serve the protocol", NULL },
    { 'i', "image", OPT_LIST, AT(images), "FILE", "PNG or JPEG for the prompt; may be repeated", NULL },
    { 'w', "weights", OPT_STR, AT(weights), "SOURCE", "auto, or synthetic:SEED for random weights", NULL },
    { 0, "dtype", OPT_CHOICE, AT(dtype), "TYPE", "type of synthetic weights", "auto|bf16|f16|f32" },
    { 0, "device", OPT_STR, AT(device), "DEVICE", "cpu or cuda:N; default: a GPU if there is one", NULL },
    { 0, "decode", OPT_CHOICE, AT(decode), "HOW", "decoding steps on a GPU: as graphs or in one kernel",
      "auto|graph|persistent" },
    { 'n', "max-new-tokens", OPT_UINT, AT(max_new_tokens), "N", "stop after N tokens (128)", "1..16777216" },
    { 't', "threads", OPT_UINT, AT(threads), "N", "threads (default 0: one per core)", "0..256" },
    { 0, "exact", OPT_FLAG, AT(exact), NULL, "float arithmetic for quantised and bf16 weights too", NULL },
    { 0, "max-context", OPT_UINT, AT(max_context), "N", "positions of the KV cache", "1..16777216" },
    { 0, "temperature", OPT_DOUBLE, AT(temperature), "T", "sampling temperature; 0, the default: greedy",
      "0.." },
    { 0, "top-k", OPT_UINT, AT(top_k), "K", "sample among the K most likely tokens; 0: all",
      "0..1073741824" },
    { 0, "top-p", OPT_DOUBLE, AT(top_p), "P",
      "sample among the most likely tokens with a total probability of P", "0..1" },
    { 0, "seed", OPT_UINT, AT(seed), "N", "seed of the sampler", NULL },
    { 0, "no-repeat-ngram", OPT_UINT, AT(ngram), "N", "never repeat a sequence of N tokens; 0: off",
      "0..1048576" },
    { 0, "ngram-window", OPT_UINT, AT(window), "N",
      "apply --no-repeat-ngram only to the last N generated tokens", "0..16777216" },
    { 0, "ignore-eos", OPT_FLAG, AT(ignore_eos), NULL, "continue after the end token", NULL },
    { 0, "image-mode", OPT_CHOICE, AT(image_mode), "MODE", "how DeepSeek-OCR splits a page into views",
      "tiny|small|base|large|gundam" },
    { 0, "max-tiles", OPT_UINT, AT(max_tiles), "N", "maximum tiles per page (9)", "1..64" },
    { 0, "trace", OPT_STR, AT(trace), "FILE", "record stages, modules and operators into FILE", NULL },
    { 0, "detail", OPT_CHOICE, AT(detail), "LEVEL", "level of detail of the trace (operators)",
      "stages|modules|operators" },
};

static const char *unit_of(const char *what) {
    return strcmp(what, "weights") == 0 ? "bytes" : strcmp(what, "tokens") == 0 ? "tokens" : NULL;
}

/* Shows one progress line per kind of work. */
static void show_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    static const char *current;
    (void)context;
    /* The generated text already shows the progress. */
    if (strcmp(what, "tokens") == 0 && isatty(STDOUT_FILENO)) {
        if (current) progress_finish();
        current = NULL;
        return;
    }
    if (!current || strcmp(current, what) != 0) {
        if (current) progress_finish();
        progress_start(what, unit_of(what), total);
        current = what;
    }
    progress_update(done);
    if (done >= total) {
        progress_finish();
        current = NULL;
    }
}

static void print_text(void *context, const char *text, size_t n) {
    (void)context;
    progress_clear_line();
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

static bool stdout_works(void *context) {
    (void)context;
    return !ferror(stdout);
}

static enum record_detail detail_of(const struct engine_opts *o) {
    if (!o->trace) return RECORD_NONE;
    if (o->detail && strcmp(o->detail, "stages") == 0) return RECORD_STAGES;
    if (o->detail && strcmp(o->detail, "modules") == 0) return RECORD_MODULES;
    return RECORD_OPERATORS;
}

static void print_speed(const struct engine_result *r) {
    double steps = (double)r->ids.n - 1;
    struct strbuf stages = STRBUF_INIT;
    for (size_t i = 0; i < r->nstages; i++)
        strbuf_addf(&stages, "%s%s %.1f ms", i ? ", " : "", r->stage[i], r->stage_ms[i]);
    if (r->nstages) log_info("vision: %s", stages.buf);
    strbuf_free(&stages);
    log_info("prefill: %zu tokens in %.1f ms (%.1f tokens/s); first token after %.1f ms", r->prompt_tokens,
             r->prefill_ms, (double)r->prompt_tokens / r->prefill_ms * 1e3, r->ttft_ms);
    if (steps > 0)
        log_info("decode: %.0f tokens in %.1f ms (%.1f tokens/s); stopped by %s", steps, r->decode_ms,
                 steps / r->decode_ms * 1e3, engine_stop_name(r->stop));
}

static int answer_prompt(const struct engine_opts *o) {
    struct err err;
    struct engine_result result;
    struct engine_load load = { .model = o->model,
                                .weights = o->weights,
                                .dtype = o->dtype,
                                .device = o->device,
                                .threads = (int)o->threads,
                                .exact = o->exact,
                                .decode = o->decode,
                                .max_context = (int)o->max_context,
                                .progress = show_progress };
    struct engine_request request = { .prompt = o->prompt,
                                      .prompt_len = o->prompt ? strlen(o->prompt) : 0,
                                      .images = o->images.v,
                                      .nimages = o->images.n,
                                      .max_new_tokens = (uint32_t)o->max_new_tokens,
                                      .ignore_eos = o->ignore_eos,
                                      .sampling = { o->temperature, (uint32_t)o->top_k, o->top_p, o->seed },
                                      .no_repeat_ngram =
                                          o->ngram == UINT64_MAX ? ENGINE_MODEL_NGRAM : (int)o->ngram,
                                      .ngram_window = (uint32_t)o->window,
                                      .image_mode = o->image_mode,
                                      .max_tiles = (int)o->max_tiles,
                                      .detail = detail_of(o),
                                      .trace = o->trace,
                                      .on_text = print_text,
                                      .wanted = stdout_works,
                                      .progress = show_progress };
    struct engine *e = engine_open(&load, &err);
    if (!e) return command_fail(&err);
    int rc = engine_infer(e, &request, &result, &err);
    engine_close(e);
    if (rc < 0) return command_fail(&err);
    putchar('\n');
    print_speed(&result);
    engine_result_free(&result);
    return EXIT_DONE;
}

static int serve_protocol(void) {
    struct err err;
    struct protocol *p = protocol_open(build_version(), show_progress);
    int rc = protocol_serve(p, stdin, stdout, &err);
    protocol_close(p);
    return rc < 0 ? command_fail(&err) : EXIT_DONE;
}

static int run_engine(const void *opts, int argc, char **argv) {
    const struct engine_opts *o = opts;
    (void)argc;
    (void)argv;
    if (!o->prompt && !o->images.n) {
        if (memcmp(o, &defaults, sizeof defaults) == 0) return serve_protocol();
        return command_usage("engine: without --prompt or --image the engine serves its protocol on standard "
                             "input and accepts no options: `load` and `infer` requests set them");
    }
    if (o->detail && !o->trace) return command_usage("engine: --detail needs --trace");
    if ((o->image_mode || o->max_tiles) && !o->images.n)
        return command_usage("engine: --image-mode and --max-tiles need an --image");
    return answer_prompt(o);
}

const struct command cmd_engine = {
    .name = "engine",
    .args = "",
    .summary = "run a model on the CPU or a GPU, directly or as a server for `profile`",
    .details =
        "With --prompt or --image: prints the answer as it is generated, and the speed on standard error.\n"
        "Otherwise: reads one JSON request per line and answers each with one line (docs/engine.md).",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct engine_opts),
    .complete = COMPLETE_NOTHING,
    .run = run_engine,
};
