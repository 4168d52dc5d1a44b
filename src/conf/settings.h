/* The settings of `inferprof profile` as a C struct. schema.c binds every key to a field. Texts and lists
 * point into the configuration tree and are valid as long as the tree exists. Optional values that are not
 * set are NULL, NaN, -1 or false. */
#ifndef CONF_SETTINGS_H
#define CONF_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/node.h"

struct settings {
    int64_t repeats, processes;
    const char *device; /* auto, cpu, cuda:N, GPU-uuid, MIG-id */
    const char *prompt;
    struct {
        const char *name, *path, *dtype, *weights, *prompt, *assume;
        int64_t no_repeat_ngram_size, ngram_window;
        bool ocr;                       /* answers may contain boxes and Markdown */
        const struct conf_node *stages; /* map of stage to module, or NULL */
        struct {
            const char *mode, *crop_mode; /* crop_mode: "true", "false", or NULL */
            int64_t max_tiles, base_size, image_size;
        } preprocess;
    } model;
    struct {
        int64_t max_new_tokens, top_k, no_repeat_ngram_size, ngram_window, context_len_fixed, seed;
        double temperature, top_p;
        bool do_sample, ignore_eos;
        const char *context_len_mode;
    } infer;
    struct {
        const char *name, *kind, *root, *subset_filelist, *prompts;
        const struct conf_node *fallback_patterns; /* list of texts */
        struct {
            int64_t num_epochs, num_samples_per_epoch, seed; /* num_samples_per_epoch -1: all */
            bool randomize;
        } sampling;
    } dataset;
    struct {
        const char *name, *python;
        const struct conf_node *command, *devices;  /* lists of texts */
        const struct conf_node *env, *load, *infer; /* maps, or NULL */
        int64_t threads, max_context;               /* 0: chosen by the engine */
        bool exact;
        const char *decode; /* NULL: chosen by the engine */
        double start_timeout_s, load_timeout_s, request_timeout_s;
    } engine;
    struct {
        const char *preset, *detail;
        int64_t warmup_rounds, rep_max_new_tokens, counter_interval_us, top_k;
        bool warmup_synthetic, record_shapes, counters, gemm_shapes, profile_memory, with_stack;
        const struct conf_node *activities;
    } profiling;
    struct {
        const char *gpu; /* row of the GPU table; NULL: found by the device's name */
        bool power, calibrate;
        int64_t power_interval_ms;
    } hardware;
    struct {
        const char *dir, *run_id;
        bool predictions, viz;
        int64_t min_free_mb;
    } output;
    struct {
        double tflops, gbps;
    } peak;
};

#endif
