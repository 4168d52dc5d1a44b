/* `inferprof profile`: configuration -> plan -> run -> folder. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "cmd/profile_costs.h"
#include "cmd/profile_files.h"
#include "cmd/profile_plan.h"
#include "cmd/profile_results.h"
#include "cmd/tools.h"
#include "conf/interp.h"
#include "conf/yaml.h"
#include "report/run.h"
#include "session/env.h"
#include "session/run_dir.h"
#include "session/session.h"
#include "session/synthetic_page.h"

#define SYNTHETIC_WIDTH 1240 /* A4 at 150 dots an inch */
#define SYNTHETIC_HEIGHT 1754

struct profile_opts {
    const char *config, *rerun;
    struct opt_list conf_dirs;
    struct tools_opts tools;
    bool show_config, dry_run;
};

static const struct opt options[] = {
    { 0, "config", OPT_STR, offsetof(struct profile_opts, config), "FILE",
      "YAML laid over the built-in configuration", NULL },
    { 0, "conf-dir", OPT_LIST, offsetof(struct profile_opts, conf_dirs), "DIR",
      "folder of configuration groups in front of the built-in ones", NULL },
    { 0, "rerun", OPT_STR, offsetof(struct profile_opts, rerun), "RUN_DIR", "repeat a finished run", NULL },
    { 0, "ncu", OPT_FLAG, offsetof(struct profile_opts, tools.ncu), NULL,
      "run the representative request again under Nsight Compute, for the kernels with the most time", NULL },
    { 0, "ncu-top", OPT_UINT, offsetof(struct profile_opts, tools.top), "K", "how many kernels (10)",
      "1..1000" },
    { 0, "ncu-stage", OPT_STR, offsetof(struct profile_opts, tools.stage), "STAGE",
      "kernels of this stage alone", NULL },
    { 0, "nsys", OPT_FLAG, offsetof(struct profile_opts, tools.nsys), NULL,
      "run it again under Nsight Systems and keep its report", NULL },
    { 0, "tool-limit", OPT_DOUBLE, offsetof(struct profile_opts, tools.limit_s), "S",
      "seconds that a run under one of these may take (900)", "1..1000000" },
    { 0, "show-config", OPT_FLAG, offsetof(struct profile_opts, show_config), NULL,
      "print the composed configuration with the origin of every value", NULL },
    { 0, "dry-run", OPT_FLAG, offsetof(struct profile_opts, dry_run), NULL,
      "check everything and print the plan", NULL },
};

/* Everything that belongs to one run, released in one place. */
struct job {
    struct conf *conf;
    struct profile_plan plan;
    struct profile_run run;
    struct profile_peak peak;
    struct session_result result;
    struct env env;
    struct profile_image *images;
    char *run_dir, *run_id, *config_yaml, *command, *trace_dir, *synthetic;
    uint64_t started_ns;
};

static void job_free(struct job *j) {
    session_result_free(&j->result);
    env_free(&j->env);
    profile_plan_close(&j->plan);
    conf_close(j->conf);
    char *texts[] = { j->run_dir, j->run_id, j->config_yaml, j->command, j->trace_dir, j->synthetic };
    for (size_t i = 0; i < COUNTOF(texts); i++) free(texts[i]);
    free(j->images);
}

/* ---- configuration */

/* A folder that is not there would silently leave the built-in configuration in its place. */
static int check_folders(const struct profile_opts *o, struct err *err) {
    for (size_t i = 0; i < o->conf_dirs.n; i++)
        if (!file_is_dir(o->conf_dirs.v[i]))
            return err_set(err,
                           "%s: not a folder; --conf-dir takes one that holds model/, engine/ and the like",
                           o->conf_dirs.v[i]);
    char *rerun = o->rerun ? file_join(o->rerun, "config.yaml") : NULL;
    bool there = !rerun || file_exists(rerun);
    free(rerun);
    if (!there)
        return err_set(
            err, "%s: not a run folder: no config.yaml in it; --rerun takes the folder 'profile' printed",
            o->rerun);
    if (o->config && access(o->config, R_OK) < 0)
        return err_set(err, "--config %s: %s", o->config, strerror(errno));
    return 0;
}

