/* `inferprof profile`: configuration -> plan -> run -> folder. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "cmd/profile_batches.h"
#include "cmd/tools.h"
#include "conf/interp.h"
#include "conf/secrets.h"
#include "conf/yaml.h"
#include "report/report.h"
#include "report/static_compute.h"
#include "run/predictions.h"
#include "run/profiled.h"
#include "session/hub_cache.h"
#include "session/profile_folder.h"
#include "session/rerun.h"
#include "session/run_dir.h"

#define MAX_CONFIG_BYTES (4u << 20)

struct profile_opts {
    const char *config, *rerun;
    struct opt_list conf_dirs;
    struct tools_opts tools;
    struct batches_opts batches;
    /* short for settings */
    const char *model_path, *input_dir, *repeats, *device;
    bool show_config, dry_run, trust;
};

static const struct opt options[] = {
    { 0, "config", OPT_STR, offsetof(struct profile_opts, config), "FILE",
      "YAML that overrides the built-in configuration", NULL },
    { 0, "conf-dir", OPT_LIST, offsetof(struct profile_opts, conf_dirs), "DIR",
      "folder of configuration groups, searched before the built-in ones", NULL },
    { 0, "rerun", OPT_STR, offsetof(struct profile_opts, rerun), "RUN_DIR", "repeat a finished run", NULL },
    { 0, "trust", OPT_FLAG, offsetof(struct profile_opts, trust), NULL,
      "with --rerun: allow commands other than those of built-in engines", NULL },
    { 0, "ncu", OPT_FLAG, offsetof(struct profile_opts, tools.ncu), NULL,
      "repeat the representative request under Nsight Compute, for the kernels with the most time", NULL },
    { 0, "ncu-top", OPT_UINT, offsetof(struct profile_opts, tools.top), "K",
      "number of kernels for --ncu (10)", "1..1000" },
    { 0, "ncu-stage", OPT_STR, offsetof(struct profile_opts, tools.stage), "STAGE",
      "only kernels of this stage for --ncu", NULL },
    { 0, "nsys", OPT_FLAG, offsetof(struct profile_opts, tools.nsys), NULL,
      "repeat the representative request under Nsight Systems and keep its report", NULL },
    { 0, "tool-limit", OPT_DOUBLE, offsetof(struct profile_opts, tools.limit_s), "S",
      "time limit for a run under Nsight, in seconds (900)", "1..1000000" },
    { 'p', "prompt-tokens", OPT_UINT, offsetof(struct profile_opts, batches.prompt_tokens), "N",
      "measure synthetic prompts of N tokens by batch size, without inputs (512)", "1..10000000" },
    { 'n', "new-tokens", OPT_UINT, offsetof(struct profile_opts, batches.new_tokens), "N",
      "with -p or -b: tokens to generate (128)", "2..10000000" },
    { 'b', "batch", OPT_STR, offsetof(struct profile_opts, batches.batches), "N,...",
      "measure these batch sizes, such as 1,8,32 (1)", NULL },
    { 0, "csv", OPT_FLAG, offsetof(struct profile_opts, batches.csv), NULL, "with -p, -n or -b: print CSV",
      NULL },
    { 0, "json", OPT_FLAG, offsetof(struct profile_opts, batches.json), NULL, "with -p, -n or -b: print JSON",
      NULL },
    { 0, "chart", OPT_STR, offsetof(struct profile_opts, batches.chart), "FILE.svg",
      "with -p, -n or -b: write a chart of the decode rates", NULL },
    { 0, "model-path", OPT_STR, offsetof(struct profile_opts, model_path), "DIR",
      "the same as model.path=DIR", NULL },
    { 0, "input-dir", OPT_STR, offsetof(struct profile_opts, input_dir), "DIR",
      "the same as dataset=images dataset.root=DIR", NULL },
    { 0, "repeats", OPT_STR, offsetof(struct profile_opts, repeats), "N", "the same as repeats=N", NULL },
    { 0, "device", OPT_STR, offsetof(struct profile_opts, device), "NAME", "the same as device=NAME", NULL },
    { 0, "show-config", OPT_FLAG, offsetof(struct profile_opts, show_config), NULL,
      "print the composed configuration with the origin of every value", NULL },
    { 0, "dry-run", OPT_FLAG, offsetof(struct profile_opts, dry_run), NULL,
      "check the configuration and print the plan", NULL },
};

