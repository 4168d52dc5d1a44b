/* Tables that `inferprof export --format sqlite` adds to those of Nsight Systems: power, tokens, GEMM
 * shapes. */
#include "import/nsys_internal.h"

static uint32_t u32_or_unknown(const struct nsys_rows *r, int column) {
    uint64_t v = nsys_u64(r, column, TRACE_UNKNOWN_U32);
    return v < TRACE_UNKNOWN_U32 ? (uint32_t)v : TRACE_UNKNOWN_U32;
}

static uint32_t u32_or_0(const struct nsys_rows *r, int column) {
    uint64_t v = nsys_u64(r, column, 0);
    return v < UINT32_MAX ? (uint32_t)v : 0;
}

static void read_power(struct nsys *n) {
    enum { TIME, DEVICE, POWER, ENERGY, SM, MEMORY, TEMPERATURE, REASONS };
    static const char *const columns[] = { "timestamp",          "deviceId",        "powerMilliwatts",
                                           "energyMillijoules",  "smClockMhz",      "memoryClockMhz",
                                           "temperatureCelsius", "throttleReasons", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "INFERPROF_POWER", columns, NULL))
        while (nsys_rows_next(&r)) {
            struct trace_power p = { .device = u32_or_0(&r, DEVICE),
                                     .power_mw = u32_or_unknown(&r, POWER),
                                     .energy_mj = nsys_u64(&r, ENERGY, 0),
                                     .sm_mhz = u32_or_unknown(&r, SM),
                                     .memory_mhz = u32_or_unknown(&r, MEMORY),
                                     .temperature_c = u32_or_unknown(&r, TEMPERATURE),
                                     .throttle_reasons = nsys_u64(&r, REASONS, 0) };
            uint64_t end;
            if (nsys_interval(n, &r, TIME, TIME, &p.time_ns, &end)) sink_power(n->sink, &p);
        }
    nsys_end(n, &r);
}

static void read_tokens(struct nsys *n) {
    enum { TIME, THREAD, REQUEST, COUNT, KIND };
    static const char *const columns[] = { "timestamp", "globalTid", "request", "count", "kind", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "INFERPROF_TOKENS", columns, NULL))
        while (nsys_rows_next(&r)) {
            struct trace_token t = { .request = nsys_u64(&r, REQUEST, 0),
                                     .count = u32_or_0(&r, COUNT),
                                     .token_kind = u32_or_0(&r, KIND),
                                     .thread = nsys_thread(n, nsys_u64(&r, THREAD, NSYS_NO_PROCESS)) };
            uint64_t end;
            if (nsys_interval(n, &r, TIME, TIME, &t.time_ns, &end)) sink_token(n->sink, &t);
        }
    nsys_end(n, &r);
}

static void read_gemms(struct nsys *n) {
    enum { TIME, THREAD, CORRELATION, M, N, K, BATCH, TYPES, LAYOUT, ALGORITHM };
    static const char *const columns[] = { "start", "globalTid", "correlationId", "m",           "n", "k",
                                           "batch", "typesId",   "layoutId",      "algorithmId", NULL };
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "INFERPROF_GEMMS", columns, NULL))
        while (nsys_rows_next(&r)) {
            uint64_t thread = nsys_u64(&r, THREAD, NSYS_NO_PROCESS), end;
            struct trace_gemm g = { .m = nsys_u64(&r, M, 0),
                                    .n = nsys_u64(&r, N, 0),
                                    .k = nsys_u64(&r, K, 0),
                                    .batch = nsys_u64(&r, BATCH, 0),
                                    .thread = nsys_thread(n, thread),
                                    .types = nsys_string_text(n, nsys_i64(&r, TYPES, -1)),
                                    .layout = nsys_string_text(n, nsys_i64(&r, LAYOUT, -1)),
                                    .algorithm = nsys_string_text(n, nsys_i64(&r, ALGORITHM, -1)) };
            if (!nsys_null(&r, CORRELATION))
                g.correlation = nsys_correlation(n, thread, nsys_u64(&r, CORRELATION, 0));
            if (nsys_interval(n, &r, TIME, TIME, &g.start_ns, &end)) sink_gemm(n->sink, &g);
        }
    nsys_end(n, &r);
}

void nsys_read_own(struct nsys *n) {
    read_power(n);
    read_tokens(n);
    read_gemms(n);
}
