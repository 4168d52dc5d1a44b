/* Preprocessing: tokenizer speed in tokens/s and MB/s, with an empty and a filled word cache, and the time to
 * turn a scanned page into views. CPU time, one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "engine/ocr/preprocess.h"
#include "engine/tokenizer/tokenizer.h"
#include "unit/engine-image/noise.h"

#define REPEATS 5

static double cpu_ms(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec * 1e3 + (double)u.ru_utime.tv_usec * 1e-3;
}

static void make_text(struct strbuf *out) {
    static const char *const words[] = { "the",   "kernel", "waits", "for",     "memory,",
                                         "1024",  "tokens", "a",     "second",  "(see",
                                         "Table", "3)",     "and",   "prefill", "does not.\n" };
    uint32_t state = 1;
    while (out->len < 1 << 20) {
        state = state * 1664525u + 1013904223u;
        strbuf_addf(out, "%s%c", words[(state >> 16) % 15], state >> 28 ? ' ' : '\t');
        if (state >> 24 < 40) strbuf_addf(out, "%x ", state); /* words that occur once */
    }
}

static void bench_tokenizer(void) {
    struct strbuf text = STRBUF_INIT;
    struct token_ids ids = { 0 };
    struct err err;
    make_text(&text);
    struct tokenizer *t = tokenizer_open_builtin();
    for (int i = 0; i < 2; i++) {
        ids.n = 0;
        double start = cpu_ms();
        if (tokenizer_encode(t, text.buf, text.len, TOKENIZER_PLAIN, &ids, &err) < 0) die("%s", err.msg);
        double ms = cpu_ms() - start;
        printf("encode, %s: %.2f M tokens/s, %.1f MB/s\n", i ? "again" : "first time",
               (double)ids.n / ms / 1e3, (double)text.len / ms / 1e3);
    }
    struct strbuf out = STRBUF_INIT;
    double start = cpu_ms();
    tokenizer_decode(t, ids.v, ids.n, TOKENIZER_KEEP_SPECIAL, &out);
    printf("decode: %.2f M tokens/s\n", (double)ids.n / (cpu_ms() - start) / 1e3);
    strbuf_free(&text);
    strbuf_free(&out);
    free(ids.v);
    tokenizer_close(t);
}

static void bench_page(void) {
    struct image page;
    struct dsocr_plan plan;
    struct err err;
    double best = 1e9;
    noise_image(1654, 2339, &page); /* A4 at 200 dpi */
    dsocr_plan_make(dsocr_mode("gundam", &err), page.width, page.height, &plan);
    for (int i = 0; i < REPEATS; i++) {
        struct dsocr_views views;
        double start = cpu_ms();
        if (dsocr_views_make(&plan, &page, NULL, &views, &err) < 0) die("%s", err.msg);
        double ms = cpu_ms() - start;
        best = ms < best ? ms : best;
        dsocr_views_free(&views);
    }
    printf("page of 1654 x 2339 to a global view and %d tiles: %.1f ms\n", plan.grid_w * plan.grid_h, best);
    image_free(&page);
}

int main(void) {
    bench_tokenizer();
    bench_page();
    return 0;
}