static struct conf *compose(const struct profile_opts *o, int argc, char **argv, struct err *err) {
    char *rerun = o->rerun ? file_join(o->rerun, "config.yaml") : NULL;
    struct conf_request req = { .store = { .dirs = o->conf_dirs.v, .ndirs = o->conf_dirs.n },
                                .file = rerun ? rerun : o->config,
                                .words = (const char *const *)argv,
                                .nwords = (size_t)argc,
                                .now_wall_ns = clock_wall_ns() };
    req.store.builtin = conf_builtin_files(&req.store.nbuiltin);
    struct conf *c = conf_compose(&req, err);
    free(rerun);
    return c;
}

static int refuse(struct strlist *problems, int status) {
    for (size_t i = 0; i < problems->n; i++) log_error("%s", problems->v[i]);
    strlist_free(problems);
    return status;
}

static int show_config(struct conf *c) {
    struct strbuf out = STRBUF_INIT, choices = STRBUF_INIT;
    conf_choices_text(c, &choices);
    strbuf_addf(&out, "# composed from %s\n", choices.buf);
    conf_yaml_write(conf_root(c), CONF_YAML_ORIGINS, &out);
    fputs(out.buf, stdout);
    strbuf_free(&out);
    strbuf_free(&choices);
    return EXIT_DONE;
}

