#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "import/csv.h"
#include "import/ncu.h"
#include "import/ncu_unit.h"
#include "import/nsys_summary.h"
#include "unit/test.h"

TEST(csv_reads_quotes_line_breaks_and_short_rows) {
    char text[] = "a,\"b \"\"x\"\"\",c\r\n\r\n1,\"two\nlines\"\n,,\n";
    struct csv c;
    csv_open(&c, text, sizeof text - 1);
    CHECK(csv_next(&c));
    CHECK_INT(c.n, 3);
    CHECK_INT(csv_find(&c, "b \"x\""), 1);
    CHECK(csv_next(&c));
    CHECK_INT(c.n, 2);
    CHECK(csv_is(csv_at(&c, 1), "two\nlines"));
    CHECK_INT(csv_at(&c, 2)->n, 0);
    CHECK(csv_next(&c));
    CHECK_INT(c.n, 3);
    CHECK(!csv_next(&c));
    csv_free(&c);
}

TEST(csv_numbers_may_have_thousands_separators) {
    double v;
    CHECK(csv_number(&(struct csv_field){ "4,963,609,951.19", 16 }, &v));
    CHECK_NEAR(v, 4963609951.19, 1e-3);
    CHECK(!csv_number(&(struct csv_field){ "n/a", 3 }, &v));
    CHECK(!csv_number(&(struct csv_field){ "", 0 }, &v));
}

static void check_unit(const char *unit, enum ncu_dimension dimension, double factor) {
    double f;
    CHECK_INT(ncu_unit(unit, strlen(unit), &f), dimension);
    CHECK_NEAR(f / factor, 1, 1e-12);
}

TEST(ncu_units_are_converted) {
    check_unit("usecond", NCU_TIME, 1e3);
    check_unit("nsecond", NCU_TIME, 1);
    check_unit("us", NCU_TIME, 1e3);
    check_unit("ms", NCU_TIME, 1e6);
    check_unit("second", NCU_TIME, 1e9);
    check_unit("Mbyte", NCU_BYTES, 1e6);
    check_unit("Gbyte/s", NCU_BANDWIDTH, 1e9);
    check_unit("byte/second", NCU_BANDWIDTH, 1);
    check_unit("Kbyte/second", NCU_BANDWIDTH, 1e3);
    check_unit("Ghz", NCU_FREQUENCY, 1e9);
    check_unit("cycle/nsecond", NCU_FREQUENCY, 1e9);
    check_unit("inst/cycle", NCU_PLAIN, 1);
    check_unit("register/thread", NCU_PLAIN, 1);
    check_unit("%", NCU_PERCENT, 1);
    check_unit("", NCU_PLAIN, 1);
}

static char *text_copy(const char *text) { return xstrdup(text); }

TEST(ncu_reads_the_details_page) {
    char *text = text_copy(
        "==PROF== Connected to process 7\n"
        "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Section Name\",\"Metric "
        "Name\",\"Metric "
        "Unit\",\"Metric Value\",\"Rule Name\"\n"
        "\"0\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, 1)\",\"SOL\",\"Duration\",\"usecond\",\"6.50\",\n"
        "\"0\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, 1)\",\"SOL\",\"Memory Throughput\",\"%\",\"70\",\n"
        "\"0\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, 1)\",\"Mem\",\"Memory "
        "Throughput\",\"Gbyte/s\",\"357.37\",\n"
        "\"0\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, 1)\",\"SOL\",\"Compute (SM) "
        "Throughput\",\"%\",\"20\"\n"
        "\"0\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, 1)\",\"X\",\"flop_count_hp.sum\",\"\",\"n/a\",\n"
        "\"0\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, 1)\",\"Occ\",\"\",\"\",\"\",\"SomeRule\"\n"
        "\"1\",\"7\",\"k(int)\",\"(32, 4, 1)\",\"(224, 1, "
        "1)\",\"SOL\",\"Duration\",\"nsecond\",\"7,500\",\n");
    struct ncu n;
    struct err err;
    struct ncu_launches classes;
    ncu_init(&n);
    CHECK_INT(ncu_read_text(&n, text, strlen(text), "test", &err), 0);
    CHECK_INT(n.launches.n, 2);
    CHECK_INT(n.rules, 1);
    CHECK_INT(n.not_measured, 1);
    CHECK_INT(n.bad_rows, 0);
    ncu_classes(&n, &classes);
    CHECK_INT(classes.n, 1);
    CHECK_INT(classes.v[0].launches, 2);
    CHECK_NEAR(classes.v[0].value[NCU_DURATION], 7000, 1e-9);
    CHECK_NEAR(classes.v[0].value[NCU_MEMORY], 70, 1e-9);
    CHECK_NEAR(classes.v[0].value[NCU_DRAM_RATE], 357.37e9, 1);
    CHECK(isnan(classes.v[0].value[NCU_L2_HIT]));
    CHECK_STR(ncu_bound(&classes.v[0]), "memory");
    free(classes.v);
    ncu_free(&n);
    free(text);
}

