/* PostgreSQL through libpq, which is loaded on first use. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/shared_library.h"
#include "base/util.h"
#include "history/database_driver.h"

#define STATEMENTS 256 /* prepared statements per connection */

static struct {
    __typeof__(PQconnectdbParams) *connect;
    __typeof__(PQstatus) *status;
    __typeof__(PQfinish) *finish;
    __typeof__(PQreset) *reset;
    __typeof__(PQerrorMessage) *error;
    __typeof__(PQexec) *exec;
    __typeof__(PQprepare) *prepare;
    __typeof__(PQexecPrepared) *exec_prepared;
    __typeof__(PQresultStatus) *result_status;
    __typeof__(PQntuples) *rows;
    __typeof__(PQnfields) *columns;
    __typeof__(PQgetvalue) *value;
    __typeof__(PQgetisnull) *is_null;
    __typeof__(PQcmdTuples) *changed;
    __typeof__(PQclear) *clear;
    __typeof__(PQsetNoticeReceiver) *set_notices;
} pq;

static const struct library_function functions[] = {
    { "PQconnectdbParams", &pq.connect },
    { "PQstatus", &pq.status },
    { "PQfinish", &pq.finish },
    { "PQreset", &pq.reset },
    { "PQerrorMessage", &pq.error },
    { "PQexec", &pq.exec },
    { "PQprepare", &pq.prepare },
    { "PQexecPrepared", &pq.exec_prepared },
    { "PQresultStatus", &pq.result_status },
    { "PQntuples", &pq.rows },
    { "PQnfields", &pq.columns },
    { "PQgetvalue", &pq.value },
    { "PQgetisnull", &pq.is_null },
    { "PQcmdTuples", &pq.changed },
    { "PQclear", &pq.clear },
    { "PQsetNoticeReceiver", &pq.set_notices },
};

struct postgres {
    PGconn *connection;
    char *shown; /* the URL without its password */
    struct {
        uint64_t hash;
        char *sql;
        unsigned generation; /* part of the statement's name */
    } kept[STATEMENTS];
};

static int load_once(struct err *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    int rc = loaded ? 0 : library_load("libpq.so.5", "libpq5", functions, COUNTOF(functions), err);
    loaded = rc == 0;
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Sets err to the first line of libpq's message, without the prefix "ERROR:". */
static int postgres_fail(const struct postgres *p, struct err *err) {
    const char *text = pq.error(p->connection);
    if (strncmp(text, "ERROR:  ", 8) == 0) text += 8;
    return err_set(err, "%s: %.*s", p->shown, (int)strcspn(text, "\n"), text);
}

static void forget_statements(struct postgres *p) {
    for (size_t i = 0; i < STATEMENTS; i++) {
        free(p->kept[i].sql);
        p->kept[i].sql = NULL;
    }
}

static void postgres_close(void *connection) {
    struct postgres *p = connection;
    forget_statements(p);
    pq.finish(p->connection);
    free(p->shown);
    free(p);
}

static void ignore_notice(void *arg, const PGresult *result) {
    (void)arg;
    (void)result;
}

static void *postgres_open(const char *url, struct err *err) {
    if (load_once(err) < 0) return NULL;
    /* libpq uses the last value of a keyword. The URL is last, so its parameters replace these defaults. */
    const char *keys[] = { "connect_timeout", "fallback_application_name", "client_encoding", "dbname",
                           NULL };
    const char *values[] = { "10", "inferprof", "UTF8", url, NULL };
    struct postgres *p = xcalloc(1, sizeof *p);
    p->shown = database_shown_url(url);
    p->connection = pq.connect(keys, values, 1);
    if (p->connection && pq.status(p->connection) == CONNECTION_OK) {
        pq.set_notices(p->connection, ignore_notice, NULL);
        return p;
    }
    postgres_fail(p, err);
    postgres_close(p);
    return NULL;
}

static int finish_command(const struct postgres *p, PGresult *r, struct err *err) {
    ExecStatusType status = pq.result_status(r);
    int rc = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : postgres_fail(p, err);
    pq.clear(r);
    return rc;
}

static int postgres_script(void *connection, const char *sql, struct err *err) {
    struct postgres *p = connection;
    return finish_command(p, pq.exec(p->connection, sql), err);
}

/* Prepares the statement unless the connection already has it. Sets `name`. */
static int prepare(struct postgres *p, const char *sql, char name[32], struct err *err) {
    uint64_t hash = hash_bytes(sql, strlen(sql));
    size_t slot = hash % STATEMENTS;
    bool kept = p->kept[slot].sql && p->kept[slot].hash == hash && strcmp(p->kept[slot].sql, sql) == 0;
    if (!kept) p->kept[slot].generation++;
    snprintf(name, 32, "s%zu_%u", slot, p->kept[slot].generation);
    if (kept) return 0;
    if (p->kept[slot].sql) { /* otherwise kept until disconnection */
        char drop[64];
        snprintf(drop, sizeof drop, "DEALLOCATE s%zu_%u", slot, p->kept[slot].generation - 1);
        pq.clear(pq.exec(p->connection, drop));
        free(p->kept[slot].sql);
        p->kept[slot].sql = NULL;
    }
    if (finish_command(p, pq.prepare(p->connection, name, sql, 0, NULL), err) < 0) return -1;
    p->kept[slot].hash = hash;
    p->kept[slot].sql = xstrdup(sql);
    return 0;
}

static void copy_rows(const PGresult *r, struct db_result *result) {
    result->columns = (size_t)pq.columns(r);
    for (int i = 0; i < pq.rows(r); i++) {
        char **row = db_result_add_row(result);
        for (int c = 0; c < (int)result->columns; c++)
            row[c] = pq.is_null(r, i, c) ? NULL : xstrdup(pq.value(r, i, c));
    }
}

static int execute(struct postgres *p, const char *sql, const struct db_args *args, struct db_result *result,
                   struct err *err) {
    char name[32];
    if (prepare(p, sql, name, err) < 0) return -1;
    PGresult *r = pq.exec_prepared(p->connection, name, (int)args->n, args->v, NULL, NULL, 0);
    ExecStatusType status = pq.result_status(r);
    int rc = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : postgres_fail(p, err);
    if (rc == 0) {
        copy_rows(r, result);
        result->changed = strtoll(pq.changed((PGresult *)r), NULL, 10);
    }
    pq.clear(r);
    return rc;
}

static int postgres_query(void *connection, bool in_transaction, const char *sql, const struct db_args *args,
                          struct db_result *result, struct err *err) {
    struct postgres *p = connection;
    if (execute(p, sql, args, result, err) == 0) return 0;
    if (pq.status(p->connection) == CONNECTION_OK || in_transaction) return -1;
    forget_statements(p);
    pq.reset(p->connection);
    if (pq.status(p->connection) != CONNECTION_OK) return postgres_fail(p, err);
    db_result_free(result);
    return execute(p, sql, args, result, err);
}

const struct database_driver database_postgres = { postgres_open, postgres_close, postgres_query,
                                                   postgres_script, "BEGIN" };
