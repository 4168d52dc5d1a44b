/* How the ranks of a job share the model, by the names of its process groups. */
#include <stdio.h>
#include <string.h>

#include "analyze/rank_groups.h"
#include "unit/test.h"

struct named_group {
    const char *name, *size, *ranks; /* ranks NULL: unknown */
};

static bool split(const char *rank, const char *world, const struct named_group *groups, size_t n,
                  struct rank_split *out, char *why, size_t cap) {
    struct timeline_builder *b = timeline_builder_open();
    const char *reason;
    char key[48];
    timeline_builder_process(b, "a.ipt");
    timeline_builder_meta(b, "rank", rank);
    timeline_builder_meta(b, "world_size", world);
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "group.%zu.name", i);
        timeline_builder_meta(b, key, groups[i].name);
        snprintf(key, sizeof key, "group.%zu.size", i);
        timeline_builder_meta(b, key, groups[i].size);
        snprintf(key, sizeof key, "group.%zu.ranks", i);
        if (groups[i].ranks) timeline_builder_meta(b, key, groups[i].ranks);
    }
    struct context c = { .tl = timeline_builder_finish(b), .texts = intern_open() };
    bool known = rank_groups_split(&c, out, &reason);
    snprintf(why, cap, "%s", reason ? reason : "");
    intern_close(c.texts);
    timeline_close((struct timeline *)c.tl);
    return known;
}
#define SPLIT(rank, world, ...)                                                                      \
    split(rank, world, (const struct named_group[]){ __VA_ARGS__ },                                  \
          sizeof((const struct named_group[]){ __VA_ARGS__ }) / sizeof(struct named_group), &s, why, \
          sizeof why)

TEST(groups_name_how_ranks_share_the_model) {
    struct rank_split s;
    char why[256];
    CHECK(SPLIT("0", "8", { "default_pg", "8", NULL }, { "mesh_tp", "8", "0,1,2,3,4,5,6,7" }));
    CHECK(s.tp == 8 && s.pp == 1 && s.ep == 0);
    /* Megatron: this rank is in the second tensor group; groups of others do not count. */
    CHECK(SPLIT("5", "8", { "TENSOR_MODEL_PARALLEL_GROUP", "2", "4,5" },
                { "TENSOR_MODEL_PARALLEL_GROUP", "4", "0,1,2,3" },
                { "PIPELINE_MODEL_PARALLEL_GROUP", "2", "1,5" }, { "DATA_PARALLEL_GROUP", "2", "5,7" },
                { "TENSOR_AND_DATA_PARALLEL_GROUP", "4", "4,5,6,7" },
                { "EXPERT_MODEL_PARALLEL_GROUP", "2", "5,7" }, { "EXPERT_DATA_PARALLEL_GROUP", "1", "5" }));
    CHECK(s.tp == 2 && s.pp == 2 && s.ep == 2);
    CHECK(SPLIT("0", "4", { "dp", "4", "0,1,2,3" })); /* each rank holds all of the model */
    CHECK(s.tp == 1 && s.pp == 1);
}

TEST(groups_that_do_not_explain_all_ranks_are_refused) {
    struct rank_split s;
    char why[256];
    CHECK(!SPLIT("0", "8", { "default_pg", "8", NULL }, { "17", "4", "0,1,2,3" }));
    CHECK_STR(why, ""); /* no names: the general reason is given */
    CHECK(!SPLIT("0", "8", { "mesh_tp", "2", "0,1" }));
    CHECK(strstr(why, "have 2 ranks together, the job has 8") != NULL);
    CHECK(!SPLIT("0", "8", { "tp", "2", "0,1" }, { "tp:1", "4", NULL }));
    CHECK(strstr(why, "tp groups of different sizes") != NULL);
}