/* Three short launches and a long one. */
TEST(ncu_means_of_ratios_are_weighted_by_duration) {
    char *text = text_copy("\"ID\",\"Process ID\",\"Kernel Name\",\"Duration\",\"SM [%]\",\"Memory [%]\","
                           "\"dram__bytes.sum\",\"Registers Per Thread\"\n"
                           "\"\",\"\",\"\",\"usecond\",\"%\",\"%\",\"Kbyte\",\"\"\n"
                           "\"0\",\"9\",\"k\",\"1\",\"10\",\"20\",\"100\",\"32\"\n"
                           "\"1\",\"9\",\"k\",\"1\",\"10\",\"20\",\"100\",\"32\"\n"
                           "\"2\",\"9\",\"k\",\"1\",\"10\",\"n/a\",\"100\",\"32\"\n"
                           "\"3\",\"9\",\"k\",\"7\",\"30\",\"80\",\"9700\",\"48\"\n");
    struct ncu n;
    struct err err;
    struct ncu_launches classes;
    ncu_init(&n);
    CHECK_INT(ncu_read_text(&n, text, strlen(text), "test", &err), 0);
    ncu_classes(&n, &classes);
    const double *v = classes.v[0].value;
    CHECK_NEAR(v[NCU_DURATION], 2500, 1e-9);
    CHECK_NEAR(v[NCU_SM], (3 * 10 + 7 * 30) / 10.0, 1e-9);
    CHECK_NEAR(v[NCU_MEMORY], (2 * 20 + 7 * 80) / 9.0, 1e-9);
    CHECK_STR(ncu_bound(&classes.v[0]), "memory");
    CHECK_NEAR(v[NCU_DRAM_RATE], 10e6 / 10e-6, 1);
    CHECK_NEAR(v[NCU_REGISTERS], 36, 1e-9);
    free(classes.v);
    ncu_free(&n);
    free(text);
}

TEST(ncu_reads_the_raw_page) {
    char *text = text_copy("\"ID\",\"Process ID\",\"Kernel "
                           "Name\",\"gpu__time_duration.sum\",\"sm__throughput.avg.pct_of_peak_sustained_"
                           "elapsed\",\"dram__bytes_read.sum\"\n"
                           "\"\",\"\",\"\",\"usecond\",\"%\",\"Mbyte\"\n"
                           "\"0\",\"9\",\"copy\",\"2.5\",\"1,000.5\",\"3\"\n\"1\",\"9\",\"copy\",\"n/a\"\n");
    struct ncu n;
    struct err err;
    ncu_init(&n);
    CHECK_INT(ncu_read_text(&n, text, strlen(text), "test", &err), 0);
    CHECK_INT(n.launches.n, 2);
    CHECK_NEAR(n.launches.v[0].value[NCU_DURATION], 2500, 1e-9);
    CHECK_NEAR(n.launches.v[0].value[NCU_DRAM_READ], 3e6, 1e-3);
    CHECK(isnan(n.launches.v[1].value[NCU_DURATION]));
    CHECK(ncu_bound(&n.launches.v[1]) == NULL);
    ncu_free(&n);
    free(text);
}

