/* Kernels by name, and events and problems by kind. Every input of `inferprof stats` provides them, even a
 * table of sums without timestamps.
 *     struct sums s;
 *     sums_init(&s);
 *     sums_add_kernel(&s, name, strlen(name), calls, total_ns);     -- adds to the row of that name
 *     sums_sort(&s);                                                -- last: nothing can be added afterwards
 *     sums_free(&s);
 * Names are copied. Times are in ns. */
#ifndef ANALYZE_SUMS_H
#define ANALYZE_SUMS_H

#include <stddef.h>
#include <stdint.h>

struct intern;

struct sums_kernel {
    const char *name;
    uint64_t calls, total_ns;
    double mean_ns, share; /* set by sums_sort(); the share is of the time of all kernels; NaN: unknown */
};
struct sums_count {
    const char *name;
    uint64_t count; /* never 0 */
};
struct sums_counts {
    struct sums_count *v;
    size_t n, cap;
};
struct sums {
    struct {
        struct sums_kernel *v; /* after sums_sort(): by total_ns, then name */
        size_t n, cap;
    } kernels;
    uint64_t kernel_calls, kernel_ns;    /* over all rows */
    struct sums_counts events, problems; /* after sums_sort(): by name */
    /* maps a name to its row in `kernels`; valid until sums_sort() */
    struct intern *kernel_names;
    struct intern *count_names;
};

void sums_init(struct sums *s);
void sums_free(struct sums *s);
void sums_add_kernel(struct sums *s, const char *name, size_t len, uint64_t calls, uint64_t total_ns);
/* Callback for import_format.read_sums: adds a row of a table without timestamps, and counts its calls as
 * events. */
void sums_add_row(void *sums, const char *name, size_t len, uint64_t calls, uint64_t total_ns);
void sums_add_event(struct sums *s, const char *name, uint64_t count);
void sums_add_problem(struct sums *s, const char *name, uint64_t count);
void sums_add_all(struct sums *into, const struct sums *from);
void sums_sort(struct sums *s);

#endif
