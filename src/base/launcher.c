#include "base/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

/* Environment variables of one launcher. A number is taken from the first of its two variables that contains
 * a number; the job id joins both. A row applies if `mark` (unless NULL) and a rank are set. The first row
 * that applies is used: launchers nest (torchrun inside srun), and the inner one starts the ranks. */
struct launcher_row {
    const char *name, *mark;
    const char *rank[2], *world_size[2], *local_rank[2], *local_size[2], *node_rank[2];
    const char *restart, *node, *job[2];
};
static const struct launcher_row rows[] = {
    { .name = "user", /* for other launchers */
      .rank = { "INFERPROF_RANK" },
      .world_size = { "INFERPROF_WORLD_SIZE" },
      .local_rank = { "INFERPROF_LOCAL_RANK" },
      .local_size = { "INFERPROF_LOCAL_SIZE" },
      .node_rank = { "INFERPROF_NODE_RANK" },
      .job = { "INFERPROF_JOB" } },
    { .name = "torchrun",
      .mark = "TORCHELASTIC_RUN_ID",
      .rank = { "RANK" },
      .world_size = { "WORLD_SIZE" },
      .local_rank = { "LOCAL_RANK" },
      .local_size = { "LOCAL_WORLD_SIZE" },
      .node_rank = { "GROUP_RANK" },
      .restart = "TORCHELASTIC_RESTART_COUNT",
      .job = { "TORCHELASTIC_RUN_ID", "MASTER_PORT" } },
    { .name = "ray", /* Ray Train and vLLM workers */
      .mark = "RAY_JOB_ID",
      .rank = { "RANK" },
      .world_size = { "WORLD_SIZE" },
      .local_rank = { "LOCAL_RANK" },
      .local_size = { "LOCAL_WORLD_SIZE" },
      .node_rank = { "NODE_RANK" },
      .job = { "RAY_JOB_ID" } },
    { .name = "env", /* set by the program, DeepSpeed, Accelerate or Kubernetes operators */
      .rank = { "RANK" },
      .world_size = { "WORLD_SIZE" },
      .local_rank = { "LOCAL_RANK" },
      .local_size = { "LOCAL_WORLD_SIZE" },
      .node_rank = { "NODE_RANK", "GROUP_RANK" },
      .job = { "MASTER_ADDR", "MASTER_PORT" } },
    { .name = "openmpi",
      .rank = { "OMPI_COMM_WORLD_RANK" },
      .world_size = { "OMPI_COMM_WORLD_SIZE" },
      .local_rank = { "OMPI_COMM_WORLD_LOCAL_RANK" },
      .local_size = { "OMPI_COMM_WORLD_LOCAL_SIZE" },
      .job = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid" } },
    { .name = "mvapich",
      .rank = { "MV2_COMM_WORLD_RANK" },
      .world_size = { "MV2_COMM_WORLD_SIZE" },
      .local_rank = { "MV2_COMM_WORLD_LOCAL_RANK" },
      .local_size = { "MV2_COMM_WORLD_LOCAL_SIZE" },
      .job = { "MPIRUN_ID" } }, /* process id of mpirun_rsh */
    { .name = "pmi",            /* MPICH and Intel MPI */
      .rank = { "PMI_RANK" },
      .world_size = { "PMI_SIZE" },
      .local_rank = { "MPI_LOCALRANKID", "PMI_LOCAL_RANK" },
      .local_size = { "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE" },
      .job = { "PMI_KVS", "PMI_JOBID" } },
    { .name = "slurm", /* job steps, not batch scripts */
      .mark = "SLURM_STEP_NUM_TASKS",
      .rank = { "SLURM_PROCID" },
      .world_size = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS" },
      .local_rank = { "SLURM_LOCALID" },
      .local_size = { "SLURM_STEP_TASKS_PER_NODE" },
      .node_rank = { "SLURM_NODEID" },
      .node = "SLURMD_NODENAME",
      .job = { "SLURM_JOB_ID", "SLURM_STEP_ID" } },
    { .name = "pmix", .rank = { "PMIX_RANK" }, .world_size = { "PMIX_SIZE" }, .job = { "PMIX_NAMESPACE" } },
};

const char *launcher_env(const char *name) { return getenv(name); }

static uint32_t parse_number(const char *text) {
    if (!text || !*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 9)
        return LAUNCHER_UNKNOWN;
    return (uint32_t)strtoul(text, NULL, 10);
}

static uint32_t number_of(const char *const names[2], launcher_get *get) {
    uint32_t v = names[0] ? parse_number(get(names[0])) : LAUNCHER_UNKNOWN;
    return v == LAUNCHER_UNKNOWN && names[1] ? parse_number(get(names[1])) : v;
}

/* For file names: characters other than letters, digits, dots, dashes and underscores become underscores. */
static void keep_name(char *out, size_t cap, const char *text) {
    size_t n = 0;
    for (; *text && n + 1 < cap; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr(".-_", *text);
        out[n++] = plain ? *text : '_';
    }
    out[n] = '\0';
}

static void read_node(struct launcher *out, const struct launcher_row *row, launcher_get *get) {
    const char *node = get("INFERPROF_NODE");
    char host[65] = "";
    if (!node || !*node) node = row && row->node ? get(row->node) : NULL;
    if (!node || !*node) {
        if (gethostname(host, sizeof host) != 0) snprintf(host, sizeof host, "host");
        host[sizeof host - 1] = '\0';
        node = host;
    }
    keep_name(out->node, sizeof out->node, node);
}

static void read_job(struct launcher *out, const struct launcher_row *row, launcher_get *get) {
    char text[128];
    const char *a = row->job[0] ? get(row->job[0]) : NULL, *b = row->job[1] ? get(row->job[1]) : NULL;
    snprintf(text, sizeof text, "%s%s%s", a ? a : "", a && b ? "-" : "", b ? b : "");
    keep_name(out->job, sizeof out->job, text);
}

static bool applies(const struct launcher_row *row, launcher_get *get) {
    if (row->mark && !get(row->mark)) return false;
    return number_of(row->rank, get) != LAUNCHER_UNKNOWN;
}

void launcher_read(struct launcher *out, launcher_get *get) {
    const struct launcher_row *row = NULL;
    for (size_t i = 0; i < COUNTOF(rows) && !row; i++)
        if (applies(&rows[i], get)) row = &rows[i];
    *out = (struct launcher){ .rank = LAUNCHER_UNKNOWN,
                              .world_size = LAUNCHER_UNKNOWN,
                              .local_rank = LAUNCHER_UNKNOWN,
                              .local_size = LAUNCHER_UNKNOWN,
                              .node_rank = LAUNCHER_UNKNOWN };
    read_node(out, row, get);
    if (!row) return;
    out->name = row->name;
    out->rank = number_of(row->rank, get);
    out->world_size = number_of(row->world_size, get);
    out->local_rank = number_of(row->local_rank, get);
    out->local_size = number_of(row->local_size, get);
    out->node_rank = number_of(row->node_rank, get);
    uint32_t restart = row->restart ? parse_number(get(row->restart)) : LAUNCHER_UNKNOWN;
    out->restart = restart == LAUNCHER_UNKNOWN ? 0 : restart;
    /* A rank that is not below the world size comes from the variables of another job. */
    if (out->world_size != LAUNCHER_UNKNOWN && out->rank >= out->world_size)
        out->rank = out->world_size = LAUNCHER_UNKNOWN;
    read_job(out, row, get);
}
