/* An engine without a model: it implements the protocol of docs/engine.md with fixed numbers, and fails on
 * request.
 *     fake_engine STATE [N=FAULT]...
 * STATE is a file that counts infer requests over all processes started with it, so that a fault occurs
 * once even if the engine is restarted. N is the number of the infer request (0: every request), or `load`
 * or `warmup`. FAULT is one of
 *     crash, exit, hang, garbage, wrong-id, error, partial, flood
 *     deaf       hangs and ignores SIGTERM
 *     int, term  sends that signal to the parent, then hangs
 *     slow       waits a quarter of a second, then answers normally
 * The word `sizes` among the faults makes the work depend on the prompt: its length in bytes times 10 ms of
 * prefill and 28 tokens. The word `batches` announces and accepts batches of up to 8 sequences. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "trace/writer.h"

static const char *state_path;
static char **faults;

static int count_up(void) {
    int n = 0;
    FILE *f = fopen(state_path, "r");
    if (f) {
        if (fscanf(f, "%d", &n) != 1) n = 0;
        fclose(f);
    }
    f = fopen(state_path, "w");
    if (f) {
        fprintf(f, "%d", ++n);
        fclose(f);
    }
    return n;
}

static const char *fault_at(const char *place, int n) {
    for (char **d = faults; *d; d++) {
        const char *eq = strchr(*d, '=');
        size_t len = eq ? (size_t)(eq - *d) : 0;
        if (!eq) continue;
        if (place && strncmp(*d, place, len) == 0 && !place[len]) return eq + 1;
        if (!place && (strcmp(*d, "0") == 0 || atoi(*d) == n || (*d)[0] == '0')) return eq + 1;
    }
    return NULL;
}

static void hang(void) {
    for (;;) pause();
}

/* Returns true if no normal reply must follow. */
static int inject_fault(const char *fault) {
    if (!fault) return 0;
    if (strcmp(fault, "slow") == 0) {
        usleep(250000);
        return 0;
    }
    fprintf(stderr, "fake engine: about to %s\n", fault);
    if (strcmp(fault, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(fault, "exit") == 0) exit(3);
    if (strcmp(fault, "hang") == 0) hang();
    if (strcmp(fault, "deaf") == 0) {
        signal(SIGTERM, SIG_IGN);
        hang();
    }
    if (strcmp(fault, "int") == 0 || strcmp(fault, "term") == 0) {
        kill(getppid(), fault[0] == 'i' ? SIGINT : SIGTERM);
        hang();
    }
    if (strcmp(fault, "garbage") == 0) puts("Traceback (most recent call last):");
    if (strcmp(fault, "wrong-id") == 0) puts("{\"op\":\"infer\",\"id\":999999,\"new_tokens\":1}");
    if (strcmp(fault, "partial") == 0) {
        printf("{\"op\":\"infer\",");
        fflush(stdout);
        exit(0);
    }
    if (strcmp(fault, "flood") == 0)
        for (;;) putchar('x');
    if (strcmp(fault, "error") == 0) puts("{\"op\":\"infer\",\"error\":\"page.png: too dark to read\"}");
    fflush(stdout);
    return 1;
}

static void write_trace(const char *path) {
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    static const struct {
        const char *name;
        uint64_t start, end;
        enum trace_range_category category;
    } ranges[] = { { "prefill", 0, 110000000, TRACE_CATEGORY_STAGE },
                   { "sam", 0, 40000000, TRACE_CATEGORY_STAGE },
                   { "matmul", 1000, 39000000, TRACE_CATEGORY_OP },
                   { "decode", 110000000, 165000000, TRACE_CATEGORY_STAGE },
                   { "matmul", 110001000, 160000000, TRACE_CATEGORY_OP } };
    trace_writer_meta(w, "clock", "unix");
    trace_writer_meta(w, "source", "engine");
    for (size_t i = 0; i < COUNTOF(ranges); i++) {
        struct trace_range r = { .start_ns = 1000000000u + ranges[i].start,
                                 .end_ns = 1000000000u + ranges[i].end,
                                 .thread = 1,
                                 .name = trace_writer_str(w, ranges[i].name),
                                 .category = ranges[i].category,
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
        trace_writer_range(w, &r, 1);
    }
    trace_writer_close(w, &err);
}

static int has_word(const char *word) {
    for (char **d = faults; *d; d++)
        if (strcmp(*d, word) == 0) return 1;
    return 0;
}

static void set(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }

/* Prefill takes 100, 101 or 102 ms in turns, so that median and deviation are not trivial. */
static void answer_infer(json_t *reply, const json_t *request, int n) {
    const char *detail = json_string_value(json_object_get(request, "detail"));
    const char *trace = json_string_value(json_object_get(request, "trace"));
    int tokens = (int)json_integer_value(json_object_get(request, "max_new_tokens"));
    json_t *stages = json_object(), *ids = json_array(), *token_ms = json_array();
    const char *prompt = json_string_value(json_object_get(request, "prompt"));
    size_t size = has_word("sizes") && prompt ? strlen(prompt) : 10;
    if (detail && strcmp(detail, "none") != 0 && trace) write_trace(trace);
    set(reply, "preprocess_ms", json_real(5));
    set(reply, "prefill_ms", json_real(10.0 * (double)size + n % 3));
    set(reply, "decode_ms", json_real(50));
    set(reply, "ttft_ms", json_real(6 + 10.0 * (double)size + n % 3));
    set(stages, "sam", json_real(40));
    set(reply, "stages", stages);
    const json_t *ids_asked = json_object_get(request, "prompt_ids"), *first = json_array_get(ids_asked, 0);
    json_int_t batch = json_is_array(first) ? (json_int_t)json_array_size(ids_asked) : 1;
    json_int_t asked = (json_int_t)json_array_size(json_is_array(first) ? first : ids_asked);
    set(reply, "prompt_tokens", json_integer(ids_asked ? asked * batch : 28 * (json_int_t)size));
    set(reply, "new_tokens", json_integer(tokens * batch));
    set(reply, "batch", json_integer(batch));
    for (int i = 0; i < tokens; i++) {
        json_array_append_new(ids, json_integer(i));
        json_array_append_new(token_ms, json_real(i ? 1.0 : 101.0));
    }
    set(reply, "ids", ids);
    set(reply, "token_ms", token_ms);
    set(reply, "text", json_string("# A title\n\n<b>bold</b> | pipe\n"));
    set(reply, "stop", json_string("length"));
}

static void answer_info(json_t *reply, int loaded) {
    json_t *model = json_object(), *stages = json_array();
    set(reply, "protocol", json_integer(1));
    set(reply, "name", json_string("fake"));
    set(reply, "version", json_string("1"));
    set(reply, "device", json_string("cpu"));
    if (has_word("batches")) set(reply, "max_batch", json_integer(8));
    if (loaded) {
        set(reply, "load_ms", json_real(12));
        set(model, "name", json_string("fake-model"));
        set(model, "dtype", json_string("bf16"));
        set(model, "parameters", json_integer(1000));
        json_array_append_new(stages, json_string("prefill"));
        json_array_append_new(stages, json_string("sam"));
        json_array_append_new(stages, json_string("decode"));
    }
    set(reply, "model", model);
    set(reply, "stages", stages);
}

/* Returns 1 after bye. */
static int serve(const json_t *request) {
    const char *op = json_string_value(json_object_get(request, "op"));
    json_t *reply = json_object();
    int n = 0;
    if (!op) op = "";
    if (strcmp(op, "infer") == 0 && inject_fault(fault_at(NULL, n = count_up()))) goto done;
    if ((strcmp(op, "load") == 0 || strcmp(op, "warmup") == 0) && inject_fault(fault_at(op, 0))) goto done;
    set(reply, "op", json_string(op));
    if (json_object_get(request, "id")) json_object_set(reply, "id", json_object_get(request, "id"));
    if (strcmp(op, "infer") == 0) answer_infer(reply, request, n);
    if (strcmp(op, "hello") == 0 || strcmp(op, "load") == 0) answer_info(reply, op[0] == 'l');
    if (strcmp(op, "warmup") == 0) set(reply, "ms", json_real(160));
    char *text = json_dumps(reply, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
done:
    json_decref(reply);
    return strcmp(op, "bye") == 0;
}

int main(int argc, char **argv) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int bye = 0;
    if (argc < 2) return 2;
    state_path = argv[1];
    faults = argv + 2;
    while (!bye && (n = getline(&line, &cap, stdin)) > 0) {
        json_error_t error;
        json_t *request = json_loadb(line, (size_t)n, 0, &error);
        bye = serve(request);
        json_decref(request);
    }
    free(line);
    return 0;
}
