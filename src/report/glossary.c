#include "report/glossary.h"

#include <string.h>

#include "base/util.h"

#define MFU \
    "model FLOP utilisation: FLOPs that the model needs, per second, as a share of the peak of the device"
#define MBU                                                                                             \
    "memory bandwidth utilisation: bytes that the model must read, per second, as a share of the peak " \
    "bandwidth"
#define ROOFLINE "sum over operators of the larger of FLOPs / peak and bytes / bandwidth"
#define DISTANCE "time divided by the roofline time; 1x is the limit of the hardware"
#define SPREAD "spread: standard deviation of repeats of the same input (CV x mean)"
#define BUSY "share of the time in which at least one kernel or copy of the stage runs"

static const struct glossary_term legend[] = {
    { "MFU", MFU },
    { "MBU", MBU },
    { "roofline time", ROOFLINE },
    { "distance", DISTANCE },
    { "busy", BUSY },
    { "timed, recorded",
      "timed: repeats without recording, the source of latencies. Recorded: one run under the "
      "collector, the source of shares, kernels and idle time" },
    { "\u00b1", SPREAD },
};

static const struct glossary_term rank_legend[] = {
    { "rank", "number of the process in the job; each rank has its own GPUs" },
    { "step ms", "time of one step, for example of one decode step" },
    { "compute", "time in which kernels other than communication run" },
    { "exposed", "time in which only communication runs: waiting and moving" },
    { "waiting", "exposed time until the last rank has started the same collective" },
    { "moving", "the rest of the exposed time, in which data is moved" },
    { "idle", "time without a running kernel or copy" },
    { "late", "mean time from the arrival of the first rank at a collective to the arrival of this one" },
    { "skew", "time from the arrival of the first rank at a collective to that of the last" },
    { "bus GB/s", "bus bandwidth as nccl-tests defines it, over the median moving time" },
    { "tp, pp, dp", "index of the rank in the tensor, pipeline and data parallel groups" },
    { "MFU", MFU },
    { "MBU", MBU },
    { "roofline ms", ROOFLINE },
};

