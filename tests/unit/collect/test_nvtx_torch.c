#include "collect/nvtx_torch.c"
#include "unit/test.h"

/* "name|detail", or "-" for a text that is not split. */
static const char *split(const char *text) {
    static char shown[600];
    struct torch_name t;
    if (!torch_name_split(text, &t)) return "-";
    snprintf(shown, sizeof shown, "%.*s|%.*s%s%s", (int)t.name_len, text, (int)t.detail_len,
             t.detail ? t.detail : "", t.stack ? "|" : "", t.stack ? t.stack : "");
    return shown;
}

TEST(call_numbers_are_dropped_and_shapes_kept) {
    CHECK_STR(split("aten::mm, op_id = 1014, sizes = [[501, 4096], [4096, 4096]], input_op_ids = [(1012,0), "
                    "(1008,0)]"),
              "aten::mm|sizes = [[501, 4096], [4096, 4096]]");
    CHECK_STR(split("aten::mm, op_id = 0, sizes = [[2, 3]bf16, [3, 4]bf16, []]"),
              "aten::mm|sizes = [[2, 3]bf16, [3, 4]bf16, []]");
    CHECK_STR(split("aten::mm, op_id = 0, sizes = [[2]f32], stack = run.py:main:3;model.py:forward:71"),
              "aten::mm|sizes = [[2]f32]|run.py:main:3;model.py:forward:71");
    CHECK_STR(split("aten::mm, seq = 12, op_id = 1014, sizes = [[], [2]]"), "aten::mm|sizes = [[], [2]]");
    CHECK_STR(split("aten::empty, op_id = 7"), "aten::empty|");
    CHECK_STR(split("AddmmBackward0, seq = 3"), "AddmmBackward0|");
    CHECK_STR(split("aten::t, seq = 3, op_id = 4, input_op_ids = [(1,0)]"), "aten::t|");
}

TEST(texts_of_another_form_are_not_split) {
    static const char *const other[] = { "",
                                         "aten::mm",
                                         ", op_id = 7",
                                         "aten::mm, sizes = [[2]]",
                                         "aten::mm, op_id = ",
                                         "aten::mm, op_id = 7 ",
                                         "aten::mm, op_id = x7",
                                         "aten::mm, op_id = 7, seq = 3",
                                         "aten::mm, op_id = 7, sizes = [[2]",
                                         "aten::mm, op_id = 7, sizes = [[2]]]",
                                         "aten::mm, op_id = 7, sizes = [float]",
                                         "aten::mm, op_id = 7, sizes = ",
                                         "aten::mm, op_id = 7, sizes = [[2]], more",
                                         "load, step 3, op_id = 7" };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) CHECK_STR(split(other[i]), "-");
}

TEST(a_name_too_long_for_an_operator_is_not_split) {
    char text[MAX_NAME + 40];
    memset(text, 'a', MAX_NAME + 1);
    strcpy(text + MAX_NAME + 1, ", op_id = 7");
    CHECK_STR(split(text), "-");
    CHECK(torch_name_split(text + 2, &(struct torch_name){ 0 }));
}
