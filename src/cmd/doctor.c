/* `inferprof doctor`: checks this machine. */
#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "base/util.h"
#include "base/wrap.h"
#include "cmd/build_info.h"
#include "cmd/command.h"
#include "cmd/commands.h"
#include "session/doctor.h"

struct doctor_opts {
    const char *out;
    bool json;
};
static const struct doctor_opts defaults = { .out = "." };
static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct doctor_opts, out), "DIR",
      "check that runs can be written to this folder (default: current folder)", NULL },
    { 0, "json", OPT_FLAG, offsetof(struct doctor_opts, json), NULL, "print JSON", NULL },
};

static void print_json(const struct doctor *d) {
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_DOCTOR);
    jsonw_kstr(&j, "inferprof", build_version());
    jsonw_kbool(&j, "native_path_works", doctor_native_works(d));
    jsonw_karray(&j, "checks");
    for (size_t i = 0; i < d->n; i++) {
        jsonw_object(&j);
        jsonw_kstr(&j, "check", d->v[i].check);
        jsonw_kstr(&j, "status", doctor_status_name(d->v[i].status));
        jsonw_kbool(&j, "needed", d->v[i].needed);
        jsonw_kstr(&j, "found", d->v[i].found);
        jsonw_kstr(&j, "remedy", d->v[i].remedy);
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

#define FOUND_COLUMN 23 /* column after status and name of a check */

static void print_text(const struct doctor *d) {
    struct strbuf out = STRBUF_INIT;
    size_t width = command_line_width();
    strbuf_addf(&out, "inferprof %s (%s)\n", build_version(), build_commit());
    for (size_t i = 0; i < d->n; i++) {
        strbuf_addf(&out, "%-8s %-13s ", doctor_status_name(d->v[i].status), d->v[i].check);
        wrap_text(&out, d->v[i].found, FOUND_COLUMN, width, FOUND_COLUMN);
        if (!d->v[i].remedy) continue;
        strbuf_addf(&out, "%*s-> ", FOUND_COLUMN - 1, "");
        wrap_text(&out, d->v[i].remedy, FOUND_COLUMN + 2, width, FOUND_COLUMN + 2);
    }
    strbuf_addstr(&out, doctor_native_works(d)
                            ? "The native path works: 'inferprof profile' can run.\n"
                            : "The native path does not work: see the missing items above.\n");
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

static int run_doctor(const void *opts, int argc, char **argv) {
    const struct doctor_opts *o = opts;
    struct doctor d = { 0 };
    (void)argc;
    (void)argv;
    doctor_examine(&d, o->out);
    if (o->json)
        print_json(&d);
    else
        print_text(&d);
    int status = doctor_native_works(&d) ? EXIT_DONE : EXIT_FAILED;
    doctor_free(&d);
    return status;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "check what can be profiled on this machine, and how to install missing parts",
    .details =
        "The exit status is 0 if the native path works: built-in engine, collector and a writable folder.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct doctor_opts),
    .max_args = 0,
    .run = run_doctor,
};
