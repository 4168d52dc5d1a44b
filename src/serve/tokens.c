#include "serve/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/util.h"
#include "base/vec.h"

static const char *const role_names[] = { "none", "read", "write", "run" };

const char *role_name(enum http_role role) { return role_names[role]; }

bool role_parse(const char *text, enum http_role *out) {
    for (size_t i = HTTP_READ; i < COUNTOF(role_names); i++)
        if (strcmp(role_names[i], text) == 0) {
            *out = (enum http_role)i;
            return true;
        }
    return false;
}

static void hash_token(const char *token, char out[65]) {
    struct sha256 s;
    sha256_start(&s);
    sha256_add(&s, token, strlen(token));
    sha256_hex(&s, out);
}

int tokens_load(struct database *db, struct token_list *out, struct err *err) {
    struct db_result r;
    *out = (struct token_list){ 0 };
    if (database_query(db, "SELECT name, role, hash, created_ns FROM tokens ORDER BY name", NULL, &r, err) <
        0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct token t = { .created_ns = db_cell_int(&r, i, 3) };
        snprintf(t.name, sizeof t.name, "%s", db_cell(&r, i, 0));
        snprintf(t.hash, sizeof t.hash, "%s", db_cell(&r, i, 2));
        if (role_parse(db_cell(&r, i, 1), &t.role)) vec_push(out, t);
    }
    db_result_free(&r);
    return 0;
}

int tokens_add(struct database *db, const char *name, enum http_role role, char out[TOKEN_BYTES],
               struct err *err) {
    unsigned char bytes[32];
    char hash[65];
    struct db_args args = { 0 };
    struct db_result r;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(err, "no random numbers: %s", strerror(errno));
    snprintf(out, TOKEN_BYTES, "ipt_");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 4 + 2 * i, 3, "%02x", bytes[i]);
    hash_token(out, hash);
    db_text(&args, name);
    db_text(&args, role_name(role));
    db_text(&args, hash);
    db_int(&args, (int64_t)clock_wall_ns());
    if (database_query(db,
                       "INSERT INTO tokens (name, role, hash, created_ns) VALUES ($1, $2, $3, $4) "
                       "ON CONFLICT (name) DO NOTHING",
                       &args, &r, err) < 0)
        return -1;
    bool added = r.changed > 0;
    db_result_free(&r);
    return added ? 0 : err_set(err, "there is a token '%s'; remove it first", name);
}

int tokens_remove(struct database *db, const char *name, struct err *err) {
    struct db_args args = { 0 };
    struct db_result r;
    db_text(&args, name);
    if (database_query(db, "DELETE FROM tokens WHERE name = $1", &args, &r, err) < 0) return -1;
    int removed = r.changed > 0;
    db_result_free(&r);
    return removed;
}

/* Compares all bytes, so that the time does not depend on the position of a difference. 0: equal. */
static unsigned differ(const char *a, const char *b, size_t n) {
    unsigned bits = 0;
    for (size_t i = 0; i < n; i++) bits |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return bits;
}

enum http_role tokens_role(const struct token_list *list, const char *token) {
    char hash[65];
    enum http_role role = HTTP_NOBODY;
    hash_token(token, hash);
    for (size_t i = 0; i < list->n; i++)
        if (differ(hash, list->v[i].hash, 64) == 0) role = list->v[i].role;
    return role;
}