/* Runnable: no reference left, paths absolute. Caller frees. */
static char *config_text(struct conf *c) {
    struct strbuf out = STRBUF_INIT, choices = STRBUF_INIT;
    struct conf_node *copy = conf_copy(conf_root(c));
    conf_choices_text(c, &choices);
    conf_escape_references(copy);
    strbuf_addf(
        &out,
        "# The configuration of this run, composed from %s.\n# Again: inferprof profile --rerun RUN_DIR\n",
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

/* As it was typed, so that a shell takes it again. Caller frees. */
static char *command_line(const struct profile_opts *o, int argc, char **argv) {
    struct strbuf out = STRBUF_INIT;
    strbuf_addstr(&out, "inferprof profile");
    if (o->config) add_option(&out, "--config", o->config);
    if (o->rerun) add_option(&out, "--rerun", o->rerun);
    for (size_t i = 0; i < o->conf_dirs.n; i++) add_option(&out, "--conf-dir", o->conf_dirs.v[i]);
    if (argc) strbuf_addch(&out, ' ');
    strbuf_add_shell_words(&out, argv, (size_t)argc);
    return strbuf_detach(&out);
}

/* ---- before the engine starts */

/* Inputs whose content is not what it was in the run that is repeated. */
static void compare_inputs(const char *old_run, const struct dataset *d) {
    char *path = file_join(old_run, "inputs.yaml");
    struct strbuf text = STRBUF_INIT;
    struct err err;
    struct conf_node *old =
        file_read(path, 64u << 20, &text, &err) == 0 ? conf_yaml_parse(text.buf, text.len, path, &err) : NULL;
    const struct conf_node *list = old ? conf_get(old, "inputs") : NULL;
    if (!list) log_warn("cannot compare the inputs with those of %s", old_run);
    for (size_t i = 0; list && i < d->n; i++)
        for (size_t k = 0; d->v[i].used && k < list->n; k++) {
            const struct conf_node *name = conf_get(list->v[k], "name"),
                                   *sum = conf_get(list->v[k], "sha256");
            if (name && sum && name->text && sum->text && strcmp(name->text, d->v[i].name) == 0 &&
                strcmp(sum->text, d->v[i].sha256) != 0)
                log_warn("%s is not the file it was in %s", d->v[i].name, old_run);
        }
    conf_node_free(old);
    strbuf_free(&text);
    free(path);
}

static int write_text(const struct job *j, const char *name, struct strbuf *text, struct err *err) {
    int rc = run_dir_write(j->run_dir, name, text->buf, text->len, err);
    strbuf_free(text);
    return rc;
}

/* Where the run took place is written down before it starts: a killed run keeps it. */
static int write_provenance(struct job *j, struct err *err) {
    struct strbuf env = STRBUF_INIT, inputs = STRBUF_INIT;
    env_capture(&j->env, j->plan.has_nvml ? &j->plan.inventory : NULL);
    build_info_env(&j->env);
    env_add(&j->env, "Run", "device", "%s (%s)", j->plan.device.label, j->plan.device.name);
    env_json(&j->env, &env);
    dataset_yaml(&j->plan.dataset, &inputs);
    int rc = run_dir_write(j->run_dir, "config.yaml", j->config_yaml, strlen(j->config_yaml), err);
    if (rc == 0) rc = write_text(j, "env.json", &env, err);
    if (rc == 0) rc = write_text(j, "inputs.yaml", &inputs, err);
    strbuf_free(&env);
    strbuf_free(&inputs);
    return rc;
}

static int open_folder(struct job *j, struct err *err) {
    const struct settings *s = &j->plan.s;
    j->run.started_wall_ns = clock_wall_ns();
    char *id = s->output.run_id ? xstrdup(s->output.run_id)
                                : run_dir_default_id(j->run.started_wall_ns, j->plan.model_name);
    j->run_dir = run_dir_create(s->output.dir, id, err);
    free(id);
    if (!j->run_dir) return -1;
    j->run_id = xstrdup(file_basename(j->run_dir));
    j->trace_dir = file_join(j->run_dir, "trace");
    char *log = file_join(j->run_dir, "inferprof.log");
    int rc = log_open_file(log, err);
    free(log);
    if (rc == 0) rc = file_mkdirs(j->trace_dir, err);
    if (rc == 0) rc = dataset_extract(&j->plan.dataset, j->run_dir, err);
    if (rc == 0) rc = dataset_hash(&j->plan.dataset, err);
    if (rc == 0 && s->profiling.warmup_synthetic) {
        j->synthetic = file_join(j->run_dir, "warmup.png");
        rc = synthetic_page_write(j->synthetic, SYNTHETIC_WIDTH, SYNTHETIC_HEIGHT, err);
    }
    return rc == 0 ? write_provenance(j, err) : -1;
}

/* ---- after it */

/* engine.load as it was given: what two runs of one model differ by. */
static void add_engine_options(struct job *j) {
    const struct conf_node *load = j->plan.s.engine.load;
    struct strbuf text = STRBUF_INIT;
    for (size_t i = 0; load && i < load->n; i++) {
        const struct conf_node *o = load->v[i];
        strbuf_addf(&text, "%s%s=%s", text.len ? ", " : "", o->key, o->kind == CONF_SCALAR ? o->text : "...");
    }
    if (text.len) env_add(&j->env, "Engine", "engine options", "%s", text.buf);
    strbuf_free(&text);
}

/* What is learnt only when the engine runs. */
static int add_engine_to_env(struct job *j, struct err *err) {
    struct strbuf env = STRBUF_INIT;
    const struct engine_info *i = &j->result.info;
    if (j->result.loaded) {
        env_add(&j->env, "Engine", "engine", "%s %s", i->name ? i->name : "?", i->version ? i->version : "");
        env_add(&j->env, "Engine", "engine device", "%s%s%s", i->device ? i->device : "?", i->isa ? ", " : "",
                i->isa ? i->isa : "");
        if (i->threads > 0) env_add(&j->env, "Engine", "engine threads", "%.0f", i->threads);
        env_add(&j->env, "Engine", "weights", "%s", i->weights ? i->weights : "");
        add_engine_options(j);
    }
    env_json(&j->env, &env);
    return write_text(j, "env.json", &env, err);
}

static int write_files(const struct profile_run *run, const struct profile_results *r, struct err *err) {
    if (profile_write_assumptions(run, r, err) < 0 || profile_write_static(run, r, err) < 0) return -1;
    if (run->plan->s.output.predictions && profile_write_predictions(run, err) < 0) return -1;
    return report_write_all(run->run_dir, &r->in, err);
}

/* What we ourselves took: time outside the engine, and memory. */
static void log_own_cost(const struct job *j, uint64_t report_from_ns) {
    uint64_t now = clock_mono_ns();
    struct rusage self;
    getrusage(RUSAGE_SELF, &self);
    log_debug("report written in %.0f ms; outside the engine: %.0f ms in all, %.1f MB of memory",
              (double)(now - report_from_ns) * 1e-6,
              ((double)(now - j->started_ns) - (double)j->result.engine_ns) * 1e-6,
              (double)self.ru_maxrss * 1.024e-3);
}

static int finish(struct job *j, struct err *err) {
    struct profile_results r;
    struct strbuf screen = STRBUF_INIT;
    uint64_t from = clock_mono_ns();
    j->images = profile_images(&j->plan);
    int rc = add_engine_to_env(j, err);
    j->run.plan = &j->plan;
    j->run.result = &j->result;
    j->run.peak = &j->peak;
    j->run.images = j->images;
    j->run.env = &j->env;
    j->run.run_id = j->run_id;
    j->run.run_dir = j->run_dir;
    j->run.config_yaml = j->config_yaml;
    j->run.command = j->command;
    j->run.version = build_version();
    profile_results_open(&r, &j->run);
    if (rc == 0) rc = write_files(&j->run, &r, err);
    if (rc == 0) report_terminal(&r.in, command_width(STDOUT_FILENO), &screen);
    profile_results_close(&r);
    log_own_cost(j, from);
    if (rc == 0) rc = run_dir_complete(j->run_dir, err);
    if (rc == 0) printf("%s\n%s\n", screen.buf, j->run_dir);
    strbuf_free(&screen);
    return rc;
}

/* ---- Nsight on the representative run */

static bool under_tools(const struct job *j, const struct profile_opts *o, const struct tools *t) {
    struct report_run run;
    struct err err;
    const char *dir = j->run_dir;
    bool ok = true;
    if (o->tools.ncu && report_run_open(&run, &dir, 1, NULL, &err) < 0) {
        strlist_add(t->problems, "Nsight Compute was not run: %s", err.msg);
        log_warn("%s", t->problems->v[t->problems->n - 1]);
        ok = false;
    } else if (o->tools.ncu) {
        ok = tools_ncu(t, &run.analysis);
        report_run_close(&run);
    }
    if (o->tools.nsys && !interrupt_signal()) ok &= tools_nsys(t);
    return ok;
}

/* The report again, with what the tools found and what they failed at. */
static void report_again(const struct job *j, const struct strlist *more) {
    struct report_run run;
    struct err err;
    const char *dir = j->run_dir;
    if (report_run_open(&run, &dir, 1, NULL, &err) < 0) {
        log_error("%s", err.msg);
        return;
    }
    struct strlist all = { 0 };
    for (size_t i = 0; i < run.in.nproblems; i++) strlist_add(&all, "%s", run.in.problems[i]);
    for (size_t i = 0; i < more->n; i++) strlist_add(&all, "%s", more->v[i]);
    run.in.problems = (const char *const *)all.v;
    run.in.nproblems = all.n;
    run.in.version = build_version();
    if (report_write_all(dir, &run.in, &err) < 0) log_error("%s", err.msg);
    report_run_close(&run);
    strlist_free(&all);
}

/* The engine with the same requests as in the representative run. False: a tool that was asked for found
 * nothing. */
static bool use_tools(const struct job *j, const struct profile_opts *o, const struct session_plan *plan) {
    if (!o->tools.ncu && !o->tools.nsys) return true;
    struct strbuf lines = STRBUF_INIT;
    struct strlist env = { 0 }, problems = { 0 };
    struct err err;
    char *requests = file_join(j->run_dir, "engine_requests.jsonl"),
         *trace = file_join(j->run_dir, "nsight.ipt");
    session_replay(plan, trace, &lines, &env);
    bool ok = run_dir_write(j->run_dir, "engine_requests.jsonl", lines.buf, lines.len, &err) == 0;
    if (!ok) log_error("%s", err.msg);
    const char **set = xcalloc(env.n + 1, sizeof *set);
    for (size_t i = 0; i < env.n; i++) set[i] = env.v[i];
    struct tools t = { .dir = j->run_dir,
                       .argv = plan->argv,
                       .set = set,
                       .input = requests,
                       .o = &o->tools,
                       .problems = &problems };
    if (ok) ok = under_tools(j, o, &t);
    unlink(trace);
    report_again(j, &problems);
    free(set);
    free(trace);
    free(requests);
    strlist_free(&env);
    strlist_free(&problems);
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
    if (open_folder(j, &err) < 0) {
        command_fail(&err);
        goto done;
    }
    log_debug("inferprof %s (commit %s): %s", build_version(), build_commit(), j->command);
    if (o->rerun) compare_inputs(o->rerun, &j->plan.dataset);
    if (j->plan.device.note[0]) log_info("%s", j->plan.device.note);
    log_info("profiling %s with engine %s on %s: %s", j->plan.model_name, j->plan.s.engine.name,
             j->plan.device.label, j->run_dir);
    profile_peak_find(&j->plan, &j->peak);
    struct session_plan plan = { .settings = &j->plan.s,
                                 .dataset = &j->plan.dataset,
                                 .device = &j->plan.device,
                                 .argv = j->plan.argv,
                                 .trace_dir = j->trace_dir,
                                 .synthetic_page = j->synthetic };
    session_run(&plan, &j->result);
    if (finish(j, &err) < 0) {
        struct err ignored;
        run_dir_mark(j->run_dir,
                     "The report of this run could not be written; what lies here is what there was.\n",
                     &ignored);
        command_fail(&err);
        goto done;
    }
    status = exit_status(&j->result);
    if (status == EXIT_FAILED)
        log_error("the run could not be finished; %s/report.md says why and shows what there is", j->run_dir);
    else if (status == EXIT_DONE && !use_tools(j, o, &plan))
        status = EXIT_FAILED;
done:
    log_close_file();
    interrupt_unwatch();
    return status;
}

static int run(const void *opts, int argc, char **argv) {
    const struct profile_opts *o = opts;
    struct job j = { .started_ns = clock_mono_ns() };
    struct strlist problems = { 0 };
    struct err err;
    int status;
    if (o->config && o->rerun) return command_usage("profile: --config and --rerun exclude each other");
    if (tools_misused(&o->tools)) return command_usage("profile: %s", tools_misused(&o->tools));
    if (check_folders(o, &err) < 0) return command_fail(&err);
    j.conf = compose(o, argc, argv, &err);
    if (!j.conf) return command_usage("profile: %s", err.msg);
    profile_plan_open(&j.plan, j.conf, &problems);
    if ((o->tools.ncu || o->tools.nsys) && j.plan.settings_ok && !j.plan.device.cuda)
        strlist_add(&problems, "--ncu and --nsys look at a GPU, and this run would be on the CPU");
    j.command = command_line(o, argc, argv);
    if (o->show_config && !(problems.n && !j.plan.argv)) {
        strlist_free(
            &problems); /* the plan may be impossible here; the configuration is what was asked for */
        status = show_config(j.conf);
    } else if (problems.n) {
        status = refuse(&problems, j.plan.settings_ok ? EXIT_FAILED : EXIT_MISUSED);
    } else if (o->dry_run) {
        struct strbuf out = STRBUF_INIT;
        profile_plan_text(&j.plan, &out);
        fputs(out.buf, stdout);
        strbuf_free(&out);
        status = EXIT_DONE;
    } else {
        status = run_job(&j, o);
    }
    job_free(&j);
    return status;
}

const struct command cmd_profile = {
    .name = "profile",
    .args = "[key=value ...]",
    .summary = "run a model on inputs and say how far each stage is from what the hardware allows",
    .details =
        "Without arguments it profiles the embedded model on the CPU. Settings are group=choice, "
        "key.path=value,\n"
        "+key=value and ~key (docs/configuration.md):\n"
        "  inferprof profile model=deepseek_ocr model.path=DIR dataset.root=DIR engine=hf device=cuda:0\n"
        "The run folder is printed last. Ctrl-C ends the run with a report of what there is.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct profile_opts),
    .max_args = -1,
    .complete = COMPLETE_SETTINGS,
    .run = run,
};
