/* Writes the result of `inferprof profile MODEL -p N -n N -b N,...` as a table, CSV, JSON or chart. */
#ifndef REPORT_BENCH_TABLE_H
#define REPORT_BENCH_TABLE_H

#include "base/strbuf.h"
#include "run/bench.h"

void bench_text(const struct bench *b, size_t width, struct strbuf *out);
void bench_csv(const struct bench *b, struct strbuf *out);
void bench_json(const struct bench *b, struct strbuf *out);
/* tokens/s and roof by batch size */
void bench_svg(const struct bench *b, struct strbuf *out);

#endif
