/* Errors are texts with context, set where the cause is known and printed once, in cmd/.
 *     if (open_it(path, &err) < 0) return err_wrap(&err, "loading %s", name);
 * Every function with a `struct err *` sets it before it returns -1 or NULL. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

struct err {
    char msg[1024];
};

/* Always return -1, for `return err_set(...)`. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_wrap(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* "context: cause" */

#endif