static void add_calls(void *ctx, const char *name, size_t len, uint64_t calls, uint64_t total_ns) {
    (void)name;
    (void)len;
    ((uint64_t *)ctx)[0] += calls;
    ((uint64_t *)ctx)[1] += total_ns;
}

TEST(nsys_summary_reads_units_from_the_heading) {
    char *text = text_copy(
        "Time (%),Total Time (us),Instances,Avg (us),Name\n90.0,12.5,3,4.1,\"a<b, c>\"\n10.0,bad,1,1,x\n");
    uint64_t sums[2] = { 0 }, bad = 0;
    struct err err;
    CHECK_INT(nsys_summary_read_text(text, strlen(text), "test", add_calls, sums, &bad, &err), 0);
    CHECK_INT(sums[0], 3);
    CHECK_INT(sums[1], 12500);
    CHECK_INT(bad, 1);
    free(text);
}

static enum ncu_stall stall_of(const char *name) {
    enum ncu_stall_source source;
    return ncu_stall_of_metric(name, strlen(name), &source);
}

TEST(ncu_stalls_are_found_by_all_names) {
    CHECK_INT(stall_of("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"),
              NCU_STALL_LONG_SCOREBOARD);
    CHECK_INT(stall_of("smsp__average_warp_latency_issue_stalled_wait.ratio"), NCU_STALL_WAIT);
    CHECK_INT(stall_of("smsp__pcsamp_warps_issue_stalled_no_instructions"), NCU_STALL_NO_INSTRUCTION);
    CHECK_INT(stall_of("smsp__pcsamp_warps_issue_stalled_barrier"), NCU_STALL_BARRIER);
    CHECK_INT(stall_of("smsp__pcsamp_warps_issue_stalled_barrier_not_issued"), NCU_STALL_END);
    CHECK_INT(stall_of("Stall Math Pipe Throttle"), NCU_STALL_MATH);
    CHECK_INT(stall_of("Stall of something"), NCU_STALL_END);
    CHECK_INT(stall_of("Duration"), NCU_STALL_END);
}

TEST(ncu_stalls_are_read_from_advice) {
    static const char text[] = "On average, each warp of this kernel spends 491.9 cycles being stalled "
                               "waiting for a scoreboard dependency on a "
                               "L1TEX (local, global) operation. Consider a barrier. This stall type "
                               "represents about 52.7% of the total average "
                               "of 933.1 cycles between issuing two instructions.";
    double cycles, total;
    CHECK_INT(ncu_stall_of_rule(text, sizeof text - 1, &cycles, &total), NCU_STALL_LONG_SCOREBOARD);
    CHECK_NEAR(cycles, 491.9, 1e-9);
    CHECK_NEAR(total, 933.1, 1e-9);
    CHECK_INT(ncu_stall_of_rule("nothing of the kind", 19, &cycles, &total), NCU_STALL_END);
}

TEST(ncu_reports_the_largest_stall_and_its_share) {
    char text[] = "\"ID\",\"Process ID\",\"Kernel "
                  "Name\",\"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio\","
                  "\"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio\","
                  "\"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio\",\"smsp__pcsamp_warps_"
                  "issue_stalled_wait\"\n"
                  "\"\",\"\",\"\",\"inst\",\"inst\",\"inst\",\"warp\"\n"
                  "\"0\",\"9\",\"k\",\"6\",\"1\",\"3\",\"5000\"\n"
                  "\"1\",\"9\",\"k\",\"8\",\"1\",\"1\",\"7000\"\n";
    struct ncu n;
    struct err err;
    struct ncu_launches classes;
    double pct;
    ncu_init(&n);
    CHECK_INT(ncu_read_text(&n, text, sizeof text - 1, "t", &err), 0);
    ncu_classes(&n, &classes);
    CHECK_INT(classes.n, 1);
    CHECK_STR(ncu_top_stall(&classes.v[0], &pct), "long_scoreboard");
    CHECK_NEAR(pct, 70, 1e-9); /* (6 + 8) / (10 + 10); samples are not mixed in */
    free(classes.v);
    ncu_free(&n);
}
