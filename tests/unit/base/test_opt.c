#include <stdbool.h>
#include <stdlib.h>

#include "base/opt.h"
#include "base/util.h"
#include "unit/test.h"

struct sample {
    bool flag, other;
    const char *text, *format;
    uint64_t n, bytes;
    double x;
    struct opt_list list;
};

static const struct opt rows[] = {
    { 'f', "flag", OPT_FLAG, offsetof(struct sample, flag), NULL, "a flag", NULL },
    { 'g', "other", OPT_FLAG, offsetof(struct sample, other), NULL, "another", NULL },
    { 't', "text", OPT_STR, offsetof(struct sample, text), "TEXT", "a text", NULL },
    { 'n', "number", OPT_UINT, offsetof(struct sample, n), "N", "a number", NULL },
    { 0, "size", OPT_BYTES, offsetof(struct sample, bytes), "BYTES", "a size", NULL },
    { 0, "ratio", OPT_DOUBLE, offsetof(struct sample, x), "X", "a ratio", NULL },
    { 0, "format", OPT_CHOICE, offsetof(struct sample, format), NULL, "a format", "csv|json" },
    { 0, "stage", OPT_LIST, offsetof(struct sample, list), "NAME=GLOB", "may be repeated", NULL },
    { 0, "threads", OPT_UINT, offsetof(struct sample, n), "N", "a number with bounds", "1..64" },
    { 0, "peak", OPT_DOUBLE, offsetof(struct sample, x), "X", "a number above a bound", ">0" },
    { 0, "times", OPT_UINT, offsetof(struct sample, n), "N", "a whole number above a bound", ">0" },
    { 0, "delay", OPT_DOUBLE, offsetof(struct sample, x), "X", "a number from a bound", "0.." },
};

static int parse(struct sample *s, struct opt_list *operands, struct err *err, int argc, const char **argv) {
    const struct opt_set set = { rows, COUNTOF(rows), s };
    return opt_parse(&set, 1, false, argc, (char **)argv, operands, err);
}

TEST(opt_parses_every_form_of_every_type) {
    struct sample s = { .other = true };
    struct opt_list operands = { 0 };
    struct err err;
    const char *argv[] = { "one",     "-f",   "--no-other",    "--text=a b", "-n5", "--size",      "64KiB",
                           "--ratio", "1e-3", "--format=json", "--stage",    "a=b", "--stage=c=d", "two",
                           "--",      "-x",   "--flag" };
    CHECK_INT(parse(&s, &operands, &err, COUNTOF(argv), argv), 0);
    CHECK(s.flag && !s.other);
    CHECK_STR(s.text, "a b");
    CHECK_INT(s.n, 5);
    CHECK_INT(s.bytes, 65536);
    CHECK_NEAR(s.x, 1e-3, 0);
    CHECK_STR(s.format, "json");
    CHECK_INT(s.list.n, 2);
    CHECK_STR(s.list.v[1], "c=d");
    CHECK_INT(operands.n, 4);
    CHECK_STR(operands.v[2], "-x");
    free(operands.v);
    free(s.list.v);
}

TEST(opt_does_not_parse_options_of_the_program) {
    static const char *const forms[][6] = { { "-f", "prog", "-n", "--flag", "--", "-x" },
                                            { "-f", "--", "prog", "-n", "--flag", "-x" } };
    for (size_t i = 0; i < COUNTOF(forms); i++) {
        struct sample s = { 0 };
        const struct opt_set set = { rows, COUNTOF(rows), &s };
        struct opt_list operands = { 0 };
        struct err err;
        CHECK_INT(opt_parse(&set, 1, true, 6, (char **)forms[i], &operands, &err), 0);
        CHECK(s.flag && s.n == 0);
        CHECK_INT(operands.n, i == 0 ? 5 : 4);
        CHECK_STR(operands.v[0], "prog");
        CHECK_STR(operands.v[2], "--flag");
        free(operands.v);
    }
}

TEST(opt_reports_each_mistake) {
    static const struct {
        const char *argv[2];
        const char *want;
    } bad[] = {
        { { "--nmber", "3" }, "unknown option --nmber; did you mean --number?" },
        { { "--qqqqqq", "" }, "unknown option --qqqqqq; see --help" },
        { { "-z", "" }, "unknown option -z; see --help" },
        { { "--number", "-3" }, "--number: -3 is negative; expected 0 or more" },
        { { "--number", "-x" }, "--number: '-x' is not a whole number" },
        { { "--number", "99999999999999999999999" },
          "--number: 99999999999999999999999 is too large; at most 18446744073709551615" },
        { { "--threads", "0" }, "--threads: 0 is out of range; expected 1 to 64" },
        { { "--threads", "65" }, "--threads: 65 is out of range; expected 1 to 64" },
        { { "--threads", "99999999999999999999999" },
          "--threads: 99999999999999999999999 is out of range; expected 1 to 64" },
        { { "--times", "0" }, "--times: 0 is out of range; expected more than 0" },
        { { "--times", "99999999999999999999999" },
          "--times: 99999999999999999999999 is too large; at most 18446744073709551615" },
        { { "--peak", "0" }, "--peak: 0 is out of range; expected more than 0" },
        { { "--delay", "-0.1" }, "--delay: -0.1 is out of range; expected 0 or more" },
        { { "--ratio", "nan" }, "--ratio: 'nan' is not a number" },
        { { "--ratio", "1e400" }, "--ratio: 1e400 is too large" },
        { { "--size", "99999999999TB" }, "--size: 99999999999TB is too large" },
        { { "--format", "xml" }, "--format: 'xml' is not one of csv|json" },
        { { "--format", "js" }, "--format: 'js' is not one of csv|json" },
        { { "x", "--text" }, "--text needs a value: TEXT" },
        { { "--flag=1", "" }, "--flag takes no value" },
        { { "--size", "lots" },
          "--size: 'lots' is not a size: expected a number with B, kB, MB, GB, KiB, MiB or GiB" },
    };
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        struct sample s = { 0 };
        struct opt_list operands = { 0 };
        struct err err;
        const char *argv[] = { bad[i].argv[0], bad[i].argv[1] };
        CHECK_INT(parse(&s, &operands, &err, 2, argv), -1);
        CHECK_STR(err.msg, bad[i].want);
        free(operands.v);
    }
}
