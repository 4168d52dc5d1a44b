#include "trace/format.h"

#include "base/util.h"

#define ROW(kind, type, field, column) \
    { #field, TRACE_FIELD_##type, column, offsetof(struct trace_##kind, field) },
#define X(ID, name, number) \
    static const struct trace_field name##_fields[] = { TRACE_##ID##_FIELDS(ROW, name) };
TRACE_RECORDS(X)
#undef X

#define X(ID, name, number) \
    [number] = { #name, name##_fields, COUNTOF(name##_fields), sizeof(struct trace_##name) },
static const struct trace_schema schemas[TRACE_KIND_END] = { TRACE_RECORDS(X) };
#undef X

const struct trace_schema *trace_schema(unsigned kind) {
    return kind < TRACE_KIND_END && schemas[kind].name ? &schemas[kind] : NULL;
}

#define X(ID, name, number) [number] = #name,
static const char *const kind_names[TRACE_KIND_END] = { TRACE_KINDS(X) };
#undef X

#define X(ID, name) name,
static const char *const category_names[] = { TRACE_RANGE_CATEGORIES(X) };
static const char *const sync_names[] = { TRACE_SYNC_KINDS(X) };
static const char *const token_names[] = { TRACE_TOKEN_KINDS(X) };
static const char *const memory_kind_names[] = { TRACE_MEMORY_KINDS(X) };
static const char *const memory_action_names[] = { TRACE_MEMORY_ACTIONS(X) };
static const char *const op_names[] = { TRACE_COLLECTIVE_OPS(X) };
static const char *const reason_names[] = { TRACE_LOST_REASONS(X) };
#undef X
#define X(ID, name, description) name,
static const char *const copy_names[] = { TRACE_COPY_KINDS(X) };
#undef X
#define X(ID, name, description) description,
static const char *const copy_descriptions[] = { TRACE_COPY_KINDS(X) };
#undef X

#define NAME(names, i) ((i) < COUNTOF(names) ? (names)[i] : NULL)
const char *trace_kind_name(unsigned kind) { return NAME(kind_names, kind); }
const char *trace_range_category_name(unsigned category) { return NAME(category_names, category); }
const char *trace_copy_kind_name(unsigned copy_kind) { return NAME(copy_names, copy_kind); }
const char *trace_copy_kind_description(unsigned copy_kind) { return NAME(copy_descriptions, copy_kind); }
const char *trace_sync_kind_name(unsigned sync_kind) { return NAME(sync_names, sync_kind); }
const char *trace_token_kind_name(unsigned token_kind) { return NAME(token_names, token_kind); }
const char *trace_memory_kind_name(unsigned memory_kind) { return NAME(memory_kind_names, memory_kind); }
const char *trace_memory_action_name(unsigned action) { return NAME(memory_action_names, action); }
const char *trace_lost_reason_name(unsigned reason) { return NAME(reason_names, reason); }
const char *trace_collective_op_name(unsigned op) { return NAME(op_names, op); }
