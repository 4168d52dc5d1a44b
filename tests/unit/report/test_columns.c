/* The columns of the report's tables. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "report/kernel_columns.h"
#include "report/operator_columns.h"
#include "report/rows.h"
#include "report/stage_columns.h"
#include "unit/test.h"

struct made {
    double ms;
    uint64_t calls;
    const char *name;
};
static struct column_value get_double_ms(const struct column_row *r) {
    return column_f64(2 * ((const struct made *)r->item)->ms);
}
static const struct column made_columns[] = {
    { "ms", "time ms", COLUMN_MS, FIELD(struct made, ms), .data = CSV | JSON, .at = { .md = 30 } },
    { "calls", "calls", COLUMN_COUNT, FIELD(struct made, calls), .data = CSV, .at = { .md = 20 } },
    { "name", "name", COLUMN_TEXT, FIELD(struct made, name), .data = JSON, .at = { .md = 10 } },
    { "twice", .source = GET(get_double_ms), .data = CSV },
};
static const struct column_group made_group = { .columns = made_columns, .n = COUNTOF(made_columns) };
static const struct made made_rows[] = { { 1.5, 1234567, "a" }, { NAN, 0, NULL } };
static const struct column_items made_items = { made_rows, COUNTOF(made_rows), sizeof made_rows[0] };

TEST(columns_for_people_are_formatted_and_ordered_by_position) {
    struct table t;
    struct strbuf out = STRBUF_INIT;
    columns_table(&made_group, 1, COLUMN_DOC_MARKDOWN, NULL, made_items, &t);
    table_markdown(&t, &out);
    CHECK_STR(out.buf, "| name | calls | time ms |\n| --- | ---: | ---: |\n| a | 1,234,567 | 1.50 |\n"
                       "| \xe2\x80\x93 | 0 | \xe2\x80\x93 |\n");
    strbuf_free(&out);
    table_free(&t);
}

TEST(columns_for_programs_have_full_precision_and_the_order_of_the_rows) {
    struct table t;
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    columns_table(&made_group, 1, COLUMN_DOC_CSV, NULL, made_items, &t);
    table_csv(&t, &out);
    CHECK_STR(out.buf, "ms,calls,twice\n1.5,1234567,3\n,0,\n");
    strbuf_reset(&out);
    jsonw_start(&j, &out, JSONW_COMPACT);
    jsonw_object(&j);
    columns_json_array("rows", &made_group, NULL, made_items, SIZE_MAX, &j);
    jsonw_end(&j);
    jsonw_finish(&j);
    CHECK_STR(out.buf, "{\"rows\":[{\"ms\":1.5,\"name\":\"a\"},{\"ms\":null,\"name\":null}]}");
    strbuf_free(&out);
    table_free(&t);
}

static const struct column *find_key(const struct column_group *g, const char *key, unsigned data) {
    for (size_t i = 0; i < g->n; i++)
        if (g->columns[i].key && strcmp(g->columns[i].key, key) == 0 && (g->columns[i].data & data) == data)
            return &g->columns[i];
    return NULL;
}

TEST(kernel_columns_include_every_counter_and_every_ncu_metric) {
    for (int s = 0; s < COUNTER_SLOTS; s++)
        CHECK(find_key(&kernel_columns[1], counter_slot_name((enum counter_slot)s), CSV | JSON) != NULL);
    for (int m = 0; m < KERNEL_PROFILE_METRIC_END; m++)
        CHECK(find_key(&kernel_columns[2], kernel_profile_key((enum kernel_profile_metric)m), CSV | JSON) !=
              NULL);
}

static void check_group(const struct column_group *g) {
    for (size_t i = 0; i < g->n; i++) {
        const struct column *c = &g->columns[i];
        bool shown = c->at.md || c->at.html || c->at.terminal || c->at.summary;
        CHECK(shown || c->data);
        CHECK(!c->data || c->key);
        CHECK(!shown || c->heading);
        CHECK(c->source.get || c->source.type != COLUMN_NONE);
    }
}

TEST(every_column_has_a_key_or_a_heading_and_a_source) {
    for (size_t i = 0; i < COUNTOF(kernel_columns); i++) check_group(&kernel_columns[i]);
    for (size_t i = 0; i < COUNTOF(stage_columns); i++) check_group(&stage_columns[i]);
    for (size_t i = 0; i < COUNTOF(stage_counter_columns); i++) check_group(&stage_counter_columns[i]);
    for (size_t i = 0; i < COUNTOF(operator_columns); i++) check_group(&operator_columns[i]);
    check_group(stage_idle_columns);
    check_group(stage_token_columns);
    check_group(&rows_device_columns);
    check_group(&rows_group_columns);
    check_group(&rows_stability_columns);
    check_group(&rows_power_columns);
}
