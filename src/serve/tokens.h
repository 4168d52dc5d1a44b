/* Access tokens. Only their SHA-256 is stored. A token has 256 random bits, so its hash does not help to
 * guess it. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H

#include "history/database.h"
#include "serve/http.h"

#define TOKEN_BYTES 69 /* "ipt_", 64 hexadecimal digits, NUL */

struct token {
    char name[65], hash[65];
    enum http_role role;
    int64_t created_ns;
};
struct token_list {
    struct token *v;
    size_t n, cap;
};

int tokens_load(struct database *db, struct token_list *out, struct err *err); /* the caller frees out->v */
/* The text of the token is returned only here. */
int tokens_add(struct database *db, const char *name, enum http_role role, char out[TOKEN_BYTES],
               struct err *err);
int tokens_remove(struct database *db, const char *name, struct err *err); /* 0: no such name */
/* HTTP_NOBODY: the token is not valid. Takes the same time for every token. */
enum http_role tokens_role(const struct token_list *list, const char *token);

const char *role_name(enum http_role role); /* "read", "write", "run" */
bool role_parse(const char *text, enum http_role *out);

#endif
