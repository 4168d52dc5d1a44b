/* Texts about the sources of peaks. */
#include "llm/peak_source.h"
#include "unit/test.h"

#define SHEET "datasheet of H200 SXM, dense bf16"

TEST(a_source_names_each_given_peak) {
    static const struct {
        const char *source, *flops_by, *bytes_by, *want;
        bool datasheet; /* of the result */
    } rows[] = {
        { SHEET, NULL, NULL, SHEET, true },
        { SHEET, "a", NULL, "peak FLOP/s given by a; bandwidth: " SHEET, false },
        { SHEET, NULL, "b", "peak FLOP/s: " SHEET "; bandwidth given by b", true },
        { SHEET, "a", "b", "peak FLOP/s given by a; bandwidth given by b", false },
        { SHEET, "a", "a", "given by a", false },
        { NULL, "a", NULL, "peak FLOP/s given by a", false },
        { "", NULL, "b", "bandwidth given by b", false },
        { NULL, NULL, NULL, "", false },
        /* a saved run with one given peak, and `report` with another */
        { "peak FLOP/s given by a; bandwidth: " SHEET, "c", NULL, "peak FLOP/s given by c; bandwidth: " SHEET,
          false },
        { "peak FLOP/s given by a; bandwidth: " SHEET, NULL, "d",
          "peak FLOP/s given by a; bandwidth given by d", false },
        { "peak FLOP/s: " SHEET "; bandwidth given by b", "c", NULL,
          "peak FLOP/s given by c; bandwidth given by b", false },
        { "peak FLOP/s given by a", "c", NULL, "peak FLOP/s given by c", false },
        { "bandwidth given by b", NULL, "d", "bandwidth given by d", false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct strbuf out = STRBUF_INIT;
        peak_source_add(rows[i].source, rows[i].flops_by, rows[i].bytes_by, &out);
        CHECK_STR(out.buf, rows[i].want);
        CHECK_INT(peak_source_is_datasheet(out.buf), rows[i].datasheet);
        strbuf_free(&out);
    }
}
