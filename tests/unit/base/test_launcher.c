/* Rank, node and launcher from variables as the launchers really set them. */
#include <string.h>

#include "base/launcher.h"
#include "unit/test.h"

static const char *const *variables; /* NAME, VALUE, ..., NULL */

static const char *get(const char *name) {
    for (const char *const *p = variables; *p; p += 2)
        if (strcmp(p[0], name) == 0) return p[1];
    return NULL;
}

static struct launcher read_all(const char *const *list) {
    struct launcher l;
    variables = list;
    launcher_read(&l, get);
    return l;
}
#define READ(...) read_all((const char *const[]){ __VA_ARGS__, NULL })

TEST(launcher_torchrun_inside_srun_is_torchrun) {
    struct launcher l =
        READ("SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURMD_NODENAME", "gpu7", "RANK", "9",
             "WORLD_SIZE", "16", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "8", "GROUP_RANK", "1",
             "TORCHELASTIC_RUN_ID", "none", "MASTER_PORT", "29500", "TORCHELASTIC_RESTART_COUNT", "2");
    CHECK_STR(l.name, "torchrun");
    CHECK_INT(l.rank, 9);
    CHECK_INT(l.world_size, 16);
    CHECK_INT(l.local_rank, 1);
    CHECK_INT(l.local_size, 8);
    CHECK_INT(l.node_rank, 1);
    CHECK_INT(l.restart, 2);
    CHECK_STR(l.job, "none-29500");
}

TEST(launcher_openmpi_has_no_number_of_the_node) {
    struct launcher l =
        READ("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "3",
             "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "PMIX_RANK", "3", "PMIX_NAMESPACE", "1234@1");
    CHECK_STR(l.name, "openmpi");
    CHECK_INT(l.rank, 3);
    CHECK_INT(l.world_size, 8);
    CHECK_INT(l.local_rank, 3);
    CHECK_INT(l.local_size, 4);
    CHECK_INT(l.node_rank, LAUNCHER_UNKNOWN);
    CHECK_STR(l.job, "1234_1"); /* fit for a file name */
}

TEST(launcher_mvapich_has_one_job_for_all_ranks) {
    struct launcher l = READ("MV2_COMM_WORLD_RANK", "3", "MV2_COMM_WORLD_SIZE", "8", "PMI_ID", "3",
                             "PMI_RANK", "3", "MPIRUN_ID", "4711");
    CHECK_STR(l.name, "mvapich");
    CHECK_STR(l.job, "4711");
}

TEST(launcher_srun_names_the_node) {
    struct launcher l = READ("SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "8", "SLURM_LOCALID", "1",
                             "SLURM_NODEID", "1", "SLURMD_NODENAME", "gpu7", "SLURM_JOB_ID", "77",
                             "SLURM_STEP_ID", "0", "SLURM_STEP_TASKS_PER_NODE", "4(x2)");
    CHECK_STR(l.name, "slurm");
    CHECK_INT(l.rank, 5);
    CHECK_INT(l.local_size, LAUNCHER_UNKNOWN); /* a list, not a number */
    CHECK_STR(l.node, "gpu7");
    CHECK_STR(l.job, "77-0");
}

TEST(launcher_variables_of_a_batch_script_describe_no_rank) {
    struct launcher l = READ("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURMD_NODENAME", "gpu7");
    CHECK(l.name == NULL);
    CHECK_INT(l.rank, LAUNCHER_UNKNOWN);
    CHECK(!launcher_is_rank(&l));
}

TEST(launcher_mpich_ray_and_plain_variables) {
    struct launcher l =
        READ("PMI_RANK", "1", "PMI_SIZE", "4", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2");
    CHECK_STR(l.name, "pmi");
    CHECK_INT(l.local_size, 2);
    l = READ("RAY_JOB_ID", "01000000", "RANK", "2", "WORLD_SIZE", "4", "NODE_RANK", "1");
    CHECK_STR(l.name, "ray");
    CHECK_INT(l.node_rank, 1);
    l = READ("RANK", "2", "WORLD_SIZE", "4");
    CHECK_STR(l.name, "env");
    l = READ("INFERPROF_RANK", "1", "INFERPROF_WORLD_SIZE", "2", "RANK", "7", "INFERPROF_NODE", "n/1");
    CHECK_STR(l.name, "user");
    CHECK_INT(l.rank, 1);
    CHECK_STR(l.node, "n_1");
}

TEST(launcher_ignores_values_that_are_not_a_rank) {
    struct launcher l = READ("RANK", "-1", "WORLD_SIZE", "4");
    CHECK(l.name == NULL);
    l = READ("RANK", "99999999999999", "WORLD_SIZE", "4");
    CHECK(l.name == NULL);
    l = READ("RANK", "4", "WORLD_SIZE", "4");
    CHECK(!launcher_is_rank(&l));
    l = READ("RANK", "0", "WORLD_SIZE", "1");
    CHECK_INT(l.rank, 0);
    CHECK(!launcher_is_rank(&l)); /* one process is not a job of several ranks */
}