/* Headings in microseconds end in "us" here, although the page shows a micro sign. */
static const struct glossary_term terms[] = {
    { "MFU", MFU },
    { "MBU", MBU },
    { "MFU (recorded)", MFU ", in the recorded run" },
    { "MBU (recorded)", MBU ", in the recorded run" },
    { "roofline ms", ROOFLINE },
    { "distance", DISTANCE },
    { "busy", BUSY },
    { "GPU busy", BUSY },
    { "GPU idle", "share of the time without a running kernel or copy" },
    { "idle", "share of the time without a running kernel or copy" },
    { "stage", "part of the work, by annotation or as recognised" },
    { "time ms", "time of one occurrence: the median of the timed repeats, or from the trace" },
    { "timed ms", "median of the repeats without recording" },
    { "GPU busy ms", "time of one occurrence with a running kernel or copy; of the recorded run, if the "
                     "stage was also timed" },
    { "busy ms", "time with a running kernel or copy" },
    { "kernels", "kernels per occurrence" },
    { "launches/token", "kernel launches per generated token" },
    { "tokens", "tokens of one occurrence" },
    { "tokens/s", "tokens per second of the stage" },
    { "idle ms", "time without a running kernel" },
    { "launch gap", "idle because the host had not launched the next kernel yet" },
    { "host synchronisation", "idle because the host waited for the device before it launched more" },
    { "dependency between streams", "idle because the next kernel waited for another stream" },
    { "kernel-to-kernel latency", "idle between two kernels that were both in the queue" },
    { "copy", "idle while a copy ran" },
    { "no work", "idle because the program did not launch anything for longer than the launch latency" },
    { "unknown", "the trace does not contain the cause" },
    { "removable by CUDA graph", "launch gaps that one launch of a CUDA graph would avoid" },
    { "mean depth", "mean number of launches that wait when a kernel starts" },
    { "queue empty", "share of kernels that started with no other launch waiting" },
    { "call interval us", "median time from one launch call to the next" },
    { "call time us", "median time that a launch call takes" },
    { "call to start us",
      "median time from the end of a launch call to the start of its kernel: launch latency and wait in the "
      "queue" },
    { "device", "device number in its file" },
    { "part", "stage, time between steps, or unrecorded time" },
    { "steps", "number of occurrences" },
    { "share", "share of the total of this table" },
    { "communication ms", "time of communication kernels" },
    { "overlapped", "share of the communication time in which another kernel ran as well" },
    { "exposed ms", "communication time in which no other kernel ran" },
    { "share of busy time", "share of the time in which a kernel ran" },
    { "step", "kind of a recognised step" },
    { "labelled", "kind that the program's labels name, if it is another one" },
    { "certain", "steps whose kind and tokens follow from the evidence without doubt" },
    { "tokens per step", "median number of tokens of a step" },
    { "requests per step", "median number of sequences of a step" },
    { "median ms", "half of the values are smaller" },
    { "p90 ms", "90% of the values are smaller" },
    { "p99 ms", "99% of the values are smaller" },
    { "p99 or max ms", "99% of the steps are faster; with fewer than 100 steps, the slowest" },
    { "max ms", "largest value" },
    { "worst ms", "slowest step" },
    { "what differed in the worst", "difference of the slowest step from the median step" },
    { "phase", "phase of the process" },
    { "copied to the GPU GB", "data copied from the host to the device" },
    { "GB/s", "bytes per second" },
    { "role", "role of the kernel in a layer of the model" },
    { "ms per token", "time per generated token" },
    { "figure", "measured quantity" },
    { "unit", "unit of the values" },
    { "median", "half of the values are smaller" },
    { "mean", "arithmetic mean" },
    { "std", "standard deviation (n-1) of all values, also those of different inputs" },
    { "min", "smallest value" },
    { "max", "largest value" },
    { "p90", "90% of the values are smaller" },
    { "CV", "coefficient of variation: standard deviation / mean, within one input" },
    { "95% CI of the mean", "confidence interval of the mean" },
    { "n", "number of values" },
    { "total", "sum of all values" },
    { "drift", "change from the first to the last repeat, along a fitted line" },
    { "outliers", "values far outside the others" },
    { "failed", "repeats that ended with an error" },
    { "verdict", "whether the spread allows conclusions" },
    { "recorded / timed", "time of the recorded run divided by the timed median: the cost of recording" },
    { "covered", "share of the stage's time with counter samples" },
    { "DRAM", "memory throughput from hardware counters, as a share of its peak" },
    { "DRAM measured",
      "memory throughput from hardware counters while the role runs, as a share of its peak" },
    { "DRAM GB/s", "memory throughput from hardware counters" },
    { "tensor", "share of the time in which the tensor pipes were active" },
    { "at peak clock", "the same, as if the clock were at its maximum" },
    { "SM", "share of the time in which the SMs were active" },
    { "achieved occupancy", "active warps as a share of the maximum, measured" },
    { "occupancy", "theoretical occupancy: warps that fit, as a share of the maximum" },
    { "SM clock GHz", "mean clock of the SMs" },
    { "energy J", "energy of the recorded run, from NVML" },
    { "mean W", "mean power" },
    { "max W", "largest power sample" },
    { "SM MHz busy", "mean clock while kernels ran" },
    { "SM MHz max", "highest clock during the recording" },
    { "idle J", "energy while no kernel ran" },
    { "throttled ms", "time with a lowered clock" },
    { "by", "reason of the lowered clock" },
    { "J/token (recorded)", "energy per generated token in the recorded run" },
    { "kernel", "short name; the full name is below" },
    { "operator", "operator of the framework or engine" },
    { "calls", "number of calls" },
    { "total ms", "sum over all calls" },
    { "self ms", "total without nested operators" },
    { "device ms", "time of the kernels that the operator launched" },
    { "device self ms", "the same, without nested operators" },
    { "device share", "share of the device time" },
    { "mean us", "mean duration of a call" },
    { "p99 us", "99% of the calls are faster" },
    { "bound", "what limits it: memory or compute" },
    { "category", "kind of kernel, from its name" },
    { "grid / threads", "blocks per launch / threads per block" },
    /* jobs of several ranks */
    { "rank", "number of the process in the job" },
    { "ranks", "ranks of the job that take part" },
    { "ranks with data", "ranks of the node that have a trace" },
    { "with data", "ranks of the communicator that have a trace" },
    { "state", "whether the trace of the rank is complete" },
    { "node", "machine" },
    { "nodes", "number of machines" },
    { "GPU", "name of the GPU of the rank" },
    { "tp, pp, dp", "index of the rank in the tensor, pipeline and data parallel groups" },
    { "step ms", "mean time of one step of the slowest rank" },
    { "compute", "share of the time in which kernels other than communication run" },
    { "exposed", "share of the time in which only communication runs" },
    { "waiting", "exposed time until the last rank has started the same collective, as a share of the time" },
    { "moving", "the rest of the exposed time, as a share of the time" },
    { "compute ms, slowest rank", "compute time per step of the rank that computes longest" },
    { "fastest rank", "compute time per step of the rank that computes shortest, in ms" },
    { "latest rank", "rank of the node with the latest mean arrival at collectives" },
    { "late us", "mean time from the arrival of the first rank at a collective to the arrival of this one" },
    { "arrived last", "number of collectives at which this rank arrived last" },
    { "SM MHz", "mean clock of the SMs while kernels ran" },
    { "J", "energy of the recorded run, from NVML" },
    { "throttled", "share of the time with a lowered clock" },
    { "operation", "collective, send or receive" },
    { "bytes", "bytes per call" },
    { "type", "type of the elements" },
    { "matched", "calls whose records were found on all ranks with data" },
    { "moving us, median", "median time from the arrival of the last rank to the end" },
    { "skew us, median", "median time from the arrival of the first rank to that of the last" },
    { "bus GB/s", "bus bandwidth as nccl-tests defines it, over the median moving time" },
    { "link", "slowest link between the ranks" },
    { "link GB/s", "bandwidth of the link, from the table of links or the command line" },
    { "of the link", "bus bandwidth divided by the bandwidth of the link" },
    { "communicator", "id of the communicator in the trace" },
    { "name", "name of the process group" },
    { "size", "number of ranks in the communicator" },
    { "source", "where the values come from" },
    { "clock", "ranks with the same number share a clock" },
    { "offset us", "offset of the clock from the clock of the job" },
    { "drift ppm", "drift of the clock against the clock of the job" },
    { "drift error ppm", "half the 95% interval of the drift" },
    { "steps us", "how far the clock was set while the job ran; removed from the times if there are traces" },
    { "error us", "uncertainty of the aligned times" },
    { "segments", "straight lines that the offset over time is divided into" },
    { "collectives", "collectives that the clock was fitted to" },
};

const struct glossary_term *glossary_legend(size_t *n) {
    *n = COUNTOF(legend);
    return legend;
}

const struct glossary_term *glossary_rank_legend(size_t *n) {
    *n = COUNTOF(rank_legend);
    return rank_legend;
}

static const char *find_term(const char *heading, size_t n) {
    for (size_t i = 0; i < COUNTOF(terms); i++)
        if (strlen(terms[i].term) == n && strncmp(terms[i].term, heading, n) == 0) return terms[i].help;
    return NULL;
}

const char *glossary_help(const char *heading) {
    const char *help = find_term(heading, strlen(heading));
    const char *run = strstr(heading, " (timed)");
    if (!run) run = strstr(heading, " (recorded)");
    /* Most terms mean the same in both runs. */
    return help || !run ? help : find_term(heading, (size_t)(run - heading));
}