/* The state of one run. */
struct job {
    struct conf *conf;
    struct profile_plan plan;
    struct profile_folder folder;
    struct device_peak peak;
    struct session_result result;
    struct env env;
    struct request_image *images;
    struct profiled_session session;
    struct profiled_run run;
    char *config_yaml, *command;
    uint64_t started_ns;
};

static void job_free(struct job *j) {
    profiled_run_close(&j->run);
    session_result_free(&j->result);
    env_free(&j->env);
    profile_plan_close(&j->plan);
    conf_close(j->conf);
    profile_folder_free(&j->folder);
    free(j->config_yaml);
    free(j->command);
    free(j->images);
}

/* ---- configuration */

/* Without this check, a wrong --conf-dir would silently use the built-in configuration. */
static int check_folders(const struct profile_opts *o, struct err *err) {
    for (size_t i = 0; i < o->conf_dirs.n; i++)
        if (!file_is_dir(o->conf_dirs.v[i]))
            return err_set(err, "%s: not a folder; --conf-dir expects a folder with model/, engine/ etc.",
                           o->conf_dirs.v[i]);
    char *rerun = o->rerun ? file_join(o->rerun, "config.yaml") : NULL;
    struct stat st; /* an empty file, or a pipe, would mean the default configuration */
    bool there = !rerun || (stat(rerun, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0);
    free(rerun);
    if (!there)
        return err_set(
            err,
            "%s: not a run folder: contains no config.yaml, or an empty one; --rerun expects the folder that "
            "'profile' printed",
            o->rerun);
    struct err why;
    int fd = o->config ? file_open_regular(o->config, &why) : -1;
    if (o->config && fd < 0) return err_set(err, "--config %s", why.msg);
    if (fd >= 0) close(fd);
    return 0;
}

/* A stored configuration refers to environment variables instead of secrets. Adds the variables that are not
 * set to the message. */
static void name_missing_variables(const char *config, struct err *err) {
    struct strbuf yaml = STRBUF_INIT, missing = STRBUF_INIT;
    struct err ignored;
    if (file_read(config, MAX_CONFIG_BYTES, &yaml, &ignored) == 0) conf_missing_variables(yaml.buf, &missing);
    if (missing.len) {
        const struct err first = *err;
        err_set(err, "%s; a run folder does not contain secrets: set %s and try again", first.msg,
                missing.buf);
    }
    strbuf_free(&yaml);
    strbuf_free(&missing);
}

/* Adds model.path. For a model of the hub, this is its folder in the local cache, and model.name is added. */
static int add_model(const char *path, struct strlist *words, struct err *err) {
    char *folder = hub_is_id(path) ? hub_cache_find(path, err) : NULL;
    if (hub_is_id(path) && !folder) return -1;
    strlist_add(words, "model.path=%s", folder ? folder : path);
    if (folder) strlist_add(words, "model.name=%s", file_basename(path));
    free(folder);
    return 0;
}

/* Collects the settings of --model-path, --input-dir, --repeats and --device, then the words of the command
 * line. A word without '=' is the model, except ~key. */
static int settings_words(const struct profile_opts *o, int argc, char **argv, struct strlist *words,
                          struct err *err) {
    if (o->model_path && add_model(o->model_path, words, err) < 0) return -1;
    if (o->input_dir) strlist_add(words, "dataset=images");
    if (o->input_dir) strlist_add(words, "dataset.root=%s", o->input_dir);
    if (o->repeats) strlist_add(words, "repeats=%s", o->repeats);
    if (o->device) strlist_add(words, "device=%s", o->device);
    for (int i = 0; i < argc; i++) {
        static const char key[] = "model.path=";
        bool is_path = strncmp(argv[i], key, strlen(key)) == 0,
             is_model = !strchr(argv[i], '=') && argv[i][0] != '~';
        if (is_path || is_model) {
            if (add_model(is_path ? argv[i] + strlen(key) : argv[i], words, err) < 0) return -1;
        } else {
            strlist_add(words, "%s", argv[i]);
        }
    }
    return 0;
}

static struct conf *compose_config(const struct profile_opts *o, int argc, char **argv, struct err *err) {
    char *rerun = o->rerun ? file_join(o->rerun, "config.yaml") : NULL;
    struct conf_request req = { .store = { .dirs = o->conf_dirs.v, .ndirs = o->conf_dirs.n },
                                .file = rerun ? rerun : o->config,
                                .words = (const char *const *)argv,
                                .nwords = (size_t)argc,
                                .now_wall_ns = clock_wall_ns() };
    req.store.builtin = conf_builtin_files(&req.store.nbuiltin);
    struct conf *c = conf_compose(&req, err);
    if (!c && rerun) name_missing_variables(rerun, err);
    free(rerun);
    return c;
}

static int refuse_plan(struct strlist *errors, int status) {
    for (size_t i = 0; i < errors->n; i++) log_error("%s", errors->v[i]);
    strlist_free(errors);
    return status;
}

static int show_config(struct conf *c) {
    struct strbuf out = STRBUF_INIT, choices = STRBUF_INIT;
    struct conf_node *copy = conf_copy(conf_root(c));
    conf_hide_secrets(copy);
    conf_choices_text(c, &choices);
    strbuf_addf(&out, "# composed from %s\n", choices.buf);
    conf_yaml_write(copy, CONF_YAML_ORIGINS, &out);
    conf_node_free(copy);
    fputs(out.buf, stdout);
    strbuf_free(&out);
    strbuf_free(&choices);
    return EXIT_DONE;
}

/* The configuration for --rerun: references are resolved, paths are absolute, secrets are references to
 * environment variables. Caller frees. */
static char *config_text(struct conf *c) {
    struct strbuf out = STRBUF_INIT, choices = STRBUF_INIT;
    struct conf_node *copy = conf_copy(conf_root(c));
    conf_choices_text(c, &choices);
    conf_escape_references(copy);
    conf_hide_secrets(copy);
    strbuf_addf(&out,
                "# The configuration of this run, composed from %s.\n"
                "# To reproduce: inferprof profile --rerun RUN_DIR\n",
                choices.buf);
    conf_yaml_write(copy, CONF_YAML_PLAIN, &out);
    conf_node_free(copy);
    strbuf_free(&choices);
    return strbuf_detach(&out);
}

static void add_option(struct strbuf *out, const char *option, const char *value) {
    strbuf_addf(out, " %s ", option);
    strbuf_add_shell_word(out, value);
}

/* The command line, quoted for a shell, with secrets masked. Caller frees. */
static char *command_line(const struct profile_opts *o, int argc, char **argv) {
    struct strbuf out = STRBUF_INIT;
    strbuf_addstr(&out, "inferprof profile");
    if (o->config) add_option(&out, "--config", o->config);
    if (o->rerun) add_option(&out, "--rerun", o->rerun);
    if (o->trust) strbuf_addstr(&out, " --trust");
    for (size_t i = 0; i < o->conf_dirs.n; i++) add_option(&out, "--conf-dir", o->conf_dirs.v[i]);
    if (o->model_path) add_option(&out, "--model-path", o->model_path);
    if (o->input_dir) add_option(&out, "--input-dir", o->input_dir);
    if (o->repeats) add_option(&out, "--repeats", o->repeats);
    if (o->device) add_option(&out, "--device", o->device);
    if (argc) strbuf_addch(&out, ' ');
    strbuf_add_shell_words(&out, argv, (size_t)argc);
    char *text = strbuf_detach(&out);
    secret_mask(text);
    return text;
}

/* ---- the report */

static int write_static_compute(const struct job *j, struct err *err) {
    struct strbuf json = STRBUF_INIT, md = STRBUF_INIT;
    const struct session_repeat *rep = &j->result.representative;
    const struct request_image *image = &j->images[rep->item];
    const struct static_compute s = {
        .request = { .prompt_tokens = rep->done ? rep->answer.prompt_tokens / rep->answer.batch : NAN,
                     .batch = rep->answer.batch,
                     .image = image->planned ? &image->plan.counts : NULL },
        .model_name = j->plan.model_name,
        .model = j->plan.model,
        .unknown_because = j->plan.model_note.msg,
        .peak = &j->run.info.peak,
        .stages = j->run.timings,
        .costs = j->run.timed_costs,
        .nstages = j->run.nstages
    };
    static_compute_json(&s, &json);
    static_compute_markdown(&s, &md);
    int rc = run_dir_write(j->folder.dir, "static_compute.json", json.buf, json.len, err);
    if (rc == 0) rc = run_dir_write(j->folder.dir, "static_compute.md", md.buf, md.len, err);
    strbuf_free(&json);
    strbuf_free(&md);
    return rc;
}

static int write_files(const struct job *j, const struct view *v, struct err *err) {
    int rc = report_write_assumptions(j->folder.dir, v, err);
    if (rc == 0) rc = write_static_compute(j, err);
    if (rc == 0) rc = report_write_all(j->folder.dir, v, err);
    if (rc == 0 && j->plan.s.output.predictions) rc = predictions_write(&j->session, err);
    return rc;
}

/* Logs the time spent outside the engine, and the memory. */
static void log_own_cost(const struct job *j, uint64_t report_from_ns) {
    uint64_t now = clock_mono_ns();
    struct rusage self;
    getrusage(RUSAGE_SELF, &self);
    log_debug("report written in %.0f ms; outside the engine: %.0f ms in all, %.1f MB of memory",
              (double)(now - report_from_ns) * 1e-6,
              ((double)(now - j->started_ns) - (double)j->result.engine_ns) * 1e-6,
              (double)self.ru_maxrss * 1.024e-3);
}

static void assemble_run(struct job *j) {
    j->images = request_images(&j->plan);
    j->session = (struct profiled_session){ .plan = &j->plan,
                                            .result = &j->result,
                                            .peak = &j->peak,
                                            .images = j->images,
                                            .env = &j->env,
                                            .run_id = j->folder.run_id,
                                            .run_dir = j->folder.dir,
                                            .config_yaml = j->config_yaml,
                                            .command = j->command,
                                            .version = build_version(),
                                            .started_wall_ns = j->folder.started_wall_ns };
    profiled_run_open(&j->run, &j->session);
}

static bool has_results(const struct session_result *r) { return r->done > 0 || r->representative.done; }

/* Writes the report. Prints the summary if the run has results. */
static int write_report(struct job *j, struct err *err) {
    struct strbuf screen = STRBUF_INIT;
    struct view v;
    uint64_t from = clock_mono_ns();
    int rc = profile_folder_add_engine(&j->folder, &j->plan, &j->result, &j->env, err);
    assemble_run(j);
    view_init(&v, &j->run.info);
    if (rc == 0) rc = write_files(j, &v, err);
    if (rc == 0 && has_results(&j->result)) command_screen(&v, STDOUT_FILENO, &screen);
    view_free(&v);
    log_own_cost(j, from);
    if (rc == 0) rc = run_dir_complete(j->folder.dir, err);
    if (rc == 0) printf("%s%s%s\n", screen.buf, screen.len ? "\n" : "", j->folder.dir);
    strbuf_free(&screen);
    return rc;
}

/* ---- Nsight */

static bool run_tools(const struct job *j, const struct profile_opts *o, const struct tools *t) {
    bool ok = true;
    if (o->tools.ncu && !j->run.timeline) {
        strlist_add(t->warnings, "Nsight Compute was not run: the run wrote no trace");
        log_warn("%s", t->warnings->v[t->warnings->n - 1]);
        ok = false;
    } else if (o->tools.ncu) {
        ok = tools_ncu(t, &j->run.analysis);
    }
    if (o->tools.nsys && !interrupt_signal()) ok &= tools_nsys(t);
    return ok;
}

/* Writes the report again, with the results and failures of the tools. */
static void report_again(struct job *j, const struct strlist *more) {
    struct view v;
    struct err err;
    profiled_run_add_tools(&j->run, j->folder.dir, more);
    view_init(&v, &j->run.info);
    if (report_write_all(j->folder.dir, &v, &err) < 0) log_error("%s", err.msg);
    view_free(&v);
}

/* The native engine's own records have the names of operators, and the phases of the persistent kernel are
 * no launches: ncu would find neither. Returns true if kernels must be recorded by the collector. */
static bool prepare_for_ncu(struct profile_plan *p) {
    if (!p->device.cuda || strcmp(p->s.engine.name, "native") != 0) return false;
    if (!p->s.engine.decode || strcmp(p->s.engine.decode, "auto") == 0) p->s.engine.decode = "graph";
    return true;
}

static void skip_tools(struct job *j) {
    struct strlist note = { 0 };
    strlist_add(&note, "--ncu and --nsys were skipped: they need a GPU, and this run was on the CPU.");
    log_warn("%s", note.v[0]);
    report_again(j, &note);
    strlist_free(&note);
}

/* Runs the representative requests again under the tools. Does nothing if the run was on the CPU. Returns
 * false if a tool has no result. */
static bool use_tools(struct job *j, const struct profile_opts *o, const struct session_plan *plan) {
    if (!o->tools.ncu && !o->tools.nsys) return true;
    if (!j->plan.device.cuda) {
        skip_tools(j);
        return true;
    }
    struct strbuf lines = STRBUF_INIT;
    struct strlist env = { 0 }, warnings = { 0 };
    struct err err;
    char *requests = file_join(j->folder.dir, "engine_requests.jsonl"),
         *trace = file_join(j->folder.dir, "nsight.ipt");
    session_replay(plan, trace, &lines, &env);
    bool ok = run_dir_write(j->folder.dir, "engine_requests.jsonl", lines.buf, lines.len, &err) == 0;
    if (!ok) log_error("%s", err.msg);
    const char **set = xcalloc(env.n + 1, sizeof *set);
    for (size_t i = 0; i < env.n; i++) set[i] = env.v[i];
    struct tools t = { .dir = j->folder.dir,
                       .argv = plan->argv,
                       .set = set,
                       .input = requests,
                       .creates = trace,
                       .o = &o->tools,
                       .warnings = &warnings };
    if (ok) ok = run_tools(j, o, &t);
    unlink(trace);
    /* The file stays in the folder, so secrets are masked now. The tools no longer need them. */
    secret_mask(lines.buf);
    if (ok && run_dir_write(j->folder.dir, "engine_requests.jsonl", lines.buf, strlen(lines.buf), &err) < 0)
        log_warn("%s", err.msg);
    report_again(j, &warnings);
    free(set);
    free(trace);
    free(requests);
    strlist_free(&env);
    strlist_free(&warnings);
    strbuf_free(&lines);
    return ok;
}

static int exit_status(const struct session_result *r) {
    if (r->interrupted) return 128 + r->interrupted;
    return r->gave_up || r->done == 0 || !r->representative.done ? EXIT_FAILED : EXIT_DONE;
}

static int run_job(struct job *j, const struct profile_opts *o) {
    struct err err;
    int status = EXIT_FAILED;
    interrupt_watch();
    j->config_yaml = config_text(j->conf);
    env_capture(&j->env, j->plan.has_nvml ? &j->plan.inventory : NULL);
    build_info_env(&j->env);
    if (profile_folder_open(&j->folder, &j->plan, &err) < 0 ||
        profile_folder_write_inputs(&j->folder, &j->plan, j->config_yaml, &j->env, &err) < 0) {
        command_fail(&err);
        goto done;
    }
    log_debug("inferprof %s (commit %s): %s", build_version(), build_commit(), j->command);
    if (o->rerun) profile_folder_compare_inputs(o->rerun, &j->plan.dataset);
    if (j->plan.device.note[0]) log_info("%s", j->plan.device.note);
    log_info("profiling %s with engine %s on %s: %s", j->plan.model_name, j->plan.s.engine.name,
             j->plan.device.label, j->folder.dir);
    device_peak_find(&j->plan, &j->peak);
    bool named = o->tools.ncu && prepare_for_ncu(&j->plan);
    struct session_plan plan = { .settings = &j->plan.s,
                                 .dataset = &j->plan.dataset,
                                 .device = &j->plan.device,
                                 .argv = j->plan.argv,
                                 .trace_dir = j->folder.trace_dir,
                                 .synthetic_page = j->folder.synthetic_page,
                                 .function_names = named };
    session_run(&plan, &j->result);
    if (named)
        strlist_add(
            &j->result.warnings,
            "For --ncu, the native engine ran with engine.decode=%s, and its kernels were recorded by "
            "the collector, under the names of their functions: there are no operators, and recording "
            "takes longer.",
            j->plan.s.engine.decode);
    if (write_report(j, &err) < 0) {
        struct err ignored;
        run_dir_mark(j->folder.dir, "Cannot write the report of this run. The other files are complete.\n",
                     &ignored);
        command_fail(&err);
        goto done;
    }
    status = exit_status(&j->result);
    if (status == EXIT_FAILED)
        log_error("the run %s; report: %s/report.md",
                  has_results(&j->result) ? "did not finish" : "failed and has no results", j->folder.dir);
    else if (status == EXIT_DONE && !use_tools(j, o, &plan))
        status = EXIT_FAILED;
done:
    log_close_file();
    interrupt_unwatch();
    return status;
}

/* Finds errors that a run would report only after minutes. */
static void check_for_dry_run(const struct profile_plan *p, const struct profile_opts *o,
                              struct strlist *errors) {
    profile_plan_check_engine(p, errors);
    const char *asked = p->s.device;
    /* On a CPU the tools are skipped. If a GPU was requested, they are checked even if the GPU is missing. */
    if (p->device.cuda || (strcmp(asked, "cpu") != 0 && strcmp(asked, "auto") != 0))
        tools_missing(&o->tools, errors);
}

static int run(const void *opts, int argc, char **argv) {
    const struct profile_opts *o = opts;
    struct job j = { .started_ns = clock_mono_ns() };
    struct strlist errors = { 0 };
    struct err err;
    int status;
    if (o->config && o->rerun) return command_usage("profile: --config and --rerun exclude each other");
    if (o->trust && !o->rerun) return command_usage("profile: --trust requires --rerun");
    if (tools_misused(&o->tools)) return command_usage("profile: %s", tools_misused(&o->tools));
    if (batches_misused(&o->batches)) return command_usage("profile: %s", batches_misused(&o->batches));
    if (check_folders(o, &err) < 0) return command_fail(&err);
    struct strlist words = { 0 };
    if (settings_words(o, argc, argv, &words, &err) < 0) {
        strlist_free(&words);
        return command_fail(&err);
    }
    j.conf = compose_config(o, (int)words.n, words.v, &err);
    strlist_free(&words);
    if (!j.conf) return command_usage("profile: %s", err.msg);
    if (o->rerun && !o->show_config && rerun_check(o->rerun, conf_root(j.conf), o->trust, &err) < 0) {
        conf_close(j.conf);
        return command_fail(&err);
    }
    profile_plan_open(&j.plan, j.conf, &errors);
    if (o->dry_run && j.plan.argv) check_for_dry_run(&j.plan, o, &errors);
    j.command = command_line(o, argc, argv);
    if (o->show_config && !(errors.n && !j.plan.argv)) {
        strlist_free(&errors); /* the configuration is printed anyway */
        status = show_config(j.conf);
    } else if (errors.n) {
        status = refuse_plan(&errors, j.plan.settings_ok ? EXIT_FAILED : EXIT_MISUSED);
    } else if (o->dry_run) {
        struct strbuf out = STRBUF_INIT;
        if (batches_asked(&o->batches))
            batches_plan_text(&j.plan, &o->batches, &out);
        else
            profile_plan_text(&j.plan, &out);
        fputs(out.buf, stdout);
        strbuf_free(&out);
        status = EXIT_DONE;
    } else if (batches_asked(&o->batches)) {
        status = batches_run(&j.plan, &o->batches);
    } else {
        status = run_job(&j, o);
    }
    job_free(&j);
    return status;
}

const struct command cmd_profile = {
    .name = "profile",
    .args = "[MODEL] [key=value ...]",
    .summary = "run a model on inputs and compare each stage with the hardware limits",
    .details =
        "Without arguments it profiles the embedded model, on a GPU if there is one. Settings are "
        "group=choice, "
        "key.path=value,\n"
        "+key=value and ~key (docs/configuration.md):\n"
        "  inferprof profile model=deepseek_ocr model.path=DIR dataset.root=DIR engine=hf device=cuda:0\n"
        "The run folder is printed last. Ctrl-C ends the run with a report of the results so far.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct profile_opts),
    .max_args = -1,
    .complete = COMPLETE_SETTINGS,
    .run = run,
};
