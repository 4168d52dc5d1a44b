#include "trace/format.h"

#include "base/util.h"

#define ROW(type_, field_, column_) \
    { #field_, TRACE_FIELD_##type_, column_, offsetof(struct RECORD, field_) },
#define RECORD trace_meta
static const struct trace_field meta_fields[] = { TRACE_META_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_range
static const struct trace_field range_fields[] = { TRACE_RANGE_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_launch
static const struct trace_field launch_fields[] = { TRACE_LAUNCH_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_kernel
static const struct trace_field kernel_fields[] = { TRACE_KERNEL_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_copy
static const struct trace_field copy_fields[] = { TRACE_COPY_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_sync
static const struct trace_field sync_fields[] = { TRACE_SYNC_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_sample
static const struct trace_field sample_fields[] = { TRACE_SAMPLE_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_power
static const struct trace_field power_fields[] = { TRACE_POWER_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_gemm
static const struct trace_field gemm_fields[] = { TRACE_GEMM_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_token
static const struct trace_field token_fields[] = { TRACE_TOKEN_FIELDS(ROW) };
#undef RECORD
#define RECORD trace_lost
static const struct trace_field lost_fields[] = { TRACE_LOST_FIELDS(ROW) };
#undef RECORD

#define SCHEMA(name_) \
    { #name_, name_##_fields, COUNTOF(name_##_fields), sizeof(struct trace_##name_) }
static const struct trace_schema schemas[TRACE_KIND_END] = {
    [TRACE_META] = SCHEMA(meta),     [TRACE_RANGE] = SCHEMA(range), [TRACE_LAUNCH] = SCHEMA(launch),
    [TRACE_KERNEL] = SCHEMA(kernel), [TRACE_COPY] = SCHEMA(copy),   [TRACE_SYNC] = SCHEMA(sync),
    [TRACE_SAMPLE] = SCHEMA(sample), [TRACE_POWER] = SCHEMA(power), [TRACE_GEMM] = SCHEMA(gemm),
    [TRACE_TOKEN] = SCHEMA(token),   [TRACE_LOST] = SCHEMA(lost),
};

#define X(id, number, name) [number] = name,
static const char *const kind_names[TRACE_KIND_END] = { TRACE_KINDS(X) };
#undef X

static const char *const reason_names[TRACE_LOST_REASON_END] = {
    [TRACE_LOST_MEMORY] = "memory",
    [TRACE_LOST_DISK] = "disk",
    [TRACE_LOST_SOURCE] = "source",
    [TRACE_LOST_UNTRUSTED] = "untrusted",
};

const struct trace_schema *trace_schema(unsigned kind) {
    return kind < TRACE_KIND_END && schemas[kind].name ? &schemas[kind] : NULL;
}

const char *trace_kind_name(unsigned kind) { return kind < TRACE_KIND_END ? kind_names[kind] : NULL; }

const char *trace_lost_reason_name(unsigned reason) {
    return reason < TRACE_LOST_REASON_END ? reason_names[reason] : NULL;
}
