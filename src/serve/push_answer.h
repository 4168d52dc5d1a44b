/* The JSON body of an answer to `inferprof push`. The server is not trusted.
 *     struct push_answer a = push_answer_parse(text, n);
 *     push_answer_free(&a); */
#ifndef SERVE_PUSH_ANSWER_H
#define SERVE_PUSH_ANSWER_H

#include <stddef.h>

struct push_answer {
    char *run;       /* name of the run, fit for one line of a terminal; NULL: not given */
    char *detail;    /* why the request failed; NULL: not given */
    double received; /* bytes of the upload that the server has; NaN: not given */
};

struct push_answer push_answer_parse(const char *text, size_t n);
void push_answer_free(struct push_answer *a);

#endif
